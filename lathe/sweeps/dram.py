"""DRAM presets (`dram.yaml`, with sources), and their memory parameters at a machine's clock."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lathe.configs.yaml_file import compose_yaml, value_of

DRAM_KEYS = ("memory.bus_bits", "memory.cycles_per_beat", "memory.latency")
"""The parameters of a machine that a preset sets."""
WIDEST_BUS = 1024


@dataclass(frozen=True)
class Dram:
    """A DRAM channel: ``width_bits`` at ``megatransfers`` per second; ``latency_ns``: first data from a closed row."""

    name: str
    width_bits: int
    megatransfers: int
    latency_ns: float
    source: str

    @property
    def megabits(self) -> int:
        """Peak bandwidth in Mbit/s."""
        return self.width_bits * self.megatransfers

    def at(self, clock_mhz: float) -> tuple[int, int, int]:
        """Bus width in bits, cycles per beat and cycles of latency (``DRAM_KEYS``) at a clock.

        The bus width is the largest power of two that the channel fills in every cycle, at most 1024 (the widest of
        AXI), at least 8; a slower channel takes several cycles per beat. So the bandwidth never exceeds the channel's,
        and is at least half of it unless 1024 bits are too few.
        """
        per_cycle = self.megabits / clock_mhz
        bus = min(1 << max(math.floor(math.log2(per_cycle)), 3), WIDEST_BUS)
        return bus, max(math.ceil(bus / per_cycle - 1e-9), 1), math.ceil(self.latency_ns * clock_mhz / 1000 - 1e-9)


@cache
def presets() -> dict[str, Dram]:
    """The presets by name."""
    document = compose_yaml(Path(__file__).with_name("dram.yaml").read_text(encoding="utf-8"))
    assert document is not None, "dram.yaml is empty"
    return {name: Dram(name, **values) for name, values in value_of(document).items()}
