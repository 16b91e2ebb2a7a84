"""What a machine may have less of where tiles are chosen: they fit the machine that has all of it, too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Derating:
    """One of so many equal parts of each scratchpad, and a memory of ``MEMORIES`` instead of the machine's own."""

    scratchpads: int = 1
    memory: str = ""


ALL_THERE_IS = Derating()
"""Tiles are chosen for the machine as it is."""
MEMORIES = {
    "slow": {"memory.bus_bits": 32, "memory.latency": 128, "memory.outstanding_reads": 1},
    "quick": {"memory.bus_bits": 256, "memory.latency": 8, "memory.outstanding_reads": 8},
}
"""By their names: what most machines have less of, and more of. They are the same for all machines."""

__all__ = ["ALL_THERE_IS", "MEMORIES", "Derating"]
