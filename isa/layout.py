"""Physical layout of a tensor in DRAM: logical axes split into physical ones, padded and permuted.

After TVM's RFC 0039 (physical layouts) and RFC 0077 (values of padding).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.errors import shown
from lathe.configs.html_repr import repr_html
from lathe.configs.integers import integer
from lathe.isa.errors import LayoutError
from lathe.isa.layout_steps import LayoutStep, Reordering, Reversing, shape_after, step_from_list, step_to_list

PADDING = -1
BROADCAST = -2
STORAGES = ("", "int32", "planes")


@dataclass(frozen=True, slots=True)
class PhysicalAxis:
    """A physical index: (logical index[``axis``] // ``divisor``) % ``extent``.

    ``axis`` −1: index 0 holds the values, the rest is padding. ``axis`` −2: the same value at every index, for operands
    that a vector unit adds to every row.
    """

    axis: int
    divisor: int
    extent: int


@dataclass(frozen=True)
class Layout:
    """A logical ``shape`` and ``dtype`` in row-major physical ``axes``; cells of no logical index hold ``pad_value``.

    ``view``, if given, is a reshape of the logical shape, and the axes refer to the view: a flattened tensor can be
    laid out by the axes that it had. ``storage`` is the dtype in DRAM: that of the tensor (""), a wider one ("int32"),
    or "planes": bytes, the least significant of every element first, then the next, as a leading physical axis; an
    accelerator that stores bytes writes a 32-bit result as four planes.

    ``reorderings``, if given, are applied first, one after the other: ``view`` and axes refer to the result, as for a
    schedule that transforms the layout of a tensor. Some of them may add cells (``Widening``).

    For each logical axis, the physical ones are the digits of a mixed-radix number, in any order: the least significant
    has divisor 1, each next one the divisor times the extent of the previous, and together they cover the axis's
    extent. Raises :class:`LayoutError` for anything else, which would lose or duplicate values.
    """

    shape: tuple[int, ...]
    dtype: str
    axes: tuple[PhysicalAxis, ...]
    pad_value: int = 0
    view: tuple[int, ...] = ()
    storage: str = ""
    reorderings: tuple[LayoutStep, ...] = ()

    _repr_html_ = repr_html

    def _check_kinds(self) -> None:
        """Raise :class:`LayoutError` for arguments of the wrong types."""
        for name, given in (("shape", self.shape), ("view", self.view)):
            if not isinstance(given, Iterable) or any(integer(extent) is None for extent in given):
                raise LayoutError(f"The {name} of a layout must be a list of integers, not {shown(given)}.")
        if not isinstance(self.axes, Iterable) or not all(isinstance(axis, PhysicalAxis) for axis in self.axes):
            raise LayoutError(f"The axes of a layout must be a list of PhysicalAxis, not {shown(self.axes)}.")
        try:
            known = isinstance(self.dtype, str | type | np.dtype) and np.dtype(self.dtype).kind in "iub"
        except TypeError:
            known = False
        if not known:
            raise LayoutError(f"The dtype of a layout must be the name of an integer dtype, not {shown(self.dtype)}.")

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))
        object.__setattr__(self, "axes", tuple(self.axes))
        object.__setattr__(self, "dtype", np.dtype(self.dtype).name)
        size = prod(self.shape)
        for step in self.reorderings:
            before, after = step.sizes
            if before != size or (after != size and isinstance(step, Reordering | Reversing)):
                raise LayoutError(
                    f"A reordering of a layout of {self.shape} must be a permutation of the dimensions of a shape of "
                    f"{size} elements, not {step!r}. Correct its shapes and its order."
                )
            size = after
        object.__setattr__(self, "view", tuple(int(extent) for extent in self.view) or self._reordered())
        if prod(self.view) != size:
            raise LayoutError(
                f"The view of a layout of {self.shape} must have {size} elements, not {self.view!r}. Correct the view."
            )
        if self.storage not in STORAGES:
            raise LayoutError(
                f"The storage of a layout must be one of {', '.join(repr(each) for each in STORAGES)}, "
                f"not {self.storage!r}. Correct the name."
            )
        for axis in self.axes:
            if axis.extent < 1 or axis.divisor < 1 or not BROADCAST <= axis.axis < len(self.view):
                raise LayoutError(
                    f"A physical axis of a layout of {self.view} must have an extent and a divisor of at least 1 and "
                    f"an axis from -2 to {len(self.view) - 1}, not {axis!r}. Correct the axis."
                )
        for logical, extent in enumerate(self.view):
            reached = 1
            for digit in self._digits(logical):
                if digit.divisor != reached:
                    raise LayoutError(
                        f"The physical axes of logical axis {logical} of a layout of {self.view} must continue with "
                        f"divisor {reached}, the product of the less significant extents, not {digit.divisor}."
                    )
                reached *= digit.extent
            if reached < extent:
                raise LayoutError(
                    f"The physical axes of logical axis {logical} of a layout of {self.view} must hold {extent} "
                    f"indices, not {reached}. Enlarge the extent of the outermost one."
                )

    def _reordered(self) -> tuple[int, ...]:
        """The shape after the last reordering."""
        return shape_after(self.reorderings[-1]) if self.reorderings else self.shape

    def _digits(self, logical: int) -> list[PhysicalAxis]:
        """The physical axes of a logical one with more than one index, least significant first."""
        digits = [axis for axis in self.axes if axis.axis == logical and axis.extent > 1]
        return sorted(digits, key=lambda axis: axis.divisor)

    @classmethod
    def row_major(cls, shape: tuple[int, ...], dtype: str) -> Self:
        """The layout of a NumPy array in C order."""
        return cls(shape, dtype, tuple(PhysicalAxis(axis, 1, extent) for axis, extent in enumerate(shape)))

    @cached_property
    def _extents(self) -> tuple[int, ...]:
        return tuple(axis.extent for axis in self.axes)

    @cached_property
    def physical_shape(self) -> tuple[int, ...]:
        """The extents of the physical axes, preceded by that of the planes if there are planes."""
        planes = (np.dtype(self.dtype).itemsize,) if self.storage == "planes" else ()
        return (*planes, *self._extents)

    @property
    def physical_dtype(self) -> str:
        """The dtype of the physical array."""
        return {"": self.dtype, "int32": "int32", "planes": "uint8"}[self.storage]

    @property
    def nbytes(self) -> int:
        """Bytes of the physical array."""
        return prod(self.physical_shape) * np.dtype(self.physical_dtype).itemsize

    @cached_property
    def _plan(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Constants of pack and unpack: padded logical shape, its split into digits, their order, and the final shape.

        Physical axes of extent 1 and pure padding are skipped: they are 1 in the final shape.
        """
        padded: list[int] = []
        cut: list[int] = []
        position: dict[PhysicalAxis, int] = {}
        for logical in range(len(self.view)):
            digits = self._digits(logical)[::-1]
            padded.append(prod(digit.extent for digit in digits))
            for digit in digits:
                position[digit] = len(cut)
                cut.append(digit.extent)
        order = tuple(position[axis] for axis in self.axes if axis in position)
        final = tuple(axis.extent if axis in position else 1 for axis in self.axes)
        return tuple(padded), tuple(cut), order, final

    def pack(self, logical: ArrayLike) -> NDArray[Any]:
        """The physical array of a logical one of this shape and dtype; a new array.

        Raises :class:`LayoutError` for another shape or dtype.
        """
        array = np.asarray(logical)
        self._require(array, self.shape, self.dtype, "logical")
        for step in self.reorderings:
            array = step.apply(array)
        array = array.reshape(self.view)
        padded, cut, order, final = self._plan
        if padded != self.view:
            widths = [(0, reached - extent) for reached, extent in zip(padded, self.view, strict=True)]
            array = np.pad(array, widths, constant_values=self.pad_value)
        packed = array.reshape(cut).transpose(order).reshape(final)
        if final == self._extents:
            physical = np.array(packed, order="C")
        else:
            physical = np.full(self._extents, self.pad_value, self.dtype)
            copies = zip(self.axes, final, strict=True)
            physical[tuple(slice(None if axis.axis == BROADCAST else extent) for axis, extent in copies)] = packed
        if self.storage == "planes":
            return np.moveaxis(physical[..., None].view(np.uint8), -1, 0).copy()
        return physical.astype(self.physical_dtype, copy=False)

    def unpack(self, physical: ArrayLike) -> NDArray[Any]:
        """The logical array of a physical one; a new array.

        Raises :class:`LayoutError` for another shape or dtype.
        """
        array = np.asarray(physical)
        self._require(array, self.physical_shape, self.physical_dtype, "physical")
        if self.storage == "planes":
            array = np.ascontiguousarray(np.moveaxis(array, 0, -1)).view(self.dtype)[..., 0]
        padded, cut, order, final = self._plan
        data = array[tuple(slice(extent) for extent in final)].reshape([cut[digit] for digit in order])
        inverse = np.argsort(order)
        whole = data.transpose(inverse).reshape(padded)
        inside = np.array(whole[tuple(slice(extent) for extent in self.view)], order="C")
        for step in reversed(self.reorderings):
            inside = step.undo(inside)
        return np.asarray(inside.reshape(self.shape), self.dtype, order="C")

    def _require(self, array: NDArray[Any], shape: tuple[int, ...], dtype: str, what: str) -> None:
        if array.shape != shape or array.dtype != np.dtype(dtype):
            raise LayoutError(
                f"The {what} array of a layout must have shape {shape} and dtype {dtype}, "
                f"not {array.shape} and {array.dtype}. Convert it first."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the inverse of ``from_dict``."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            "axes": [[axis.axis, axis.divisor, axis.extent] for axis in self.axes],
            "pad_value": self.pad_value,
            "view": list(self.view),
            "storage": self.storage,
            "reorderings": [step_to_list(step) for step in self.reorderings],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The layout that ``to_dict`` wrote."""
        axes = tuple(PhysicalAxis(*axis) for axis in values["axes"])
        shape, view = tuple(values["shape"]), tuple(values["view"])
        steps = (step_from_list(step) for step in values.get("reorderings", []))
        return cls(shape, values["dtype"], axes, values["pad_value"], view, values["storage"], tuple(steps))
