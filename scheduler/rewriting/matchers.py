"""Predicates on the form of one computation, for any machine: sum of products of two reads, load, element-wise."""

from functools import lru_cache
from typing import TypeGuard

from lathe.frontend import Computation, as_affine
from lathe.frontend.arith.strip_casts import as_bare_axis, skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Const, Read, Reduce, Select, reads_data
from lathe.scheduler.rewriting.undef import without_undef


@lru_cache(maxsize=16384)  # layout assignment runs many times over the same reads
def dim_indexed_by(read: Read, axis: Axis | None, step: int = 0) -> int | None:
    """The last dimension of a read that an axis alone indexes, or an axis plus a multiple of ``step``; None if none."""
    if axis is None:
        return None
    found = [dim for dim, index in enumerate(read.indices) if _runs_along(index, axis, step)]
    return found[-1] if found else None


def _runs_along(index: Expr, axis: Axis, step: int) -> bool:
    if as_bare_axis(index) is axis:
        return True
    affine = as_affine(index) if step else None
    return affine is not None and dict(affine.coefficients) == {axis: 1} and affine.const % step == 0


@lru_cache(maxsize=4096)
def match_gemm_operands(computation: Computation) -> tuple[Read, Read] | None:
    """The two int8 operands of a computation that sums their products in int32 (a GEMM); None for others."""
    if len(computation.bodies) != 1:
        return None
    body = computation.bodies[0]
    if not isinstance(body, Reduce) or body.kind != "sum" or body.dtype != "int32":
        return None
    product = skip_value_preserving_casts(without_undef(body).children[0])
    if not isinstance(product, Binary) or product.op != "mul" or product.dtype != "int32":
        return None
    first, second = skip_value_preserving_casts(product.lhs), skip_value_preserving_casts(product.rhs)
    if not isinstance(first, Read) or not isinstance(second, Read) or first is second:
        return None
    return (first, second) if first.dtype == second.dtype == "int8" else None


def is_plain_read(expr: Expr) -> TypeGuard[Read]:
    """Whether an expression is a read at an index that does not depend on data."""
    return isinstance(expr, Read) and not any(map(reads_data, expr.indices))


def is_loadable(body: Expr) -> bool:
    """Whether LOADs can evaluate an expression: plain reads or zeros, perhaps chosen by selects."""
    if isinstance(body, Select):
        return is_loadable(body.then) and is_loadable(body.otherwise)
    return is_plain_read(body) or (isinstance(body, Const) and body.value == 0)


def is_elementwise(computation: Computation) -> bool:
    """Whether each element is computed from elements of other tensors at the same point, without reduction."""
    if computation.reduce_axes or not computation.reads:
        return False
    axes = list(computation.axes)
    points = ([as_bare_axis(index) for index in read.indices] for read in computation.reads)
    return all(len(each) == len(axes) and all(a is b for a, b in zip(each, axes, strict=True)) for each in points)
