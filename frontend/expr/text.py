"""Printer of the algorithm level (L1): domains, expressions and reads, without execution order or buffers."""

from dataclasses import replace

from lathe.frontend.expr.dtypes import BOOL
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Compare,
    Computation,
    Const,
    Not,
    Parameter,
    Read,
    Reduce,
    Select,
    Tensor,
    Undef,
)

# Operator precedence, as in Python; an operand of lower precedence gets parentheses.
_OR, _AND, _NOT, _COMPARE, _SHIFT, _SUM, _PRODUCT, _ATOM = range(8)

_BINARY = {
    "add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "floordiv": ("//", _PRODUCT),
    "mod": ("%", _PRODUCT), "shr": (">>", _SHIFT), "shl": ("<<", _SHIFT), "and": ("and", _AND), "or": ("or", _OR),
}  # fmt: skip

_COMPARISON = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def format_expr(expr: Expr) -> str:
    """The expression on one line, as a user would write it; ``astype`` is written as a call of the dtype."""
    return _format(expr)[0]


def _format(expr: Expr) -> tuple[str, int]:
    match expr:
        case Const(value=value, dtype=dtype):
            if dtype == BOOL:
                return ("true" if value else "false"), _ATOM
            return str(value), _ATOM if value >= 0 else _PRODUCT
        case Undef():
            return "undef", _ATOM
        case AxisRef(axis=axis):
            return axis.name, _ATOM
        case Parameter(name=name):
            return name, _ATOM
        case Read(tensor=tensor, indices=indices):
            return f"{tensor.name}[{', '.join(map(format_expr, indices))}]", _ATOM
        case Cast(operand=operand, dtype=dtype):
            return f"{dtype}({format_expr(operand)})", _ATOM
        case Not(operand=operand):
            return f"not {_within(operand, _NOT)}", _NOT
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"select({format_expr(condition)}, {format_expr(then)}, {format_expr(otherwise)})", _ATOM
        case Reduce(kind=kind, body=body, axes=axes):
            names = ", ".join(axis.name for axis in axes)
            return f"{kind}({format_expr(body)}, axis={names if len(axes) == 1 else f'({names})'})", _ATOM
        case Compare(op=compare, lhs=lhs, rhs=rhs):
            return f"{_within(lhs, _SHIFT)} {_COMPARISON[compare]} {_within(rhs, _SHIFT)}", _COMPARE
        case Binary(op=op, lhs=lhs, rhs=rhs) if op in _BINARY:
            symbol, level = _BINARY[op]
            if op == "add" and isinstance(rhs, Const) and rhs.value < 0:
                symbol, rhs = "-", Const(-rhs.value, rhs.dtype)
            # Python reads a + b >> c as (a + b) >> c; the parentheses are for readability.
            left = _PRODUCT if level == _SHIFT else level
            right = level if op in ("and", "or") else left + 1
            return f"{_within(lhs, left)} {symbol} {_within(rhs, right)}", level
        case Binary(op=op, lhs=lhs, rhs=rhs):
            return f"{op}({format_expr(lhs)}, {format_expr(rhs)})", _ATOM
    raise AssertionError(f"no text form for {type(expr).__name__}")


def _within(expr: Expr, level: int) -> str:
    text, own = _format(expr)
    return text if own >= level else f"({text})"


def format_operand(expr: Expr) -> str:
    """The expression, parenthesised unless it is atomic."""
    return _within(expr, _ATOM)


def format_axis(axis: Axis) -> str:
    """The range of an axis, as ``0 <= i < 16``."""
    if axis.symbolic is not None:
        start, extent = axis.symbolic
        counted = isinstance(start, Const) and start.value == 0
        stop = extent if counted else Binary("add", start, extent)
        return f"{format_expr(start)} <= {axis.name} < {format_expr(stop)}"
    return f"{axis.start} <= {axis.name} < {axis.stop}"


def format_placeholder(tensor: Tensor) -> str:
    """One line that declares an input."""
    return f"placeholder {tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def format_computation(computation: Computation) -> str:
    """A computation in text form: outputs, iteration domain, expressions, and every read with its guards.

    Parameters are printed by name.
    """
    if computation.template is not None:
        template = computation.template
        outputs = computation.outputs
        computation = replace(computation, bodies=template.bodies, where=template.where, template=None)
        computation.__dict__["outputs"] = outputs  # a state keeps its own name
    heads = [f"{tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]" for tensor in computation.outputs]
    lines = [f"compute {', '.join(heads)}"]
    domain = [format_axis(axis) for axis in (*computation.axes, *computation.reduce_axes)]
    if computation.where is not None:
        domain.append(_within(computation.where, _AND))
    lines.append(f"  domain {' and '.join(domain) or 'one point'}")
    if computation.reduce_axes:
        lines.append(f"  reduce {', '.join(axis.name for axis in computation.reduce_axes)}")
    point = ", ".join(axis.name for axis in computation.axes)
    for tensor, body in zip(computation.outputs, computation.bodies, strict=True):
        lines.append(f"  value  {tensor.name}[{point}] = {format_expr(body)}")
    for read in computation.reads:
        line = f"  reads  {read.tensor.name}[{', '.join(map(format_expr, read.indices))}]"
        conditions = [
            format_expr(condition) if holds else f"not ({format_expr(condition)})"
            for condition, holds in read.guards
            if condition is not computation.where  # printed as part of the domain
        ]
        lines.append(line + (f" where {' and '.join(conditions)}" if conditions else ""))
    return "\n".join(lines)
