"""Errors of ``build`` and ``lower``: lists of tensors, constants, tiles that do not fit, chunks that do not map."""

import functools
import operator
from collections.abc import Callable

import numpy as np
import pytest
from error_checks import check_mentions, raises
from mistaken_programs import Mistake, check_message

import lathe as lt
from lathe.configs import HardwareConfig, load_config
from lathe.frontend import Tensor, compute, max, min, placeholder, placeholders, reduce_axis, select, sum
from lathe.frontend.operators import matmul
from lathe.isa import verify
from lathe.scheduler import (
    BuildError,
    CapacityError,
    Chunk,
    EmitError,
    RuleMismatch,
    Schedule,
    build,
    create_schedule,
    emit_rule,
    lower,
)

VTA, TINY = load_config("vta"), load_config("tiny")

A = placeholder((64,), "int8", "A")
B = compute(64, lambda i: A[i] + 1, "B")
C = compute(64, lambda i: B[i] * 2, "C")
low, high = compute(64, lambda i: (A[i] + 1, A[i] - 1), "pair")
both = compute(64, lambda i: low[i] + high[i], "both")
elsewhere = placeholder((64,), "int8", "elsewhere")
COUNTS = placeholder((64,), "uint32", "counts")
DATA = placeholder((4, 64), "int8", "data")
WEIGHTS = placeholder((512, 64), "int8", "weights")
M = matmul(DATA, WEIGHTS, transpose_b=True, name="M")


def tensors_of(schedule: Schedule) -> list[Tensor]:
    return [*placeholders(schedule.outputs), *schedule.outputs]


def scheduled(
    output: Tensor, commands: Callable[[Schedule], object], config: HardwareConfig = VTA
) -> Callable[[], object]:
    """Build a program with a schedule that ``commands`` changes."""

    def run() -> object:
        schedule = create_schedule(output)
        commands(schedule)
        return build(schedule, tensors_of(schedule), config)

    return run


def default(output: Tensor, config: HardwareConfig = VTA) -> Callable[[], object]:
    return lambda: build(output, [*placeholders(output), output], config)


def by_rule(result: object) -> Callable[[], object]:
    """Emit a copy of B by a rule that returns or raises ``result``."""

    def rule(chunk: Chunk) -> object:  # noqa: ARG001 - rules receive the chunk
        if isinstance(result, RuleMismatch):
            raise result
        return result

    def commands(s: Schedule) -> None:
        emit_rule("own")(rule)
        made = s.cache_write(B, "acc")
        _, inner = s[made].split("i", factor=48)
        s[made].emit_insn(inner, "own")

    return scheduled(B, commands)


def lanes_cut(s: Schedule) -> None:
    made = s.cache_write(M, "acc")
    s.cache_read(DATA, "inp")
    weights = s.cache_read(WEIGHTS, "wgt")
    outer, inner = s[made].split("j", factor=10)
    s[made].reorder(outer, "i", inner)
    s[weights].compute_at(s[made], outer)
    s[made].emit_insn("i", "gemm")


# fmt: off
CASES = [
    Mistake("tensors_no_list", lambda: build(C, C, VTA), BuildError,
        "tensors of build must be a list of tensors, not Tensor(C: int8[64])."),
    Mistake("tensors_of_arrays", lambda: build(C, [np.zeros(64), C], VTA), BuildError,
        "tensors of build must be a list of tensors, not [array([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., "
        "0...."),
    Mistake("input_left_out", lambda: build(C, [C], VTA), BuildError,
        "tensors of build must list every input and output of the program, not leave out input 'A'. Add it to the "
        "list."),
    Mistake("output_left_out", lambda: build(C, [A], VTA), BuildError,
        "tensors of build must list every input and output of the program, not leave out output 'C'. Add it to the "
        "list."),
    Mistake("one_of_two_outputs_left_out", lambda: build([low, high], [A, high], VTA), BuildError,
        "tensors of build must list every input and output of the program, not leave out output 'pair.0'. Add it to "
        "the list."),
    Mistake("tensor_that_is_not_used", lambda: build(C, [A, C, elsewhere], VTA), BuildError,
        "tensors of build must be inputs and outputs of the program, not 'elsewhere', which is not used. Take it off "
        "the list."),
    Mistake("tensor_on_the_way", lambda: build(C, [A, B, C], VTA), BuildError,
        "tensors of build must be inputs and outputs of the program, not 'B', which is an intermediate result. Take it "
        "off the list."),
    Mistake("lower_without_an_input", lambda: lower(C, [C], VTA), BuildError,
        "tensors of build must list every input and output of the program, not leave out input 'A'. Add it to the "
        "list."),
    Mistake("constant_of_an_unknown_name", lambda: build(C, [A, C], VTA, constants={"B": np.zeros(64, np.int8)}),
        BuildError, "constants of build must be inputs of the program (A), not 'B'."),
    Mistake("constant_of_another_shape", lambda: build(C, [A, C], VTA, constants={"A": np.zeros(60, np.int8)}),
        BuildError,
        "constant 'A' of build must be an array of shape (64,) and dtype int8, not of shape (60,) and dtype int8."),
    Mistake("constant_of_another_dtype", lambda: build(C, [A, C], VTA, constants={"A": np.zeros(64, np.int32)}),
        BuildError,
        "constant 'A' of build must be an array of shape (64,) and dtype int8, not of shape (64,) and dtype int32."),
    Mistake("constant_that_is_no_array", lambda: build(C, [A, C], VTA, constants={"A": "zeros"}), BuildError,
        "constant 'A' of build must be an array of shape (64,) and dtype int8, not of shape () and dtype <U5."),
    Mistake("rule_that_does_not_take_the_chunk", by_rule(RuleMismatch("extent must be a multiple of 32, not 48")),
        EmitError,
        "chunk B.acc.map(ii in 0..48) at io=0 must satisfy rule 'own': extent must be a multiple of 32, not 48. "
        "Change the tile, the scope of the operands, or the loop that the pragma is on."),
    Mistake("rule_that_returns_nothing", by_rule(None), EmitError,
        "result of rule 'own' for chunk B.acc.map(ii in 0..48) at io=0 must be a list of instructions, or a "
        "RuleMismatch, not None."),
    Mistake("rule_that_returns_text", by_rule(["nop"]), EmitError,
        "result of rule 'own' for chunk B.acc.map(ii in 0..48) at io=0 must be a list of instructions, or a "
        "RuleMismatch, not ['nop']."),
    Mistake("result_in_dram", scheduled(B, lambda s: s[B].emit_insn("i", "alu")), EmitError,
        ("B.map(i in 0..64)", "'alu'", "result B", "in acc", "in dram")),
    Mistake("dma_of_a_computation", scheduled(B, lambda s: s[B].emit_insn("i", "dma")), EmitError,
        ("B.map(i in 0..64)", "'dma'", "copy", "A[i] + 1")),
    Mistake("lanes_cut_by_a_split", scheduled(M, lanes_cut), EmitError,
        ("M.acc.init(i in 0..4, ji in 0..10) at jo=0", "'gemm'", "dimension 1 of M.acc", 16, "0..9", "0..511")),
    Mistake("stage_of_two_outputs_in_a_scratchpad", scheduled(both, lambda s: s[low].set_scope("acc")), EmitError,
        ("stage pair", 2, "scheduled by the user", "scope", "compute location", "pragma")),
    Mistake("index_that_data_gives",
        default(compute(64, lambda i: A[max(min(A[i].astype("index"), 63), 0)], "gathered")),
        EmitError,
        ("index of A.acc", "stage gathered.acc", "linear", "max(min(index(A.acc[i]), 63), 0)")),
    Mistake("operation_that_no_unit_has", default(compute(64, lambda i: 100 // A[i], "divided")), EmitError,
        ("divided.acc.map(i in 0..64) at io=0", "'alu'", "// and %", "floordiv")),
    Mistake("choice_by_data", default(compute(64, lambda i: select(COUNTS[i] > 3, A[i], elsewhere[i]), "chosen")),
        EmitError,
        ("chosen.acc.map(i in 0..22) at io=0", "'alu'", "operand A.acc", "counts.acc[i] > 3", "ALU")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case):
    check_message(case)


# Tiles that exceed a scratchpad: which, by how much, and what would fit.


def too_large(schedule: Schedule) -> str:
    """The message of a schedule whose tiles do not fit."""
    with pytest.raises(CapacityError) as caught:
        build(schedule, tensors_of(schedule), VTA)
    return str(caught.value)


def check_fits(schedule: Schedule) -> None:
    assert verify(build(schedule, tensors_of(schedule), VTA)) == []


def window(rows: int) -> Schedule:
    """A convolution with 7 taps, whose windows of 34 columns and all rows are in inp."""
    data, weights = placeholder((rows, 66, 16), "int8", "data"), placeholder((16, 7, 16), "int8", "weights")
    k, c = reduce_axis(7, "k"), reduce_axis(16, "c")
    R = compute(
        (rows, 60, 16),
        lambda y, x, o: sum(data[y, x + k, c].astype("int32") * weights[o, k, c].astype("int32"), axis=[k, c]),
        "R",
    )
    s = create_schedule(R)
    made, image = s.cache_write(R, "acc"), s.cache_read(data, "inp")
    s.cache_read(weights, "wgt")
    xo, xi = s[R].split("x", factor=28)
    s[R].reorder(xo, "y", xi, "o")
    s[made].compute_at(s[R], "y")
    s[image].compute_at(s[R], xo)
    return s


def test_a_window_too_large_for_inp_and_the_largest_that_fits():
    s = window(62)
    check_mentions(too_large(s), "inp", 2048, 2108, "data.inp 2108", 60, "data.inp 2048", "62×34×16")
    assert 60 * 34 <= 2048 < 61 * 34
    for rows, fits in ((60, True), (61, False)):
        s = window(rows)
        if fits:
            check_fits(s)
        else:
            with pytest.raises(CapacityError):
                build(s, tensors_of(s), VTA)


def weights_whole(outputs: int) -> Schedule:
    """A matmul whose weights are all in wgt at once: outputs/16 times 64/16 vectors of 16x16."""
    data, weights = placeholder((4, 64), "int8", "data"), placeholder((outputs, 64), "int8", "weights")
    R = matmul(data, weights, transpose_b=True, name="R")
    s = create_schedule(R)
    made = s.cache_write(R, "acc")
    s.cache_read(data, "inp")
    s.cache_read(weights, "wgt")
    jo, _ = s[R].split("j", factor=1024)
    s[R].reorder(jo, "i")
    s[made].compute_at(s[R], jo)
    return s


def test_weights_too_large_for_wgt_and_the_most_that_fit():
    s = weights_whole(4112)
    check_mentions(too_large(s), "wgt", 1024, 1028, "weights.wgt 1028", 4, "weights.wgt 1024", "4112×64")
    s = weights_whole(4096)
    check_fits(s)


def accumulators(rows: int) -> Schedule:
    """A sum of two tensors in acc: both operands and the result, each ``rows`` vectors, are live at once."""
    left, right = placeholder((3000, 16), "int8", "left"), placeholder((3000, 16), "int8", "right")
    R = compute((3000, 16), lambda i, j: left[i, j] + right[i, j], "R")
    s = create_schedule(R)
    made = s.cache_write(R, "acc")
    copies = [s.cache_read(T, "acc") for T in (left, right)]
    io, _ = s[R].split("i", factor=rows)
    for T in (made, *copies):
        s[T].compute_at(s[R], io)
    return s


def test_buffers_that_live_together_in_acc_are_named_with_their_sizes():
    s = accumulators(1500)
    sizes = (
        "left.acc 1500, right.acc 1500",
        "left.acc 1024, right.acc 1024",
        "left.acc is 1500×16",
        "right.acc is 1500×16",
    )
    check_mentions(too_large(s), "acc", 2048, 3000, 952, *sizes)
    s = accumulators(1024)
    check_fits(s)
    too_large(accumulators(1025))


def test_a_program_whose_smallest_tile_does_not_fit():
    inputs = [placeholder((9, 4), "int32", name) for name in "ABCDEF"]
    R = compute((9, 4), lambda i, j: functools.reduce(operator.add, (each[i, j] for each in inputs)), "R")
    small = TINY.with_(acc_buffer_bytes=64)
    mentions = ("R", "'tiny'", "acc", 4, 7, 3)
    raises(CapacityError, build, R, [*inputs, R], small, kind="machine", mentions=mentions)


def test_a_refused_build_leaves_the_schedule_as_it_was():
    s = window(62)
    before = lower(s, tensors_of(s), VTA, "order") + lower(s, tensors_of(s), VTA, "loops")
    states = [stage.state for stage in s.stages]
    too_large(s)
    assert lower(s, tensors_of(s), VTA, "order") + lower(s, tensors_of(s), VTA, "loops") == before
    assert [stage.state for stage in s.stages] == states


def test_a_stage_in_the_loops_of_one_of_several_outputs() -> None:
    A = lt.placeholder((32,), "int32", name="A")
    B = lt.compute((32,), lambda i: A[i] - 1, name="B")
    outputs = lt.compute((32,), lambda i: (B[i] + 1, B[i] * 2), name="P")
    assert isinstance(outputs, tuple)
    s = lt.create_schedule(outputs)
    s[B].compute_at(s[outputs[0]], s[outputs[0]].axis[0])
    lt.build(s, [A, *outputs], VTA)  # computed in the loops of each
    s[B].store_in(lambda _: [0], scope="acc")  # one buffer for the stage, which is computed twice
    raises(lt.BuildError, lt.build, s, [A, *outputs], VTA, mentions=("loops of stage P", "(P.0, P.1)", "outputs"))


def test_a_computed_tensor_as_weights_of_other_rows_for_two_products() -> None:
    """The stored vectors are rows of only one layout of weights; the user has set the vector layouts of both GEMMs."""
    a, x = placeholder((4, 4, 8), "int8", name="a"), placeholder((5, 8), "int8", name="x")
    b = lt.clip(a, -3, 100, name="b")
    k, r = reduce_axis((0, 8), name="k"), reduce_axis((0, 8), name="r")
    f = compute((5, 4, 4), lambda i, m, j: sum(x[i, k].astype("int32") * b[j, m, k].astype("int32"), axis=k), name="f")
    g = compute((5, 4, 4), lambda i, m, j: sum(x[i, r].astype("int32") * b[m, j, r].astype("int32"), axis=r), name="g")
    schedule = create_schedule([f, g])
    for product in (f, g):
        schedule.cache_read(b, "wgt", product)
        schedule.cache_read(x, "inp", product)
        accumulated = schedule.cache_write(product, "acc")
        schedule[accumulated].vectorize(schedule[accumulated].axis[2], 4)
    mentions = ("'b' as weights b.wgt2", "dimension 1", "dimension 0", "weights")
    raises(BuildError, build, schedule, [a, x, f, g], load_config("tiny"), kind="limit", mentions=mentions)
