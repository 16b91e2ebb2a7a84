"""Tensors without dimensions as inputs, intermediates and outputs: engines give arrays of shape () and right values.

Random programs contain several of them, with and without schedules; the other tests are of one kind of use each.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from machines import SHIPPED
from random_programs import Choice, random_inputs
from random_scalars import scalar_commands, scalar_programs
from seeds import check_each, note
from shares import BUILD, COMMAND, Shares, check_shares, counted

import lathe as lt
from lathe.frontend import format_program, placeholders
from lathe.scheduler.passes.pipeline import PASSES

LEVELS = ("algorithm", "order", "data", "communication", "loops", "chunks")
MACHINES = ["vta", "tiny", "lathe16", "wide", "batch4"]
MOST_INSTANCES = 4_000
"""Schedules with more instances are not built, since compiling them instance by instance takes long."""

x = lt.placeholder((4, 8), "int8", name="x")
z = lt.placeholder((), "int32", name="z")
k, l = lt.reduce_axis(4, "k"), lt.reduce_axis(8, "l")
X = np.arange(32, dtype=np.int8).reshape(4, 8)


def total(name: str = "S") -> lt.Tensor:
    return lt.compute((), lambda: lt.sum(x[k, l].astype("int32"), axis=[k, l]), name)


def check_same(found: Mapping[str, Any], expected: Mapping[str, np.ndarray]) -> None:
    for name, array in expected.items():
        assert isinstance(found[name], np.ndarray), name
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        np.testing.assert_array_equal(found[name], array, name)


def check_on(schedule: lt.Schedule, machine: str, check: Any = False) -> None:
    outputs = list(schedule.program)
    inputs = random_inputs(outputs, seed=1)
    program = lt.build(schedule, [*placeholders(outputs), *outputs], SHIPPED[machine], check=check)
    assert lt.verify(program) == []
    check_same(lt.simulate(program, inputs).outputs, lt.reference(outputs, inputs))


def check_default(seed: int) -> None:
    choice = Choice(seed)
    outputs = scalar_programs(choice, choice.number(1, 6))
    note(format_program(outputs))
    inputs = random_inputs(outputs, seed=1)
    check_same(lt.interpret(lt.create_schedule(outputs), inputs), lt.reference(outputs, inputs))
    for machine in choice.shuffled(MACHINES)[:3]:
        note(machine)
        with counted(BUILD):
            check_on(lt.create_schedule(outputs), machine, choice.pick([False, True, "passes"]))


@pytest.mark.seeds(4, slow=296)
def test_random_programs(seeds):
    check_shares(check_each(seeds, check_default), BUILD, Shares(0.97, {"machine": 0.03}))


def check_scheduled(seed: int) -> None:
    choice = Choice(seed)
    outputs = scalar_programs(choice, choice.number(1, 4))
    note(format_program(outputs))
    inputs = random_inputs(outputs, seed=1)
    schedule, machine = lt.create_schedule(outputs), choice.pick(MACHINES)
    for _ in range(choice.number(1, 6)):
        scalar_commands(choice, schedule).attempt(schedule)
    check_same(lt.interpret(schedule, inputs), lt.reference(outputs, inputs))
    if sum(each.executed for each in schedule.count().stages.values()) <= MOST_INSTANCES:
        note(machine)
        with counted(BUILD):
            check_on(schedule, machine)


@pytest.mark.seeds(8, slow=592)
def test_random_schedules(seeds):
    happened = check_each(seeds, check_scheduled)
    check_shares(happened, COMMAND, Shares(0.4, {"argument": 0.5, "legality": 0.2, "machine": 0.1, "limit": 0.15}))
    check_shares(happened, BUILD, Shares(0.65, {"machine": 0.35, "limit": 0.1}))


@pytest.mark.parametrize("given", [3, np.int32(3), np.array(3, np.int32)], ids=lambda each: type(each).__name__)
def test_a_number_and_an_array_are_inputs_of_shape_empty(given):
    T = lt.compute((4, 8), lambda i, j: x[i, j].astype("int32") + z[()], "T")
    U = lt.compute((), lambda: z[()] * 2, "U")
    program = lt.build([T, U], [x, z, T, U], SHIPPED["tiny"])
    inputs = {"x": X, "z": given}
    for found in (
        lt.reference([T, U], inputs),
        lt.interpret(lt.create_schedule([T, U]), inputs),
        lt.simulate(program, inputs).outputs,
    ):
        check_same(found, {"T": X.astype(np.int32) + 3, "U": np.array(6, np.int32)})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_dtypes_of_outputs(dtype):
    S = total()
    T = lt.compute((), lambda: S[()].astype(dtype), "T")
    program = lt.build(T, [x, T], SHIPPED["vta"])
    check_same(lt.simulate(program, {"x": X}).outputs, {"T": np.array(X.sum(dtype=np.int32)).astype(dtype)})


def test_a_domain_without_indices():
    T = lt.compute((), lambda: z[()] + 5, "T", where=lambda: x[1, 2] > 3)
    program = lt.build(T, [z, x, T], SHIPPED["vta"])
    for first, expected in ((X, 7), (X - 32, 0)):
        inputs = {"x": first, "z": np.array(2, np.int32)}
        for found in (lt.simulate(program, inputs).outputs, lt.interpret(lt.create_schedule(T), inputs)):
            check_same(found, {"T": np.array(expected, np.int32)})


def test_a_product_of_a_tensor_with_itself_that_has_no_axis():
    b = lt.placeholder((), "int8", name="b")
    T = lt.compute((), lambda: b[()].astype("int32") * b[()].astype("int32"), "T")
    for machine in ("tiny", "batch4"):
        check_on(lt.create_schedule(T), machine)


def test_a_sum_computed_in_the_loops_of_its_reader():
    S = total()
    T = lt.compute((4, 8), lambda i, j: x[i, j].astype("int32") * S[()], "T")
    for scope in ("dram", "acc"):
        s = lt.create_schedule(T)
        s[S].set_scope(scope)
        s[S].split(s[S].reduce_axis[1], factor=4)
        s[S].compute_at(s[T], s[T].axis[0])
        check_same(lt.interpret(s, {"x": X}), {"T": X.astype(np.int32) * X.sum(dtype=np.int32)})
        check_on(s, "vta")


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_sum_stored_in_each_iteration_of_a_loop_and_read_after_it(shape):
    """The store of int32 values as byte planes must not destroy a sum that is computed before the loop."""
    S = lt.compute(shape, lambda *_: lt.sum(x[k, l].astype("int32"), axis=[k, l]), "S")
    at = (0,) * len(shape)
    T = lt.compute((4,), lambda i: x[i, 0].astype("int32") + S[at], "T")
    U = lt.compute((), lambda: S[at] + T[3], "U")
    for cached in (False, True):
        s = lt.create_schedule([T, U])
        if cached:
            s.cache_write(S, "acc")
        s[S].compute_at(s[T], s[T].axis[0])
        check_on(s, "vta", "passes")


def test_an_input_read_as_it_is_and_as_a_scalar():
    a = lt.placeholder((1,), "int16", name="a")
    j = lt.reduce_axis(1, "j")
    S = lt.compute((), lambda: lt.sum(a[j].astype("int32"), axis=j), "S")
    check_on(lt.create_schedule([S, lt.compute((), lambda: a[0], "T")]), "vta", "passes")


def test_a_buffer_of_one_cell():
    S = total()
    T = lt.compute((), lambda: S[()] + 1, "T")
    s = lt.create_schedule([S, T])
    s[S].store_in(lambda: [0])
    expected = {"S": np.array(496, np.int32), "T": np.array(497, np.int32)}
    check_same(lt.interpret(s, {"x": X}), expected)
    check_on(s, "vta")


def test_every_level_is_printed_and_explained():
    S = total()
    U = lt.compute((), lambda: S[()] + z[()], "U")
    tensors, machine = [x, z, U], SHIPPED["vta"]
    for level in (*LEVELS, *(each.name for each in PASSES)):
        assert lt.lower(U, tensors, machine, stage=level)
    assert lt.explain(lt.create_schedule(U), machine).maps
    program = lt.build(U, tensors, machine)
    cycles = lt.simulate(program, {"x": X, "z": 3}).cycles
    assert 0 < lt.bound(U, machine).cycles <= cycles
    assert lt.autoschedule(U, machine, budget=2, cache=False).cycles <= cycles


def test_a_saved_program(tmp_path):
    S = total()
    lt.build(S, [x, S], SHIPPED["tiny"]).save(tmp_path / "sum.lathe")
    loaded = lt.Program.load(tmp_path / "sum.lathe")
    check_same(lt.simulate(loaded, {"x": X}).outputs, {"S": np.array(496, np.int32)})
