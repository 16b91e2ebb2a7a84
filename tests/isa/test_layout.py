"""Layouts of tensors in DRAM, against a loop over every index."""

import json

import numpy as np
import pytest
from error_checks import raises
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lathe.isa import Layout, LayoutError, PhysicalAxis


def packed_by_index(layout: Layout, logical: NDArray[np.int8]) -> NDArray[np.int8]:
    """The definition: each logical index is stored in its cell, and all other cells hold the pad value."""
    physical = np.full(layout.physical_shape, layout.pad_value, logical.dtype)
    for index in np.ndindex(logical.shape):
        cell = tuple(0 if axis.axis == -1 else index[axis.axis] // axis.divisor % axis.extent for axis in layout.axes)
        physical[cell] = logical[index]
    return physical


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    axes = []
    for logical, extent in enumerate(shape):
        divisor = 1
        while divisor < extent:
            digit = draw(st.integers(2, 5))
            axes.append(PhysicalAxis(logical, divisor, digit))
            divisor *= digit
        if draw(st.booleans()):
            axes.append(PhysicalAxis(logical, draw(st.integers(1, 9)), 1))
    if draw(st.booleans()):
        axes.append(PhysicalAxis(-1, 1, draw(st.integers(1, 3))))
    return Layout(shape, "int8", tuple(draw(st.permutations(axes))), draw(st.integers(-128, 127)))


@given(layouts(), st.integers(0, 1 << 30))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_packing_puts_each_index_into_its_cell_and_unpacking_takes_it_back(layout: Layout, seed: int) -> None:
    logical = np.random.default_rng(seed).integers(-128, 128, layout.shape, np.int8)
    physical = layout.pack(logical)
    assert physical.tolist() == packed_by_index(layout, logical).tolist()
    assert physical.nbytes == layout.nbytes
    assert layout.unpack(physical).tolist() == logical.tolist()


@given(layouts())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_layout_comes_back_from_json(layout: Layout) -> None:
    assert Layout.from_dict(json.loads(json.dumps(layout.to_dict()))) == layout


def test_packed_array_is_a_copy() -> None:
    logical = np.zeros((2, 2), np.int8)
    Layout.row_major((2, 2), "int8").pack(logical)[0, 0] = 1
    assert logical.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("axes", "mentions"),
    [
        ([PhysicalAxis(0, 1, 4), PhysicalAxis(0, 8, 4)], ("divisor 4", "not 8")),
        ([PhysicalAxis(0, 1, 4), PhysicalAxis(0, 4, 3)], ("16 indices", "not 12")),
        ([PhysicalAxis(0, 2, 8)], ("divisor 1", "not 2")),
    ],
)
def test_layout_that_loses_values_is_refused(axes: list[PhysicalAxis], mentions: tuple[str, str]) -> None:
    raises(LayoutError, Layout, (16,), "int8", tuple(axes), mentions=("logical axis 0", "(16,)", *mentions))


def test_array_of_another_shape_or_dtype_is_refused() -> None:
    layout = Layout.row_major((2, 3), "int8")
    with pytest.raises(LayoutError) as caught:
        layout.pack(np.zeros((3, 2), np.int32))
    assert str(caught.value) == (
        "The logical array of a layout must have shape (2, 3) and dtype int8, not (3, 2) and int32. Convert it first."
    )
