"""Computations rewritten: reads redirected to a cache, axes renamed."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor, reads_data
from lathe.frontend.nodes import AxisRef, Binary, Cast, Compare, Const, Not, Read, Reduce, Select, Undef
from lathe.frontend.operand import Expr


def transform(expr: Expr, leaf: Callable[[Expr], Expr | None], read: Callable[[Read], Expr] | None = None) -> Expr:
    """The expression rebuilt from below: ``leaf`` may replace a node as a whole, ``read`` sees reads once rebuilt.

    A node that is shared by several parents stays shared.
    """
    done: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        known = done.get(id(node))
        if known is None:
            replaced = leaf(node)
            known = done[id(node)] = rebuild(node) if replaced is None else replaced
        return known

    def rebuild(node: Expr) -> Expr:
        match node:
            case Const() | AxisRef() | Undef():
                return node
            case Read(tensor=tensor, indices=indices):
                new = Read(tensor, tuple(visit(index) for index in indices))
                return new if read is None else read(new)
            case Binary(op=op, lhs=lhs, rhs=rhs):
                return Binary(op, visit(lhs), visit(rhs))
            case Compare(op=relation, lhs=lhs, rhs=rhs):
                return Compare(relation, visit(lhs), visit(rhs))
            case Not(operand=operand):
                return Not(visit(operand))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return Select(visit(condition), visit(then), visit(otherwise))
            case Cast(operand=operand, dtype=dtype):
                return Cast(visit(operand), dtype)
            case Reduce(kind=kind, body=body, axes=reduced):
                return Reduce(kind, visit(body), reduced)
        raise AssertionError(f"an expression of kind {type(node).__name__} cannot be rewritten: {node}")

    return visit(expr)


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


def reads_redirected(computation: Computation, instead: Mapping[Read, Tensor]) -> Computation:
    """The computation with reads, each by itself, redirected to other tensors of the same shape and dtype."""

    def leaf(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node not in instead:
            return None
        return Read(instead[node], tuple(transform(index, leaf) for index in node.indices))

    return computation.mapped(lambda expr: transform(expr, leaf))


def copy_of(tensor: Tensor, name: str, axes: tuple[Axis, ...], *, whole: bool = False) -> Computation:
    """The computation ``name[axes] = tensor[axes]``, of the elements that the tensor is known to have.

    A condition on data says of no element that it does not exist: where the tensor has one, all may be copied. With
    ``whole`` the box is, whatever the elements that do not exist hold.
    """
    where = None
    computation = tensor.computation
    exists = computation.where if computation is not None and not whole else None
    if computation is not None and exists is not None and not reads_data(exists):
        points: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
        where = rewrite(exists, axes=points)
    return Computation(name, axes, (), (Read(tensor, tuple(AxisRef(axis) for axis in axes)),), where=where)


def renamed_axes(computation: Computation, name: str) -> Computation:
    """The same computation under another name and over data axes of its own; reduction axes stay the same objects."""
    axes = tuple(Axis(axis.name, axis.extent, axis.start, axis.kind) for axis in computation.axes)
    mapping: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
    return replace(computation.mapped(lambda expr: rewrite(expr, axes=mapping)), name=name, axes=axes)
