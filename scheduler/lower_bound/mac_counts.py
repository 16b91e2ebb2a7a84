"""Number of multiply-accumulates (MACs) of a program's GEMMs and convolutions, whatever unit computes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lathe.frontend import Computation, Tensor, substitute
from lathe.frontend.arith.strip_casts import constant_value, skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Guard, Read, Reduce, Select, reads_data
from lathe.frontend.tensor.programs import topological
from lathe.scheduler.lower_bound.domain_points import Bits, CountedPoints
from lathe.scheduler.rewriting.matchers import is_plain_read

ProducerOf = Callable[[Tensor], Computation | None]
"""The computation that produces a tensor; None for an input."""


@dataclass(frozen=True)
class Source:
    """The source of values that are read through copies and padding.

    ``read``: the read of the original tensor; ``inside``: the conditions under which it is read; ``counted``: those
    under which the value can affect the result, which padding with the neutral value cannot.
    """

    read: Read
    inside: tuple[Guard, ...] = ()
    counted: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Factors:
    """The two int8 operands of a GEMM or element-wise product in int32; ``counted``: where neither is padding of 0."""

    operands: tuple[Source, Source]
    counted: tuple[Guard, ...]


def source_of(expr: Expr, producer_of: ProducerOf, ignored: int | None) -> Source | None:
    """The source of an expression that is one read, perhaps guarded, or None; ``ignored``: the neutral value."""
    expr = skip_value_preserving_casts(expr)
    if isinstance(expr, Select) and not reads_data(expr.condition):
        for branch, other, holds in ((expr.then, expr.otherwise, True), (expr.otherwise, expr.then, False)):
            value = constant_value(other)
            inner = None if value is None else source_of(branch, producer_of, ignored)
            if inner is not None:
                guard = (expr.condition, holds)
                counted = (guard, *inner.counted) if value == ignored else inner.counted
                return Source(inner.read, (guard, *inner.inside), counted)
        return None
    if not is_plain_read(expr):
        return None
    producer = producer_of(expr.tensor)
    if producer is None or producer.reduce_axes or len(producer.bodies) > 1 or producer.where is not None:
        return Source(expr)
    body = substitute(producer.bodies[0], dict(zip(producer.axes, expr.indices, strict=True)))
    return source_of(body, producer_of, ignored) or Source(expr)


def factors_of(computation: Computation, producer_of: ProducerOf) -> Factors | None:
    """The operands of a GEMM or an element-wise product; None if a computation is neither."""
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
    first, second = (source_of(side, producer_of, 0) for side in (value.lhs, value.rhs))
    if first is None or second is None or not first.read.dtype == second.read.dtype == "int8":
        return None
    return Factors((first, second), (*conditions, *first.counted, *second.counted))


def macs_in(computation: Computation, producer_of: ProducerOf, needed: Mapping[Axis, Bits | None]) -> int:
    """The int8 MACs of a computation for the live values of its data axes (``needed``), without those with padding."""
    factors = factors_of(computation, producer_of) if computation.reduce_axes else None
    if factors is None:
        return 0
    own: tuple[Guard, ...] = () if computation.where is None else ((computation.where, True),)
    return CountedPoints({**needed, **dict.fromkeys(computation.reduce_axes)}, (*own, *factors.counted)).number


def macs_of(outputs: Sequence[Tensor]) -> int:
    """The int8 MACs of all computations of a program, without those with padding."""
    return sum(
        macs_in(each, lambda tensor: tensor.computation, dict.fromkeys(each.axes)) for each in topological(outputs)
    )


__all__ = ["Factors", "ProducerOf", "Source", "factors_of", "macs_in", "macs_of", "source_of"]
