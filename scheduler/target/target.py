"""``Target``: a machine as passes query it (memories, vector types, capacities), possibly derated."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.frontend.expr.errors import shown
from lathe.frontend.expr.nodes import Computation, Read
from lathe.isa import Unit
from lathe.scheduler.errors import BuildError
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.vector_type import VectorType, depth_of, vector_type_of
from lathe.scheduler.schedule_ir.derating import MEMORIES, Derating
from lathe.scheduler.schedule_ir.memories import ACC, INP, SCRATCHPADS, UNIT_OF_SCOPE, WGT


@dataclass(frozen=True)
class Scratchpad:
    """A scratchpad of ``depth`` vectors of type ``vector_type``, which instructions of ``unit`` write."""

    name: str
    vector_type: VectorType
    depth: int
    unit: Unit


@dataclass(frozen=True)
class Target:
    """A machine as passes query it."""

    config: HardwareConfig

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.config.name

    @cached_property
    def memories(self) -> Mapping[str, Scratchpad]:
        """The scratchpads by name."""
        scratchpads = {
            name: Scratchpad(name, vector_type_of(self.config, name), depth_of(self.config, name), UNIT_OF_SCOPE[name])
            for name in SCRATCHPADS
        }
        return MappingProxyType(scratchpads)

    @property
    def acc(self) -> Scratchpad:
        """The accumulators (``acc``), in which results are computed."""
        return self.memories[ACC]

    @property
    def data(self) -> Scratchpad:
        """The memory of the data operand of GEMM (``inp``)."""
        return self.memories[INP]

    @property
    def weights(self) -> Scratchpad:
        """The memory of the weight operand of GEMM (``wgt``)."""
        return self.memories[WGT]

    def memory_of(self, product: GemmMatch | None, read: Read, computation: Computation | None = None) -> Scratchpad:
        """The memory that an operand must be in: of a GEMM, or of another ``computation`` if ``product`` is None.

        The parameters and tables of a rescaling are in memories of their own, all other operands of the ALU in acc.
        """
        if product is None:
            own = {} if computation is None else own_operands(computation, self.config)
            return self.memories[own.get(read, ACC)]
        return self.data if read is product.data else self.weights

    def vector_type_in(self, scope: str) -> VectorType:
        """The vector type of a memory; tensors in DRAM have that of acc, from which they are stored."""
        return vector_type_of(self.config, scope)

    def computes(self, pragma: str | None) -> bool:
        """Whether a rule computes, with operands in scratchpads; a stage without pragma (None) counts as computing."""
        return pragma is None or (pragma in RULES and bool(RULES[pragma].reads))


def check_machine(config: object, where: str) -> None:
    """Raises BuildError unless ``config`` is a HardwareConfig; ``where`` names the call."""
    if not isinstance(config, HardwareConfig):
        raise BuildError(
            f"machine of {where} must be a HardwareConfig, not {shown(config)}. Make one with load_config.",
            kind="argument",
        )


def with_derated_memory(config: HardwareConfig, derating: Derating) -> HardwareConfig:
    """The machine with the memory of the derating."""
    return config.with_(**MEMORIES[derating.memory]) if derating.memory else config


def withheld_vectors(target: Target, derating: Derating) -> dict[str, int]:
    """The vectors of each scratchpad that the derating withholds."""
    return {name: memory.depth - memory.depth // derating.scratchpads for name, memory in target.memories.items()}
