"""Partial schedules: users schedule some stages, and the compiler decides the rest."""

from collections.abc import Callable
from math import ceil

import numpy as np
import pytest

import lathe as lt

Program = tuple[lt.Schedule, list[lt.Tensor], lt.Tensor]


def layer() -> tuple[lt.Tensor, lt.Tensor, lt.Tensor]:
    X = lt.placeholder((32, 48), "int8", name="X")
    W = lt.placeholder((64, 48), "int8", name="W")
    return X, W, lt.dense(X, W, name="Y")


def rows_split() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    s[Y].split(s[Y].axis[0], factor=16)
    return s, [X, W, Y], Y


def columns_split_across_the_block() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    s[Y].split(s[Y].axis[1], factor=10)
    return s, [X, W, Y], Y


def reduction_split_outermost() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    io, ii = s[Y].split(s[Y].axis[0], factor=16)
    ko, ki = s[Y].split(s[Y].reduce_axis[0], factor=32)
    s[Y].reorder(ko, io, ii, s[Y].axis[1], ki)
    return s, [X, W, Y], Y


def tiled() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    s[Y].tile(*s[Y].axis, 16, 32)
    return s, [X, W, Y], Y


def input_cached_in_a_loop_of_the_output() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    io, _ = s[Y].split(s[Y].axis[0], factor=16)
    cached = s.cache_read(X, "inp", [Y])
    s[cached].compute_at(s[Y], io)
    return s, [X, W, Y], Y


def weights_cached_only() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    s.cache_read(W, "wgt", [Y])
    return s, [X, W, Y], Y


def inputs_cached_only() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    s.cache_read(X, "inp", [Y])
    return s, [X, W, Y], Y


def product_made_in_a_tile_and_nothing_loaded() -> Program:
    X, W, Y = layer()
    s = lt.create_schedule(Y)
    made = s.cache_write(Y, "acc")
    io, _ = s[Y].split(s[Y].axis[0], factor=16)
    s[made].compute_at(s[Y], io)
    return s, [X, W, Y], Y


def product_kept_in_acc_before_an_epilogue() -> Program:
    X, W, Y = layer()
    Q = lt.requantise(Y, 5, name="Q")
    s = lt.create_schedule(Q)
    s[Y].set_scope("acc")
    return s, [X, W, Q], Q


def product_in_the_loops_of_an_epilogue_in_no_memory_said() -> Program:
    X, W, Y = layer()
    Q = lt.requantise(Y, 5, name="Q")
    s = lt.create_schedule(Q)
    io, _ = s[Q].split(s[Q].axis[0], factor=16)
    s[Y].compute_at(s[Q], io)
    return s, [X, W, Q], Q


SCHEDULES: list[Callable[[], Program]] = [
    rows_split,
    columns_split_across_the_block,
    reduction_split_outermost,
    tiled,
    input_cached_in_a_loop_of_the_output,
    weights_cached_only,
    inputs_cached_only,
    product_made_in_a_tile_and_nothing_loaded,
    product_kept_in_acc_before_an_epilogue,
    product_in_the_loops_of_an_epilogue_in_no_memory_said,
]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ["vta", "wide", "batch4"])
@pytest.mark.parametrize("make", SCHEDULES, ids=lambda make: make.__name__)
def test_what_a_schedule_leaves_open_is_completed(make: Callable[[], Program], name: str) -> None:
    schedule, tensors, output = make()
    config = lt.load_config(name)
    program = lt.build(schedule, tensors, config, check=True)
    generator = np.random.default_rng(3)
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in tensors if each is not output}
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs[output.name], lt.reference(output, inputs))
    assert lt.verify(program) == []
    block_in, block_out, batch = config.block_in, config.block_out, config.batch
    either = [ceil(rows / batch) * ceil(cols / block_out) * ceil(48 / block_in) for rows, cols in ((32, 64), (64, 32))]
    assert result.counters.gemm_operations in either  # the schedule leaves open which operand is the weight


def test_a_schedule_is_not_changed_by_building_it() -> None:
    schedule, tensors, _ = input_cached_in_a_loop_of_the_output()
    config = lt.load_config("vta")
    before = lt.lower(schedule, tensors, config, stage="loops")
    lt.build(schedule, tensors, config)
    assert lt.lower(schedule, tensors, config, stage="loops") == before
