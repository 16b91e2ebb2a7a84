"""Checks for all values of a program's parameters: positive extents, and reads in bounds.

Parameters become dimensions like axes, so that isl decides a check for all their values at once. What isl cannot decide
(a product of a parameter and an axis) is checked when the parameters are bound.
"""

from collections.abc import Iterable

import islpy as isl

from lathe.frontend.arith.parameters import LARGEST, Extent, at_values, format_values, parameters_of
from lathe.frontend.arith.polyhedra import Points, TooManyOperationsError, limited_operations
from lathe.frontend.arith.substitution import rewritten, substitute
from lathe.frontend.expr.arithmetic import binary, comparison
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.errors import DomainError, TensorError
from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import (
    Axis,
    AxisRef,
    Computation,
    Const,
    Parameter,
    ReadAccess,
    Template,
    reads_data,
    reads_of,
)


class ParametricPoints:
    """The points of a computation for all values of its parameters, which are the leading dimensions."""

    def __init__(self, axes: Iterable[Axis], parameters: Iterable[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.axes = tuple(axes)
        self.numbers = {each: Axis(each.name, each.maximum - each.minimum + 1, each.minimum) for each in parameters}
        self.wide = {
            axis: axis if axis.symbolic is None else Axis(axis.name, 2 * LARGEST, -LARGEST) for axis in self.axes
        }
        self.points = Points((*self.numbers.values(), *self.wide.values()), "points")
        domain = self.points.box()
        for axis in self.axes:
            if axis.symbolic is not None:
                start, extent = axis.symbolic
                stop = binary("add", start, extent)
                for condition in (comparison("ge", axis, start), comparison("lt", axis, stop)):
                    holds = self.points.condition(self.translated(condition), True)
                    domain = domain if holds is None else domain.intersect(holds)
        self.domain = domain

    def translated(self, expr: Expr) -> Expr:
        """The expression over the dimensions of ``points``."""

        def leaf(node: Expr) -> Expr | None:
            if isinstance(node, Parameter):
                return AxisRef(self.numbers[node])
            return AxisRef(self.wide.get(node.axis, node.axis)) if isinstance(node, AxisRef) else None

        return rewritten(expr, leaf)

    def first_where(self, condition: isl.Set) -> tuple[dict[Parameter, int], dict[Axis, int]] | None:
        """The values of parameters and axes at the first point of the domain in a set; None if there is none."""
        found = self.domain.intersect(condition)
        if found.is_empty():
            return None
        sample = found.lexmin().sample_point()
        rank, count = found.dim(isl.dim_type.set), len(self.parameters)
        values = [int(sample.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(rank)]
        return dict(zip(self.parameters, values[:count], strict=True)), dict(
            zip(self.axes, values[count:], strict=True)
        )


def check_positive(expr: Expr, what: str) -> None:
    """Raise TensorError if an extent is less than 1 for some values of its parameters."""
    space = ParametricPoints((), parameters_of(expr))
    try:
        with limited_operations():
            small = space.points.condition(space.translated(comparison("lt", expr, 1)), True)
            found = None if small is None else space.first_where(small)
    except TooManyOperationsError:
        return
    if found is not None:
        values, _ = found
        number = at_values(expr, values)
        raise TensorError(
            f"{what} must be positive for all values of its parameters, not {expr} = {number} for "
            f"{format_values(values)}. Raise the minimum of the parameter."
        )


def check_reads_for_all(computation: Computation, template: Template) -> None:
    """Raise DomainError if a read is outside its tensor for some values of the program's parameters."""
    for read in reads_of(template.bodies, template.where):
        sizes = [extent.expr if isinstance(extent, Extent) else Const(extent, INDEX) for extent in read.tensor.shape]
        producer = read.tensor.computation
        involved = [*read.indices, *sizes, *(expr for expr, _ in read.guards)]
        involved += [each for axis in (*computation.axes, *computation.reduce_axes) for each in axis.symbolic or ()]
        in_bounds = [comparison("ge", index, 0) for index in read.indices]
        in_bounds += [comparison("lt", index, size) for index, size in zip(read.indices, sizes, strict=True)]
        exists: Expr | None = None
        if producer is not None and producer.where is not None:
            where = producer.template.where if producer.template is not None else producer.where
            if where is not None:
                exists = substitute(where, dict(zip(producer.axes, read.indices, strict=True)))
                involved.append(exists)
        space = ParametricPoints((*computation.axes, *computation.reduce_axes), parameters_of(*involved))
        guards = [(space.translated(expr), holds) for expr, holds in read.guards]
        for condition in (*in_bounds, *([] if exists is None else [exists])):
            try:
                with limited_operations():
                    fails = space.points.condition(space.translated(condition), False)
                    if fails is None or not space.points.is_exact(guards):
                        continue
                    found = space.first_where(space.points.where(guards).intersect(fails))
                    if found is not None:
                        raise _outside(computation, read, *found, exists if condition is exists else None)
            except TooManyOperationsError:
                continue


def _outside(
    computation: Computation,
    read: ReadAccess,
    values: dict[Parameter, int],
    point: dict[Axis, int],
    exists: Expr | None,
) -> DomainError:
    tensor = read.tensor
    cell = ", ".join(
        str(index) if reads_data(index) else str(int(evaluate(at_values(index, values), point)))
        for index in read.indices
    )
    where = ", ".join(f"{axis.name} = {value}" for axis, value in point.items())
    inside = f"the shape {tensor.shape} of tensor {tensor.name!r}"
    if exists is not None:
        inside = f"the domain of tensor {tensor.name!r}, where {exists}"
    return DomainError(
        f"read {read.node} of computation {computation.name!r} must stay inside {inside} for all values of its "
        f"parameters, not reach {tensor.name}[{cell}] at {where or 'its only point'} for {format_values(values)}. "
        "Shrink the domain, guard the read with select(condition, read, 0), or raise the minimum of the parameter."
    )
