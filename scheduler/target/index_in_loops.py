"""Index expressions in terms of loop variables, and as linear functions of a chunk's loops."""

from collections.abc import Mapping, Sequence

from lathe.frontend import as_affine
from lathe.frontend.expressions import Axis, AxisRef, Binary, Cast, Compare, Const, Expr
from lathe.frontend.indices.linear import Bound, Extremum, Linear, LoopVariable, add, divide, scale
from lathe.scheduler.target.chunk import Index


def bound_index(expr: Expr, axes: Mapping[Axis, Bound]) -> Bound | None:
    """An index expression over axes whose values are bounds of loop variables, or None if it is not quasi-linear."""
    affine = as_affine(expr)
    if affine is not None:
        result: Bound = Linear(affine.const)
        for axis, factor in affine.coefficients.items():
            result = add(result, scale(axes[axis], factor))
        return result
    match expr:
        case AxisRef(axis=axis):
            return axes[axis]
        case Cast(operand=operand, dtype="index"):
            return bound_index(operand, axes)
        case Binary(op="add" | "sub" as op, lhs=lhs, rhs=rhs):
            left, right = bound_index(lhs, axes), bound_index(rhs, axes)
            if left is None or right is None:
                return None
            return add(left, right if op == "add" else scale(right, -1))
        case (
            Binary(op="mul", lhs=operand, rhs=Const(value=value))
            | Binary(op="mul", lhs=Const(value=value), rhs=operand)
        ):
            inner = bound_index(operand, axes)
            return None if inner is None else scale(inner, value)
        case Binary(op="floordiv" | "mod" as op, lhs=operand, rhs=Const(value=value)) if value > 0:
            inner = bound_index(operand, axes)
            if inner is None:
                return None
            quotient = divide(inner, value)
            return quotient if op == "floordiv" else add(inner, scale(quotient, -value))
    return None


def linear_index(expr: Expr, axes: Mapping[Axis, Linear]) -> Linear | None:
    """The same over axes that are linear in the loop variables, where the result is, too."""
    index = bound_index(expr, axes)
    assert not isinstance(index, Extremum), f"{expr} is {index} in linear axes"
    return index


def condition_bound(condition: Expr, axes: Mapping[Axis, Bound]) -> Bound | None:
    """What must be at least 0 for a comparison of indices (not for equality) to hold; None for another condition."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    left, right = bound_index(condition.lhs, axes), bound_index(condition.rhs, axes)
    if left is None or right is None:
        return None
    more, less = (left, right) if condition.op in ("gt", "ge") else (right, left)
    return add(add(more, scale(less, -1)), Linear(-1 if condition.op in ("gt", "lt") else 0))


class Bend(Exception):  # noqa: N818 - no error: the chunk is cut there
    """An index is linear on both sides only if loop ``loop`` of a chunk is cut after ``count`` iterations."""

    def __init__(self, loop: int, count: int) -> None:
        super().__init__(loop, count)
        self.loop = loop
        self.count = count


def index_in_loops(
    value: Linear, loops: Sequence[tuple[LoopVariable, range]], environment: Mapping[LoopVariable, int]
) -> Index:
    """A linear expression in the iterations of a chunk's loops, each over a range; the outer loops' values are put in.

    Raises Bend where a division does not come out even for the whole of the ranges.
    """
    constant = value.constant
    coefficients = [0] * len(loops)
    position = {variable: n for n, (variable, _) in enumerate(loops)}
    for atom, coefficient in value.terms.items():
        if isinstance(atom, LoopVariable):
            if atom in position:
                coefficients[position[atom]] += coefficient
                constant += coefficient * loops[position[atom]][1].start
            else:
                constant += coefficient * environment[atom]
            continue
        inner = index_in_loops(atom.numerator, loops, environment)
        divisor = atom.divisor
        reach = {n: c % divisor * (len(loops[n][1]) - 1) for n, c in enumerate(inner.coefficients) if c % divisor}
        room = divisor - 1 - inner.constant % divisor
        if sum(reach.values()) > room:
            widest = max(reach, key=lambda n: (reach[n] > 0, inner.coefficients[n] % divisor))
            left = room - sum(reach.values()) + reach[widest]
            step = inner.coefficients[widest] % divisor
            raise Bend(widest, min(max(left, 0) // step + 1, len(loops[widest][1]) - 1))
        constant += coefficient * (inner.constant // divisor)
        for n, c in enumerate(inner.coefficients):  # the remainders never carry, so only whole quotients are left
            coefficients[n] += coefficient * (c // divisor)
    return Index(constant, tuple(coefficients))
