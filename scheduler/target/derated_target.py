"""The machine that tiles are chosen for, where a schedule says that it has less than the one that runs them."""

from lathe.configs import HardwareConfig
from lathe.scheduler.schedule_ir.derating import MEMORIES, Derating
from lathe.scheduler.target.target import Target


def behind_memory(config: HardwareConfig, less: Derating) -> HardwareConfig:
    """The machine behind the memory that tiles are chosen for."""
    return config.with_(**MEMORIES[less.memory]) if less.memory else config


def elements_spared(target: Target, less: Derating) -> dict[str, int]:
    """Elements of each scratchpad that are not there."""
    return {name: memory.depth - memory.depth // less.scratchpads for name, memory in target.memories.items()}


__all__ = ["behind_memory", "elements_spared"]
