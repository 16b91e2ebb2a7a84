"""Computations rewritten: reads redirected to a cache, axes renamed."""

from collections.abc import Mapping

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.expressions import AxisRef, Binary, Cast, Compare, Const, Expr, Not, Read, Reduce, Select


def rewrite(
    expr: Expr, tensors: Mapping[Tensor, Tensor] | None = None, axes: Mapping[Axis, Expr] | None = None
) -> Expr:
    """The expression with tensors replaced by others of the same shape, and axes by index expressions.

    A reduction keeps those of its axes that are not replaced.
    """
    tensors, axes = tensors or {}, axes or {}
    done: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        known = done.get(id(node))
        if known is None:
            known = done[id(node)] = rebuild(node)
        return known

    def rebuild(node: Expr) -> Expr:
        match node:
            case Const():
                return node
            case AxisRef(axis=axis):
                return axes.get(axis, node)
            case Read(tensor=tensor, indices=indices):
                return Read(tensors.get(tensor, tensor), tuple(visit(index) for index in indices))
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
                return Reduce(kind, visit(body), tuple(axis for axis in reduced if axis not in axes))
        raise AssertionError(f"an expression of kind {type(node).__name__} cannot be rewritten: {node}")

    return visit(expr)


def redirect_reads(computation: Computation, replacement: Mapping[Tensor, Tensor]) -> Computation:
    """The computation reading other tensors of the same shape and dtype instead."""
    bodies = tuple(rewrite(body, replacement) for body in computation.bodies)
    return Computation(computation.name, computation.axes, computation.reduce_axes, bodies, computation.attrs)


def copy_of(tensor: Tensor, name: str, axes: tuple[Axis, ...]) -> Computation:
    """The computation ``name[axes] = tensor[axes]``."""
    return Computation(name, axes, (), (Read(tensor, tuple(AxisRef(axis) for axis in axes)),))


def renamed_axes(computation: Computation, name: str) -> Computation:
    """The same computation under another name and over data axes of its own; reduction axes stay the same objects."""
    axes = tuple(Axis(axis.name, axis.extent, axis.start, axis.kind) for axis in computation.axes)
    mapping: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
    bodies = tuple(rewrite(body, axes=mapping) for body in computation.bodies)
    return Computation(name, axes, computation.reduce_axes, bodies, computation.attrs)
