"""Recurrences, compiled: gates by GEMM, states through DRAM, time loops in the instruction stream."""

from dataclasses import replace

import numpy as np
import pytest
from random_programs import random_inputs
from recurrent_programs import TwoLayers
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import compute, define, max, placeholder, recurrence, reduce_axis, select, state, sum
from lathe.isa import Gemm, verify
from lathe.scheduler import build, create_schedule
from lathe.sim import simulate_program

MACHINES = ("vta", "tiny", "wide", "batch4")


def wavefront(host):
    along, diagonal = host.skew("t", "l")
    host.reorder(diagonal, along)
    host.parallelize(along)


ORDERS = {
    "as_declared": lambda host: None,  # noqa: ARG005
    "wavefront": wavefront,
    "layer_by_layer": lambda host: host.reorder("l", "t"),
    "tiles_of_three_steps": lambda host: host.tile("t", "l", 3, 1),
    "diagonals_inside": lambda host: host.skew("t", "l", 2, 1),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("order", ORDERS)
def test_two_layers(machine, order):
    network = TwoLayers(steps=4)
    s = create_schedule([network.h, network.c])
    ORDERS[order](s[network.h])
    data = network.data()
    program = run(s, load_config(machine), data)
    found = simulate_program(program, data).outputs
    for name, values in network.meaning(data).items():
        np.testing.assert_array_equal(found[name], values)


def test_both_products_are_matrix_products_and_weights_come_once():
    network = TwoLayers(steps=5, size=32)
    s = create_schedule(network.h)
    program = run(s, load_config("vta"), network.data())
    products = sum_of(
        each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn)
        for each in program.instructions
        if isinstance(each, Gemm) and not each.reset
    )
    steps = 5 + 4  # matmuls of ``below``, and of ``before``, which is zero in the first time step
    assert products == steps * 2 * (4 * 32 // 16) * (32 // 16)
    for name in ("W", "U"):
        assert sum_of(each.y_size * each.x_size for each in loads_of(program, name)) == 2 * 4 * (32 // 16) ** 2


def sum_of(values):
    return int(np.sum(list(values)))


@pytest.mark.slow
def test_counts_are_those_of_the_simulator():
    network = TwoLayers(steps=3)
    s = create_schedule(network.h)
    wavefront(s[network.h])
    config = load_config("vta")
    counts = s.count(config)
    result = simulate_program(build(s, [*network.inputs, network.h], config), network.data())
    assert dict(counts.loaded) == dict(result.counters.bytes_read)
    assert dict(counts.stored) == dict(result.counters.bytes_written)
    assert counts.stages["of_before"].executed == 3 * 2 * 4 * 16 * 16
    assert counts.redundant == 0


def program_of(kind):
    x = placeholder((6, 32), "int32", "x")
    if kind == "elementwise":
        return recurrence(x.shape, lambda s, t, n: max(s[t - 1, n] + x[t, n], 0) >> 1, init=5, name="s")
    if kind == "along the lanes":
        return recurrence(x.shape, lambda s, t, n: s[t, n - 1] * 3 + x[t, n], init=1, name="s")
    if kind == "both":
        return recurrence((6, 7), lambda s, t, n: s[t - 1, n] + s[t, n - 1] + x[t, n], init=2, name="s")
    if kind == "one dimension":
        return recurrence(20, lambda s, t: s[t - 1] + s[t - 3] + t.astype("index") * 0 + x[0, t], init=0, name="s")
    if kind == "far":
        return recurrence(x.shape, lambda s, t, n: s[t - 4, n] - x[t, n], init=-3, name="s", dtype="int32")
    V = placeholder((16, 16), "int32", "V")
    k = reduce_axis(16, "k")
    return recurrence((4, 16), lambda h, t, n: sum(V[n, k] * h[t - 1, k], axis=k), init=1, name="h")


KINDS = ("elementwise", "along the lanes", "both", "far", "reduction")


@pytest.mark.sample(2)
@pytest.mark.parametrize("machine", ["vta", "batch4"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_reads_itself(kind, machine):
    output = program_of(kind)
    run(create_schedule(output), load_config(machine), random_inputs([output], seed=2))


@pytest.mark.parametrize("init", ["zero", "constant", "tensor"])
def test_a_gemm_of_values_before_the_first_iteration(init):
    W, first = placeholder((32, 32), "int8", "W"), placeholder(32, "int8", "first")
    k = reduce_axis(32, "k")
    h = state((4, 32), "int8", "h", init={"zero": 0, "constant": 7, "tensor": first}[init])
    before = compute((4, 32), lambda t, n: h[t - 1, n], "before")
    wide = lambda value: value.astype("int32")  # noqa: E731
    product = compute((4, 32), lambda t, n: sum(wide(W[n, k]) * wide(before[t, k]), axis=k), "product")
    define(h, lambda t, n: (product[t, n] + 37 >> 6).astype("int8"))
    for machine in ("vta", "tiny"):
        run(create_schedule(h), load_config(machine), random_inputs([h], seed=3))


def test_a_gemm_with_a_select_of_its_own():
    W = placeholder((32, 32), "int8", "W")
    k = reduce_axis(32, "k")
    h = state((4, 32), "int8", "h", init=0)
    product = compute(
        (4, 32), lambda t, n: sum(W[n, k].astype("int32") * h[t - 1, k].astype("int32"), axis=k), "product"
    )
    define(h, lambda t, n: (product[t, n] + 300 >> 6).astype("int8"))
    program = run(create_schedule(h), load_config("vta"), random_inputs([h], seed=3))
    assert any(isinstance(each, Gemm) and not each.reset for each in program.instructions)


def test_scheduled_by_the_user():
    network = TwoLayers(steps=3)
    s = create_schedule([network.h, network.c])
    s[network.below].set_scope("inp")
    s[network.before].inline()
    weights = s.cache_read(network.W, "wgt", [network.of_before])
    s[weights].compute_at(s[network.h], "t")
    for tensor in (network.of_before, network.of_below, network.gates):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[network.h], "l")
    run(s, load_config("vta"), network.data())


def test_fused_loops_outside_a_recurrence_are_stored_as_well():
    x = placeholder((6, 32), "int32", "x")
    a = compute(x.shape, lambda t, n: x[t, n] * 2, "a")
    b = compute(x.shape, lambda t, n: a[t, n] + 1, "b")
    s = create_schedule([a, b])
    s[b].after(s[a], "t")
    run(s, load_config("vta"), random_inputs([a, b], seed=2))


@pytest.mark.parametrize("machine", MACHINES)
def test_several_states_in_one_computation(machine):
    x = placeholder((8, 16), "int32", "x")
    f, g = recurrence(
        (8, 16), lambda f, g, t, n: (f[t - 1, n] + g[t - 1, n] + x[t, n], f[t - 1, n] * 3), init=1, name=("f", "g")
    )
    s = create_schedule([f, g])
    run(s, load_config(machine), random_inputs([f, g], seed=4))


def test_several_states_with_others_in_their_loops():
    x = placeholder((6, 16), "int32", "x")
    f, g = state((6, 16), name="f", init=1), state((6, 16), name="g", init=2)
    half = compute((6, 16), lambda t, n: f[t - 1, n] - g[t - 1, n], "half")
    define([f, g], lambda t, n: (half[t, n] + x[t, n], half[t, n] * 2 + f[t - 1, n]))
    s = create_schedule([f, g])
    s[f].split("t", 4)
    run(s, load_config("vta"), random_inputs([f, g], seed=4))


def test_stores_and_loads_of_a_state_wait_for_each_other():
    network = TwoLayers(steps=3)
    program = build(create_schedule(network.h), [*network.inputs, network.h], load_config("tiny"))
    assert verify(program) == []
    tokens = dict.fromkeys(("pop_prev", "pop_next", "push_prev", "push_next"), False)
    bare = tuple(replace(each, **tokens) for each in program.instructions)
    assert verify(replace(program, instructions=bare)) != []


@pytest.mark.sample(1)
@pytest.mark.parametrize(("latency", "shared"), [(0, True), (1, False), (300, True), (300, False)])
def test_tokens_order_states_whatever_the_memory_takes(latency, shared):
    network = TwoLayers(steps=3)
    s = create_schedule([network.h, network.c])
    wavefront(s[network.h])
    program = build(s, [*network.inputs, network.h, network.c], load_config("tiny"))
    memory = replace(program.config.memory, latency=latency, shared_bandwidth=shared)
    data = network.data()
    found = simulate_program(replace(program, config=replace(program.config, memory=memory)), data).outputs
    for name, values in network.meaning(data).items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_stage_outside_a_loop_loads_there_what_a_stage_in_the_loop_has_stored(machine):
    x = placeholder((4, 4), "int32", "x")
    s = state((4, 4), "int32", "s", init=3)
    between = compute((4, 4), lambda t, n: s[t - 1, n] + 1, "between")
    define(s, lambda t, n: x[t, n] + between[t, n])
    last = compute((4, 4), lambda t, n: between[t, n] + s[t, n], "last")
    schedule = create_schedule([s, last])
    schedule[last].after(schedule[s], "n")  # but ``between`` shares the loop over ``t`` only
    run(schedule, load_config(machine), random_inputs([s, last], seed=2))


@pytest.mark.sample(1)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_part_computed_outside_a_loop_loads_there_what_a_stage_in_the_loop_has_stored(machine):
    V = placeholder((6, 6), "int32", "V")
    s = state((6, 6), "int32", "s", init=-3)
    k = reduce_axis(6, "k")
    product = compute((6, 6), lambda t, n: sum(V[n, k] * s[t - 2, k], axis=k), "product")
    define(s, lambda t, n: max(s[t, n - 1] * 3, product[t, n]))
    last = compute((6, 6), lambda t, n: product[t, n] + s[t, n], "last")
    schedule = create_schedule([s, last])
    schedule[last].after(schedule[s], "n")
    schedule[product].compute_at(schedule[last], "t")
    run(schedule, load_config(machine), random_inputs([s, last], seed=2))


def test_a_copy_that_is_never_read_is_left_out():
    """The condition on the read of the state never holds, which simplification of selects detects."""
    x = placeholder((2, 2, 4), "int32", "x")
    s = state((2, 2, 4), "int32", "s")
    never = compute(s.shape, lambda i, j, k: select((i >= 1) & (j + 2 < 2), s[i - 1, j, k], -1), "never")
    before = compute(s.shape, lambda i, j, k: select(j >= 1, s[i, j - 1, k], 2), "before")
    s = define(s, lambda i, j, k: x[i, j, k] + before[i, j, k] * 3 + never[i, j, k])
    schedule = create_schedule(s)
    schedule.copy_at(s, never, schedule[never].leaf_axis[0], "inp")
    schedule[never].compute_at(schedule[s], schedule[s].leaf_axis[1])
    run(schedule, load_config("tiny"), random_inputs([s], seed=1))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_state_that_only_follows_another_runs_in_its_loops(machine):
    """U reads earlier values of V, and V none of U: U is in the loops of V, but in no recurrence with it."""
    Z = placeholder((6, 16), "int32", name="Z")
    U, V = recurrence(
        (6, 16),
        lambda _, V, t, j: (V[t - 1, j], V[t - 1, j] + Z[t, j]),
        init=[1, 2], name=["U", "V"], dtype=["int32", "int32"],
    )  # fmt: skip
    run(create_schedule([U, V]), load_config(machine), random_inputs([U, V], seed=1))
