"""The legality query: for each cell, is the last write before each read the required one?

An ``AccessSet`` has the reads and writes of cells: of values with cells of their own, or of a storage map. An
``Ordering`` is the order of the nest, perhaps without the order of some loops. The result is a ``Violation`` or None.
"""

from dataclasses import dataclass
from typing import Protocol

from lathe.frontend.arith.linear import LoopVariable
from lathe.scheduler.errors import Witness
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.loops import LoopAxis


@dataclass(frozen=True)
class Ordering:
    """Which writes reach a read, or may overwrite its value.

    ``first``: within one iteration of the loops around both, writes precede reads. ``stays``: writes of earlier
    iterations of these loops are still live. ``every``: all writes of a cell must precede a read, as for a sum or a
    recurrence; else one is enough, since a recomputed value is the same. ``free``: loops whose iterations are
    unordered, inside those ``outside``; within one iteration of these the order of the nest holds.
    """

    first: bool = True
    stays: bool = True
    every: bool = False
    outside: tuple[LoopVariable, ...] = ()
    free: tuple[LoopVariable, ...] = ()

    @staticmethod
    def without(placement: StageRegion, loop: LoopAxis, *, every: bool = False) -> "Ordering":
        """The order of the nest without that of a stage's loop; a fused loop has several variables."""
        around, variables = placement.around, placement.loops.of_leaf[loop]
        depth = max(around.index(variable) for variable in variables) + 1
        outer = depth - len(variables)
        return Ordering(every=every, outside=tuple(around[:outer]), free=tuple(around[outer:depth]))


@dataclass(frozen=True)
class Violation:
    """A cell whose last write before a read may not be the required one.

    ``cell`` is an index of the tensor, or of the buffer. ``iterations`` are those of the loops around the read and the
    write, for a query with unordered loops; ``witness`` has the instances, if there is a read.
    """

    cell: tuple[int, ...]
    witness: Witness | None = None
    iterations: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def read_witness(self) -> Witness:
        """The witness, for a query with reads."""
        assert self.witness is not None, f"cell {self.cell} has no read"
        return self.witness


class AccessSet(Protocol):
    """Reads and writes of cells: ``DirectAccesses`` queries isl, ``FoldedAccesses`` enumerates events."""

    def violation(self, order: Ordering) -> Violation | None: ...


def first_violation(accesses: AccessSet, order: Ordering) -> Violation | None:
    """None if in the given order every read finds its value; otherwise the first violation.

    Call it inside ``answerable``, which handles queries that exceed their budget.
    """
    return accesses.violation(order)
