"""``compute_at`` computes the smallest box around what an iteration reads, whatever the order of the loops."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from executions import cell_of
from nests import check
from random_programs import Choice
from seeds import check_each, note
from small_machine import run
from symbolic_execution import steps

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.scheduler import Schedule, Stage, create_schedule
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.schedule_ir.loops import LoopAxis

A = placeholder((9, 15), "int32", "A")
P = compute((9, 15), lambda i, j: A[i, j] + 1, "P")
Q = compute((9, 15), lambda i, j: P[i, j] * 2, "Q")


def boxes(schedule: Schedule, stage: Stage) -> list[tuple[int, ...]]:
    """The shapes of the smallest boxes around the cells read of a stage, one for each iteration of enclosing loops."""
    around = place_stages(schedule)[stage].prefix
    cells: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for step in steps(schedule):
        for read in step.stage.op.reads if step.role != "init" else ():
            cell = cell_of(read, step.point)
            if read.tensor is stage.tensor and cell is not None:
                cells.setdefault(tuple(step.loops[variable] for variable in around), []).append(cell)
    return [tuple(int(size) + 1 for size in np.ptp(np.array(each), axis=0)) for each in cells.values()]


def check_smallest(schedule: Schedule, tensor: Tensor) -> int:
    """Fail unless the smallest boxes are computed; returns how many instances they have."""
    check(schedule)
    stage = schedule[tensor]
    found = boxes(schedule, stage)
    executed = schedule.count().stages[stage.name].executed
    assert executed == int(np.sum([prod(box) for box in found], dtype=int))
    if not found:
        return 0
    largest = tuple(extent for extent in np.max(found, axis=0).tolist() if extent > 1)
    assert stage.buffer_shape == (largest or (1,))
    return executed


def fused(factor: int) -> Callable[[Stage], LoopAxis]:
    return lambda stage: stage.split(stage.fuse("i", "j"), factor)[0]


def split_again(stage: Stage) -> LoopAxis:
    outer, inner = stage.split("j", 10)
    stage.split(inner, 4)
    return outer


def inside_out(stage: Stage) -> LoopAxis:
    outer, inner = stage.split("j", 4)
    stage.reorder(inner, outer)
    return inner


def serpentine(loop: int) -> Callable[[Stage], LoopAxis]:
    def order(stage: Stage) -> LoopAxis:
        stage.set_schedule("{ Q[i, j] -> [i, j] : i % 2 = 0; Q[i, j] -> [i, 14 - j] : i % 2 = 1 }")
        return stage.leaf_axis[loop]

    return order


ORDERS: dict[str, tuple[Callable[[Stage], LoopAxis], int]] = {
    "rows of fused loops": (fused(15), 135),
    "three rows of fused loops": (fused(45), 135),
    "parts of rows of fused loops": (fused(5), 135),
    "ten of fused loops": (fused(10), 4 * (10 + 30 + 10) + 10 + 5),
    "a part of a split that has a tail": (split_again, 135),
    "every fourth column": (inside_out, 9 * (13 + 13 + 13 + 9)),
    "rows there and back": (serpentine(0), 135),
    "cells there and back": (serpentine(1), 135),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_box_is_the_smallest_in_any_order(name):
    order, expected = ORDERS[name]
    s = create_schedule(Q)
    s[P].compute_at(s[Q], order(s[Q]))
    assert check_smallest(s, P) == expected


MAPPED = ["rows of fused loops", "three rows of fused loops", "a part of a split that has a tail"]
"""For the other orders, chunks of Q map to no instruction: they split vectors, or are single cells."""


@pytest.mark.parametrize("name", MAPPED)
def test_such_boxes_reach_the_machine(name):
    order, _ = ORDERS[name]
    s = create_schedule(Q)
    s[P].compute_at(s[Q], order(s[Q]))
    run(s, load_config("tiny"), {"A": np.arange(135, dtype=np.int32).reshape(9, 15)})


def test_a_diagonal_has_the_box_around_it():
    s = create_schedule(Q)
    s[Q].skew("i", "j")
    s[Q].reorder(s[Q].leaf_axis[1], s[Q].leaf_axis[0])
    s[P].compute_at(s[Q], s[Q].leaf_axis[0])
    check_smallest(s, P)


INDICES: dict[str, Callable[..., Any]] = {
    "a remainder": lambda i, j: P[i, (j + 4) % 15],
    "a quotient and a remainder": lambda i, j: P[(i * 15 + j) // 15, (i * 15 + j) % 15],
    "turned": lambda i, j: P[8 - i, 14 - j],
    "under a condition": lambda i, j: select(i >= 6, P[i, j], 0),
    "under a condition on both": lambda i, j: select((j <= i) & (i < 7), P[i, j], 0),
    "two that shift": lambda i, j: P[i, j] + select(j >= 1, P[i, j - 1], 0),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("loop", ["io", "jo"])
def test_the_box_is_the_smallest_for_any_index(name, loop):
    R = compute((9, 15), INDICES[name], "R")
    s = create_schedule(R)
    s[R].tile("i", "j", 4, 6)
    s[P].compute_at(s[R], loop)
    check_smallest(s, P)


def test_the_box_is_the_smallest_within_a_domain():
    R = compute((9, 9), lambda i, j: P[i, j] * 2, "R", where=lambda i, j: (j <= i) & (i + j < 12))
    for loop in ("io", "jo", "ii"):
        s = create_schedule(R)
        s[R].tile("i", "j", 4, 3)
        s[P].compute_at(s[R], loop)
        check_smallest(s, P)


def test_tiles_of_a_convolution_over_fused_pixels_compute_each_row_once():
    ry, rx = reduce_axis(3, "ry"), reduce_axis(3, "rx")
    C = compute((7, 13), lambda y, x: sum(P[y + ry, x + rx], axis=(ry, rx)), "C")
    s = create_schedule(C)
    outer, _ = s[C].split(s[C].fuse("y", "x"), 13)
    s[P].compute_at(s[C], outer)
    assert check_smallest(s, P) == 7 * 3 * 15


@pytest.mark.sample(1)
@pytest.mark.parametrize("factor", [4, 10, 16, 35])
@pytest.mark.parametrize("inner_first", [False, True])
def test_the_box_is_the_smallest_in_three_fused_loops(factor, inner_first):
    cube = placeholder((3, 5, 7), "int32", "cube")
    inner = compute((3, 5, 7), lambda i, j, k: cube[i, j, k] * 3, "inner")
    outer = compute((3, 5, 7), lambda i, j, k: inner[i, j, k] + 1, "outer")
    s = create_schedule(outer)
    one = s[outer].fuse("i", s[outer].fuse("j", "k")) if inner_first else s[outer].fuse(s[outer].fuse("i", "j"), "k")
    s[inner].compute_at(s[outer], s[outer].split(one, factor)[0])
    assert check_smallest(s, inner) == {4: 327, 10: 222, 16: 245, 35: 105}[factor]


def test_boxes_of_nested_stages_follow_from_the_smaller_box():
    middle = compute((9, 14), lambda i, j: P[i, j] + P[i, j + 1], "middle")
    last = compute((9, 14), lambda i, j: middle[i, j] * 3, "last")
    s = create_schedule(last)
    outer, _ = s[last].split(s[last].fuse("i", "j"), 7)
    s[middle].compute_at(s[last], outer)
    s[P].compute_at(s[last], outer)
    assert check_smallest(s, middle) == 9 * 14
    assert check_smallest(s, P) == 18 * 8


def random_order(choice: Choice, stage: Stage) -> None:
    """Loops of a stage split, fused and reordered at random, or changed and changed back."""
    if len(stage.op.axes) == 2 and choice.number(0, 4) == 0:
        width, period = stage.op.axes[1].extent - 1, choice.number(2, 3)
        back = " or ".join(f"i % {period} = {n}" for n in range(1, period))
        stage.set_schedule(f"{{ Q[i, j] -> [i, j] : i % {period} = 0; Q[i, j] -> [i, {width} - j] : {back} }}")
        note("there and back")
    for _ in range(choice.number(1, 3)):
        kind, leaves = choice.pick(["split", "fuse", "reorder"]), stage.leaf_axis
        place = choice.number(0, len(leaves) - 1)
        if kind == "split":
            factor = choice.number(1, 11)
            stage.split(leaves[place], factor)
            note(f"split({leaves[place].name}, {factor})")
        elif kind == "fuse" and place and leaves[place - 1].kind == leaves[place].kind:
            stage.fuse(leaves[place - 1], leaves[place])
            note(f"fuse({leaves[place - 1].name}, {leaves[place].name})")
        elif kind == "reorder":
            order = choice.shuffled(leaves)
            stage.reorder(*order)
            note(f"reorder({[leaf.name for leaf in order]})")


def check_random_order(seed: int) -> None:
    choice = Choice(seed)
    height, width = choice.number(2, 6), choice.number(3, 8)
    A = placeholder((height + 2, width + 2), "int32", "A")
    P = compute(A.shape, lambda i, j: A[i, j] + 1, "P")
    di, dj = choice.number(0, 2), choice.number(0, 2)
    bodies = [
        lambda i, j: P[i + di, j + dj],
        lambda i, j: P[i, j] + P[i + di, j + dj],
        lambda i, j: P[height - i, (j + dj) % width],
        lambda i, j: select(i >= di, P[i, j], 0) + 1,
    ]
    number = choice.number(0, len(bodies) - 1)
    Q = compute((height, width), bodies[number], "Q")
    note(f"{(height, width)}, {(di, dj)}, body {number}")
    s = create_schedule(Q)
    random_order(choice, s[Q])
    leaf = choice.pick(s[Q].leaf_axis)
    note(f"compute_at({leaf.name})")
    s[P].compute_at(s[Q], leaf)
    check_smallest(s, P)


def check_random_order_of_three(seed: int) -> None:
    choice = Choice(seed)
    shape = choice.number(2, 3), choice.number(2, 5), choice.number(2, 6)
    by = [choice.number(0, 1) for _ in shape]
    cube = placeholder(tuple(extent + 1 for extent in shape), "int32", "cube")
    inner = compute(cube.shape, lambda i, j, k: cube[i, j, k] + 1, "inner")
    outer = compute(shape, lambda i, j, k: inner[i, j, k] + inner[i + by[0], j + by[1], k + by[2]], "outer")
    note(f"{shape}, {by}")
    s = create_schedule(outer)
    if choice.number(0, 1):
        s[outer].fuse("i", "j")
    random_order(choice, s[outer])
    leaf = choice.pick(s[outer].leaf_axis)
    note(f"compute_at({leaf.name})")
    s[inner].compute_at(s[outer], leaf)
    check_smallest(s, inner)


@pytest.mark.seeds(8, slow=192)
def test_boxes_of_random_orders_are_the_smallest(seeds):
    check_each(seeds, check_random_order)


@pytest.mark.seeds(6, slow=144)
def test_boxes_of_random_orders_of_three_loops_are_the_smallest(seeds):
    check_each(seeds, check_random_order_of_three)


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_boxes_of_many_more_random_orders_are_the_smallest(seeds):
    check_each(seeds, check_random_order)
