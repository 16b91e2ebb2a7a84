"""Index expressions as linear functions of a chunk's loops."""

from collections.abc import Mapping, Sequence

from lathe.frontend import as_affine
from lathe.frontend.expressions import Axis, AxisRef, Binary, Cast, Const, Expr
from lathe.scheduler.chunk import Index
from lathe.scheduler.linear import Linear, LoopVariable, floor_divide


def linear_index(expr: Expr, axes: Mapping[Axis, Linear]) -> Linear | None:
    """An index expression in terms of loop variables, or None if it is not quasi-linear."""
    affine = as_affine(expr)
    if affine is not None:
        result = Linear(affine.const)
        for axis, factor in affine.coefficients.items():
            result += axes[axis] * factor
        return result
    match expr:
        case AxisRef(axis=axis):
            return axes[axis]
        case Cast(operand=operand, dtype="index"):
            return linear_index(operand, axes)
        case Binary(op="add" | "sub" as op, lhs=lhs, rhs=rhs):
            left, right = linear_index(lhs, axes), linear_index(rhs, axes)
            if left is None or right is None:
                return None
            return left + right if op == "add" else left - right
        case (
            Binary(op="mul", lhs=operand, rhs=Const(value=value))
            | Binary(op="mul", lhs=Const(value=value), rhs=operand)
        ):
            inner = linear_index(operand, axes)
            return None if inner is None else inner * value
        case Binary(op="floordiv" | "mod" as op, lhs=operand, rhs=Const(value=value)) if value > 0:
            inner = linear_index(operand, axes)
            if inner is None:
                return None
            quotient = floor_divide(inner, value)
            return quotient if op == "floordiv" else inner - quotient * value
    return None


def index_in_loops(
    value: Linear, loops: Sequence[tuple[LoopVariable, int]], environment: Mapping[LoopVariable, int]
) -> Index | None:
    """A linear expression with the outer loops' values put in; None where a division mixes the chunk's own loops."""
    constant = value.constant
    coefficients = [0] * len(loops)
    position = {variable: n for n, (variable, _) in enumerate(loops)}
    for atom, coefficient in value.terms.items():
        if isinstance(atom, LoopVariable):
            if atom in position:
                coefficients[position[atom]] += coefficient
            else:
                constant += coefficient * environment[atom]
            continue
        inner = index_in_loops(atom.numerator, loops, environment)
        if inner is None:
            return None
        divisor = atom.divisor
        rest = sum((c % divisor) * (loops[n][1] - 1) for n, c in enumerate(inner.coefficients) if c % divisor)
        if inner.constant % divisor + rest >= divisor:
            return None
        constant += coefficient * (inner.constant // divisor)
        for n, c in enumerate(inner.coefficients):
            if c % divisor == 0:
                coefficients[n] += coefficient * (c // divisor)
    return Index(constant, tuple(coefficients))
