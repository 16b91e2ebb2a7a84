"""Checks of arguments that operators share: pairs of numbers, paddings, image layouts, ranks, dtypes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, cast

from lathe.configs.integers import integer
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.nodes import Tensor

Pair: TypeAlias = int | Sequence[int]
"""One number for both directions, or (vertical, horizontal)."""

Padding: TypeAlias = int | Sequence[int | Sequence[int]]
"""One number for all four sides, (vertical, horizontal), or ((top, bottom), (left, right))."""

ImageLayout: TypeAlias = Literal["NHWC", "NCHW"]

T = TypeVar("T")


@dataclass(frozen=True)
class Sides:
    """Padding of an image: the number of rows and columns added on each side."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def any(self) -> bool:
        return self != Sides(0, 0, 0, 0)


@dataclass(frozen=True)
class Image:
    """The extents of a batch of images, independent of the layout of its tensor."""

    batch: int
    height: int
    width: int
    channels: int
    layout: ImageLayout

    def shape(self) -> tuple[int, int, int, int]:
        """The extents in the order of the layout."""
        return in_layout(self.layout, self.batch, self.height, self.width, self.channels)


def in_layout(layout: ImageLayout, n: T, y: T, x: T, c: T) -> tuple[T, T, T, T]:
    """Values for batch, row, column and channel, in the order of the layout."""
    return (n, y, x, c) if layout == "NHWC" else (n, c, y, x)


def image(tensor: Tensor, layout: str, where: str) -> Image:
    """The extents of an image tensor; raises TensorError when it does not have four dimensions."""
    if not isinstance(layout, str) or layout not in ("NHWC", "NCHW"):
        raise TensorError(f"layout of {where} must be NHWC or NCHW, not {shown(layout)}.")
    known = cast(ImageLayout, layout)
    checked_rank(tensor, 4, f"data of {where}", f"one for each letter of {layout}")
    n, a, b, c = tensor.shape
    return Image(n, a, b, c, known) if known == "NHWC" else Image(n, b, c, a, known)


def checked_tensor(tensor: object, where: str) -> None:
    """Raise TensorError for anything but a tensor, such as an array or an expression."""
    if not isinstance(tensor, Tensor):
        raise TensorError(f"{where} must be a tensor, not {shown(tensor)}.")


def checked_rank(tensor: Tensor, rank: int, where: str, meaning: str) -> None:
    """Raise TensorError unless the tensor has ``rank`` dimensions."""
    checked_tensor(tensor, where)
    if tensor.ndim != rank:
        raise TensorError(f"{where} must have {rank} dimensions, {meaning}, not the shape {tensor.shape}.")


def checked_dtypes(tensor: Tensor, allowed: tuple[str, ...], where: str) -> None:
    """Raise TensorError unless the tensor has one of the dtypes; ``where`` completes "dtype of" in the message."""
    checked_tensor(tensor, where)
    if tensor.dtype not in allowed:
        raise TensorError(f"dtype of {where} must be {' or '.join(allowed)}, not {tensor.dtype}.")


def pair(value: object, where: str, smallest: int = 1) -> tuple[int, int]:
    """A pair of integers of at least ``smallest``, given as a pair or as one integer for both."""
    single = integer(value)
    given = (single, single) if single is not None else value
    numbers = [integer(each) for each in given] if isinstance(given, Sequence) else []
    if len(numbers) != 2 or any(each is None or each < smallest for each in numbers):
        kind = "positive integer" if smallest == 1 else f"integer of at least {smallest}"
        raise TensorError(
            f"{where} must be a {kind} or a pair of them, not {shown(value)}.".replace("a integer", "an integer")
        )
    first, second = numbers
    assert first is not None
    assert second is not None
    return first, second


def sides(value: Padding, where: str) -> Sides:
    """The padding of each of the four sides."""
    given = [value, value] if integer(value) is not None else value
    if isinstance(given, Sequence) and len(given) == 2:
        try:
            (top, bottom), (left, right) = (pair(each, where, smallest=0) for each in given)
            return Sides(top, bottom, left, right)
        except TensorError:
            pass
    raise TensorError(
        f"{where} must be an integer of at least 0, a pair (vertical, horizontal) or ((top, bottom), (left, right)), "
        f"not {shown(value)}."
    )


def windows(extent: int, taps: int, stride: int, dilation: int, where: str) -> int:
    """The number of positions of a window with ``taps`` taps; raises TensorError when there is none."""
    window = dilation * (taps - 1) + 1
    if window > extent:
        raise TensorError(
            f"{where} with its padding must be at least {window}, the extent of the dilated kernel, not {extent}. "
            "Add padding or use a smaller kernel."
        )
    return (extent - window) // stride + 1
