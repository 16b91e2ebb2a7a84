"""Concatenation along channels: if each tensor starts at a whole block, channels stay in the lanes."""

import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run

import lathe as lt
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.schedule_ir.stage import VectorLayout


def joined(*channels: int, order: str = "lt") -> tuple[lt.Tensor, list[lt.Tensor]]:
    """Images concatenated along their channels."""
    data = [lt.placeholder((1, 4, 6, count), "int8", name=f"data{n}") for n, count in enumerate(channels)]
    parts = [lt.relu(each, name=f"part{n}") for n, each in enumerate(data)]

    def element(n, y, x, c):
        found, end = None, sum(channels)
        for part, count in reversed(list(zip(parts, channels, strict=True))):
            start = end - count
            read = part[n, y, x, c - start]
            if found is None:
                found = read
            elif order == "lt":
                found = lt.select(c < end, read, found)
            else:
                found = lt.select(c >= end, found, read)
            end = start
        return found

    return lt.compute((1, 4, 6, sum(channels)), element, name="joined"), data


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", ["lt", "ge"])
@pytest.mark.parametrize("channels", [(16, 16), (16, 48), (32, 16, 20)])
def test_channels_stay_in_the_lanes(channels, order):
    output, _ = joined(*channels, order=order)
    schedule = lt.create_schedule(output)
    for config in (VTA, TINY):
        run(schedule, config, random_inputs([output], seed=1))
    stage = lt.create_schedule(output)[output]
    assert assign_layouts(stage.schedule, VTA).layouts[stage.tensor] == VectorLayout(None, 3)
    narrow = lt.requantise(lt.conv2d(output, lt.placeholder((8, 1, 1, sum(channels)), "int8", name="w")), 7, name="o")
    program = run(lt.create_schedule(narrow), VTA, random_inputs([narrow], seed=1))
    assert not any("turned" in label for label in program.labels)


@pytest.mark.sample(1)
@pytest.mark.parametrize("channels", [(24, 40), (5, 11), (8, 8), (15, 17)])
def test_others_are_right_as_well(channels):
    output, _ = joined(*channels)
    narrow = lt.requantise(lt.conv2d(output, lt.placeholder((8, 1, 1, sum(channels)), "int8", name="w")), 7, name="o")
    for config in (VTA, TINY):
        run(lt.create_schedule(narrow), config, random_inputs([narrow], seed=2))


CONDITIONS = {
    "within a block": lambda _, c: c < 17,
    "moving": lambda i, c: c < i + 16,
    "of two axes": lambda i, c: (c >= 16) & (i < 3),
    "of every other": lambda _, c: c % 2 < 1,
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
def test_other_conditions(condition):
    data = lt.placeholder((8, 32), "int8", name="data")
    a, b = lt.relu(data, name="a"), lt.clip(data, -5, 5, name="b")
    output = lt.compute((8, 32), lambda i, c: lt.select(condition(i, c), a[i, c], b[i, c]), name="output")
    run(lt.create_schedule(output), VTA, random_inputs([output], seed=3))
