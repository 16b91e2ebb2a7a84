"""Typing rules of tensor expressions, and the functions that build expressions under them.

- Both operands of an operator have the same dtype. A Python integer takes the dtype of the other operand and must fit.
- Expressions of axes and integers only have dtype ``index``: integers that do not wrap around.
- Logic (``&``, ``|``, ``~``) is for ``bool``, arithmetic for everything else; comparisons give ``bool``.
"""

import builtins
import operator
from collections.abc import Callable, Mapping, Sequence

from lathe.configs.integers import integer
from lathe.frontend.expr.dtypes import BOOL, DTYPES, INDEX, TENSOR_DTYPES, checked_dtype
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.expr_base import BinaryOp, CompareOp, Expr, Operand, ReduceKind, Value
from lathe.frontend.expr.identities import simplify_identity
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Compare, Const, Not, Reduce, Select
from lathe.frontend.expr.text import format_operand

SYMBOLS: Mapping[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "shr": ">>", "shl": "<<", "and": "&", "or": "|",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "min": "min", "max": "max", "not": "~",
    "select": "select", "rounding_shift": "rounding_shift",
}  # fmt: skip

_LOGICAL = ("and", "or")

_FOLD: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "min": builtins.min, "max": builtins.max,
}  # fmt: skip


def expression(value: object, where: str = "operand of an expression") -> Expr:
    """``value`` as an expression: an axis becomes its value, an integer a constant of dtype ``index``.

    Raises TensorError for anything else; ``where`` names the value in the message.
    """
    operand = _operand(value, where)
    return Const(operand, INDEX) if isinstance(operand, int) else operand


def _operand(value: object, where: str) -> Expr | int:
    if isinstance(value, Expr):
        return value
    if isinstance(value, Axis):
        return AxisRef(value)
    symbol = getattr(value, "expr", None)
    if isinstance(symbol, Expr):  # the extent of a tensor whose shape has parameters
        return symbol
    number = integer(value)
    if number is not None:
        return number
    if isinstance(value, Operand):
        name = getattr(value, "name", "A")
        raise TensorError(
            f"{where} must be an expression, not the whole tensor {name!r}. "
            f"Read an element of it, as in {name}[i, j] inside compute()."
        )
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        raise TensorError(
            f"{where} must be an expression, not the Python value {value!r}. "
            'Write const(True, "bool") for a constant truth value; comparing two axes needs an index expression on '
            "one side, as in i + 0 == j."
        )
    raise TensorError(f"{where} must be an expression, an axis or an integer, not {shown(value)}.")


def const(value: int | Expr, dtype: str) -> Expr:
    """A constant of the given dtype; ``value`` may also be another constant.

    Raises TensorError when the dtype is unknown or does not hold the value.
    """
    if isinstance(value, Const) and value.dtype != BOOL:
        value = value.value
    if isinstance(value, bool) and dtype == BOOL:
        return Const(int(value), BOOL)
    name = checked_dtype(dtype, "a constant", index=True)
    number = integer(value)
    if number is None:
        raise TensorError(f"value of a constant must be an integer, not {shown(value)}.")
    if not fits(number, name):
        raise TensorError(f"value of a constant of dtype {name} must be {_range(name)}, not {number}.")
    return Const(number, name)


def cast(value: Value, dtype: str) -> Expr:
    """``value`` converted to ``dtype``; see ``Operand.astype``."""
    operand = expression(value, "operand of astype")
    name = checked_dtype(dtype, f"the conversion of {operand}", index=True)
    return operand if operand.dtype == name else Cast(operand, name)


def fits(value: int, dtype: str) -> bool:
    """Whether a value is in the range of a dtype."""
    return DTYPES[dtype].minimum <= value <= DTYPES[dtype].maximum


def _range(dtype: str) -> str:
    return f"{DTYPES[dtype].minimum} to {DTYPES[dtype].maximum}"


def as_source(op: str, *operands: object) -> str:
    """An operation in source form, for messages."""
    symbol = SYMBOLS.get(op, op)
    parts = [AxisRef(part) if isinstance(part, Axis) else part for part in operands]
    if symbol[0].isalpha():
        return f"{symbol}({', '.join(short(str(part)) for part in parts)})"
    parts = [short(format_operand(part) if isinstance(part, Expr) else str(part)) for part in parts]
    return f"{parts[0]} {symbol} {parts[1]}" if len(parts) == 2 else f"{symbol}{parts[0]}"


def converted(expr: Expr, dtype: str) -> str:
    """A conversion of ``expr`` in source form, for messages."""
    return f'{short(format_operand(expr))}.astype("{dtype}")'


def short(text: str) -> str:
    """``text`` truncated to 60 characters, for messages."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def unified(op: str, lhs: object, rhs: object) -> tuple[Expr, Expr]:
    """Both operands as expressions of the same dtype; a Python integer takes the dtype of the other operand.

    Raises TensorError when the dtypes differ or the integer does not fit.
    """
    where = f"operand of {SYMBOLS.get(op, op)}"
    left, right = _operand(lhs, where), _operand(rhs, where)
    if isinstance(left, int) and isinstance(right, int):
        return Const(left, INDEX), Const(right, INDEX)
    if isinstance(left, int):
        assert isinstance(right, Expr)
        return _typed_constant(left, right, op, lhs, rhs), right
    if isinstance(right, int):
        return left, _typed_constant(right, left, op, lhs, rhs)
    if left.dtype != right.dtype:
        raise TensorError(
            f"operands of {as_source(op, left, right)} must have one dtype, not {left.dtype} and {right.dtype}. "
            f"{_conversion_remedy(left, right)}"
        )
    return left, right


def _typed_constant(value: int, other: Expr, op: str, lhs: object, rhs: object) -> Expr:
    if other.dtype == BOOL:
        raise TensorError(
            f"operands of {as_source(op, lhs, rhs)} must have one dtype, not bool and an integer. "
            f"Convert the truth value first, as in {converted(other, 'int32')}."
        )
    if not fits(value, other.dtype):
        wider = next((name for name in TENSOR_DTYPES if fits(value, name) and DTYPES[name].minimum < 0), None)
        remedy = f" Convert the other operand first, as in {converted(other, wider)}." if wider else ""
        raise TensorError(
            f"constant of {as_source(op, lhs, rhs)} must fit {other.dtype}, {_range(other.dtype)}, not {value}.{remedy}"
        )
    return Const(value, other.dtype)


def _conversion_remedy(left: Expr, right: Expr) -> str:
    """The remedy for operands of different dtypes: convert to the wider one, but never data to ``index``."""
    narrow, wide = left, right
    if DTYPES[left.dtype].bits > DTYPES[right.dtype].bits or right.dtype == INDEX:
        narrow, wide = right, left
    if left.dtype == INDEX:
        narrow, wide = left, right
    return f"Convert one of them, as in {converted(narrow, wide.dtype)}."


def binary(op: BinaryOp, lhs: object, rhs: object) -> Expr:
    """Build the operation ``op`` on two operands under the typing rules; index arithmetic is folded."""
    left, right = unified(op, lhs, rhs)
    if (left.dtype == BOOL) != (op in _LOGICAL):
        contract = "bool" if op in _LOGICAL else "integers"
        remedy = "Compare first, as in x != 0." if op in _LOGICAL else 'Convert first, as in x.astype("int32").'
        raise TensorError(f"operands of {as_source(op, left, right)} must be {contract}, not {left.dtype}. {remedy}")
    if op in ("floordiv", "mod") and isinstance(right, Const) and right.value == 0:
        raise TensorError(f"divisor of {as_source(op, left, right)} must be nonzero, not 0.")
    return _folded(op, left, right) if left.dtype == INDEX else Binary(op, left, right)


def _folded(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """Index arithmetic with constants folded, which keeps subscripts readable and affine."""
    if isinstance(right, Const):
        value = right.value
        if op in ("shr", "shl") and -63 < value < 63:
            op, value = ("mul" if (op == "shl") == (value >= 0) else "floordiv"), 1 << abs(value)
        right = right if value == right.value else Const(value, INDEX)
        if isinstance(left, Const) and op in _FOLD:
            return _checked_index(_FOLD[op](left.value, value), op, left, right)
    simplified = simplify_identity(op, left, right)
    return Binary(op, left, right) if simplified is None else simplified


def _checked_index(value: int, op: str, left: Expr, right: Expr) -> Expr:
    if not fits(value, INDEX):
        raise TensorError(f"value of {as_source(op, left, right)} must fit in 64 bits, not be {value}.")
    return Const(value, INDEX)


def rounding_shift(value: Value, amount: Value) -> Expr:
    """``value`` / 2**amount rounded to the nearest integer, ties to even, exactly.

    A negative amount shifts left, as with ``>>``. Both operands and the result have the same dtype; a Python integer
    takes that of the other operand. Raises TensorError when the dtypes differ.
    """
    return binary("rounding_shift", value, amount)


def comparison(op: CompareOp, lhs: object, rhs: object) -> Expr:
    """A comparison of dtype ``bool``; operands of dtype ``bool`` can only be compared by == and !=."""
    left, right = unified(op, lhs, rhs)
    if left.dtype == BOOL and op not in ("eq", "ne"):
        raise TensorError(f"operands of {as_source(op, left, right)} must be integers, not bool.")
    return Compare(op, left, right)


def negation(value: object) -> Expr:
    """Logical negation of a ``bool``."""
    operand = _operand(value, "operand of ~")
    if isinstance(operand, int) or operand.dtype != BOOL:
        dtype = "an integer" if isinstance(operand, int) else operand.dtype
        raise TensorError(
            f"operand of {as_source('not', operand)} must be bool, not {dtype}. Compare first, as in x != 0."
        )
    return Not(operand)


def select(condition: Value, then: Value, otherwise: Value) -> Expr:
    """``then`` where ``condition`` (bool) holds, else ``otherwise``; reads in the branch not taken do not happen.

    Both branches have the same dtype; a Python integer takes that of the other branch. Raises TensorError otherwise.
    """
    guard = _operand(condition, "condition of select")
    if isinstance(guard, int) or guard.dtype != BOOL:
        dtype = "an integer" if isinstance(guard, int) else guard.dtype
        raise TensorError(
            f"condition of select must be bool, not {dtype}: {as_source('select', guard, then, otherwise)}. "
            "Compare first, as in x != 0."
        )
    return Select(guard, *unified("select", then, otherwise))


def sum(expr: Value, axis: Axis | Sequence[Axis], *, where: Value | None = None) -> Expr:
    """Sum reduction of ``expr`` over one or several reduction axes; wraps around at the width of the dtype.

    With a condition ``where``, only points at which it holds are added, and ``expr`` reads nothing elsewhere:
    ``sum(A[x - r], axis=r, where=x >= r)`` needs no other guard. An empty sum is 0.

    A reduction must be the outermost operation of a computation's body. Raises TensorError for an operand of dtype
    bool, wrong axes, or a condition that is not bool.
    """
    return _reduce("sum", expr, axis, where)


def prod(expr: Value, axis: Axis | Sequence[Axis], *, where: Value | None = None) -> Expr:
    """Product reduction of ``expr`` over one or several reduction axes; wraps around at the width of the dtype.

    ``where`` and the errors are those of ``sum``; an empty product is 1.
    """
    return _reduce("prod", expr, axis, where)


def max(
    expr: Value, other: Value | None = None, *, axis: Axis | Sequence[Axis] | None = None, where: Value | None = None
) -> Expr:
    """With ``axis``, the maximum over reduction axes; with two expressions, the larger of the two at each point.

    A reduction may have a condition ``where``, as ``sum``; an empty maximum is the smallest value of the dtype.
    """
    return _extremum("max", expr, other, axis, where)


def min(
    expr: Value, other: Value | None = None, *, axis: Axis | Sequence[Axis] | None = None, where: Value | None = None
) -> Expr:
    """With ``axis``, the minimum over reduction axes; with two expressions, the smaller of the two at each point.

    A reduction may have a condition ``where``, as ``sum``; an empty minimum is the largest value of the dtype.
    """
    return _extremum("min", expr, other, axis, where)


def neutral_element(kind: str, dtype: str) -> int:
    """The neutral element of a reduction, from which it starts."""
    return {"sum": 0, "prod": 1, "max": DTYPES[dtype].minimum, "min": DTYPES[dtype].maximum}[kind]


def _extremum(
    kind: ReduceKind, expr: Value, other: Value | None, axis: Axis | Sequence[Axis] | None, where: Value | None
) -> Expr:
    if (other is None) == (axis is None):
        given = "neither" if axis is None else "both"
        raise TensorError(
            f"{kind} must be given either a second expression or axis=, not {given}: "
            f"{kind}(x, y) is element-wise, {kind}(x, axis=k) reduces."
        )
    if axis is not None:
        return _reduce(kind, expr, axis, where)
    if where is not None:
        raise TensorError(
            f"where of {kind} must be given with axis=, not with a second expression: where selects the points that "
            f"are reduced. Use select for an element-wise {kind}."
        )
    assert other is not None
    return binary("max" if kind == "max" else "min", expr, other)


def _reduce(kind: ReduceKind, expr: Value, axis: Axis | Sequence[Axis], where: Value | None) -> Expr:
    body = expression(expr, f"operand of {kind}")
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis) if isinstance(axis, Sequence) else ()
    if not axes:
        raise TensorError(
            f"axis of {kind} must be a reduction axis or a sequence of them, not {shown(axis)}. "
            'Make one with reduce_axis((start, stop), name="k").'
        )
    for each in axes:
        if not isinstance(each, Axis) or each.kind != "reduce":
            name = str(each) if isinstance(each, Expr) else getattr(each, "name", shown(each))
            raise TensorError(
                f"axis of {kind} must be a reduction axis, not {name}. "
                'Make one with reduce_axis((start, stop), name="k").'
            )
    if len(set(axes)) != len(axes):
        raise TensorError(f"axes of {kind} must be different, not {', '.join(each.name for each in axes)}.")
    if body.dtype in (BOOL, INDEX):
        raise TensorError(
            f"operand of {kind} must be integers of a tensor dtype, not {body.dtype}: {body}. "
            'Convert it first, as in x.astype("int32").'
        )
    if where is not None:
        guard = _operand(where, f"where of {kind}")
        if isinstance(guard, int) or guard.dtype != BOOL:
            dtype = "an integer" if isinstance(guard, int) else guard.dtype
            raise TensorError(f"where of {kind} must be bool, not {dtype}: {guard}. Compare first, as in x != 0.")
        body = Select(guard, body, Const(neutral_element(kind, body.dtype), body.dtype))
    return Reduce(kind, body, axes)
