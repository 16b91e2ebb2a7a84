"""Tight bounds by isl: the smallest box around the cells that an iteration reads, where interval bounds are loose.

Interval arithmetic (``bounds_inference``) treats inner loops as independent. Loops that were fused and split again,
that an affine schedule gives, or that run over a domain are not, nor are indices with a remainder. For these isl
computes the least and the largest index exactly, as a piecewise quasi-affine function of the enclosing loops. That is
written as a ``min`` or ``max`` over the pieces, without control flow: where one of the conditions of a piece fails, its
value becomes so small, or so large, that it is not chosen.
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
from lathe.scheduler.loop_ir.active_iterations import executed_iterations
from lathe.scheduler.loop_ir.bounds_inference import cases, extent_of
from lathe.scheduler.loop_ir.instances import InstanceSpace, cells_read
from lathe.scheduler.loop_ir.stage_region import ExactBox, StageRegion
from lathe.scheduler.schedule_ir.schedule_state import StageView

IN, OUT = isl.dim_type.in_, isl.dim_type.out

MOST_PIECES = 12
"""The most expressions that a bound may choose from."""
MOST_OPERATIONS = OPERATIONS_LIMIT // 4
"""The isl budget of a box: one that takes more to find is too hard to verify, so a larger box is computed instead."""

Kind = Literal["min", "max"]
Consumer = tuple[StageRegion, Sequence[ReadAccess]]
Box = list[Interval]


def smallest_box(
    here: StageRegion, consumers: Sequence[Consumer], intervals: Box, placed: dict[StageView, StageRegion]
) -> tuple[list[Bound], list[Bound], ExactBox | None]:
    """The box of a stage that consumers in its enclosing loops read: lows, extents, and the same box as isl objects.

    ``here`` is the stage with these loops, ``found`` the box of interval arithmetic. The latter is returned, without
    isl objects, where it is exact, where a consumer runs in loops of a stage computed in pieces or has indices that
    depend on data, or where isl exceeds its budget.
    """
    visible = set(here.prefix)
    exact = not any(_in_pieces(consumer, placed) for consumer, _ in consumers)  # those run where isl has no instance
    exact = exact and not any(reads_data(index) for _, reads in consumers for read in reads for index in read.indices)
    if exact and not all(_is_rectangular(consumer, reads, visible, placed) for consumer, reads in consumers):
        with suppress(TooManyOperationsError, _TooManyPiecesError), limited_operations(MOST_OPERATIONS):
            return _ExactBounds(here, consumers, placed).box(intervals)
    return [low for low, _ in intervals], [extent_of(each, here.box) for each in intervals], None


def _is_rectangular(
    consumer: StageRegion, reads: Sequence[ReadAccess], visible: set[LoopVariable], placed: dict[StageView, StageRegion]
) -> bool:
    """Whether interval bounds are exact: inner loops are independent and indices are affine."""
    if any(read.guards or any(as_affine(index) is None for index in read.indices) for read in reads):
        return False
    if consumer.loops.others or consumer.pieces is not None or not _all_executed(consumer, visible, placed):
        return False
    values = consumer.roots()
    hidden = {axis: bound_variables(value) - visible for axis, value in values.items()}
    if sum(map(len, hidden.values())) > len(set().union(*hidden.values())):
        return False
    if any(isinstance(value, Extremum) and hidden[axis] for axis, value in values.items()):
        return False
    if any(bound_variables(extent) - visible for extent in consumer.extent):
        return False
    sizes = iter(consumer.extent)
    ends: set[Bound] = set()
    for root in consumer.state.roots:
        assert root.source is not None
        size: Bound = next(sizes) if root.kind == "data" else Linear(root.source.extent)
        local = consumer.loops.local[root]
        if _is_dense(local, visible):
            ends |= {local, add(add(size, Linear(-1)), local * -1)}
    return all(condition in ends for condition in consumer.constraints() if bound_variables(condition) - visible)


def _all_executed(consumer: StageRegion, visible: set[LoopVariable], placed: dict[StageView, StageRegion]) -> bool:
    """Whether all iterations of the loops between ``visible`` and a stage's own loops are executed."""
    between = set(consumer.prefix) - visible
    attachment = consumer.state.attachment
    while between and attachment is not None:
        anchor = placed[consumer.stage.schedule.at(attachment)]
        if anchor.pieces is not None or any(bound_variables(each) & between for each in anchor.certain_constraints()):
            return False
        attachment = anchor.state.attachment
    return True


def _is_dense(value: Linear, visible: set[LoopVariable]) -> bool:
    """Whether the values of inner loops have no gaps between the least and the largest."""
    strides: list[tuple[int, int]] = []
    for atom, coefficient in value.terms.items():
        if not isinstance(atom, LoopVariable):
            return not value.variables() - visible
        if atom not in visible and atom.extent > 1:
            strides.append((abs(coefficient), atom.extent))
    reach = 0
    for stride, extent in sorted(strides):
        if stride > reach + 1:
            return False
        reach += stride * (extent - 1)
    return True


def _in_pieces(here: StageRegion, placed: dict[StageView, StageRegion]) -> bool:
    """Whether an enclosing stage is computed in pieces: stages in its loops may run where it has no instance."""
    attachment = here.state.attachment
    while attachment is not None:
        anchor = placed[here.stage.schedule.at(attachment)]
        if anchor.pieces is not None:
            return True
        attachment = anchor.state.attachment
    return False


class _TooManyPiecesError(Exception):
    """The bounds of a box would choose from too many expressions."""


class _ExactBounds:
    """The cells of a stage that are read in its enclosing loops, and their exact bounds."""

    def __init__(self, here: StageRegion, consumers: Sequence[Consumer], placed: dict[StageView, StageRegion]) -> None:
        self.here = here
        self.inputs = [Linear.of(variable) for variable in here.prefix]
        self.space = InstanceSpace(here.prefix, "instance")
        executed = None if _in_pieces(here, placed) else executed_iterations(here, placed)
        self.around = self.space.box(here.box) if executed is None else executed.intersect(self.space.box(here.box))
        cells: isl.Map | None = None
        for consumer, reads in consumers:
            iterations = executed_iterations(consumer, placed)
            for read in reads:
                each = cells_read(consumer, read, len(here.prefix), iterations)
                each = each.set_tuple_name(IN, "instance").set_tuple_name(OUT, "cells")
                cells = each if cells is None else cells.union(each)
        assert cells is not None, f"{here.stage.name} has no consumer"
        self.cells = cells.intersect_domain(self.around).coalesce()
        self.active = self.cells.domain()

    def box(self, intervals: Box) -> tuple[list[Bound], list[Bound], ExactBox | None]:
        """The exact box; bounds of interval arithmetic where they are exact, or exact ones have too many pieces."""
        if self.active.is_empty():
            return [Linear(0) for _ in intervals], [Linear(0) for _ in intervals], None
        lows: list[Bound] = []
        extents: list[Bound] = []
        edges: list[tuple[isl.PwAff, isl.PwAff]] = []
        for dim, interval in enumerate(intervals):
            along = self.cells.project_out(OUT, dim + 1, len(intervals) - dim - 1).project_out(OUT, 0, dim)
            least, most = along.dim_min(0), along.dim_max(0)
            low, high = self._bound(least, interval[0], "min"), self._bound(most, interval[1], "max")
            if low is None or high is None:
                low, high = interval
                least, most = (self.space.bound(each).intersect_domain(self.around) for each in interval)
            lows.append(low)
            extents.append(self._extent((low, high), most.sub(least)))
            edges.append((least, most))
        nowhere = self._empty_where_idle(extents)
        if nowhere is not None:
            extents[0] = nowhere
            edges[0] = (edges[0][0].intersect_domain(self.active), edges[0][1])
        simple = all(isinstance(bound, Linear) and cases(bound) == 1 for bound in (*lows, *extents))
        return lows, extents, None if simple else ExactBox([low for low, _ in edges], _between(edges))

    def _bound(self, exact: isl.PwAff, interval: Bound, kind: Kind) -> Bound | None:
        """A bound that equals ``exact`` where cells are read, the interval's if possible; None for too many pieces."""

        def is_exact(bound: Bound) -> bool:
            return bool(self.space.bound(bound).intersect_domain(self.active).is_equal(exact))

        if is_exact(interval):
            return interval
        pieces = [
            (part, linear_of(value, self.inputs)) for part, value in exact.gist(self.active).coalesce().get_pieces()
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
                bounds: list[Bound] = [value, *(condition * step + far for condition in conditions)]
                chosen.append(extremum("min" if kind == "max" else "max", bounds, self.here.box))
            if sum(map(cases, chosen)) > MOST_PIECES:
                return None
        bound = extremum(kind, chosen, self.here.box)
        return bound if is_exact(bound) else None

    def _extent(self, interval: Interval, span: isl.PwAff) -> Bound:
        """The extent of an interval, limited to the largest exact extent, which its bounds may exceed."""
        extent = extent_of(interval, self.here.box)
        longest = range_of(span)[1] + 1
        if bound_range(extent, self.here.box)[1] <= longest:
            return extent
        return extremum("min", [extent, Linear(longest)], self.here.box)

    def _empty_where_idle(self, extents: list[Bound]) -> Bound | None:
        """The first extent made 0 in iterations that read nothing; None if it is already, or is one cell."""
        idle = self.around.subtract(self.active)
        for extent in extents:
            if idle.is_empty():
                return None
            idle = self.space.not_negative(add(extent, Linear(-1)), idle)
        if idle.is_empty() or not extents:
            return None
        most = max(bound_range(extents[0], self.here.box)[1], 1)
        chosen: list[Bound] = []
        for conditions in _conjunctions(self.active.gist(self.around), self.inputs):
            bounds: list[Bound] = [condition * most + most for condition in conditions]
            chosen.append(extremum("min", bounds, self.here.box))
            if sum(map(cases, chosen)) > MOST_PIECES:
                raise _TooManyPiecesError
        return extremum("min", [extents[0], extremum("max", chosen, self.here.box)], self.here.box)


def _between(edges: Sequence[tuple[isl.PwAff, isl.PwAff]]) -> isl.Map:
    """From loops to the cells of a box, given its least and largest index in each dimension."""
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
    """A set as a union of groups of conditions: at each point all conditions of some group are >= 0."""
    groups: list[list[Linear]] = []
    for basic in points.compute_divs().get_basic_sets():
        conditions: list[Linear] = []
        for constraint in basic.remove_redundancies().get_constraints():
            value = linear_of(constraint.get_aff(), inputs)
            conditions += [value, value * -1] if constraint.is_equality() else [value]
        groups.append(conditions)
    return groups
