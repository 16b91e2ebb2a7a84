"""What a machine can be asked: where results are computed, what is read from where, and what fits."""

from dataclasses import dataclass
from functools import cached_property

from lathe.configs import HardwareConfig
from lathe.frontend.nodes import Read
from lathe.isa import Unit
from lathe.scheduler.state.memories import DRAM, SCRATCHPADS, UNIT_OF_SCOPE
from lathe.scheduler.target.allocation import depth_of
from lathe.scheduler.target.element import Element, element_of
from lathe.scheduler.target.products import Product
from lathe.scheduler.target.rules.rule import ROWS


@dataclass(frozen=True)
class Memory:
    """A scratchpad of ``depth`` elements that instructions of ``unit`` write; ``computes``: results are made there."""

    name: str
    element: Element
    depth: int
    unit: Unit
    computes: bool


@dataclass(frozen=True)
class Target:
    """A machine as passes see it."""

    config: HardwareConfig

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.config.name

    @cached_property
    def memories(self) -> dict[str, Memory]:
        """The scratchpads by name."""
        return {
            name: Memory(
                name,
                element_of(self.config, name),
                depth_of(self.config, name),
                UNIT_OF_SCOPE[name],
                any(row.writes == name for row in ROWS.values()),
            )
            for name in SCRATCHPADS
        }

    @cached_property
    def near(self) -> str:
        """The memory in which results are computed."""
        (name,) = (each.name for each in self.memories.values() if each.computes)
        return name

    @property
    def operand_memories(self) -> tuple[str, ...]:
        """The memories from which products read, and no other rule: data, then weights."""
        return ROWS["gemm"].reads

    def is_for_operands(self, scope: str) -> bool:
        """Whether a memory is one that products only read."""
        return scope in self.operand_memories

    def memory_of(self, product: Product | None, read: Read) -> str:
        """The memory in which what a computation reads must be: a matrix product, or None for any other."""
        if product is None:
            return self.near
        data, weights = self.operand_memories
        return data if read is product.data else weights

    def element_in(self, scope: str) -> Element:
        """The shape of the elements of a memory; those in DRAM are stored from where they are computed."""
        return self.memories[self.near if scope == DRAM else scope].element

    def computes(self, pragma: str | None) -> bool:
        """Whether a rule computes, so that all that it reads is in scratchpads; None: the one that is chosen."""
        return pragma is None or (pragma in ROWS and bool(ROWS[pragma].reads))
