"""Layouts with padding, compiled: simulator, RTL, and runs with poisoned padding in memory."""

from dataclasses import replace

import numpy as np
import pytest
from nests import check
from random_programs import random_inputs
from small_machine import memory_of, run

import lathe as lt
from lathe.isa import Program, verify
from lathe.isa.layout_steps import Widening
from lathe.scheduler import ScheduleError, build, create_schedule, undef
from lathe.sim import simulate_program


def with_poison(program: Program, poison: int) -> Program:
    """The program with ``poison`` in those padding cells of inputs that its layouts leave undefined."""
    segments = []
    for segment in program.segments:
        layout = segment.layout
        if layout is not None and layout.reorderings:
            steps = tuple(
                replace(step, value=poison) if isinstance(step, Widening) and step.value is None else step
                for step in layout.reorderings
            )
            segment = replace(segment, layout=replace(layout, reorderings=steps))
        segments.append(segment)
    return replace(program, segments=tuple(segments))


def run_poisoned(schedule, config) -> Program:
    """Run a schedule, and check that poisoned padding of inputs does not change the outputs."""
    inputs = random_inputs(list(schedule.program), seed=3)
    program = run(schedule, config, inputs)
    expected = simulate_program(program, inputs).outputs
    for poison in (-128, 77):
        found = simulate_program(with_poison(program, poison), inputs).outputs
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)
    return program


def doubled():
    A = lt.placeholder((3, 14), "int8", name="A")
    return A, lt.compute((3, 14), lambda i, c: A[i, c] * 2, name="B")


def product(rows=12, columns=14, inner=8):
    X, W = lt.placeholder((rows, inner), "int8", name="X"), lt.placeholder((columns, inner), "int8", name="W")
    M = lt.matmul(X, W, transpose_b=True, name="M")
    return X, W, M, lt.requantise(M, 4, name="D")


@pytest.mark.sample(6)
@pytest.mark.parametrize("machine", ["vta", "tiny"])
@pytest.mark.parametrize("of_b", [None, undef, 0, 14], ids=str)
@pytest.mark.parametrize("of_a", [None, undef, 0, 7], ids=str)
def test_element_wise_in_blocks(machine, of_a, of_b):
    A, B = doubled()
    for blocks in (lambda i, c: [i, c // 4, c % 4], lambda i, c: [c // 16, i, c % 16]):
        s = create_schedule(B)
        s.transform_layout(A, blocks, pad_value=of_a)
        s.transform_layout(B, blocks, pad_value=of_b)
        run_poisoned(s, lt.load_config(machine))
        try:
            s[B].overcompute()
        except ScheduleError:
            continue
        run_poisoned(s, lt.load_config(machine))


def test_a_contract_is_kept_in_memory():
    A, B = doubled()
    s = create_schedule(B)
    s.transform_layout(B, lambda i, c: [c // 16, i, c % 16], pad_value=-5)
    config = lt.load_config("vta")
    program = build(s, [A, B], config)
    inputs = random_inputs([B], seed=0)
    layout = program.segment("B").layout
    assert layout is not None
    _, after = memory_of(program, inputs)
    segment = program.segment("B")
    cells = replace(layout, shape=layout.view, reorderings=())
    held = cells.unpack(after[segment.address : segment.end].view(np.int8).reshape(cells.physical_shape))
    assert held.shape == (1, 3, 16)
    assert (held[0, :, 14:] == -5).all()
    assert (held[0, :, :14] == inputs["A"] * 2).all()


@pytest.mark.parametrize("machine", ["vta", "tiny", "wide"])
def test_eight_input_channels_on_a_wider_block(machine):
    """The rest of the block is padding of the layout, and the GEMM reduces over all of it."""
    X, W, M, D = product()
    s = create_schedule(D)
    s.transform_layout(X, lambda i, k: [k // 16, i, k % 16], pad_value=0)
    s.transform_layout(W, lambda j, k: [j // 16, k // 16, j % 16, k % 16], pad_value=0)
    assert s.layout(X).padding_count == 12 * 8
    for tensor in (M, D):
        s.transform_layout(tensor, lambda i, j: [j // 16, i, j % 16], pad_value=0)
        s[tensor].overcompute()
    program = run_poisoned(s, lt.load_config(machine))
    if machine == "vta":
        plain = build(D, [X, W, D], lt.load_config(machine))
        inputs = random_inputs([D], seed=0)
        assert simulate_program(program, inputs).cycles == simulate_program(plain, inputs).cycles


@pytest.mark.sample(1)
@pytest.mark.parametrize("channels", [(14, 14), (8, 24), (28, 20)])
def test_a_convolution_in_blocks_of_sixteen(channels):
    """Inputs, weights, border and results in whole blocks: no slower than without layouts."""
    inner, outer = channels
    x = lt.placeholder((1, 6, 6, inner), "int8", name="x")
    w = lt.placeholder((outer, 3, 3, inner), "int8", name="w")
    c = lt.conv2d(x, w, padding=1, name="c")
    d = lt.requantise(c, 6, name="d")
    s = create_schedule(d)
    s.transform_layout(x, lambda n, h, v, k: [n, k // 16, h, v, k % 16], pad_value=0)
    s.transform_layout(w, lambda o, r, q, k: [o // 16, k // 16, r, q, o % 16, k % 16], pad_value=0)
    for tensor in (c, d):
        s.transform_layout(tensor, lambda n, h, v, o: [n, o // 16, h, v, o % 16], pad_value=0)
        s[tensor].overcompute()
    check(s)
    run_poisoned(s, lt.load_config("vta"))
    border = s.stages[0]
    assert border.name == "c.pad"
    *_, channel = s.transform_layout(border.tensor, lambda n, h, v, k: [n, k // 16, h, v, k % 16], pad_value=0)
    s[border.tensor].overcompute(channel)
    check(s)
    program = run_poisoned(s, lt.load_config("vta"))
    plain = build(d, [x, w, d], lt.load_config("vta"))
    inputs = random_inputs([d], seed=0)
    assert simulate_program(program, inputs).cycles <= simulate_program(plain, inputs).cycles


def test_what_a_producer_leaves_undefined_is_summed_up_to():
    """A row sum on the ALU over padded rows, with its branch and without."""
    A = lt.placeholder((20, 14), "int8", name="A")
    j = lt.reduce_axis(14, "j")
    B = lt.compute(20, lambda i: lt.sum(A[i, j].astype("int32"), axis=j), name="B")
    for pad_value in (None, undef, 0):
        s = create_schedule(B)
        s.transform_layout(A, lambda i, j: [j // 4, i, j % 4], pad_value=pad_value)
        run_poisoned(s, lt.load_config("vta"))
        s[B].reorder_to_buffer(A)
        run_poisoned(s, lt.load_config("vta"))
    s[B].overcompute()
    run_poisoned(s, lt.load_config("vta"))


def test_a_product_reduces_on_the_alu():
    A = lt.placeholder((20, 14), "int8", name="A")
    j = lt.reduce_axis(14, "j")
    B = lt.compute(20, lambda i: lt.prod(A[i, j].astype("int32"), axis=j), name="B")
    s = create_schedule(B)
    run(s, lt.load_config("vta"), random_inputs([B], seed=0))
    s.transform_layout(A, lambda i, j: [j // 4, i, j % 4], pad_value=s.padding_needed(A).value)
    s[B].reorder_to_buffer(A)
    s[B].overcompute()
    run_poisoned(s, lt.load_config("vta"))


@pytest.mark.slow
@pytest.mark.parametrize("overcompute", [False, True])
def test_simulator_and_rtl_agree(overcompute):
    X, W, M, D = product(5, 6, 6)
    s = create_schedule(D)
    s.transform_layout(X, lambda i, k: [k // 4, i, k % 4], pad_value=0)
    s.transform_layout(W, lambda j, k: [j // 4, k // 4, j % 4, k % 4], pad_value=0)
    s.transform_layout(M, lambda i, j: [j // 4, i, j % 4], pad_value=0)
    s.transform_layout(D, lambda i, j: [(j + 1) // 4, i, (j + 1) % 4], pad_value=3)
    if overcompute:
        s[M].overcompute()
    program = build(s, [X, W, D], lt.load_config("tiny"))
    assert verify(program) == []
    inputs = random_inputs([D], seed=0)
    ran = lt.cosimulate(program, inputs, engines=("sim", "pysim")).check()
    np.testing.assert_array_equal(ran.outputs["D"], lt.reference(D, inputs))


def test_programs_keep_their_padding_in_files(tmp_path):
    A, B = doubled()
    s = create_schedule(B)
    s.transform_layout(A, lambda i, c: [i, c // 4, c % 4], pad_value=lambda i, co, ci: A[i, co * 4 + ci - 14])
    s.transform_layout(B, lambda i, c: [i, (c + 1) // 4, (c + 1) % 4], pad_value=2)
    program = build(s, [A, B], lt.load_config("vta"))
    program.save(tmp_path / "padded.npz")
    again = Program.load(tmp_path / "padded.npz")
    assert [each.layout for each in again.segments] == [each.layout for each in program.segments]
    inputs = random_inputs([B], seed=0)
    np.testing.assert_array_equal(simulate_program(again, inputs).outputs["B"], lt.reference(B, inputs))
