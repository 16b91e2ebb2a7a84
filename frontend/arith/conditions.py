"""Conditions on the axes of a computation as bounds over loops, for domains that are no boxes.

A comparison of linear expressions is a linear bound that must be at least 0; ``and`` is a minimum of bounds, ``or`` a
maximum. So a domain becomes constraints of the kind that tails of splits are, and partitioning makes boxes of it. What
is not of this form (a product of axes, a condition on data) stays an expression, evaluated point by point.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from lathe.frontend.arith.index_interpreter import Forms, form_of
from lathe.frontend.arith.linear import Bound, Box, Linear, LoopVariable, add, scale
from lathe.frontend.arith.loop_bounds import bound_forms, flat_extremum
from lathe.frontend.expr.arithmetic import neutral
from lathe.frontend.expr.expr_base import CompareOp, Expr
from lathe.frontend.expr.nodes import (
    Axis,
    Binary,
    Compare,
    Computation,
    Const,
    Guard,
    Not,
    Reduce,
    Select,
    Undef,
    reads_data,
)

OPPOSITE: Mapping[CompareOp, CompareOp] = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def bounds_of(computation: Computation, roots: Mapping[Axis, Bound], box: Box) -> list[Bound]:
    """What must be >= 0 at the points of a computation's domain, as far as bounds can say it."""
    found = (bound_of(each, True, roots, box) for each in conjuncts(computation.where))
    return [each for each in found if each is not None]


def mask_of(computation: Computation) -> Expr | None:
    """The part of the condition on a computation's domain that no bounds can say."""
    return conjunction(each for each in conjuncts(computation.where) if not is_linear(each))


def happens(computation: Computation) -> Expr | None:
    """Whether there is an instance at a point that the bounds of loops let through; None: at all of them.

    An update that the ``where`` of a reduction leaves out is none. Its condition is evaluated point by point, even if
    bounds could say it, so that boxes stay whole.
    """
    updates = [
        _taken_in(body.body, body.kind) if isinstance(body, Reduce) and isinstance(body.body, Select) else None
        for body in computation.bodies
    ]
    return _both(mask_of(computation), _any_of(updates))


_NEVER = Const(0, "bool")


def _taken_in(expr: Expr, kind: str) -> Expr | None:
    """Where a value to be taken into a reduction is not what changes nothing there; None: everywhere."""
    if isinstance(expr, Const) and expr.value == neutral(kind, expr.dtype):
        return _NEVER
    if not isinstance(expr, Select):
        return None
    if isinstance(expr.otherwise, Undef):  # there is no such instance: bounds say so
        return _taken_in(expr.then, kind)
    then, otherwise = _taken_in(expr.then, kind), _taken_in(expr.otherwise, kind)
    if then is None and otherwise is None:
        return None
    return _any_of([_both(expr.condition, then), _both(Not(expr.condition), otherwise)])


def _any_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """Where one of some conditions holds; None: everywhere, and one of them does."""
    found: Expr = _NEVER
    for condition in conditions:
        if condition is None:
            return None
        if condition is not _NEVER:
            found = condition if found is _NEVER else Binary("or", found, condition)
    return found


def _both(one: Expr | None, other: Expr | None) -> Expr | None:
    """Where both conditions hold; None: everywhere."""
    if one is None or other is _NEVER:
        return other
    if other is None or one is _NEVER:
        return one
    return Binary("and", one, other)


def possible(condition: Expr | None) -> tuple[Expr | None, bool]:
    """A condition without data that holds wherever a given one can hold, and whether it is the same; None: anywhere."""
    if condition is None or not reads_data(condition):
        return condition, True
    return _possible(condition, True), False


def _possible(condition: Expr, value: bool) -> Expr | None:
    """Where a condition may have a value, for some data; None: anywhere."""
    if not reads_data(condition):
        return condition if value else Not(condition)
    if isinstance(condition, Not):
        return _possible(condition.operand, not value)
    if not isinstance(condition, Binary) or condition.op not in ("and", "or"):
        return None
    parts = [_possible(part, value) for part in (condition.lhs, condition.rhs)]
    return _both(*parts) if (condition.op == "and") == value else _any_of(parts)


@lru_cache(maxsize=512)
def is_linear(condition: Expr) -> bool:
    """Whether a condition on axes is one that bounds can say."""
    loops = defaultdict[Axis, Bound](lambda: Linear.of(LoopVariable("i", 1)))
    return bound_of(condition, True, loops) is not None


def conjuncts(condition: Expr | None) -> Iterator[Expr]:
    """The conditions that must all hold for one to hold; none for None."""
    if condition is None:
        return
    if isinstance(condition, Binary) and condition.op == "and":
        yield from conjuncts(condition.lhs)
        yield from conjuncts(condition.rhs)
    else:
        yield condition


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """The condition that all of some hold; None for none."""
    whole: Expr | None = None
    for each in conditions:
        whole = each if whole is None else Binary("and", whole, each)
    return whole


def guards_of(condition: Expr, holds: bool) -> Iterator[Guard]:
    """The conditions that must all hold, or all fail, for one to do so."""
    if isinstance(condition, Binary) and condition.op == ("and" if holds else "or"):
        yield from guards_of(condition.lhs, holds)
        yield from guards_of(condition.rhs, holds)
    elif isinstance(condition, Not):
        yield from guards_of(condition.operand, not holds)
    else:
        yield condition, holds


def bound_of(condition: Expr, holds: bool, roots: Mapping[Axis, Bound], box: Box | None = None) -> Bound | None:
    """A bound that is >= 0 exactly where a condition is ``holds``, given the values of axes; None where there is none.

    >>> from lathe.frontend.arith.linear import LoopVariable
    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> loops = {axis: LoopVariable(axis.name, 8) for axis in (i, j)}
    >>> roots = {axis: Linear.of(loop) for axis, loop in loops.items()}
    >>> box = {loop: (0, 7) for loop in loops.values()}
    >>> bound_of((j + 0 <= i) & (j + 0 != 3), True, roots, box)
    min(i - j, max(j - 4, -j + 2))
    """
    return _bound(condition, holds, bound_forms(roots, box))


def _bound(condition: Expr, holds: bool, forms: Forms[Bound]) -> Bound | None:
    match condition:
        case Const(value=value):
            return Linear(0 if bool(value) == holds else -1)
        case Not(operand=operand):
            return _bound(operand, not holds, forms)
        case Binary(op="and" | "or" as op, lhs=lhs, rhs=rhs):
            one, other = (_bound(each, holds, forms) for each in (lhs, rhs))
            if one is None or other is None:
                return None
            return flat_extremum("min" if (op == "and") == holds else "max", one, other)
        case Compare(op=op, lhs=lhs, rhs=rhs):
            left, right = form_of(lhs, forms), form_of(rhs, forms)
            if left is None or right is None:
                return None
            more = add(left, scale(right, -1))
            less = scale(more, -1)
            one = Linear(-1)
            match op if holds else OPPOSITE[op]:
                case "ge":
                    return more
                case "gt":
                    return add(more, one)
                case "le":
                    return less
                case "lt":
                    return add(less, one)
                case "eq":
                    return flat_extremum("min", more, less)
            return flat_extremum("max", add(more, one), add(less, one))
    return None
