"""The derated machine that tiles are chosen for, if a schedule has a ``Derating``."""

from lathe.configs import HardwareConfig
from lathe.scheduler.schedule_ir.derating import MEMORIES, Derating
from lathe.scheduler.target.target import Target


def with_derated_memory(config: HardwareConfig, derating: Derating) -> HardwareConfig:
    """The machine with the memory of the derating."""
    return config.with_(**MEMORIES[derating.memory]) if derating.memory else config


def withheld_vectors(target: Target, derating: Derating) -> dict[str, int]:
    """The vectors of each scratchpad that the derating withholds."""
    return {name: memory.depth - memory.depth // derating.scratchpads for name, memory in target.memories.items()}


__all__ = ["with_derated_memory", "withheld_vectors"]
