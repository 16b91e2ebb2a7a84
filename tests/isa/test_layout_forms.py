"""Layouts beyond blocks and order: views, planes of bytes, wider storage, values repeated along lanes."""

import numpy as np
import pytest

from lathe.isa import Layout, LayoutError, PhysicalAxis
from lathe.isa.layout import BROADCAST


def some(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(7).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def test_a_flattened_tensor_lies_by_the_axes_that_it_had() -> None:
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


def test_the_forms_survive_being_written_as_plain_values() -> None:
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


def test_the_storage_must_be_one_that_the_machine_has() -> None:
    with pytest.raises(LayoutError) as caught:
        Layout((2,), "int8", (PhysicalAxis(0, 1, 2),), storage="int64")
    assert str(caught.value) == (
        "The storage of a layout must be one of '', 'int32', 'planes', not 'int64'. Correct the name."
    )
