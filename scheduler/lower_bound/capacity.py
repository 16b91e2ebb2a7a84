"""Lower bound on the traffic of GEMM layers given the capacities of the scratchpads, for schedules layer by layer.

A GEMM, with the element-wise stages after it, is stored before another GEMM reads it. Operands that fit are loaded
once. Otherwise one operand is tiled so that each tile fills its scratchpad, and the other is loaded once per tile; or
the result is tiled so that each tile fills acc, with ``a`` tiles along columns and ``b`` along rows, which loads the
data ``a`` times and the weights ``b`` times (Hong and Kung, 1981, bound the same traffic from below for one memory).
"""

from dataclasses import dataclass
from math import ceil

from lathe.configs import HardwareConfig
from lathe.scheduler.layout.vector_type import loaded_bytes
from lathe.scheduler.schedule_ir.memories import INP, WGT


@dataclass(frozen=True)
class GemmTraffic:
    """Bytes of data and weights of a GEMM, each loaded once, and the number of accumulators of its result."""

    data: int
    weights: int
    results: int

    def reloaded(self, config: HardwareConfig) -> int:
        """The fewest bytes loaded in addition to each operand once."""
        data = self.data // loaded_bytes(config, INP, "int8")
        weights = self.weights // loaded_bytes(config, WGT, "int8")
        tiled_data = self.weights * (ceil(data / config.inp_depth) - 1)
        tiled_weights = self.data * (ceil(weights / config.wgt_depth) - 1)
        return max(min(tiled_data, tiled_weights, self._output_stationary(config)), 0)

    def _output_stationary(self, config: HardwareConfig) -> int:
        """The same with tiles of the result stationary in acc."""
        tiles = ceil(self.results / config.acc_depth)
        passes = ((a, ceil(tiles / a)) for a in range(1, tiles + 1))
        return min((self.data * (a - 1) + self.weights * (b - 1) for a, b in passes), default=0)
