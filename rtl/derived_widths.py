"""Bit widths and limits of the hardware, derived from a configuration; configurations that cannot be built."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from lathe.configs import HardwareConfig, LatheError
from lathe.isa.table import MEMORIES, MemoryType, Unit, memories_of

# The stages that every compute pipeline needs: micro-op read, operand read, multiplication.
LEAST_PIPELINE = 3


class RtlError(LatheError):
    """A machine cannot be built as hardware, or its RTL cannot be run, synthesised or cached on this computer."""


def log2(value: int) -> int:
    """The exponent of a power of two."""
    assert value.bit_count() == 1, f"{value} is not a power of two"
    return value.bit_length() - 1


@dataclass(frozen=True)
class Geometry:
    """Widths and sizes that the modules share. Raises :class:`RtlError` for machines that cannot be built."""

    config: HardwareConfig

    def __post_init__(self) -> None:
        config = self.config
        if self.pipeline < LEAST_PIPELINE:
            raise RtlError(
                f"The greater of timing.gemm_pipeline and timing.alu_pipeline of machine {config.name!r} must be at "
                f"least {LEAST_PIPELINE} for the RTL, not {self.pipeline}. Micro-op read, operand read and "
                "multiplication take one stage each; increase one of the two parameters."
            )
        if config.timing.response_latency < 1:
            raise RtlError(
                f"timing.response_latency of machine {config.name!r} must be at least 1 for the RTL, not "
                f"{config.timing.response_latency}. AXI4 answers a write after its last beat, not with it."
            )

    @property
    def bus_bytes(self) -> int:
        """Bytes per beat."""
        return self.config.bus_bytes

    @property
    def bus_bits(self) -> int:
        """Bits per beat."""
        return self.config.memory.bus_bits

    @property
    def pipeline(self) -> int:
        """Cycles from a micro-op's issue to its accumulator write."""
        return max(self.config.timing.gemm_pipeline, self.config.timing.alu_pipeline)

    @property
    def data_burst(self) -> int:
        """The maximum burst of load, compute and store, in beats."""
        return min(self.config.memory.burst_beats, self.config.timing.dma_fifo_beats)

    @property
    def fetch_burst(self) -> int:
        """The maximum burst of fetch, in beats: half of its FIFO fills while the other half is dispatched."""
        return min(self.config.memory.burst_beats, max(1, self.config.timing.fetch_fifo_beats // 2))

    @property
    def address_bits(self) -> int:
        """Bits of a byte address."""
        return self.config.address_bits

    @cached_property
    def vector_count_bits(self) -> int:
        """Bits that hold the number of vectors of the deepest scratchpad."""
        return max(memory.depth(self.config) for memory in memories_of(self.config)).bit_length()

    def shift(self, memory: MemoryType) -> int:
        """log2 of the bytes of a vector in DRAM."""
        return log2(MEMORIES[memory].element_bytes(self.config))

    def depth(self, memory: MemoryType) -> int:
        """Vectors of the scratchpad of a memory type."""
        return MEMORIES[memory].depth(self.config)

    def loaded_by(self, unit: Unit) -> tuple[MemoryType, ...]:
        """The memory types whose LOADs a unit executes."""
        memories = (memory for memory in memories_of(self.config) if memory.load_unit is unit)
        return tuple(memory.type for memory in memories if memory.type is not MemoryType.OUT)

    def byte_bits(self, memories: Iterable[MemoryType]) -> int:
        """Bits that hold the size of the largest of some scratchpads, in DRAM bytes."""
        return max((self.depth(memory) << self.shift(memory)).bit_length() for memory in memories)
