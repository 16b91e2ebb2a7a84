"""Memories that exist, as a machine sees them at its clock: `dram.yaml`, with the source of each."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lathe.configs.yaml_file import composed, value_of

DRAM_KEYS = ("memory.bus_bits", "memory.cycles_per_beat", "memory.latency")
"""What a preset decides of a machine."""
WIDEST_BUS = 1024


@dataclass(frozen=True)
class Dram:
    """A channel of DRAM: ``width_bits`` of data at ``megatransfers`` per second, ``latency_ns`` from a row that is
    closed to the first data, and where these numbers are from.
    """

    name: str
    width_bits: int
    megatransfers: int
    latency_ns: float
    source: str

    @property
    def megabits(self) -> int:
        """Mbit/s at the most."""
        return self.width_bits * self.megatransfers

    def at(self, clock_mhz: float) -> tuple[int, int, int]:
        """Bus width in bits, cycles of one beat and of latency, as ``DRAM_KEYS``, at a clock.

        The bus is the widest power of two that the channel fills in every cycle; below 8 bits in a cycle, one of 8
        whose beats take several. So a machine never gets more than the channel gives, and at least half of it, where
        1024 bits, AXI's widest bus, carry as much.
        """
        per_cycle = self.megabits / clock_mhz
        bus = min(1 << max(math.floor(math.log2(per_cycle)), 3), WIDEST_BUS)
        return bus, max(math.ceil(bus / per_cycle - 1e-9), 1), math.ceil(self.latency_ns * clock_mhz / 1000 - 1e-9)


@cache
def presets() -> dict[str, Dram]:
    """The memories by name."""
    document = composed(Path(__file__).with_name("dram.yaml").read_text(encoding="utf-8"))
    assert document is not None, "dram.yaml is empty"
    return {name: Dram(name, **values) for name, values in value_of(document).items()}
