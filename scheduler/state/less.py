"""What a machine may have less of where tiles are chosen: they fit the machine that has all of it, too."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Less:
    """How many times less there is of each resource: 2 is half of it, or twice the latency; 1 is all there is."""

    scratchpads: int = 1
    bus: int = 1
    latency: int = 1
    outstanding_reads: int = 1


ALL_THERE_IS = Less()
"""Tiles are chosen for the machine as it is."""

__all__ = ["ALL_THERE_IS", "Less"]
