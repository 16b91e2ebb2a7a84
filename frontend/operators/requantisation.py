"""From accumulators back to int8."""

from lathe.configs.integers import integer
from lathe.frontend.compute import compute
from lathe.frontend.errors import TensorError
from lathe.frontend.nodes import Tensor
from lathe.frontend.operand import Expr
from lathe.frontend.operators.arguments import checked_dtypes
from lathe.frontend.operators.elementwise import checked_bounds, clipped


def requantise(
    data: Tensor, shift: int, *, rounding: bool = True, low: int = -128, high: int = 127, name: str = "requantise"
) -> Tensor:
    """``data`` (int32, any shape) divided by 2**shift, clipped to ``low`` … ``high``, as int8 of the same shape.

    out = int8(min(max((data + 2**(shift − 1)) >> shift, low), high)); without ``rounding``, or with a shift of 0, the
    addend is left out and the shift alone rounds down. With rounding, ties go up. The addition wraps around at 32 bits.
    ``low=0`` makes a ReLU part of it. Raises TensorError for a shift outside 0 to 31 or bounds that int8 does not hold.
    """
    where = f"requantise {name!r}"
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
    """``value`` divided by 2**amount, rounded to nearest with ties up, or down."""
    if amount == 0:
        return value
    return (value + (1 << (amount - 1)) if rounding else value) >> amount
