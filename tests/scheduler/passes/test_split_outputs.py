"""Pass ``split-outputs``: each output of a computation is computed in clones of its loops, one after the other."""

import numpy as np
import pytest
from error_checks import raises
from random_programs import random_inputs

from lathe.builder import build as build_checked
from lathe.configs import load_config
from lathe.frontend import Tensor, compute, max, placeholder, placeholders, reduce_axis, reference, sum
from lathe.isa import verify
from lathe.scheduler import EmitError, Schedule, build, create_schedule
from lathe.sim import simulate_program

CONFIG = load_config("vta")
A = placeholder((60, 48), "int8", "A")


def two_maps() -> tuple[Tensor, ...]:
    return compute((60, 48), lambda i, j: (A[i, j] + 1, max(A[59 - i, j], 3)), name="M")


def two_reductions() -> tuple[Tensor, ...]:
    k = reduce_axis(48, "k")
    wide = lambda i: A[i, k].astype("int32")  # noqa: E731
    return compute((60,), lambda i: (sum(wide(i), axis=k), max(wide(i), axis=k)), name="R")


def check(schedule: Schedule) -> None:
    outputs = list(schedule.outputs)
    inputs = random_inputs(outputs, seed=0)
    program = build_checked(schedule, [A, *outputs], CONFIG, check="passes")
    assert verify(program) == []
    found, expected = simulate_program(program, inputs).outputs, reference(outputs, inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_data_loops_with_remainders_in_another_order():
    X, Y = two_maps()
    s = create_schedule([X, Y])
    _, ii = s[X].split(s[X].axis[0], factor=16)
    s[X].reorder(s[X].axis[-1], ii)
    check(s)


def test_loops_fused_and_unrolled():
    X, Y = two_maps()
    s = create_schedule([X, Y])
    s[X].unroll(s[X].split(s[X].fuse(*s[X].axis), factor=96)[1])
    check(s)


def test_reduction_loops_outside_data_loops():
    P, Q = two_reductions()
    s = create_schedule([P, Q])
    _, ii = s[P].split(s[P].axis[0], factor=7)
    ko, _ = s[P].split("k", factor=5)
    s[P].reorder(ko, ii)
    check(s)


def two_stencils() -> tuple[Tensor, Tensor, Tensor]:
    image = placeholder((10, 10, 16), "int8", "image")

    def body(y: Tensor, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        rows = [image[y + dy, x + dx, c].astype("int32") for dy in range(3) for dx in range(2)]
        return rows[0] + rows[2] + rows[5], max(max(rows[1], rows[3]), rows[4])

    first, second = compute((8, 9, 16), body, name="S")
    return image, first, second


def loaded(schedule: Schedule) -> tuple[int, int]:
    """The vectors that are loaded, and the cycles; checks the values."""
    outputs = list(schedule.outputs)
    inputs = random_inputs(outputs, seed=0)
    program = build_checked(schedule, [*placeholders(outputs), *outputs], CONFIG, check="passes")
    assert verify(program) == []
    result, expected = simulate_program(program, inputs), reference(outputs, inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(result.outputs[name], values)
    return result.counters.bytes_read["acc8"] // 16, result.cycles


@pytest.mark.sample(2)
@pytest.mark.parametrize("prologue", ["loop", "first"])
@pytest.mark.parametrize("form", ["ring", "shift"])
def test_a_reuse_buffer_for_each_output(form, prologue):
    image, first, second = two_stencils()
    s = create_schedule([first, second])
    s.reuse_at(image, s[first], "y", form=form, prologue=prologue)
    assert loaded(s)[0] == 2 * 10 * 10  # each value once for each output


@pytest.mark.slow
def test_nested_reuse_buffers_for_each_output():
    image, first, second = two_stencils()
    s = create_schedule([first, second])
    lines = s.reuse_at(image, s[first], "y")
    s.reuse_at(lines, s[first], "x")
    assert loaded(s)[0] == 2 * 10 * 10


def test_a_stage_in_the_loops_of_both_is_computed_for_each():
    image = placeholder((10, 10, 16), "int8", "image")
    P = compute((10, 10, 16), lambda y, x, c: image[y, x, c].astype("int32") * 3, "P")
    first, second = compute((8, 10, 16), lambda y, x, c: (P[y, x, c] + P[y + 2, x, c], P[y + 1, x, c] - 1), "S")
    s = create_schedule([first, second])
    s[P].set_scope("acc")
    s[P].reuse_at(s[first], "y", prologue="first")
    assert loaded(s)[0] == 10 * 10 + 8 * 10  # the second output needs only its own rows


def test_threads_and_barriers_of_each_output():
    image, first, second = two_stencils()
    s = create_schedule([first, second])
    outer, _ = s[first].split("y", factor=2)
    s[first].vthread(outer, 2)
    s.barrier_at(first, outer)
    plain = create_schedule([first, second])
    plain[first].split("y", factor=2)
    assert s.count(CONFIG).barriers == 2
    assert loaded(s)[1] != loaded(plain)[1]


def test_tokens_are_received_before_the_first_and_sent_after_the_last():
    image, first, second = two_stencils()
    after = compute(first.shape, lambda y, x, c: first[y, x, c] + second[y, x, c], "after")
    s = create_schedule(after)
    s[first].send("compute")
    made = s.cache_write(after, "acc")
    s[made].receive("store")
    assert loaded(s)[0] > 0


def test_elements_outside_the_domain_are_of_no_output():
    i_limit = 40
    X, Y = compute((60, 48), lambda i, j: (A[i, j] + 1, A[i, j] - 1), "M", where=lambda i, j: i + j < i_limit)
    check(create_schedule([X, Y]))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("product", [False, True])
def test_a_pragma_on_a_stage_of_which_one_output_is_read_is_refused(which, product):
    """Regression: the vector layout of the other output was not checked."""
    two, k = two_maps(), reduce_axis(48, "k")
    read, B = two[which], placeholder((5, 48), "int8", "B")
    wide = lambda tensor, i: tensor[i, k].astype("int32")  # noqa: E731
    if product:
        C = compute((60, 5), lambda i, j: sum(wide(read, i) * wide(B, j), axis=k), "C")
    else:
        C = compute((60, 48), lambda i, j: read[59 - i, j], "C")
    s = create_schedule(C)
    s[read].emit_insn(s[read].axis[0], "alu")
    mentions = ("stage M", 2, "scheduled by the user")
    raises(EmitError, build, s, [*placeholders([C]), C], CONFIG, kind="limit", mentions=mentions)
