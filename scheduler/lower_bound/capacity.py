"""What the layers of a program move where scratchpads are as large as they are: a bound that knows sizes, for reports.

Layers go one after the other: a product, and what is computed of it by element, is stored before another product reads
it. Operands that fit come once. Of those that do not, one is cut into as many parts as fill its scratchpad, and the
other passes by each; or the result is cut into as many tiles as fill the accumulators, rows ``b`` times and columns
``a`` times, of which each row of tiles loads the data once and each column the weights: ``a`` times the data and ``b``
times the weights, with ``a * b`` tiles (Hong and Kung, 1981, bound the same traffic from below for one memory).
"""

from dataclasses import dataclass
from math import ceil

from lathe.configs import HardwareConfig
from lathe.scheduler.layout.vector_type import loaded_bytes
from lathe.scheduler.schedule_ir.memories import INP, WGT


@dataclass(frozen=True)
class ProductTraffic:
    """Bytes of the data and of the weights of a product, once each, and the accumulators of its result."""

    data: int
    weights: int
    results: int

    def again(self, config: HardwareConfig) -> int:
        """The fewest bytes that come again, beside once each."""
        data = self.data // loaded_bytes(config, INP, "int8")
        weights = self.weights // loaded_bytes(config, WGT, "int8")
        cut_data = self.weights * (ceil(data / config.inp_depth) - 1)
        cut_weights = self.data * (ceil(weights / config.wgt_depth) - 1)
        return max(min(cut_data, cut_weights, self._by_tiles(config)), 0)

    def _by_tiles(self, config: HardwareConfig) -> int:
        """The same where tiles of the result stay, and both operands pass."""
        tiles = ceil(self.results / config.acc_depth)
        passes = ((a, ceil(tiles / a)) for a in range(1, tiles + 1))
        return min((self.data * (a - 1) + self.weights * (b - 1) for a, b in passes), default=0)
