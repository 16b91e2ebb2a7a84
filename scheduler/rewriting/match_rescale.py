"""Matches requantisation: sums with a bias and a factor per channel, rounded, clipped to 8 bits, and looked up.

A row [bias, word] of parameters holds a bias, and a factor as mantissa (word >> 6) and shift (word % 64). The patterns:

    clamp(rounding_shift(int64(data + bias) * int64(word >> 6) [+ the same of another], int64(word % 64)) + zero_point)
    table[uint8(that), ..]
"""

from dataclasses import dataclass
from functools import lru_cache

from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.frontend.arith.strip_casts import skip_casts, skip_value_preserving_casts
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import BinaryOp, Expr, walk
from lathe.frontend.expr.identities import structurally_equal
from lathe.frontend.expr.nodes import Binary, Cast, Const, Read, reads_data
from lathe.frontend.tensor.rescale_parameters import SHIFT_BITS

BYTES = ("int8", "uint8")
_IN_ACCUMULATORS = ("int8", "uint8", "int16", "uint16", "int32")


@dataclass(frozen=True)
class Term:
    """One term of a rescaling: ``data`` + ``bias``, wrapped at 32 bits, times the mantissa of ``word``."""

    data: Read
    bias: Read
    word: Read


@dataclass(frozen=True)
class Rescaling:
    """One term or the sum of two, shifted by the low bits of ``shift``, plus ``zero_point``, clipped to ``dtype``.

    ``shift`` is the word of the first term; ``relu``: values are clipped to the zero point from below. ``table``: the
    read of a table at the result, which is its first index.
    """

    terms: tuple[Term, ...]
    shift: Read
    zero_point: int
    dtype: str
    relu: bool
    table: Read | None = None

    @property
    def parameters(self) -> tuple[Read, ...]:
        """The reads of parameters."""
        return (self.shift, *(read for term in self.terms for read in (term.bias, term.word)))


@lru_cache(maxsize=4096)
def match_rescale(expr: Expr) -> Rescaling | None:
    """The rescaling that an expression computes; None if it is no rescaling."""
    if isinstance(expr, Read):
        return _looked_up(expr)
    return _rescaled(expr, None)


def table_index(read: Read) -> Expr | None:
    """The row at which a table of 256 rows is read, if it is an 8-bit value computed from data; else None."""
    if not read.indices or read.tensor.shape[0] != TABLE_ELEMENTS or read.dtype not in BYTES:
        return None
    index = read.indices[0]
    if not isinstance(index, Cast):
        return None
    value = index.operand
    if isinstance(value, Cast) and value.dtype == "uint8" and value.operand.dtype == "int8":
        value = value.operand
    return value if value.dtype in BYTES and reads_data(value) else None


def _looked_up(read: Read) -> Rescaling | None:
    value = table_index(read)
    return None if value is None else _rescaled(value, read)


def explain_no_rescale(expr: Expr) -> str:
    """The constraint of a rescaling that an expression in int64 fails, for errors; "" if it is one."""
    value = table_index(expr) if isinstance(expr, Read) else expr
    found = _rescaled_or_why(expr if value is None else value, None)
    if isinstance(found, str) and any(_rescaled(part, None) is not None for part in walk(expr)):
        return f"the rescaling must be all that a stage computes, not a part of {expr}"
    return found if isinstance(found, str) else ""


def _rescaled(expr: Expr, table: Read | None) -> Rescaling | None:
    found = _rescaled_or_why(expr, table)
    return None if isinstance(found, str) else found


def _rescaled_or_why(expr: Expr, table: Read | None) -> Rescaling | str:
    if not isinstance(expr, Cast) or expr.dtype not in BYTES or expr.operand.dtype != "int64":
        return "the clipped value must be converted to int8 or uint8 at the end"
    clipped = _clipped(expr.operand)
    if clipped is None:
        return "the value must be clipped to two constants at the end"
    value, low, high = clipped
    point = 0
    offset = _with_constant(value, "add")
    if offset is not None:
        value, point = offset
    limits = DTYPES[expr.dtype]
    if not limits.minimum <= point <= limits.maximum:
        return f"the zero point must be from {limits.minimum} to {limits.maximum}, not {point}"
    if high != limits.maximum or low not in (limits.minimum, point):
        return (
            f"the value must be clipped to {limits.minimum}..{limits.maximum}, or from its zero point {point} on, not "
            f"to {low}..{high}"
        )
    if isinstance(value, Binary) and value.op == "add":
        return f"the zero point must be one constant, not {value.rhs}"
    if not isinstance(value, Binary) or value.op != "rounding_shift":
        return f"the product must be shifted by rounding_shift, not {value}"
    word = _bits_of_word(value.rhs, "mod", 1 << SHIFT_BITS)
    if word is None:
        return f"the shift must be the low bits of a word of parameters, word % 64, not {value.rhs}"
    terms = _terms(value.lhs, word)
    if terms is None:
        return f"the product must be of rows [bias, word] of one tensor of parameters, not {value.lhs}"
    return Rescaling(terms, word, point, expr.dtype, low != limits.minimum, table)


def _clipped(expr: Expr) -> tuple[Expr, int, int] | None:
    """The operand and the range of a clip; None if an expression is no clip."""
    orders: tuple[tuple[BinaryOp, BinaryOp], ...] = (("min", "max"), ("max", "min"))
    for first, second in orders:
        outer = _with_constant(expr, first)
        inner = None if outer is None else _with_constant(outer[0], second)
        if outer is not None and inner is not None:
            low, high = (inner[1], outer[1]) if first == "min" else (outer[1], inner[1])
            return (inner[0], low, high) if low <= high else None
    return None


def _with_constant(expr: Expr, op: BinaryOp) -> tuple[Expr, int] | None:
    """The other operand of a commutative operation with a constant, and the constant."""
    if isinstance(expr, Binary) and expr.op == op:
        for value, constant in ((expr.lhs, expr.rhs), (expr.rhs, expr.lhs)):
            if isinstance(constant, Const):
                return value, constant.value
    return None


def _terms(total: Expr, word: Read) -> tuple[Term, ...] | None:
    """The one or two terms of a sum, the one whose word has the shift first; None if it does not match."""
    parts = [total]
    if isinstance(total, Binary) and total.op == "add":
        parts = [total.lhs, total.rhs]
    terms = [_term(part) for part in parts]
    if any(term is None for term in terms):
        return None
    found = [term for term in terms if term is not None]
    found.sort(key=lambda term: not structurally_equal(term.word, word))
    return tuple(found) if structurally_equal(found[0].word, word) and _are_rows_of_one(found) else None


def _are_rows_of_one(terms: list[Term]) -> bool:
    """Whether the parameters of two terms are rows 0 and 1 of one tensor."""
    if len(terms) == 1:
        return True
    first, second = (term.word for term in terms)
    if first.tensor is not second.tensor or len(first.indices) < 2 or first.tensor.shape[-2] != 2:
        return False
    rows = [skip_casts(each.indices[-2]) for each in (first, second)]
    others = zip(first.indices[:-2], second.indices[:-2], strict=True)
    which = [row.value if isinstance(row, Const) else None for row in rows]
    return which == [0, 1] and all(structurally_equal(a, b) for a, b in others)


def _term(expr: Expr) -> Term | None:
    if not isinstance(expr, Binary) or expr.op != "mul" or expr.dtype != "int64":
        return None
    for value, factor in ((expr.lhs, expr.rhs), (expr.rhs, expr.lhs)):
        word = _bits_of_word(factor, "shr", SHIFT_BITS)
        total = skip_value_preserving_casts(value)
        if word is None or not isinstance(total, Binary) or total.op != "add" or total.dtype != "int32":
            continue
        for data, bias in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
            read = skip_value_preserving_casts(data)
            if isinstance(bias, Read) and isinstance(read, Read) and _is_bias_of(bias, word):
                return Term(read, bias, word) if read.dtype in _IN_ACCUMULATORS else None
    return None


def _bits_of_word(expr: Expr, op: str, constant: int) -> Read | None:
    """The word of parameters from which an expression extracts bits; None if it does not."""
    inside = skip_value_preserving_casts(expr)
    if isinstance(inside, Binary) and inside.op == op and isinstance(inside.rhs, Const):
        word = inside.lhs
        if isinstance(word, Read) and word.dtype == "int32" and inside.rhs.value == constant and _last(word) == 1:
            return word
    return None


def _is_bias_of(bias: Read, word: Read) -> bool:
    if bias.tensor is not word.tensor or _last(bias) != 0:
        return False
    return all(structurally_equal(a, b) for a, b in zip(bias.indices[:-1], word.indices[:-1], strict=True))


def _last(read: Read) -> int | None:
    """The last index of a read, if it is a constant in a row of two values."""
    if not read.indices or read.tensor.shape[-1] != 2:
        return None
    index = skip_casts(read.indices[-1])
    return index.value if isinstance(index, Const) else None
