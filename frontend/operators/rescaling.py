"""Per-channel rescaling of sums to 8 bits, rescaled addition, and table look-up.

With a row [bias, word] of parameters, mantissa = word >> 6 and shift = word % 64, all exact:

    rescaled = clamp(rounding_shift(int64(int32(data + bias)) * mantissa, shift) + zero_point)
"""

from collections.abc import Sequence

from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.configs.integers import integer
from lathe.frontend.expr.arithmetic import rounding_shift
from lathe.frontend.expr.dtypes import DTYPES, INDEX
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Read, Tensor
from lathe.frontend.operators.argument_checks import checked_dtypes, checked_rank, checked_tensor
from lathe.frontend.operators.elementwise import clipped
from lathe.frontend.tensor.compute import compute
from lathe.frontend.tensor.rescale_parameters import SHIFT_BITS

BYTES = ("int8", "uint8")
OPERANDS = ("int32", "int8")


def rescaled(data: Tensor, parameters: Tensor, zero_point: int, dtype: str, relu: bool, name: str) -> Tensor:
    """``requantise`` with parameters: ``data`` (int32 or int8) with a bias and a factor per index of its last axis."""
    where = f"requantise {name!r}"
    checked_dtypes(data, OPERANDS, f"data of {where}")
    _checked_parameters(parameters, data, (2,), where)
    point, _, _ = _checked_limits(zero_point, dtype, relu, where)

    def element(*i: Expr) -> Expr:
        return rescaled_value(data[i], parameters[i[-1], 0], parameters[i[-1], 1], point, dtype, relu=relu)

    attrs = {"operator": "requantise", "zero_point": point, "dtype": dtype, "relu": relu}
    return compute(data.shape, element, name, attrs=attrs)


def rescaled_add(
    a: Tensor,
    b: Tensor,
    *,
    parameters: Tensor,
    zero_point: int = 0,
    dtype: str = "int8",
    relu: bool = False,
    name: str = "rescaled_add",
) -> Tensor:
    """``a`` + ``b`` (int32 or int8, of the same shape), each with a bias and a factor, requantised to 8 bits.

    out = clamp(rounding_shift(int64(a + bias0) * mantissa0 + int64(b + bias1) * mantissa1, shift) + zero_point), of
    8 bits, with [bias, word] of operand n in ``parameters[channel, n]`` (int32, (channels, 2, 2), as
    ``rescaled_add_parameters`` makes it), channels being the last axis, and the shift that of the first operand. Sums
    with a bias wrap around at 32 bits. ``relu`` clips at the zero point instead of the minimum of ``dtype``.

    Raises TensorError when shapes or dtypes don't fit, or for a zero point that ``dtype`` does not hold.
    """
    where = f"rescaled_add {name!r}"
    for letter, tensor in (("a", a), ("b", b)):
        checked_dtypes(tensor, OPERANDS, f"{letter} of {where}")
    if a.shape != b.shape:
        raise TensorError(f"shapes of {where} must be equal, not {a.shape} of a and {b.shape} of b.")
    _checked_parameters(parameters, a, (2, 2), where)
    point, _, _ = _checked_limits(zero_point, dtype, relu, where)

    def element(*i: Expr) -> Expr:
        rows = [(parameters[i[-1], n, 0], parameters[i[-1], n, 1]) for n in (0, 1)]
        return rescaled_sum_value((a[i], b[i]), rows, point, dtype, relu=relu)

    attrs = {"operator": "rescaled_add", "zero_point": point, "dtype": dtype, "relu": relu}
    return compute(a.shape, element, name, attrs=attrs)


def lookup(data: Tensor, table: Tensor, *, name: str = "lookup") -> Tensor:
    """Table look-up: the element of ``table`` for each value of ``data`` (int8 or uint8, any shape).

    out[.., c] = table[uint8(data[.., c])] with a table (256,) for all, or table[uint8(data[.., c]), c] with one
    (256, channels) for each index of the last axis. The result has the table's dtype, int8 or uint8. Row 255 is that of
    −1 of int8. Raises TensorError when shapes or dtypes don't fit.
    """
    where = f"lookup {name!r}"
    checked_dtypes(data, BYTES, f"data of {where}")
    checked_dtypes(table, BYTES, f"table of {where}")
    channels = data.shape[-1] if data.ndim else 1
    if table.shape not in ((TABLE_ELEMENTS,), (TABLE_ELEMENTS, channels)):
        raise TensorError(
            f"shape of the table of {where} must be {(TABLE_ELEMENTS,)}, or {(TABLE_ELEMENTS, channels)} with a column "
            f"for each index of the last axis of its data, not {table.shape}."
        )

    def element(*i: Expr) -> Expr:
        return looked_up(table, data[i], i[-1:] if table.ndim > 1 else ())

    return compute(data.shape, element, name, attrs={"operator": "lookup"})


def scaled(value: Expr, bias: Expr, word: Expr) -> Expr:
    """value + bias, wrapped around at 32 bits, times the mantissa of a factor word: int64."""
    return (value.astype("int32") + bias).astype("int64") * (word >> SHIFT_BITS).astype("int64")


def rescaled_value(
    value: Expr, bias: Expr, word: Expr, zero_point: int = 0, dtype: str = "int8", *, relu: bool = False
) -> Expr:
    """An element of ``requantise``: a value with its bias and factor word, rescaled to 8 bits."""
    limits = DTYPES[dtype]
    total = rounding_shift(scaled(value, bias, word), shift_of(word))
    return _offset_and_clipped(total, zero_point, zero_point if relu else limits.minimum, limits.maximum, dtype)


def rescaled_sum_value(
    values: Sequence[Expr],
    rows: Sequence[tuple[Expr, Expr]],
    zero_point: int = 0,
    dtype: str = "int8",
    *,
    relu: bool = False,
) -> Expr:
    """An element of ``rescaled_add``: two values, each with its bias and factor word, added and rescaled to 8 bits."""
    limits = DTYPES[dtype]
    (first, second), (_, word) = [scaled(value, *row) for value, row in zip(values, rows, strict=True)], rows[0]
    total = rounding_shift(first + second, shift_of(word))
    return _offset_and_clipped(total, zero_point, zero_point if relu else limits.minimum, limits.maximum, dtype)


def shift_of(word: Expr) -> Expr:
    """The shift of a factor word, int64."""
    return (word % (1 << SHIFT_BITS)).astype("int64")


def looked_up(table: Tensor, value: Expr, channel: tuple[Expr, ...] = ()) -> Read:
    """The read of a table at the row of an 8-bit value."""
    return table[(value.astype("uint8").astype(INDEX), *channel)]


def _offset_and_clipped(value: Expr, zero_point: int, low: int, high: int, dtype: str) -> Expr:
    offset = value + zero_point if zero_point else value
    return clipped(offset, low, high).astype(dtype)


def _checked_parameters(parameters: Tensor, data: Tensor, rest: tuple[int, ...], where: str) -> None:
    checked_tensor(parameters, f"parameters of {where}")
    checked_rank(
        parameters,
        1 + len(rest),
        f"parameters of {where}",
        "(channels, 2 operands, 2)" if len(rest) > 1 else "(channels, 2)",
    )
    checked_dtypes(parameters, ("int32",), f"parameters of {where}")
    expected = (data.shape[-1] if data.ndim else 1, *rest)
    if data.ndim == 0 or parameters.shape != expected:
        raise TensorError(
            f"shape of the parameters of {where} must be {expected}, a row [bias, factor word] for each index of the "
            f"last axis of its data{' and each operand' if len(rest) > 1 else ''}, not {parameters.shape}."
        )


def _checked_limits(zero_point: object, dtype: object, relu: object, where: str) -> tuple[int, int, int]:
    """The zero point, and the smallest and largest value of the result."""
    if dtype not in BYTES:
        raise TensorError(f"dtype of {where} must be int8 or uint8, not {shown(dtype)}.")
    kind = DTYPES[str(dtype)]
    point = integer(zero_point)
    if point is None or not kind.minimum <= point <= kind.maximum:
        raise TensorError(
            f"zero_point of {where} must be an integer from {kind.minimum} to {kind.maximum}, as {kind.name} is, not "
            f"{shown(zero_point)}."
        )
    if not isinstance(relu, bool):
        raise TensorError(f"relu of {where} must be True or False, not {shown(relu)}.")
    return point, point if relu else kind.minimum, kind.maximum
