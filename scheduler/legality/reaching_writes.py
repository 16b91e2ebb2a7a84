"""Values with cells of their own: isl finds the reads of one stage for which another has not made what they want.

Both sides are maps from iterations of loops to cells: of the loops around both stages, where it is enough to know what
is there by the end of each, or of all loops of each stage, where instances are compared one by one. What is missing is
an exact difference, and the first point of it becomes the witness.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.legality.reaching_write_query import Ordering, Violation
from lathe.scheduler.legality.witnesses import reads_missing
from lathe.scheduler.loop_ir.active_iterations import carried_out
from lathe.scheduler.loop_ir.instances import cells_kept, cells_made, cells_read, cells_written, equal_loops, values_of
from lathe.scheduler.loop_ir.stage_region import StageRegion, shared_depth
from lathe.scheduler.schedule_ir.schedule import StageView

IN, OUT = isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class DirectAccesses:
    """The cells that ``reads`` of one stage want (``needed``) and that another makes (``made``), by iterations.

    ``depth``: how many of these loops are around both. Without ``reads`` the writes themselves are what must find the
    cell as they left it.
    """

    maker: StageRegion
    reader: StageRegion
    reads: tuple[ReadAccess, ...]
    needed: isl.Map
    made: isl.Map
    depth: int

    @staticmethod
    def in_iterations(
        maker: StageRegion, reader: StageRegion, read: ReadAccess, depth: int, placed: dict[StageView, StageRegion]
    ) -> "DirectAccesses":
        """One read, by iterations of the first ``depth`` loops; the maker's cells are those it has by their end.

        Iterations that are left out need nothing and make nothing.
        """
        needed = _by_loops(cells_read(reader, read, depth, carried_out(reader, placed)))
        name, inside = read.tensor.name, depth == len(maker.prefix)
        place = maker.state.attachment
        whole = place is not None and not place.loops and place.region == "box" and depth <= len(maker.prefix)
        if inside and maker.window is not None:
            made = cells_kept(maker, name)
        else:
            around = None if inside and whole else carried_out(maker, placed)
            made = (cells_made if whole else cells_written)(maker, name, depth, around)
        return DirectAccesses(maker, reader, (read,), needed, _by_loops(made), depth)

    @staticmethod
    def of_instances(maker: StageRegion, reader: StageRegion, reads: Sequence[ReadAccess]) -> "DirectAccesses":
        """Reads, instance by instance. Those of several tensors of one stage count as of the first."""
        name = reads[0].tensor.name if len(reads) == 1 else maker.state.tensor.name
        every, own = len(reader.around), len(maker.around)
        first, *others = (cells_read(reader, read, every).set_tuple_name(OUT, name) for read in reads)
        for each in others:
            first = first.union(each)
        made = cells_written(maker, name, own)
        depth = shared_depth(maker.around, reader.around)
        return DirectAccesses(maker, reader, tuple(reads), _by_loops(first), _by_loops(made), depth)

    @staticmethod
    def of_sums(stage: StageRegion, depth: int, placed: dict[StageView, StageRegion]) -> "DirectAccesses":
        """The sums that a stage begins, by iterations of the first ``depth`` loops."""
        made = _by_loops(cells_written(stage, stage.state.tensor.name, depth, carried_out(stage, placed)))
        return DirectAccesses(stage, stage, (), made, made, depth)

    def lost(self, order: Ordering) -> Violation | None:
        """The first iteration that misses a cell, and the first such cell."""
        missing = self.needed
        if not order.every:
            missing = missing.subtract(self._there(order))
            if missing.is_empty():
                return None
            if not order.free:
                return self._verdict(missing)
        wrong = missing.apply_range(self.made.reverse())
        wrong = wrong.intersect(self._not_before(order, wrong.get_space()))
        return None if wrong.is_empty() else self._verdict(missing, wrong)

    def _there(self, order: Ordering) -> isl.Map:
        """What one write or another has surely left in its cell, by iterations of the reader."""
        if order.free or (order.first and not order.stays):
            return self.made
        if not order.stays:
            return isl.Map.empty(self.made.get_space())
        loops = self.made.get_space().domain()
        earlier = isl.Map.lex_ge(loops) if order.first else isl.Map.lex_gt(loops)
        return earlier.apply_range(self.made)

    def _not_before(self, order: Ordering, space: isl.Space) -> isl.Map:
        """From iterations of the reader to those of the maker whose writes are not there, or may not be."""
        if order.free:
            found = equal_loops(space, len(order.outside))
            return found.subtract(isl.Map.identity(space)) if order.every else found
        if not order.stays:
            return isl.Map.universe(space).subtract(equal_loops(space, self.depth))
        found = isl.Map.empty(space)
        for level in range(self.depth):
            found = found.union(equal_loops(space, level).order_lt(IN, level, OUT, level))
        return found if order.first else found.union(equal_loops(space, self.depth))

    def _verdict(self, missing: isl.Map, wrong: isl.Map | None = None) -> Violation:
        here = (missing if wrong is None else wrong).domain().lexmin()
        cells = missing.intersect_domain(here).range()
        iterations: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        if wrong is None:
            cells = cells.lexmin()
        else:
            others = wrong.intersect_domain(here).range()
            cells = cells.intersect(self.made.intersect_domain(others).range()).lexmin()
            there = self.made.intersect_range(cells).domain().intersect(others).lexmin()
            iterations = tuple(values_of(here)), tuple(values_of(there))
        witness = reads_missing(self.maker, self.reader, self.reads, here, cells) if self.reads else None
        return Violation(tuple(values_of(cells)), witness, iterations)


def _by_loops(cells: isl.Map) -> isl.Map:
    return cells.set_tuple_name(IN, "loops")
