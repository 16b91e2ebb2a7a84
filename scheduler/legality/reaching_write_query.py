"""The one question of legality: for each cell, is the last write before each read the wanted one?

What is asked about are uses: the reads and writes of cells, a value's own or those of a storage map. How they are asked
about is an order: that of the nest, or that less the order of some loops. The answer is a verdict, or none.
"""

from dataclasses import dataclass
from typing import Protocol

from lathe.frontend.arith.linear import LoopVariable
from lathe.scheduler.errors import Witness
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.loops import LoopAxis


@dataclass(frozen=True)
class Ordering:
    """Which writes may be relied on, or must be feared, in a read.

    ``first``: within one iteration of the loops around both, the writes come first. ``stays``: what earlier iterations
    of these loops have written is still there. ``every``: all writes of a cell must be before a read, as those of a
    sum and of a cycle must; otherwise one will do, as a value that is computed again is the same value.
    ``free``: loops whose iterations have no order, inside those ``outside``; what is in the same iteration of these has
    its own order all the same.
    """

    first: bool = True
    stays: bool = True
    every: bool = False
    outside: tuple[LoopVariable, ...] = ()
    free: tuple[LoopVariable, ...] = ()

    @staticmethod
    def without(placement: StageRegion, loop: LoopAxis, *, every: bool = False) -> "Ordering":
        """The order of the nest less that of one of a stage's loops: of several variables, if it is a fused one."""
        around, variables = placement.around, placement.loops.of_leaf[loop]
        depth = max(around.index(variable) for variable in variables) + 1
        outer = depth - len(variables)
        return Ordering(every=every, outside=tuple(around[:outer]), free=tuple(around[outer:depth]))


@dataclass(frozen=True)
class Violation:
    """A cell whose last write before a read may not be the wanted one.

    ``cell`` is an index of the tensor, or of the buffer. ``iterations`` are those of the loops around the read and the
    write, where loops without order were asked about; ``witness`` has the instances, where there is a read.
    """

    cell: tuple[int, ...]
    witness: Witness | None = None
    iterations: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def found(self) -> Witness:
        """The witness, where a read was asked about."""
        assert self.witness is not None, f"cell {self.cell} has no reader"
        return self.witness


class AccessSet(Protocol):
    """Reads and writes of cells: ``DirectAccesses``, which asks isl, or ``FoldedAccesses``, which goes through
    events.
    """

    def lost(self, order: Ordering) -> Violation | None: ...


def first_lost(uses: AccessSet, order: Ordering) -> Violation | None:
    """None if in the given order every read finds what it wants; otherwise the first that may not.

    To be asked where ``answerable`` catches what a solver finds too hard.
    """
    return uses.lost(order)
