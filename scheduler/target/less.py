"""The machine that tiles are chosen for, where a schedule says that it has less than the one that runs them."""

from lathe.configs import HardwareConfig
from lathe.scheduler.state.less import MEMORIES, Less
from lathe.scheduler.target.target import Target


def behind_memory(config: HardwareConfig, less: Less) -> HardwareConfig:
    """The machine behind the memory that tiles are chosen for."""
    return config.with_(**MEMORIES[less.memory]) if less.memory else config


def elements_spared(target: Target, less: Less) -> dict[str, int]:
    """Elements of each scratchpad that are not there."""
    return {name: memory.depth - memory.depth // less.scratchpads for name, memory in target.memories.items()}


__all__ = ["behind_memory", "elements_spared"]
