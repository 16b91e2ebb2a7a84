"""Buffers without folding (a cell per value): isl finds the reads that no write of the producer has reached.

Both sides are maps from loop iterations to cells: of the loops around both stages, if it is enough to know which cells
are live by the end of each iteration, or of all loops of each stage, if instances are compared one by one. The missing
cells are an exact set difference, whose first point becomes the witness.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.legality.reaching_write_query import Ordering, Violation
from lathe.scheduler.legality.witnesses import reads_missing
from lathe.scheduler.loop_ir.active_iterations import executed_iterations
from lathe.scheduler.loop_ir.instances import (
    cells_read,
    cells_written,
    computed_box,
    equal_loops,
    held_cells,
    values_of,
)
from lathe.scheduler.loop_ir.stage_region import StageRegion, shared_depth
from lathe.scheduler.schedule_ir.schedule_state import StageView

IN, OUT = isl.dim_type.in_, isl.dim_type.out


@dataclass(frozen=True)
class DirectAccesses:
    """The cells that ``reads`` of one stage need (``needed``) and that another writes (``made``), by iterations.

    ``depth``: how many of these loops are around both. Without ``reads``, two writes of one cell are the violation.
    """

    producer: StageRegion
    reader: StageRegion
    reads: tuple[ReadAccess, ...]
    needed: isl.Map
    made: isl.Map
    depth: int

    @staticmethod
    def in_iterations(
        producer: StageRegion, reader: StageRegion, read: ReadAccess, depth: int, placed: dict[StageView, StageRegion]
    ) -> "DirectAccesses":
        """One read, by iterations of the first ``depth`` loops; the producer's cells are those live by their end.

        Iterations that are skipped need and write nothing.
        """
        needed = _by_loops(cells_read(reader, read, depth, executed_iterations(reader, placed)))
        name, inside = read.tensor.name, depth == len(producer.prefix)
        location = producer.state.attachment
        boxed = location is not None and not location.loops and location.region == "box"
        whole = boxed and depth <= len(producer.prefix)
        if inside and producer.window is not None:
            made = held_cells(producer, name)
        else:
            around = None if inside and whole else executed_iterations(producer, placed)
            made = (computed_box if whole else cells_written)(producer, name, depth, around)
        return DirectAccesses(producer, reader, (read,), needed, _by_loops(made), depth)

    @staticmethod
    def of_instances(producer: StageRegion, reader: StageRegion, reads: Sequence[ReadAccess]) -> "DirectAccesses":
        """Reads, instance by instance. Reads of several tensors of one stage count as reads of the first."""
        name = reads[0].tensor.name if len(reads) == 1 else producer.state.tensor.name
        every, own = len(reader.around), len(producer.around)
        first, *others = (cells_read(reader, read, every).set_tuple_name(OUT, name) for read in reads)
        for each in others:
            first = first.union(each)
        made = cells_written(producer, name, own)
        depth = shared_depth(producer.around, reader.around)
        return DirectAccesses(producer, reader, tuple(reads), _by_loops(first), _by_loops(made), depth)

    @staticmethod
    def of_sums(stage: StageRegion, depth: int, placed: dict[StageView, StageRegion]) -> "DirectAccesses":
        """The sums that a stage initialises, by iterations of the first ``depth`` loops."""
        made = _by_loops(cells_written(stage, stage.state.tensor.name, depth, executed_iterations(stage, placed)))
        return DirectAccesses(stage, stage, (), made, made, depth)

    def violation(self, order: Ordering) -> Violation | None:
        """The first iteration that misses a cell, and the first such cell."""
        missing = self.needed
        if not order.every:
            missing = missing.subtract(self._reached(order))
            if missing.is_empty():
                return None
            if not order.free:
                return self._violation(missing)
        wrong = missing.apply_range(self.made.reverse())
        wrong = wrong.intersect(self._not_before(order, wrong.get_space()))
        return None if wrong.is_empty() else self._violation(missing, wrong)

    def _reached(self, order: Ordering) -> isl.Map:
        """The cells that some write has certainly reached, by iterations of the reader."""
        if order.free or (order.first and not order.stays):
            return self.made
        if not order.stays:
            return isl.Map.empty(self.made.get_space())
        loops = self.made.get_space().domain()
        earlier = isl.Map.lex_ge(loops) if order.first else isl.Map.lex_gt(loops)
        return earlier.apply_range(self.made)

    def _not_before(self, order: Ordering, space: isl.Space) -> isl.Map:
        """From iterations of the reader to those of the writer whose writes have not, or may not have, reached it."""
        if order.free:
            found = equal_loops(space, len(order.outside))
            return found.subtract(isl.Map.identity(space)) if order.every else found
        if not order.stays:
            return isl.Map.universe(space).subtract(equal_loops(space, self.depth))
        found = isl.Map.empty(space)
        for level in range(self.depth):
            found = found.union(equal_loops(space, level).order_lt(IN, level, OUT, level))
        return found if order.first else found.union(equal_loops(space, self.depth))

    def _violation(self, missing: isl.Map, wrong: isl.Map | None = None) -> Violation:
        reader_point = (missing if wrong is None else wrong).domain().lexmin()
        cells = missing.intersect_domain(reader_point).range()
        iterations: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        if wrong is None:
            cells = cells.lexmin()
        else:
            others = wrong.intersect_domain(reader_point).range()
            cells = cells.intersect(self.made.intersect_domain(others).range()).lexmin()
            writer_point = self.made.intersect_range(cells).domain().intersect(others).lexmin()
            iterations = tuple(values_of(reader_point)), tuple(values_of(writer_point))
        witness = reads_missing(self.producer, self.reader, self.reads, reader_point, cells) if self.reads else None
        return Violation(tuple(values_of(cells)), witness, iterations)


def _by_loops(cells: isl.Map) -> isl.Map:
    return cells.set_tuple_name(IN, "loops")
