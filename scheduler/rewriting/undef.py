"""Statements that leave cells undefined (``undef``): instances that would store them are not executed.

A body ``select(condition, value, undef)`` (or a reduction over one) is no branch between two values: where the
condition does not hold, there is no instance. Loop nests and dependences treat the condition as part of the domain;
evaluation and code generation use ``value``.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from lathe.frontend import Computation
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Binary, Reduce, Select, Undef


def without_undef(body: Expr) -> Expr:
    """The body without the conditions under which it is defined."""
    if isinstance(body, Reduce):
        inner = without_undef(body.body)
        return body if inner is body.body else Reduce(body.kind, inner, body.axes)
    while isinstance(body, Select) and isinstance(body.otherwise, Undef):
        body = body.then
    return body


def defined_where(body: Expr) -> list[Expr]:
    """The conditions, all of which must hold for a body to be defined."""
    if isinstance(body, Reduce):
        body = body.body
    found: list[Expr] = []
    while isinstance(body, Select) and isinstance(body.otherwise, Undef):
        found += conjuncts(body.condition)
        body = body.then
    return found


def conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        return [*conjuncts(condition.lhs), *conjuncts(condition.rhs)]
    return [condition]


def undef_unless(body: Expr, conditions: Sequence[Expr]) -> Expr:
    """A body that is undefined unless all conditions hold."""
    for condition in conditions:
        body = Select(condition, body, Undef(body.dtype))
    return body


def where_defined(copy: Computation, original: Computation) -> Computation:
    """``copy``, which copies the result of ``original`` over the same axes, with the same cells undefined."""
    conditions = defined_where(original.bodies[0]) if len(original.bodies) == 1 else []
    bodies = tuple(undef_unless(body, conditions[::-1]) for body in copy.bodies)
    return replace(copy, bodies=bodies) if conditions else copy


@lru_cache(maxsize=4096)
def defined(computation: Computation) -> Computation:
    """The computation without the conditions under which it is defined; the same object if there are none."""
    bodies = tuple(without_undef(body) for body in computation.bodies)
    if all(new is old for new, old in zip(bodies, computation.bodies, strict=True)):
        return computation
    return replace(computation, bodies=bodies)
