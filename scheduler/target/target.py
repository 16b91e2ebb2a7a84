"""What a machine can be asked: where results are computed, what is read from where, and what fits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.frontend.expr.nodes import Computation, Read
from lathe.isa import Unit
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.vector_type import VectorType, depth_of, element_of
from lathe.scheduler.schedule_ir.memories import ACC, INP, SCRATCHPADS, UNIT_OF_SCOPE, WGT


@dataclass(frozen=True)
class Scratchpad:
    """A scratchpad of ``depth`` elements that instructions of ``unit`` write."""

    name: str
    element: VectorType
    depth: int
    unit: Unit


@dataclass(frozen=True)
class Target:
    """A machine as passes see it."""

    config: HardwareConfig

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.config.name

    @cached_property
    def memories(self) -> Mapping[str, Scratchpad]:
        """The scratchpads by name."""
        found = {
            name: Scratchpad(name, element_of(self.config, name), depth_of(self.config, name), UNIT_OF_SCOPE[name])
            for name in SCRATCHPADS
        }
        return MappingProxyType(found)

    @property
    def near(self) -> Scratchpad:
        """The memory in which results are computed."""
        return self.memories[ACC]

    @property
    def data(self) -> Scratchpad:
        """The memory from which products read data."""
        return self.memories[INP]

    @property
    def weights(self) -> Scratchpad:
        """The memory from which products read weights."""
        return self.memories[WGT]

    def memory_of(self, product: GemmMatch | None, read: Read, computation: Computation | None = None) -> Scratchpad:
        """The memory in which what a computation reads must be: a matrix product, or None for any other.

        Of any other, the parameters and tables of a ``computation`` that is a rescaling are in memories of their own.
        """
        if product is None:
            own = {} if computation is None else own_operands(computation, self.config)
            return self.memories[own.get(read, ACC)]
        return self.data if read is product.data else self.weights

    def element_in(self, scope: str) -> VectorType:
        """The shape of the elements of a memory; those in DRAM are stored from where they are computed."""
        return element_of(self.config, scope)

    def computes(self, pragma: str | None) -> bool:
        """Whether a rule computes, so that all that it reads is in scratchpads; None: the one that is chosen."""
        return pragma is None or (pragma in RULES and bool(RULES[pragma].reads))
