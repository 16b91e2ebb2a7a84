"""Element-wise operators."""

from lathe.configs.integers import integer
from lathe.frontend.expr.arithmetic import max, min
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import TensorError
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import checked_dtypes, checked_rank, checked_tensor
from lathe.frontend.tensor.compute import compute


def add(A: Tensor, B: Tensor, *, name: str = "add") -> Tensor:
    """A + B of one shape, int8 or int32 each, computed in int32, which is also the result.

    Raises TensorError when shapes or dtypes don't fit.
    """
    for letter, tensor in (("A", A), ("B", B)):
        checked_dtypes(tensor, ("int8", "int32"), f"{letter} of add {name!r}")
    if A.shape != B.shape:
        raise TensorError(f"shapes of add {name!r} must be equal, not {A.shape} of A and {B.shape} of B.")
    return compute(A.shape, lambda *i: A[i].astype("int32") + B[i].astype("int32"), name, attrs={"operator": "add"})


def bias_add(data: Tensor, bias: Tensor, *, axis: int = -1, name: str = "bias_add") -> Tensor:
    """data + bias[i_axis]: one bias (C,) per index of ``axis`` (the last by default); both int32, and the result.

    For images in NCHW pass ``axis=1``. Raises TensorError when shapes or dtypes don't fit.
    """
    where = f"bias_add {name!r}"
    checked_rank(bias, 1, f"bias of {where}", "(channels,)")
    checked_dtypes(data, ("int32",), f"data of {where}")
    checked_dtypes(bias, ("int32",), f"bias of {where}")
    if not -data.ndim <= axis < data.ndim:
        raise TensorError(f"axis of {where} must be from {-data.ndim} to {data.ndim - 1}, not {axis}.")
    channels = data.shape[axis]
    if bias.shape != (channels,):
        raise TensorError(
            f"shape of the bias of {where} must be {(channels,)}, the extent of axis {axis} of its data, "
            f"not {bias.shape}."
        )
    return compute(
        data.shape, lambda *i: data[i] + bias[i[axis]], name, attrs={"operator": "bias_add", "axis": axis % data.ndim}
    )


def relu(data: Tensor, *, name: str = "relu") -> Tensor:
    """max(data, 0), of the shape and dtype of ``data``, which is signed."""
    checked_dtypes(data, ("int8", "int16", "int32", "int64"), f"data of relu {name!r}")
    return compute(data.shape, lambda *i: max(data[i], 0), name, attrs={"operator": "relu"})


def clip(data: Tensor, low: int, high: int, *, name: str = "clip") -> Tensor:
    """min(max(data, low), high), of the shape and dtype of ``data``.

    Raises TensorError when a bound does not fit the dtype or ``low`` exceeds ``high``.
    """
    checked_tensor(data, f"data of clip {name!r}")
    checked_bounds(low, high, data.dtype, f"clip {name!r}")
    return compute(
        data.shape, lambda *i: clipped(data[i], low, high), name, attrs={"operator": "clip", "low": low, "high": high}
    )


def clipped(value: Expr, low: int, high: int) -> Expr:
    """``value`` clamped to ``low`` … ``high``."""
    return min(max(value, low), high)


def checked_bounds(low: int, high: int, dtype: str, where: str) -> None:
    """Raise TensorError unless low <= high and both fit the dtype."""
    kind = DTYPES[dtype]
    for bound, value in (("low", low), ("high", high)):
        number = integer(value)
        if number is None or not kind.minimum <= number <= kind.maximum:
            raise TensorError(
                f"{bound} of {where} must be an integer from {kind.minimum} to {kind.maximum}, as {dtype} is, "
                f"not {value!r}."
            )
    if low > high:
        raise TensorError(f"low of {where} must be at most its high, {high}, not {low}.")
