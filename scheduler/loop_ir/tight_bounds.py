"""The smallest box around the cells that an iteration reads, where bounds of single loops do not tell.

Bounds of indices by intervals (``read_boxes``) take the loops inside as independent of each other. Loops that were
fused and split again, that a map gives, or that run over a domain are not, nor are indices with a remainder. For these
isl says the least and the largest index exactly, as a function of the loops around in pieces: each a quasi-affine
expression, under quasi-affine conditions. A choice among the pieces says the same without control flow: where one of
its conditions fails, a piece becomes so small, or so large, that it is not chosen.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import islpy as isl

from lathe.frontend import as_affine
from lathe.frontend.arith.linear import (
    Bound,
    Extremum,
    Linear,
    LoopVariable,
    add,
    bound_range,
    bound_variables,
    extremum,
)
from lathe.frontend.arith.loop_bounds import Interval
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, limited_operations, range_of
from lathe.frontend.arith.quasi_affine import linear_of
from lathe.frontend.expr.nodes import ReadAccess, reads_data
from lathe.scheduler.loop_ir.active_iterations import carried_out
from lathe.scheduler.loop_ir.bounds_inference import cases, extent_of
from lathe.scheduler.loop_ir.instances import InstanceSpace, cells_read
from lathe.scheduler.loop_ir.stage_region import ExactBox, StageRegion
from lathe.scheduler.schedule_ir.schedule import StageView

IN, OUT = isl.dim_type.in_, isl.dim_type.out

MOST_PIECES = 12
"""How many expressions a bound may be chosen from."""
MOST_OPERATIONS = OPERATIONS_LIMIT // 4
"""Of isl, for a box: what is harder to find is harder still to check, and then one that is too large serves better."""

Kind = Literal["min", "max"]
Reader = tuple[StageRegion, Sequence[ReadAccess]]
Box = list[Interval]


def smallest_box(
    here: StageRegion, readers: Sequence[Reader], found: Box, placed: dict[StageView, StageRegion]
) -> tuple[list[Bound], list[Bound], ExactBox | None]:
    """Where the box begins that readers in the loops around a stage read of it, how long it is, and as isl has it.

    ``here`` is the stage with these loops, ``found`` the box that intervals give. That is the answer, without isl's,
    where intervals are exact, where a reader runs in loops of a stage in pieces or looks up by data, whatever isl knows
    of these, or where isl takes too long to say more.
    """
    visible = set(here.prefix)
    exact = not any(_in_pieces(reader, placed) for reader, _ in readers)  # else they run where isl sees no instance
    exact = exact and not any(reads_data(index) for _, reads in readers for read in reads for index in read.indices)
    if exact and not all(_is_rectangular(reader, reads, visible, placed) for reader, reads in readers):
        with suppress(TooManyOperationsError, _TooManyPiecesError), limited_operations(MOST_OPERATIONS):
            return _Smallest(here, readers, placed).box(found)
    return [low for low, _ in found], [extent_of(each, here.box) for each in found], None


def _is_rectangular(
    reader: StageRegion, reads: Sequence[ReadAccess], visible: set[LoopVariable], placed: dict[StageView, StageRegion]
) -> bool:
    """Whether intervals are exact: loops inside that are free of each other, and indices that are affine."""
    if any(read.guards or any(as_affine(index) is None for index in read.indices) for read in reads):
        return False
    if reader.loops.others or reader.pieces is not None or not _all_carried_out(reader, visible, placed):
        return False
    values = reader.roots()
    hidden = {axis: bound_variables(value) - visible for axis, value in values.items()}
    if sum(map(len, hidden.values())) > len(set().union(*hidden.values())):
        return False
    if any(isinstance(value, Extremum) and hidden[axis] for axis, value in values.items()):
        return False
    if any(bound_variables(extent) - visible for extent in reader.extent):
        return False
    sizes = iter(reader.extent)
    ends: set[Bound] = set()
    for root in reader.state.roots:
        assert root.source is not None
        size: Bound = next(sizes) if root.kind == "data" else Linear(root.source.extent)
        local = reader.loops.local[root]
        if _is_dense(local, visible):
            ends |= {local, add(add(size, Linear(-1)), local * -1)}
    return all(condition in ends for condition in reader.constraints() if bound_variables(condition) - visible)


def _all_carried_out(reader: StageRegion, visible: set[LoopVariable], placed: dict[StageView, StageRegion]) -> bool:
    """Whether no iteration of loops between those that are visible and a stage's own is left out."""
    between = set(reader.prefix) - visible
    attachment = reader.state.attachment
    while between and attachment is not None:
        host = placed[reader.stage.schedule.at(attachment)]
        if host.pieces is not None or any(bound_variables(each) & between for each in host.certain_constraints()):
            return False
        attachment = host.state.attachment
    return True


def _is_dense(value: Linear, visible: set[LoopVariable]) -> bool:
    """Whether loops inside reach all values between the least and the largest."""
    steps: list[tuple[int, int]] = []
    for atom, coefficient in value.terms.items():
        if not isinstance(atom, LoopVariable):
            return not value.variables() - visible
        if atom not in visible and atom.extent > 1:
            steps.append((abs(coefficient), atom.extent))
    reach = 0
    for step, extent in sorted(steps):
        if step > reach + 1:
            return False
        reach += step * (extent - 1)
    return True


def _in_pieces(here: StageRegion, placed: dict[StageView, StageRegion]) -> bool:
    """Whether a host is computed in pieces: what is in its loops may run where it has none."""
    attachment = here.state.attachment
    while attachment is not None:
        host = placed[here.stage.schedule.at(attachment)]
        if host.pieces is not None:
            return True
        attachment = host.state.attachment
    return False


class _TooManyPiecesError(Exception):
    """A box that would take too many expressions to say."""


class _Smallest:
    """The cells that are read in the loops around a stage, and bounds of them."""

    def __init__(self, here: StageRegion, readers: Sequence[Reader], placed: dict[StageView, StageRegion]) -> None:
        self.here = here
        self.inputs = [Linear.of(variable) for variable in here.prefix]
        self.space = InstanceSpace(here.prefix, "instance")
        executed = None if _in_pieces(here, placed) else carried_out(here, placed)
        self.around = self.space.box(here.box) if executed is None else executed.intersect(self.space.box(here.box))
        cells: isl.Map | None = None
        for reader, reads in readers:
            done = carried_out(reader, placed)
            for read in reads:
                each = cells_read(reader, read, len(here.prefix), done)
                each = each.set_tuple_name(IN, "instance").set_tuple_name(OUT, "cells")
                cells = each if cells is None else cells.union(each)
        assert cells is not None, f"nobody reads {here.stage.name}"
        self.cells = cells.intersect_domain(self.around).coalesce()
        self.reading = self.cells.domain()

    def box(self, found: Box) -> tuple[list[Bound], list[Bound], ExactBox | None]:
        """The box, with the one that intervals have found where that is right, or the right one is too hard to say."""
        if self.reading.is_empty():
            return [Linear(0) for _ in found], [Linear(0) for _ in found], None
        lows: list[Bound] = []
        extents: list[Bound] = []
        edges: list[tuple[isl.PwAff, isl.PwAff]] = []
        for dim, interval in enumerate(found):
            along = self.cells.project_out(OUT, dim + 1, len(found) - dim - 1).project_out(OUT, 0, dim)
            least, most = along.dim_min(0), along.dim_max(0)
            low, high = self._bound(least, interval[0], "min"), self._bound(most, interval[1], "max")
            if low is None or high is None:
                low, high = interval
                least, most = (self.space.bound(each).intersect_domain(self.around) for each in interval)
            lows.append(low)
            extents.append(self._extent((low, high), most.sub(least)))
            edges.append((least, most))
        nowhere = self._none_where_idle(extents)
        if nowhere is not None:
            extents[0] = nowhere
            edges[0] = (edges[0][0].intersect_domain(self.reading), edges[0][1])
        simple = all(isinstance(bound, Linear) and cases(bound) == 1 for bound in (*lows, *extents))
        return lows, extents, None if simple else ExactBox([low for low, _ in edges], _between(edges))

    def _bound(self, exact: isl.PwAff, interval: Bound, kind: Kind) -> Bound | None:
        """A bound that is ``exact`` wherever anything is read: what intervals have given, if that is."""

        def is_exact(bound: Bound) -> bool:
            return bool(self.space.bound(bound).intersect_domain(self.reading).is_equal(exact))

        if is_exact(interval):
            return interval
        pieces = [
            (part, linear_of(value, self.inputs)) for part, value in exact.gist(self.reading).coalesce().get_pieces()
        ]
        values: list[Bound] = list(dict.fromkeys(value for _, value in pieces))
        if len(values) > MOST_PIECES:
            return None
        kinds: tuple[Kind, Kind] = ("min", "max")
        for each in kinds:
            if is_exact(bound := extremum(each, values, self.here.box)):
                return bound
        ranges = [bound_range(value, self.here.box) for value in values]
        least, most = min(low for low, _ in ranges), max(high for _, high in ranges)
        far, step = (most, most - least + 1) if kind == "max" else (least, least - most - 1)
        chosen: list[Bound] = []
        for part, value in pieces:
            for conditions in _conjunctions(part, self.inputs):
                taken: list[Bound] = [value, *(condition * step + far for condition in conditions)]
                chosen.append(extremum("min" if kind == "max" else "max", taken, self.here.box))
            if sum(map(cases, chosen)) > MOST_PIECES:
                return None
        bound = extremum(kind, chosen, self.here.box)
        return bound if is_exact(bound) else None

    def _extent(self, interval: Interval, span: isl.PwAff) -> Bound:
        """How long an interval is, and never longer than the longest: bounds alone may not show that."""
        extent = extent_of(interval, self.here.box)
        longest = range_of(span)[1] + 1
        if bound_range(extent, self.here.box)[1] <= longest:
            return extent
        return extremum("min", [extent, Linear(longest)], self.here.box)

    def _none_where_idle(self, extents: list[Bound]) -> Bound | None:
        """The first extent, but nothing in iterations that read nothing; None where it is so already."""
        idle = self.around.subtract(self.reading)
        for extent in extents:
            if idle.is_empty():
                return None
            idle = self.space.not_negative(add(extent, Linear(-1)), idle)
        if idle.is_empty():
            return None
        most = max(bound_range(extents[0], self.here.box)[1], 1)
        chosen: list[Bound] = []
        for conditions in _conjunctions(self.reading.gist(self.around), self.inputs):
            taken: list[Bound] = [condition * most + most for condition in conditions]
            chosen.append(extremum("min", taken, self.here.box))
            if sum(map(cases, chosen)) > MOST_PIECES:
                raise _TooManyPiecesError
        return extremum("min", [extents[0], extremum("max", chosen, self.here.box)], self.here.box)


def _between(edges: Sequence[tuple[isl.PwAff, isl.PwAff]]) -> isl.Map:
    """From loops to the cells of a box, from its least to its largest index in each dimension."""
    whole: isl.Map | None = None
    for dim, (least, most) in enumerate(edges):
        for edge, up in ((least, True), (most, False)):
            end = isl.Map.from_pw_aff(edge)
            space = end.range().get_space()
            order = isl.Map.universe(space.map_from_domain_and_range(space))
            order = order.order_le(IN, 0, OUT, 0) if up else order.order_ge(IN, 0, OUT, 0)
            half = end.apply_range(order)
            half = half.insert_dims(OUT, 0, dim).insert_dims(OUT, dim + 1, len(edges) - dim - 1)
            half = half.set_tuple_name(OUT, "cells")
            whole = half if whole is None else whole.intersect(half)
    assert whole is not None, "a box without dimensions"
    return whole.coalesce()


def _conjunctions(points: isl.Set, inputs: list[Linear]) -> list[list[Linear]]:
    """Groups of conditions (each must be >= 0), one of which holds at each of the points."""
    found: list[list[Linear]] = []
    for basic in points.compute_divs().get_basic_sets():
        conditions: list[Linear] = []
        for constraint in basic.remove_redundancies().get_constraints():
            value = linear_of(constraint.get_aff(), inputs)
            conditions += [value, value * -1] if constraint.is_equality() else [value]
        found.append(conditions)
    return found
