"""The machine that tiles are chosen for, where a schedule says that it has less than the one that runs them."""

from lathe.configs import ConfigError, HardwareConfig
from lathe.scheduler.state.less import Less
from lathe.scheduler.target.target import Target


def with_less_memory(config: HardwareConfig, less: Less) -> HardwareConfig:
    """A machine behind a slower memory. Raises ConfigError for a bus that there is not."""
    memory = config.memory
    return config.with_(
        **{
            "memory.bus_bits": memory.bus_bits // less.bus,
            "memory.latency": memory.latency * less.latency,
            "memory.outstanding_reads": max(memory.outstanding_reads // less.outstanding_reads, 1),
        }
    )


def elements_spared(target: Target, less: Less) -> dict[str, int]:
    """Elements of each scratchpad that are not there."""
    return {name: memory.depth - memory.depth // less.scratchpads for name, memory in target.memories.items()}


def is_as_much(config: HardwareConfig, less: Less) -> bool:
    """Whether a machine has nothing that it could have less of, or no machine has so little."""
    try:
        return less.scratchpads == 1 and with_less_memory(config, less) == config
    except ConfigError:
        return True


__all__ = ["elements_spared", "is_as_much", "with_less_memory"]
