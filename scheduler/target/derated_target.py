"""The derated machine that tiles are chosen for, if a schedule has a ``Derating``."""

from lathe.configs import HardwareConfig
from lathe.scheduler.schedule_ir.derating import MEMORIES, Derating
from lathe.scheduler.target.target import Target


def behind_memory(config: HardwareConfig, derating: Derating) -> HardwareConfig:
    """The machine with the memory of the derating."""
    return config.with_(**MEMORIES[derating.memory]) if derating.memory else config


def elements_spared(target: Target, derating: Derating) -> dict[str, int]:
    """The vectors of each scratchpad that the derating withholds."""
    return {name: memory.depth - memory.depth // derating.scratchpads for name, memory in target.memories.items()}


__all__ = ["behind_memory", "elements_spared"]
