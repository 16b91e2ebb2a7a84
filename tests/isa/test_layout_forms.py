"""Layouts beyond blocking and permutation: views, byte planes, wider storage, broadcast values."""

import numpy as np
import pytest

from lathe.isa import Diagonal, Layout, LayoutError, PhysicalAxis, Reordering, Repeating, Reversing
from lathe.isa.layout import BROADCAST


def some(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(7).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def test_a_flattened_tensor_is_laid_out_by_its_former_axes() -> None:
    axes = (PhysicalAxis(0, 1, 2), PhysicalAxis(1, 1, 3), PhysicalAxis(2, 1, 8))
    layout = Layout((2, 15), "int8", axes, view=(2, 3, 5))
    flat = some((2, 15), "int8")
    physical = layout.pack(flat)
    assert physical.shape == (2, 3, 8)
    assert np.array_equal(physical[..., :5], flat.reshape(2, 3, 5))
    assert not physical[..., 5:].any()
    assert np.array_equal(layout.unpack(physical), flat)


@pytest.mark.parametrize(("dtype", "planes"), [("int16", 2), ("int32", 4)])
def test_planes_hold_the_bytes_of_every_element_least_significant_first(dtype: str, planes: int) -> None:
    layout = Layout((3, 5), dtype, (PhysicalAxis(0, 1, 3), PhysicalAxis(1, 1, 8)), storage="planes")
    logical = some((3, 5), dtype)
    physical = layout.pack(logical)
    assert physical.shape == (planes, 3, 8)
    assert physical.dtype == np.uint8
    assert layout.nbytes == physical.nbytes
    for plane in range(planes):
        assert np.array_equal(physical[plane, :, :5], ((logical.astype(np.int64) >> 8 * plane) & 0xFF).astype(np.uint8))
    assert np.array_equal(layout.unpack(physical), logical)


def test_a_narrow_tensor_may_be_stored_in_32_bits() -> None:
    layout = Layout((4, 4), "int16", (PhysicalAxis(0, 1, 4), PhysicalAxis(1, 1, 4)), storage="int32")
    logical = some((4, 4), "int16")
    physical = layout.pack(logical)
    assert physical.dtype == np.int32
    assert layout.nbytes == 64
    assert np.array_equal(physical, logical)
    assert np.array_equal(layout.unpack(physical), logical)


def test_a_broadcast_axis_repeats_every_value() -> None:
    axes = (PhysicalAxis(0, 4, 3), PhysicalAxis(BROADCAST, 1, 2), PhysicalAxis(0, 1, 4))
    layout = Layout((10,), "int32", axes)
    logical = some((10,), "int32")
    physical = layout.pack(logical)
    assert physical.shape == (3, 2, 4)
    assert np.array_equal(physical[:, 0], physical[:, 1])
    assert np.array_equal(layout.unpack(physical), logical)


def test_layouts_round_trip_through_plain_values() -> None:
    layout = Layout(
        (2, 20), "int32", (PhysicalAxis(1, 1, 4), PhysicalAxis(0, 1, 2), PhysicalAxis(2, 1, 8)), 3, (2, 4, 5), "planes"
    )
    assert Layout.from_dict(layout.to_dict()) == layout


def test_a_view_must_have_as_many_elements() -> None:
    with pytest.raises(LayoutError) as caught:
        Layout((2, 15), "int8", (), view=(2, 4, 5))
    assert str(caught.value) == (
        "The view of a layout of (2, 15) must have 30 elements, not (2, 4, 5). Correct the view."
    )


def test_the_storage_must_be_known() -> None:
    with pytest.raises(LayoutError) as caught:
        Layout((2,), "int8", (PhysicalAxis(0, 1, 2),), storage="int64")
    assert str(caught.value) == (
        "The storage of a layout must be one of '', 'int32', 'planes', not 'int64'. Correct the name."
    )


def test_reorderings_come_before_the_view_and_the_axes() -> None:
    """64 channels in 4 blocks, outside rows and columns; then pairs of rows are interleaved in a vector."""
    array = np.arange(6 * 5 * 64).astype(np.int8).reshape(6, 5, 64)
    blocks = Reordering((6, 5, 4, 16), (2, 0, 1, 3), (4, 6, 80))
    rows = Reordering((4, 3, 2, 80), (0, 1, 3, 2), (12, 160))
    layout = Layout((6, 5, 64), "int8", (PhysicalAxis(1, 1, 160), PhysicalAxis(0, 1, 16)), reorderings=(blocks, rows))
    seen = array.reshape(6, 5, 4, 16).transpose(2, 0, 1, 3).reshape(4, 3, 2, 80).transpose(0, 1, 3, 2).reshape(12, 160)
    packed = layout.pack(array)
    assert packed[:, :12].tolist() == seen.T.tolist()
    assert not packed[:, 12:].any()
    assert layout.unpack(packed).tolist() == array.tolist()
    assert Layout.from_dict(layout.to_dict()) == layout


@pytest.mark.parametrize(
    "step", [Reordering((2, 3), (0, 0), (6,)), Reordering((2, 4), (1, 0), (8,)), Reordering((2, 3), (1, 0), (2, 2))]
)
def test_a_reordering_that_loses_elements_is_refused(step: Reordering) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout((6,), "int8", (PhysicalAxis(0, 1, 6),), reorderings=(step,))
    assert str(caught.value) == (
        "A reordering of a layout of (6,) must be a permutation of the dimensions of a shape of 6 elements, "
        f"not {step!r}. Correct its shapes and its order."
    )


def test_reversed_dimensions() -> None:
    """Reversed rows, then blocks of columns; pack and unpack, and round trip through plain values."""
    steps = (Reversing((6, 80), (0,)), Reordering((6, 5, 16), (1, 0, 2), (5, 6, 16)))
    layout = Layout(
        (6, 80), "int8", (PhysicalAxis(0, 1, 5), PhysicalAxis(1, 1, 6), PhysicalAxis(2, 1, 16)), reorderings=steps
    )
    array = np.arange(480).astype(np.int8).reshape(6, 80)
    expected = array[::-1].reshape(6, 5, 16).transpose(1, 0, 2)
    assert layout.pack(array).tolist() == expected.tolist()
    assert layout.unpack(layout.pack(array)).tolist() == array.tolist()
    assert Layout.from_dict(layout.to_dict()) == layout
    last = Layout(
        (6, 80), "int8", (PhysicalAxis(0, 1, 6), PhysicalAxis(1, 1, 80)), reorderings=(Reversing((6, 80), (0, 1)),)
    )
    assert last.view == (6, 80)
    assert last.pack(array).tolist() == array[::-1, ::-1].tolist()


@pytest.mark.parametrize(("rows", "cols"), [(4, 4), (2, 8), (8, 2), (4, 16), (1, 3)])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_dimension_along_diagonals(dim: int, rows: int, cols: int) -> None:
    """Each value once, at its block, row and column, zeros elsewhere; pack and unpack, and plain values."""
    view = (7, 6, 9)
    step = Diagonal(view, dim, rows, cols)
    axes = tuple(PhysicalAxis(n, 1, extent) for n, extent in enumerate(step.shape))
    layout = Layout((42, 9), "int8", axes, reorderings=(step,))
    array = np.random.default_rng(5).integers(1, 128, (42, 9), np.int8)
    expected = np.zeros(step.shape, np.int8)
    for index in np.ndindex(view):
        block, value = list(index), index[dim]
        block[dim] = value // min(rows, cols)
        expected[(*block, value % rows, value % cols)] = array.reshape(view)[index]
    assert np.count_nonzero(expected) == array.size
    assert layout.pack(array).tolist() == expected.tolist()
    assert layout.unpack(expected).tolist() == array.tolist()
    assert Layout.from_dict(layout.to_dict()) == layout
    assert layout.nbytes == -(-view[dim] // min(rows, cols)) * (array.size // view[dim]) * rows * cols


def test_repeated_elements() -> None:
    """All copies are in DRAM, the first is unpacked; and round trip through plain values."""
    step = Repeating((7, 6), 3)
    axes = tuple(PhysicalAxis(n, 1, extent) for n, extent in enumerate(step.shape))
    layout = Layout((42,), "int8", axes, reorderings=(step,))
    array = np.arange(42, dtype=np.int8)
    packed = layout.pack(array)
    assert packed.tolist() == [array.reshape(7, 6).tolist()] * 3
    packed[1:] = 0
    assert layout.unpack(packed).tolist() == array.tolist()
    assert Layout.from_dict(layout.to_dict()) == layout
    assert layout.nbytes == 126


@pytest.mark.parametrize(
    "step",
    [
        *(Reversing((6, 80), dims) for dims in ((2,), (0, 0))),
        Reversing((6, 81), (0,)),
        *(Diagonal((6, 80), *form) for form in ((2, 4, 4), (-1, 4, 4), (1, 0, 4))),
        Diagonal((6, 81), 1, 4, 4),
        Repeating((6, 80), 0),
        Repeating((6, 81), 2),
    ],
)
def test_invalid_dimensions_are_refused(step: Reversing | Diagonal | Repeating) -> None:
    with pytest.raises(LayoutError) as caught:
        Layout((6, 80), "int8", (PhysicalAxis(0, 1, 6), PhysicalAxis(1, 1, 80)), reorderings=(step,))
    assert str(caught.value) == (
        "A reordering of a layout of (6, 80) must be a permutation of the dimensions of a shape of 480 elements, not "
        f"{step!r}. Correct its shapes and its order."
    )
