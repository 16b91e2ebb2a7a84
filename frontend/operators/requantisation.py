"""Requantisation of accumulators to 8 bits."""

from lathe.configs.integers import integer
from lathe.frontend.expr.errors import TensorError
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import checked_dtypes
from lathe.frontend.operators.elementwise import checked_bounds, clipped
from lathe.frontend.operators.rescaling import rescaled
from lathe.frontend.tensor.compute import compute


def requantise(
    data: Tensor,
    shift: int | None = None,
    *,
    rounding: bool = True,
    low: int = -128,
    high: int = 127,
    parameters: Tensor | None = None,
    zero_point: int = 0,
    dtype: str = "int8",
    relu: bool = False,
    name: str = "requantise",
) -> Tensor:
    """``data`` (int32, any shape) requantised to 8 bits: by a shift, or by a bias and a factor per channel.

    With ``shift``: out = int8(min(max((data + 2**(shift − 1)) >> shift, low), high)); without ``rounding``, or with a
    shift of 0, there is no addend and the shift rounds down. With rounding, ties round up. The addition wraps around at
    32 bits. ``low=0`` fuses a ReLU.

    With ``parameters``, int32 (channels, 2) with [bias, factor word] for each index of the last axis (as
    ``rescale_parameters`` makes them): out = clamp(rounding_shift(int64(data + bias) * mantissa, shift) + zero_point),
    with mantissa = word >> 6 and shift = word % 64, ties rounding to even. The sum with the bias wraps around
    at 32 bits; ``data`` may be int8, too. ``dtype`` is int8 or uint8, and ``relu`` clips at the zero point.

    Raises TensorError for a shift outside 0 to 31, bounds or a zero point that the dtype does not hold, parameters of
    another shape or dtype, or arguments of the other mode.
    """
    where = f"requantise {name!r}"
    if (shift is None) == (parameters is None):
        raise TensorError(
            f"{where} must be given either a shift or parameters=, not {'neither' if shift is None else 'both'}."
        )
    other = {"rounding": rounding is not True, "low": low != -128, "high": high != 127}
    if parameters is None:
        other = {"zero_point": zero_point != 0, "dtype": dtype != "int8", "relu": relu is not False}
    invalid = next((argument for argument, given in other.items() if given), None)
    if invalid is not None:
        mode, remedy = ("parameters", "Use low=0 for a ReLU") if parameters is None else ("a shift", "Use relu=True")
        raise TensorError(f"{invalid} of {where} must be given with {mode} only. {remedy}, or omit it.")
    if parameters is not None:
        return rescaled(data, parameters, zero_point, dtype, relu, name)
    checked_dtypes(data, ("int32",), f"data of {where}")
    amount = integer(shift)
    if amount is None or not 0 <= amount <= 31:
        raise TensorError(f"shift of {where} must be an integer from 0 to 31, not {shift!r}.")
    checked_bounds(low, high, "int8", where)
    return compute(
        data.shape,
        lambda *i: clipped(shifted(data[i], amount, rounding), low, high).astype("int8"),
        name,
        attrs={"operator": "requantise", "shift": amount, "rounding": rounding, "low": low, "high": high},
    )


def shifted(value: Expr, amount: int, rounding: bool) -> Expr:
    """``value`` / 2**amount, rounded to nearest with ties up, or down."""
    if amount == 0:
        return value
    return (value + (1 << (amount - 1)) if rounding else value) >> amount
