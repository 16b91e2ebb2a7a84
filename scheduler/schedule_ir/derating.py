"""Derated machines: smaller or slower machines that tiles are chosen for; the tiles fit the real machine, too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Derating:
    """Scratchpads divided by ``scratchpads``, and a memory of ``MEMORIES`` instead of the machine's own."""

    scratchpads: int = 1
    memory: str = ""


NO_DERATING = Derating()
"""No derating: tiles are chosen for the machine as it is."""
MEMORIES = {
    "slow": {"memory.bus_bits": 32, "memory.latency": 128, "memory.outstanding_reads": 1},
    "quick": {"memory.bus_bits": 256, "memory.latency": 8, "memory.outstanding_reads": 8},
}
"""Memories slower and faster than those of most machines, by name; the same for all machines."""

__all__ = ["MEMORIES", "NO_DERATING", "Derating"]
