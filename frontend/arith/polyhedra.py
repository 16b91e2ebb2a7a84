"""Iteration domains and access relations as isl sets and maps.

Dimensions are a computation's data axes followed by its reduction axes; tuples are named after the computation and the
tensor. (A name with a dot can be printed by isl but not parsed by it.)
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property

import islpy as isl

from lathe.frontend.arith.condition_boxes import boxes_of
from lathe.frontend.arith.conditions import OPPOSITE
from lathe.frontend.arith.index_interpreter import Forms, form_of
from lathe.frontend.arith.intervals import does_not_wrap, interval
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import (
    Axis,
    Binary,
    Compare,
    Computation,
    Const,
    Guard,
    Not,
    ReadAccess,
    Select,
    Tensor,
    axes_of,
)

OPERATIONS_LIMIT = 2_000_000
"""Maximum number of elementary isl operations of one query (about a second)."""


class TooManyOperationsError(Exception):
    """A query exceeds the limit of isl operations. Other errors of isl are bugs of the caller."""


@contextmanager
def limited_operations(limit: int = OPERATIONS_LIMIT) -> Iterator[None]:
    """Make isl give up with TooManyOperationsError after ``limit`` operations, so that a hard query cannot hang."""
    context = isl.DEFAULT_CONTEXT
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(limit)
    try:
        yield
    except isl.Error as error:
        if "maximal number of operations" not in str(error):
            raise
        raise TooManyOperationsError(str(error)) from error
    finally:
        context.set_max_operations(before)
        context.reset_operations()


def range_of(values: isl.PwAff) -> tuple[int, int]:
    """The minimum and maximum of a function. (``min_val`` and ``max_val`` fail where an expression divides.)"""
    taken = isl.Map.from_pw_aff(values).range()
    return int(taken.dim_min_val(0).to_python()), int(taken.dim_max_val(0).to_python())


class Points:
    """The isl space of integer points over axes, and sets and piecewise quasi-affine functions on it."""

    def __init__(self, axes: Iterable[Axis], name: str) -> None:
        self.axes = tuple(axes)
        self.position = {axis: index for index, axis in enumerate(self.axes)}
        names = [axis.name for axis in self.axes]
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names)
        self.space = space.set_tuple_name(isl.dim_type.set, name)
        self.local = isl.LocalSpace.from_space(self.space)
        self.universe = isl.Set.universe(self.space)

    def box(self) -> isl.Set:
        """The points within the ranges of the axes."""
        points = self.universe
        # isl.Val, because bindings that convert an int hide the error when isl gives up
        for position, axis in enumerate(self.axes):
            points = points.lower_bound_val(isl.dim_type.set, position, isl.Val(axis.start))
            points = points.upper_bound_val(isl.dim_type.set, position, isl.Val(axis.stop - 1))
        return points

    def value(self, expr: Expr) -> isl.PwAff | None:
        """``expr`` as a piecewise quasi-affine function of the axes, exact; None if it is not quasi-affine.

        Expressions of a tensor dtype qualify if they cannot wrap around.
        """
        return form_of(expr, self._functions)

    @cached_property
    def _functions(self) -> Forms[isl.PwAff]:
        return Forms(
            constant=lambda value: isl.PwAff.from_aff(isl.Aff.val_on_domain(self.local, isl.Val(value))),
            axis=self._coordinate,
            add=isl.PwAff.add,
            scale=lambda form, factor: form.scale_val(isl.Val(factor)),
            divide=lambda form, divisor: form.scale_down_val(isl.Val(divisor)).floor(),
            extremum=lambda kind, left, right: left.min(right) if kind == "min" else left.max(right),
            multiply=_product,
            fits=does_not_wrap,
            shortcut=self._selected,
        )

    def _coordinate(self, axis: Axis) -> isl.PwAff:
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(self.local, isl.dim_type.set, self.position[axis]))

    def _selected(self, expr: Expr, forms: Forms[isl.PwAff]) -> isl.PwAff | None:
        """A ``select`` as a piecewise function."""
        if not isinstance(expr, Select):
            return None
        chosen, other = form_of(expr.then, forms), form_of(expr.otherwise, forms)
        where = self.condition(expr.condition, True)
        if chosen is None or other is None or where is None:
            return None
        return chosen.intersect_domain(where).union_add(other.subtract_domain(where))

    def condition(self, expr: Expr, holds: bool) -> isl.Set | None:
        """The points where the ``bool`` expression is ``holds``, exact; None if it is not quasi-affine.

        Other conditions on axes are enumerated, and qualify if they consist of few boxes.
        """
        match expr:
            case Const(value=value):
                return self.universe if bool(value) == holds else isl.Set.empty(self.space)
            case Not(operand=operand):
                return self.condition(operand, not holds)
            case Binary(op=("and" | "or") as op, lhs=lhs, rhs=rhs):
                left, right = self.condition(lhs, holds), self.condition(rhs, holds)
                if left is None or right is None:
                    return None
                return left.intersect(right) if (op == "and") == holds else left.union(right)
            case Compare(op=op, lhs=lhs, rhs=rhs) if lhs.dtype != "bool":
                left_value, right_value = self.value(lhs), self.value(rhs)
                if left_value is None or right_value is None:
                    return self._enumerated(expr, holds)
                compared: isl.Set = getattr(left_value, f"{op if holds else OPPOSITE[op]}_set")(right_value)
                return compared
        return None

    def _enumerated(self, expr: Expr, holds: bool) -> isl.Set | None:
        boxes = boxes_of(expr)
        if boxes is None or any(axis not in self.position for axis in axes_of(expr)):
            return None
        points = isl.Set.empty(self.space)
        for box in boxes[0 if holds else 1]:
            part = self.universe
            for axis, first, last in box:
                part = part.lower_bound_val(isl.dim_type.set, self.position[axis], isl.Val(first))
                part = part.upper_bound_val(isl.dim_type.set, self.position[axis], isl.Val(last))
            points = points.union(part)
        return points

    def where(self, guards: Iterable[Guard]) -> isl.Set:
        """The points at which all guards may hold; guards that are not quasi-affine are over-approximated."""
        points = self.universe
        for expr, holds in guards:
            points = points.intersect(self._possible(expr, holds))
        return points

    def _possible(self, expr: Expr, holds: bool) -> isl.Set:
        exact = self.condition(expr, holds)
        if exact is not None:
            return exact
        match expr:
            case Not(operand=operand):
                return self._possible(operand, not holds)
            case Binary(op=("and" | "or") as op, lhs=lhs, rhs=rhs):
                left, right = self._possible(lhs, holds), self._possible(rhs, holds)
                return left.intersect(right) if (op == "and") == holds else left.union(right)
        return self.universe

    def is_exact(self, guards: Iterable[Guard]) -> bool:
        """Whether ``where`` is exact for these guards."""
        return all(self.condition(expr, holds) is not None for expr, holds in guards)


def _product(left: isl.PwAff, right: isl.PwAff) -> isl.PwAff | None:
    return left.mul(right) if left.is_cst() or right.is_cst() else None


def points_of(computation: Computation) -> Points:
    """The space of a computation's points: its data axes, then its reduction axes."""
    return Points((*computation.axes, *computation.reduce_axes), computation.name)


def domain_of(computation: Computation) -> isl.Set:
    """The iteration domain: the box of data and reduction axes, in a tuple named after the computation.

    A domain condition restricts it to the points at which that may hold, exactly if the condition is quasi-affine.
    """
    points = points_of(computation)
    domain = points.box()
    return domain if computation.where is None else domain.intersect(points.where([(computation.where, True)]))


def shape_of(tensor: Tensor) -> isl.Set:
    """The index set of a tensor: the box of its shape, in a tuple named after it."""
    return Points((Axis(f"d{n}", extent) for n, extent in enumerate(tensor.shape)), tensor.name).box()


def existing_cells(tensor: Tensor, computation: Computation | None) -> isl.Set:
    """The elements of a tensor that (may) exist: its shape, restricted to the domain of ``computation``."""
    if computation is None or computation.where is None:
        return shape_of(tensor)
    points = Points(computation.axes, tensor.name)
    return points.box().intersect(points.where([(computation.where, True)]))


def access_of(computation: Computation, read: ReadAccess, cells: isl.Set | None = None) -> isl.Map:
    """The access relation of a read: from each point of the domain at which it happens to the element that it reads.

    It is exact if the indices and guards are quasi-affine. Otherwise it is an over-approximation: an index that is not
    affine may have any value of its interval, and such a guard may hold or fail. The domain condition is one of the
    guards. Only elements that exist are read; ``cells`` replaces them if the producer of the tensor has been changed.
    """
    points = points_of(computation)
    happens = points.box().intersect(points.where(read.guards))
    exist = existing_cells(read.tensor, read.tensor.computation) if cells is None else cells
    relation = isl.Map.from_domain_and_range(happens, exist)
    for position, index in enumerate(read.indices):
        value = points.value(index)
        if value is not None:
            function = isl.Map.from_pw_aff(value)
            width = len(read.indices)
            function = function.insert_dims(isl.dim_type.out, 0, position)
            function = function.insert_dims(isl.dim_type.out, position + 1, width - position - 1)
            relation = relation.intersect(function.set_tuple_name(isl.dim_type.out, read.tensor.name))
        else:
            low, high = interval(index)
            bounded = relation.range().lower_bound_val(isl.dim_type.set, position, isl.Val(low))
            relation = relation.intersect_range(bounded.upper_bound_val(isl.dim_type.set, position, isl.Val(high)))
    return relation


def is_exact(computation: Computation, read: ReadAccess) -> bool:
    """Whether ``access_of`` is exact for this read: its indices and guards are quasi-affine and read no data."""
    points = points_of(computation)
    return points.is_exact(read.guards) and all(points.value(index) is not None for index in read.indices)
