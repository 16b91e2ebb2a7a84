"""Element types (dtypes) of tensors: names, ranges and the NumPy types that represent them.

``index`` is the dtype of axes and of expressions of axes and constants only: a mathematical integer, which never wraps
around. It is computed in 64 bits and never stored in a tensor.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lathe.frontend.expr.errors import TensorError, shown


@dataclass(frozen=True, slots=True)
class DType:
    """One element type: its name, its width in bits, and the smallest and largest value."""

    name: str
    bits: int
    minimum: int
    maximum: int
    numpy: np.dtype


def _signed(bits: int) -> DType:
    return DType(f"int{bits}", bits, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, np.dtype(f"int{bits}"))


def _unsigned(bits: int) -> DType:
    return DType(f"uint{bits}", bits, 0, (1 << bits) - 1, np.dtype(f"uint{bits}"))


INDEX = "index"
BOOL = "bool"

DTYPES: Mapping[str, DType] = {
    dtype.name: dtype
    for dtype in (
        *(_signed(bits) for bits in (8, 16, 32, 64)),
        *(_unsigned(bits) for bits in (8, 16, 32)),
        DType(BOOL, 1, 0, 1, np.dtype(np.bool_)),
        DType(INDEX, 64, -(1 << 63), (1 << 63) - 1, np.dtype(np.int64)),
    )
}

TENSOR_DTYPES = tuple(name for name in DTYPES if name != INDEX)


def checked_dtype(dtype: object, where: str, *, index: bool = False) -> str:
    """The name of ``dtype``, which may be given as a name or as a NumPy dtype.

    ``where`` completes "dtype of …" in the message; ``index`` allows the dtype of axes, too.
    Raises TensorError for an unknown dtype.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    if name in TENSOR_DTYPES or (index and name == INDEX):
        return name
    allowed = ", ".join((*TENSOR_DTYPES, INDEX) if index else TENSOR_DTYPES)
    raise TensorError(f"dtype of {where} must be one of {allowed}, not {shown(dtype)}.")
