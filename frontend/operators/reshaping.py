"""Reshaping of tensors in row-major order."""

from collections.abc import Sequence
from math import prod

from lathe.frontend.expr.arithmetic import expression
from lathe.frontend.expr.errors import TensorError
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import checked_tensor
from lathe.frontend.tensor.compute import checked_shape, compute


def flatten(data: Tensor, *, name: str = "flatten") -> Tensor:
    """data (N, D1, …, Dk) as (N, D1 · … · Dk), of the same dtype, in row-major order.

    out[n, f] = data[n, f // (D2·…·Dk), …, f % Dk]. Raises TensorError for fewer than two dimensions.
    """
    checked_tensor(data, f"data of flatten {name!r}")
    if data.ndim < 2:
        raise TensorError(
            f"data of flatten {name!r} must have a batch dimension and at least one other, not the shape {data.shape}."
        )
    inner = data.shape[1:]
    return compute(
        (data.shape[0], prod(inner)),
        lambda n, f: data[(n, *_unravelled(f, inner))],
        name,
        attrs={"operator": "flatten"},
    )


def reshape(data: Tensor, shape: int | Sequence[int], *, name: str = "reshape") -> Tensor:
    """``data`` in another shape with as many elements, of the same dtype, in row-major order.

    Raises TensorError when the number of elements differs.
    """
    checked_tensor(data, f"data of reshape {name!r}")
    extents = checked_shape(shape, f"reshape {name!r}")
    if prod(extents) != prod(data.shape):
        raise TensorError(
            f"shape of reshape {name!r} must have {prod(data.shape)} elements, as {data.shape} has, "
            f"not {prod(extents)}, as {extents} has."
        )

    def element(*indices: Expr) -> Expr:
        flat = expression(0)
        for index, extent in zip(indices, extents, strict=True):
            flat = flat * extent + index
        return data[_unravelled(flat, data.shape)]

    return compute(extents, element, name, attrs={"operator": "reshape"})


def _unravelled(flat: Expr, shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """The indices of the element at offset ``flat`` of a row-major array."""
    indices: list[Expr] = []
    for dimension, extent in enumerate(shape):
        index = flat // prod(shape[dimension + 1 :])
        indices.append(index % extent if dimension else index)
    return tuple(indices)
