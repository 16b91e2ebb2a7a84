"""Index maps against brute force: accepted maps are bijections; refused ones are not, or do not consist of digits."""

import json
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from random_layouts import any_indices, divisible_axes, random_bijection, random_padded
from random_programs import Choice
from seeds import check_each

from lathe.frontend import Axis, evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef
from lathe.isa.layout_steps import step_from_list, step_to_list
from lathe.scheduler import ScheduleError
from lathe.scheduler.rewriting.index_maps import IndexMap, index_map


def everywhere(axes: list[Axis], values: Iterable[Expr]) -> Iterator[np.ndarray]:
    """Values of expressions at every point of some axes, each an array with one dimension per axis."""
    extents = [axis.extent for axis in axes]
    points = dict(zip(axes, np.indices(extents), strict=True))
    return (np.broadcast_to(evaluate(value, points), extents) for value in values)


def cells(axes: list[Axis], indices: list[Expr]) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The cell of each index."""
    columns = [column.ravel().tolist() for column in everywhere(axes, indices)]
    return dict(zip(np.ndindex(*(axis.extent for axis in axes)), zip(*columns, strict=True), strict=True))


def check_inverse(
    back: dict[Axis, Expr], axes: list[Axis], new: list[Axis], hit: dict[tuple[int, ...], tuple[int, ...]]
) -> None:
    """The inverse of the cell of each index is that index."""
    returned = np.stack(list(everywhere(new, (back[axis] for axis in axes))), axis=-1)
    for point, cell in hit.items():
        assert tuple(returned[cell]) == point


def check_bijection(seed: int) -> None:
    choice = Choice(seed)
    axes = divisible_axes(choice)
    indices = random_bijection(choice, [AxisRef(axis) for axis in axes])
    found = index_map(axes, indices, (), "T")
    hit = cells(axes, indices)
    assert found.shape == tuple(max(column) + 1 for column in zip(*hit.values(), strict=True))
    new = [Axis(name, extent) for name, extent in zip(found.names(()), found.shape, strict=True)]
    assert len({axis.name for axis in new}) == len(new)
    back = found.inverse(new)
    array = np.arange(len(hit)).reshape([axis.extent for axis in axes])
    (step,) = found.steps()
    turned = step.apply(array)
    assert (step.undo(turned).reshape(array.shape) == array).all()
    assert not found.padded
    assert found.live(new) is None
    assert all(turned[cell] == array[point] for point, cell in hit.items())
    check_inverse(back, axes, new, hit)


@pytest.mark.seeds(60, slow=240, block=100)
def test_digits_in_any_order_are_accepted_and_inverted(seeds):
    check_each(seeds, check_bijection)


def check_any_indices(seed: int) -> None:
    choice = Choice(seed)
    axes = divisible_axes(choice)
    indices = any_indices(choice, axes)
    hit = cells(axes, indices)
    image = set(hit.values())
    highest = [max(column) + 1 for column in zip(*image, strict=True)]
    injective = len(image) == len(hit)
    negative = min(min(cell) for cell in image) < 0
    full = not negative and len(image) == np.prod(highest)
    try:
        found = index_map(axes, indices, (), "T")
    except ScheduleError as error:
        message = str(error)
        tuples = [
            tuple(int(number) for number in each.split(",") if number.strip())
            for each in re.findall(r"\((-?\d+,(?: ?-?\d+,?)*)\)", message)
        ]
        if "one-to-one" in message:
            first, second, cell = tuples
            assert first != second
            assert hit[first] == hit[second] == cell
        elif "from 0 on" in message:
            assert injective
            assert negative
        elif "without an element" in message:
            assert injective
            shape, cell = tuples
            assert shape == tuple(highest)
            assert cell not in image
            assert all(0 <= value < extent for value, extent in zip(cell, shape, strict=True))
        else:
            assert "mixed radix" in message
            assert injective
            assert full
    else:
        assert injective
        if not full:
            assert found.padded
        check_padded(found, axes, hit)


@pytest.mark.seeds(80, slow=320, block=100)
def test_refused_maps_have_the_fault_that_the_message_names(seeds):
    check_each(seeds, check_any_indices)


def check_padded(found: IndexMap, axes: list[Axis], hit: dict[tuple[int, ...], tuple[int, ...]]) -> None:
    """Shape, inverse, condition and steps of a map against the cells of its indices."""
    image = set(hit.values())
    highest = [max(column) + 1 for column in zip(*image, strict=True)]
    assert all(extent >= high for extent, high in zip(found.shape, highest, strict=True))
    new = [Axis(name, extent) for name, extent in zip(found.names(()), found.shape, strict=True)]
    back, live = found.inverse(new), found.live(new)
    array = np.arange(len(hit)).reshape([axis.extent for axis in axes])
    turned = array
    for step in found.steps(-1):
        turned = step_from_list(json.loads(json.dumps(step_to_list(step)))).apply(turned)
    undone = turned
    for step in reversed(found.steps(-1)):
        undone = step.undo(undone)
    assert (undone.reshape(array.shape) == array).all()
    assert turned.shape == found.shape
    taken = np.zeros(found.shape, bool)
    taken[tuple(zip(*image, strict=True))] = True
    assert ((turned != -1) == taken).all()
    assert taken.all() if live is None else (next(everywhere(new, [live])).astype(bool) == taken).all()
    assert all(turned[cell] == array[point] for point, cell in hit.items())
    check_inverse(back, axes, new, hit)


def check_widened(seed: int) -> None:
    choice = Choice(seed)
    axes = [Axis(name, choice.number(1, 14)) for name in "ijk"[: choice.number(1, 3)]]
    indices = random_padded(choice, [AxisRef(axis) for axis in axes])
    check_padded(index_map(axes, indices, (), "T"), axes, cells(axes, indices))
    check_padded(index_map(axes, indices, (), "T", whole=True), axes, cells(axes, indices))


@pytest.mark.seeds(60, slow=240, block=100)
def test_widened_digits_in_any_order_leave_out_cells_of_no_index(seeds):
    check_each(seeds, check_widened)
