"""Conditions on axes as bounds over loops, for domains that are not boxes.

A comparison of linear expressions becomes a linear bound that must be at least 0; ``and`` becomes a minimum of bounds,
``or`` a maximum. So a domain is a set of constraints like those of split tails, and partitioning cuts it into boxes.
Other conditions (on a product of axes, on data) stay expressions, evaluated point by point.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from lathe.frontend.arith.index_interpreter import Forms, form_of
from lathe.frontend.arith.linear import Bound, Box, Linear, LoopVariable, add, scale
from lathe.frontend.arith.loop_bounds import bound_forms, flat_extremum
from lathe.frontend.expr.arithmetic import neutral_element
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
    """Bounds that are >= 0 at all points of a computation's domain; conditions that no bound expresses are left out."""
    bounds = (bound_of(each, True, roots, box) for each in conjuncts(computation.where))
    return [each for each in bounds if each is not None]


def residual_condition(computation: Computation) -> Expr | None:
    """The part of the condition on a computation's domain that bounds cannot express; None if there is none."""
    return conjunction(each for each in conjuncts(computation.where) if not is_linear(each))


def instance_condition(computation: Computation) -> Expr | None:
    """The condition under which an iteration within the loop bounds executes an instance; None: always.

    Updates that the ``where`` of a reduction excludes are not executed. Their condition is evaluated point by point
    even if bounds could express it, so that domains stay boxes.
    """
    updates = [
        _contributes(body.body, body.kind) if isinstance(body, Reduce) and isinstance(body.body, Select) else None
        for body in computation.bodies
    ]
    return _both(residual_condition(computation), _any_of(updates))


_NEVER = Const(0, "bool")


def _contributes(expr: Expr, kind: str) -> Expr | None:
    """Where a value may differ from the neutral element of the reduction that it enters; None: everywhere."""
    if isinstance(expr, Const) and expr.value == neutral_element(kind, expr.dtype):
        return _NEVER
    if not isinstance(expr, Select):
        return None
    if isinstance(expr.otherwise, Undef):  # bounds exclude these instances already
        return _contributes(expr.then, kind)
    then, otherwise = _contributes(expr.then, kind), _contributes(expr.otherwise, kind)
    if then is None and otherwise is None:
        return None
    return _any_of([_both(expr.condition, then), _both(Not(expr.condition), otherwise)])


def _any_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """The disjunction of conditions, where None stands for a condition that always holds."""
    disjunction: Expr = _NEVER
    for condition in conditions:
        if condition is None:
            return None
        if condition is not _NEVER:
            disjunction = condition if disjunction is _NEVER else Binary("or", disjunction, condition)
    return disjunction


def _both(one: Expr | None, other: Expr | None) -> Expr | None:
    """The conjunction of two conditions, where None stands for a condition that always holds."""
    if one is None or other is _NEVER:
        return other
    if other is None or one is _NEVER:
        return one
    return Binary("and", one, other)


def over_approximation(condition: Expr | None) -> tuple[Expr | None, bool]:
    """A data-independent over-approximation of a condition (None: always true), and whether it is exact."""
    if condition is None or not reads_data(condition):
        return condition, True
    return _possible(condition, True), False


def _possible(condition: Expr, value: bool) -> Expr | None:
    """A data-independent condition that holds wherever ``condition`` can have ``value``; None: always true."""
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
    """Whether bounds can express a condition on axes."""
    loops = defaultdict[Axis, Bound](lambda: Linear.of(LoopVariable("i", 1)))
    return bound_of(condition, True, loops) is not None


def conjuncts(condition: Expr | None) -> Iterator[Expr]:
    """The conjuncts of a condition; none for None."""
    if condition is None:
        return
    if isinstance(condition, Binary) and condition.op == "and":
        yield from conjuncts(condition.lhs)
        yield from conjuncts(condition.rhs)
    else:
        yield condition


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """The conjunction of conditions; None if there are none."""
    whole: Expr | None = None
    for each in conditions:
        whole = each if whole is None else Binary("and", whole, each)
    return whole


def guards_of(condition: Expr, holds: bool) -> Iterator[Guard]:
    """The guards that must all be satisfied for a condition to be ``holds``."""
    if isinstance(condition, Binary) and condition.op == ("and" if holds else "or"):
        yield from guards_of(condition.lhs, holds)
        yield from guards_of(condition.rhs, holds)
    elif isinstance(condition, Not):
        yield from guards_of(condition.operand, not holds)
    else:
        yield condition, holds


def bound_of(condition: Expr, holds: bool, roots: Mapping[Axis, Bound], box: Box | None = None) -> Bound | None:
    """A bound that is >= 0 exactly where a condition is ``holds``, given the values of axes; None if no bound is.

    >>> from lathe.frontend.arith.linear import LoopVariable
    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> loops = {axis: LoopVariable(axis.name, 8) for axis in (i, j)}
    >>> roots = {axis: Linear.of(loop) for axis, loop in loops.items()}
    >>> box = {loop: (0, 7) for loop in loops.values()}
    >>> bound_of((j + 0 <= i) & (j + 0 != 3), True, roots, box)
    min(-j + i, max(j - 4, -j + 2))
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
