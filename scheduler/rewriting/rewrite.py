"""Rewriting of expressions and computations: reads redirected to other tensors, axes renamed or replaced."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor, reads_data
from lathe.frontend.arith.substitution import rewritten, with_children
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Read, Reduce


def transform(expr: Expr, leaf: Callable[[Expr], Expr | None], read: Callable[[Read], Expr] | None = None) -> Expr:
    """The expression with nodes replaced by ``leaf`` where it returns an expression, and reads by ``read``.

    ``read`` is called with reads whose indices are rewritten. Unchanged nodes stay the same objects, and a node that
    several parents share stays shared.
    """
    if read is None:
        return rewritten(expr, leaf)

    def rebuild(node: Expr, operands: tuple[Expr, ...]) -> Expr:
        new = with_children(node, operands)
        return read(new) if isinstance(new, Read) else new

    return rewritten(expr, leaf, rebuild)


def rewrite(
    expr: Expr, tensors: Mapping[Tensor, Tensor] | None = None, axes: Mapping[Axis, Expr] | None = None
) -> Expr:
    """The expression with tensors replaced by others of the same shape, and axes by index expressions."""
    by_tensor, by_axis = tensors or {}, axes or {}

    def leaf(node: Expr) -> Expr | None:
        return by_axis.get(node.axis) if isinstance(node, AxisRef) else None

    return transform(expr, leaf, lambda read: Read(by_tensor.get(read.tensor, read.tensor), read.indices))


def _keep(_: Expr) -> None:
    return None


def rewrite_reads(expr: Expr, tensor: Tensor, replacement: Callable[[Read], Expr]) -> Expr:
    """The expression with every read of a tensor replaced."""
    return transform(expr, _keep, lambda read: replacement(read) if read.tensor is tensor else read)


def rewrite_indices(expr: Expr, replacement: Callable[[Expr], Expr]) -> Expr:
    """The expression with every index of every read replaced."""
    return transform(expr, _keep, lambda read: Read(read.tensor, tuple(replacement(index) for index in read.indices)))


def redirect_reads(computation: Computation, replacement: Mapping[Tensor, Tensor]) -> Computation:
    """The computation reading other tensors of the same shape and dtype instead."""
    return computation.mapped(lambda expr: rewrite(expr, replacement))


def redirect_single_reads(computation: Computation, instead: Mapping[Read, Tensor]) -> Computation:
    """The computation with single reads redirected to other tensors of the same shape and dtype."""

    def leaf(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node not in instead:
            return None
        return Read(instead[node], tuple(transform(index, leaf) for index in node.indices))

    return computation.mapped(lambda expr: transform(expr, leaf))


def replace_single_reads(computation: Computation, instead: Mapping[Read, Expr]) -> Computation:
    """The computation with single reads replaced by expressions."""

    def leaf(node: Expr) -> Expr | None:
        return instead.get(node) if isinstance(node, Read) else None

    return computation.mapped(lambda expr: transform(expr, leaf))


def copy_of(tensor: Tensor, name: str, axes: tuple[Axis, ...], *, whole: bool = False) -> Computation:
    """The computation ``name[axes] = tensor[axes]``, over the domain of the tensor.

    With ``whole``, or if the domain depends on data, it copies the whole box; values outside the domain do not matter.
    """
    where = None
    computation = tensor.computation
    exists = computation.where if computation is not None and not whole else None
    if computation is not None and exists is not None and not reads_data(exists):
        points: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
        where = rewrite(exists, axes=points)
    return Computation(name, axes, (), (Read(tensor, tuple(AxisRef(axis) for axis in axes)),), where=where)


def with_new_axes(computation: Computation, name: str) -> Computation:
    """A copy of the computation with a new name and new data axes; reduction axes stay the same objects."""
    axes = tuple(Axis(axis.name, axis.extent, axis.start, axis.kind) for axis in computation.axes)
    mapping: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
    return replace(computation.mapped(lambda expr: rewrite(expr, axes=mapping)), name=name, axes=axes)


def clone_computation(computation: Computation, name: str) -> Computation:
    """A copy of the computation with a new name and new axes, including reduction axes."""
    own = with_new_axes(computation, name)
    axes = tuple(Axis(axis.name, axis.extent, axis.start, axis.kind) for axis in own.reduce_axes)
    onto: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(own.reduce_axes, axes, strict=True)}

    def renewed(body: Expr) -> Expr:
        if isinstance(body, Reduce):
            return Reduce(body.kind, rewrite(body.body, axes=onto), axes)
        return body

    return replace(own, reduce_axes=axes, bodies=tuple(map(renewed, own.bodies)))
