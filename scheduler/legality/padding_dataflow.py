"""Abstract interpretation of values that depend on padding: one query decides overcompute and branching.

An expression is evaluated over a set of points, without values for the elements of tensors. The result partitions the
set: on each part the value is a number, undefined, unknown, or must not be read (poison). The contracts of layouts (RFC
0077) define the values of padding; for a tensor without one, the expression that computes it is followed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from math import prod
from typing import TypeAlias

import islpy as isl

from lathe.frontend import Axis, Computation, Tensor, evaluate, reads_data
from lathe.frontend.arith.polyhedra import Points, domain_of, points_of
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Binary, Cast, Compare, Const, Not, Read, Reduce, Select, Undef, axes_of
from lathe.scheduler.rewriting.index_maps import IndexMap
from lathe.scheduler.rewriting.padding import AddedCells
from lathe.scheduler.rewriting.undef import defined_where, without_undef
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView

SET = isl.dim_type.set
MOST_PARTS = 64
"""The maximum number of parts of a result; beyond, values are unknown."""
DEEPEST = 6
"""The maximum number of computations through which a value is followed."""


class Unknown(Enum):
    """A value that is not a known number."""

    UNKNOWN = "unknown"
    UNDEFINED = "undefined"


@dataclass(frozen=True)
class Poison:
    """A read that must not happen: of padding without a contract, or ``outside`` the tensor."""

    read: Read
    outside: bool


Value: TypeAlias = int | Unknown | Poison
ValueParts: TypeAlias = list[tuple[isl.Set, Value]]


class Dataflow:
    """Abstract values of expressions over the points of a computation."""

    def __init__(self, schedule: ScheduleView, computation: Computation, depth: int = 0) -> None:
        self.schedule = schedule
        self.computation = computation
        self.points: Points = points_of(computation)
        self.depth = depth

    def domain(self) -> isl.Set:
        """All points of the computation."""
        return domain_of(self.computation)

    def where(self, condition: Expr, holds: bool, points: isl.Set) -> isl.Set | None:
        """The points at which a condition holds, or fails; None if it is not quasi-affine."""
        found = self.points.condition(condition, holds)
        return None if found is None else points.intersect(found)

    def parts(self, expr: Expr, points: isl.Set) -> ValueParts:
        """The values of an expression at some points, by parts that cover them."""
        if points.is_empty():
            return []
        found = self._parts(expr, points)
        if len(found) > MOST_PARTS:
            forbidden = [(part, value) for part, value in found if isinstance(value, Poison)]
            rest = points
            for part, _ in forbidden:
                rest = rest.subtract(part)
            return [*forbidden, (rest, Unknown.UNKNOWN)]
        return found

    def _parts(self, expr: Expr, points: isl.Set) -> ValueParts:
        number = self._number(expr, points)
        if number is not None:
            return number
        match expr:
            case Const(value=value):
                return [(points, value)]
            case Undef():
                return [(points, Unknown.UNDEFINED)]
            case Read():
                return self._read(expr, points)
            case Reduce(body=body):
                return [(part, _at_least(value)) for part, value in self.parts(body, points)]
            case Select(condition=condition, then=then, otherwise=otherwise):
                return self._select(condition, then, otherwise, points)
            case Cast(operand=operand, dtype=dtype):
                return [(part, _cast(value, operand.dtype, dtype)) for part, value in self.parts(operand, points)]
            case Not() | Compare() | Binary() if not isinstance(expr, Binary):
                return self._joined([self.parts(child, points) for child in expr.children], points)
            case Binary():
                return self._binary(expr, points)
        return [(points, Unknown.UNKNOWN)]

    def _number(self, expr: Expr, points: isl.Set) -> ValueParts | None:
        """The values of an expression of axes; None for anything else, or if the operands must be evaluated separately.

        For an affine expression with more than ``MOST_PARTS`` values only its zeros are found: 0 times anything is 0.
        """
        axes = set(axes_of(expr))
        if not axes or any(isinstance(node, Read | Reduce | Undef) for node in walk(expr)):
            return None
        positions = {axis: self.points.position[axis] for axis in axes}
        ranges = {
            axis: range(_number_of(points.dim_min_val(n)), _number_of(points.dim_max_val(n)) + 1)
            for axis, n in positions.items()
        }
        if prod(map(len, ranges.values())) <= MOST_PARTS:
            found: dict[int, isl.Set] = {}
            for values in product(*ranges.values()):
                part = points
                for n, value in zip(positions.values(), values, strict=True):
                    part = part.fix_val(SET, n, isl.Val(value))
                if not part.is_empty():
                    value = int(evaluate(expr, dict(zip(positions, values, strict=True))))
                    found[value] = found[value].union(part) if value in found else part
            return [(part.coalesce(), value) for value, part in found.items()]
        affine = self.points.value(expr)
        if affine is None:
            return None
        zero = points.intersect(affine.zero_set())
        if zero.is_empty():
            return [(points, Unknown.UNKNOWN)]
        rest = points.subtract(zero)
        return [(zero, 0), *([] if rest.is_empty() else [(rest, Unknown.UNKNOWN)])]

    def _select(self, condition: Expr, then: Expr, otherwise: Expr, points: isl.Set) -> ValueParts:
        if not reads_data(condition):
            holds, fails = self.where(condition, True, points), self.where(condition, False, points)
            if holds is not None and fails is not None:
                return [*self.parts(then, holds), *self.parts(otherwise, fails)]
        sides = [self.parts(each, points) for each in (condition, then, otherwise)]
        return self._joined(sides, points)

    def _joined(self, sides: list[ValueParts], points: isl.Set) -> ValueParts:
        """Unknown, except where one of the parts is poison or undefined."""
        forbidden: ValueParts = [(part, value) for side in sides for part, value in side if isinstance(value, Poison)]
        undefined: ValueParts = [(part, value) for side in sides for part, value in side if value is Unknown.UNDEFINED]
        found: ValueParts = []
        for part, value in [*forbidden, *undefined]:
            own = part.intersect(points)
            if not own.is_empty():
                found.append((own, value))
                points = points.subtract(own)
        return found if points.is_empty() else [*found, (points, Unknown.UNKNOWN)]

    def _binary(self, expr: Binary, points: isl.Set) -> ValueParts:
        left, right = self.parts(expr.lhs, points), self.parts(expr.rhs, points)
        found: ValueParts = []
        for one, a in left:
            for two, b in right:
                both = one if len(right) == 1 else two if len(left) == 1 else one.intersect(two)
                if not both.is_empty():
                    found.append((both, combined(expr, a, b)))
        return found

    def _read(self, read: Read, points: isl.Set) -> ValueParts:
        inner = [self.parts(index, points) for index in read.indices if reads_data(index)]
        forbidden = [part for side in inner for part in side if isinstance(part[1], Poison)]
        if forbidden:
            return self._joined(inner, points)
        classes = known_cells(self.schedule, read.tensor, self.depth)
        values = [value for index in read.indices if (value := self.points.value(index)) is not None]
        if len(values) < len(read.indices):
            poisoned = next((value for _, value in classes if value is None), Unknown.UNKNOWN)
            return [(points, Poison(read, False) if poisoned is None else Unknown.UNKNOWN)]
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[f"d{n}" for n in range(len(values))])
        function = isl.MultiPwAff.zero(self.points.space.map_from_domain_and_range(space))
        for position, value in enumerate(values):
            function = function.set_pw_aff(position, value)
        access = isl.Map.from_multi_pw_aff(function).intersect_domain(points)
        if not classes:
            inside = access.intersect_range(cell_box(read.tensor.shape)).domain()
            outside = points.subtract(inside)
            return [
                *([] if inside.is_empty() else [(inside, Unknown.UNKNOWN)]),
                *([] if outside.is_empty() else [(outside, Poison(read, True))]),
            ]
        found: ValueParts = []
        rest = points
        for cells, what in classes:
            part = access.intersect_range(cells).domain()
            if not part.is_empty():
                found.append((part, Poison(read, False) if what is None else what))
                rest = rest.subtract(part)
        return found if rest.is_empty() else [*found, (rest, Poison(read, True))]


def _number_of(value: isl.Val) -> int:
    return int(value.to_python())


def _cast(value: Value, old: str, new: str) -> Value:
    return int(evaluate(Cast(Const(value, old), new), {})) if isinstance(value, int) else value


def _at_least(value: Value) -> Value:
    return value if isinstance(value, Poison) or value is Unknown.UNDEFINED else Unknown.UNKNOWN


def combined(expr: Binary, left: Value, right: Value) -> Value:
    """The value of an operation, as far as its operands are known; 0 times anything is 0."""
    for value in (left, right):
        if isinstance(value, Poison):
            return value
    if isinstance(left, int) and isinstance(right, int):
        return int(evaluate(Binary(expr.op, Const(left, expr.lhs.dtype), Const(right, expr.rhs.dtype)), {}))
    if expr.op == "mul" and (left == 0 or right == 0):
        return 0
    return Unknown.UNDEFINED if Unknown.UNDEFINED in (left, right) else Unknown.UNKNOWN


def cell_box(shape: tuple[int, ...]) -> isl.Set:
    """The cells of a tensor of this shape."""
    return _anonymous(Points((Axis(f"d{n}", extent) for n, extent in enumerate(shape)), "cells").box())


def _anonymous(cells: isl.Set) -> isl.Set:
    """The same cells in an unnamed tuple."""
    return cells.reset_tuple_id() if cells.has_tuple_name() else cells


Classes: TypeAlias = list[tuple[isl.Set, int | Unknown | None]]


def known_cells(schedule: ScheduleView, tensor: Tensor, depth: int = 0) -> Classes:
    """The cells of a tensor, partitioned by what is known of them; None: must not be read. []: nothing is known.

    Padding of a layout has the value of its contract. Otherwise, the expression that computes the tensor is followed;
    cells that it does not define must not be read.
    """
    layout = schedule.layouts.get(tensor)
    if layout is not None and layout.padding_count:
        return padded_cells(layout.tensor.shape, layout.padded_maps)
    producer = schedule.producer(tensor)
    if producer is None or depth >= DEEPEST:
        return []
    computation = producer.state.computation
    if computation.reduce_axes or any(read.tensor in producer.state.tensors for read in computation.reads):
        return []
    flow = Dataflow(schedule, computation, depth + 1)
    body = computation.bodies[producer.state.tensors.index(tensor)]
    defined = flow.domain()
    for condition in defined_where(body):
        holds = flow.where(condition, True, defined)
        if holds is None:
            return []
        defined = holds
    found: Classes = []
    for part, value in flow.parts(without_undef(body), defined):
        found.append((_anonymous(part), None if isinstance(value, Poison) else value))
    undefined = flow.domain().subtract(defined)
    if not undefined.is_empty():
        found.append((_anonymous(undefined), None))
    return [] if all(value is Unknown.UNKNOWN for _, value in found) else found


def padded_cells(shape: tuple[int, ...], maps: "Sequence[tuple[IndexMap, AddedCells | None]]") -> Classes:
    """The cells of a layout: the elements, which are unknown, and the padding that each map has added."""
    found: Classes = [(cell_box(shape), Unknown.UNKNOWN)]
    for each, pad in maps:
        points = Points(each.axes, "before")
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[f"d{n}" for n in range(len(each.indices))])
        function = isl.MultiPwAff.zero(points.space.map_from_domain_and_range(space))
        for position, index in enumerate(each.indices):
            value = points.value(index)
            assert value is not None, f"{each} is not quasi-affine"
            function = function.set_pw_aff(position, value)
        relation = isl.Map.from_multi_pw_aff(function).intersect_domain(points.box())
        found = [(relation.intersect_domain(cells.set_tuple_name("before")).range(), v) for cells, v in found]
        if pad is not None:
            added = cell_box(each.shape).subtract(relation.range())
            known: int | Unknown | None = pad.constant
            if known is None and pad.value is not None:
                known = Unknown.UNDEFINED if isinstance(pad.value, Undef) else Unknown.UNKNOWN
            found.append((added, known))
    return found
