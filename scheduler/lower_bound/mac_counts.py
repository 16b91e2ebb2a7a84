"""Products of two values that a program adds up: what it computes of matrix products, whatever computes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lathe.frontend import Computation, Tensor, substitute
from lathe.frontend.arith.strip_casts import constant_value, skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Guard, Read, Reduce, Select, reads_data
from lathe.frontend.tensor.programs import topological
from lathe.scheduler.lower_bound.domain_points import Bits, CountedPoints
from lathe.scheduler.rewriting.matchers import is_plain_read

Maker = Callable[[Tensor], Computation | None]
"""The computation that makes a tensor; None for what comes from the host."""


@dataclass(frozen=True)
class Source:
    """Where a read finds its values, behind copies and padding.

    ``read``: of the tensor that they come from; ``inside``: where they are read at all; ``counted``: where they are
    anything else than what the padding holds without a difference to the result.
    """

    read: Read
    inside: tuple[Guard, ...] = ()
    counted: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Factors:
    """Two operands of int8 whose products in int32 are summed, or taken one by one; ``counted``: where none is 0."""

    operands: tuple[Source, Source]
    counted: tuple[Guard, ...]


def source_of(expr: Expr, maker: Maker, ignored: int | None) -> Source | None:
    """What an expression reads where it is one read, perhaps under conditions on indices; else None.

    ``ignored``: a constant that makes no difference, such as 0 in a sum.
    """
    expr = skip_value_preserving_casts(expr)
    if isinstance(expr, Select) and not reads_data(expr.condition):
        for taken, other, holds in ((expr.then, expr.otherwise, True), (expr.otherwise, expr.then, False)):
            value = constant_value(other)
            inner = None if value is None else source_of(taken, maker, ignored)
            if inner is not None:
                guard = (expr.condition, holds)
                counted = (guard, *inner.counted) if value == ignored else inner.counted
                return Source(inner.read, (guard, *inner.inside), counted)
        return None
    if not is_plain_read(expr):
        return None
    made = maker(expr.tensor)
    if made is None or made.reduce_axes or len(made.bodies) > 1 or made.where is not None:
        return Source(expr)
    body = substitute(made.bodies[0], dict(zip(made.axes, expr.indices, strict=True)))
    return source_of(body, maker, ignored) or Source(expr)


def factors_of(computation: Computation, maker: Maker) -> Factors | None:
    """The operands of a matrix product, or of products element by element; None if a computation is neither."""
    if len(computation.bodies) > 1:
        return None
    body = computation.bodies[0]
    if body.dtype != "int32" or (isinstance(body, Reduce) and body.kind != "sum"):
        return None
    value = skip_value_preserving_casts(body.body if isinstance(body, Reduce) else body)
    conditions: list[Guard] = []
    while isinstance(value, Select) and not reads_data(value.condition) and constant_value(value.otherwise) == 0:
        conditions.append((value.condition, True))
        value = skip_value_preserving_casts(value.then)
    if (
        not isinstance(value, Binary)
        or value.op != "mul"
        or skip_value_preserving_casts(value.lhs) is skip_value_preserving_casts(value.rhs)
    ):
        return None
    first, second = (source_of(side, maker, 0) for side in (value.lhs, value.rhs))
    if first is None or second is None or not first.read.dtype == second.read.dtype == "int8":
        return None
    return Factors((first, second), (*conditions, *first.counted, *second.counted))


def products_in(computation: Computation, maker: Maker, needed: Mapping[Axis, Bits | None]) -> int:
    """The products of two values of int8 that a computation adds up, where the values of its data axes are needed.

    Those with padding are none.
    """
    found = factors_of(computation, maker) if computation.reduce_axes else None
    if found is None:
        return 0
    own: tuple[Guard, ...] = () if computation.where is None else ((computation.where, True),)
    return CountedPoints({**needed, **dict.fromkeys(computation.reduce_axes)}, (*own, *found.counted)).number


def products_of(outputs: Sequence[Tensor]) -> int:
    """The same of all computations of a program."""
    return sum(
        products_in(each, lambda tensor: tensor.computation, dict.fromkeys(each.axes)) for each in topological(outputs)
    )


__all__ = ["Factors", "Maker", "Source", "factors_of", "products_in", "products_of", "source_of"]
