"""The examples of the discussion that asked for partitioning before tensorization, from nest to instructions.

Adding 60 values 16 at a time; a 66-wide image in 34-wide windows; a padded convolution in tiles; a matrix-vector
product with a factor that does not divide; a copy with tail and padding at once; a user rule.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from convolutions import padded_convolution
from small_machine import Recorder, live_bytes, loads_of, memory_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, max, placeholder, reduce_axis, select, sum
from lathe.frontend.operators import conv2d
from lathe.isa import Alu, AluOp, Gemm, Instruction, Load, MemoryType, Store
from lathe.scheduler import Chunk, RuleMismatch, Schedule, build, create_schedule, emit_rule, lower
from lathe.scheduler.isel.chunk import vectors
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.nodes import Alloc, Loop, Node
from lathe.scheduler.loop_ir.partition import partition

VTA = load_config("vta")


def filled(*tensors: Tensor) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(len(tensors))
    return {T.name: generator.integers(-128, 128, T.shape).astype(T.dtype) for T in tensors}


# Adding A[60] and B[60], 16 values at a time.


def sum_of_60() -> tuple[Tensor, Tensor, Tensor]:
    A, B = placeholder(60, "int8", "A"), placeholder(60, "int8", "B")
    return A, B, compute(60, lambda i: A[i] + B[i] + 7, "C")


def test_60_by_16_is_three_full_chunks_and_one_of_12(golden):
    A, B, C = sum_of_60()
    s = create_schedule(C)
    _, ii = s[C].split(s[C].axis[0], factor=16)
    s[C].emit_insn(ii, "alu")
    golden("".join(lower(s, [A, B, C], VTA, stage) for stage in ("loops", "chunks")))


def vectors_of_60(recorder: Recorder) -> tuple[Schedule, list[Tensor]]:
    """The addition in accumulators, 16 values at a time, emitted by the recording rule."""
    A, B, C = sum_of_60()
    s = create_schedule(C)
    result = s.cache_write(C, "acc")
    operands = [s.cache_read(T, "acc") for T in (A, B)]
    io, ii = s[C].split(s[C].axis[0], factor=16)
    for T in (result, *operands):
        s[T].compute_at(s[C], io)
    emit_rule("recorded")(recorder)
    s[result].emit_insn(s[result].axis[0], "recorded")
    s[C].emit_insn(ii, "dma")
    return s, [A, B, C]


def test_spare_lanes_of_the_last_vector_never_reach_memory_that_the_program_may_read():
    recorder = Recorder(RULES["alu"])
    s, (A, B, C) = vectors_of_60(recorder)
    inputs = filled(A, B)
    program = run(s, VTA, inputs)
    assert [chunk.extents for chunk in recorder.chunks] == [(16,), (16,), (16,), (12,)]
    before, after = memory_of(program, inputs)
    segment = program.segment("C")
    outside = np.ones(len(before), bool)
    outside[segment.address : segment.end] = False
    np.testing.assert_array_equal(after[outside], before[outside])
    spare = np.flatnonzero(~live_bytes(program, "C"))
    assert spare.tolist() == [60, 61, 62, 63], "the last vector ends with its segment"
    assert loads_of(program, "C") == []


def test_spare_lanes_do_not_count_in_a_sum_over_what_was_stored():
    A, B, C = sum_of_60()
    W, k = placeholder((8, 60), "int8", "W"), reduce_axis(60, "k")
    D = compute(8, lambda j: sum(C[k].astype("int32") * W[j, k].astype("int32"), axis=k), "D")
    inputs = filled(A, B, W)
    program = run(create_schedule(D), VTA, inputs)
    _, after = memory_of(program, inputs)
    stored = after[program.segment("C").address : program.segment("C").end]
    assert stored[60:].tolist() == [7, 7, 7, 7], "the spare lanes hold what was added to zeros"
    assert loads_of(program, "C"), "they are loaded again"


# A 66-wide image copied in 34-wide windows with stride 28.


def windows(height: int, tile: int) -> tuple[Schedule, list[Tensor]]:
    """A convolution with seven taps, 28 columns at a time: each tile needs 6 columns more than it computes."""
    A, W = placeholder((height, 66, 16), "int8", "A"), placeholder((16, 7, 16), "int8", "W")
    k, c = reduce_axis(7, "k"), reduce_axis(16, "c")
    C = compute(
        (height, 60, 16),
        lambda y, x, o: sum(A[y, x + k, c].astype("int32") * W[o, k, c].astype("int32"), axis=[k, c]),
        "C",
    )
    s = create_schedule(C)
    result, image, weights = s.cache_write(C, "acc"), s.cache_read(A, "inp"), s.cache_read(W, "wgt")
    y, x, o = s[C].axis
    xo, xi = s[C].split(x, factor=tile)
    s[C].reorder(xo, y, xi, o)
    s[result].compute_at(s[C], xo)
    s[image].compute_at(s[C], xo)
    for T, rule in ((image, "dma"), (weights, "dma"), (result, "gemm")):
        s[T].emit_insn(s[T].axis[0], rule)
    s[C].emit_insn(y, "dma")
    return s, [A, W, C]


def test_windows_of_34_at_step_28_are_34_34_and_10_wide(golden):
    s, tensors = windows(24, 28)
    golden(lower(s, tensors, VTA, "chunks"))
    widths = [extent[1] for extent in allocated(s, "A.inp")]
    assert widths == [34, 34, 10]


def allocated(schedule: Schedule, name: str) -> list[list[int]]:
    """The extents of a buffer, each time it is allocated."""

    def visit(nodes: list[Node]) -> Iterator[list[int]]:
        for node in nodes:
            if isinstance(node, Loop):
                for _ in range(node.first, node.last + 1):
                    yield from visit(node.body)
            elif isinstance(node, Alloc) and node.placement.stage.name == name:
                assert all(each.is_constant for each in node.extent)
                yield [each.constant for each in node.extent]

    return list(visit(partition(build_nest(schedule))))


def test_each_window_is_one_load_of_as_many_columns():
    s, (A, W, _) = windows(24, 28)
    program = run(s, VTA, filled(A, W))
    loads = loads_of(program, "A")
    assert [(load.y_size, load.x_size, load.x_stride) for load in loads] == [(24, 34, 66), (24, 34, 66), (24, 10, 66)]
    first = program.segment("A").address // VTA.inp_element_bytes
    assert [load.dram_base - first for load in loads] == [0, 28, 56]


# A convolution of 14x14 with padding 1 in tiles of 7 rows.


def pads(load: Load) -> tuple[int, int, int, int, int, int]:
    return load.y_size, load.x_size, load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1


def test_tiles_of_7_rows_load_8_with_padding_above_the_first_and_below_the_last():
    s, (A, W, _) = padded_convolution(7)
    program = run(s, VTA, filled(A, W))
    assert [pads(load) for load in loads_of(program, "A")] == [(8, 14, 1, 0, 1, 1), (8, 14, 0, 1, 1, 1)]


def test_tiles_of_5_rows_load_6_7_and_5():
    s, (A, W, _) = padded_convolution(5)
    program = run(s, VTA, filled(A, W))
    assert [pads(load) for load in loads_of(program, "A")] == [
        (6, 14, 1, 0, 1, 1),
        (7, 14, 0, 0, 1, 1),
        (5, 14, 0, 1, 1, 1),
    ]


def test_chunks_of_the_tiled_convolution(golden):
    s, tensors = padded_convolution(7)
    golden(lower(s, tensors, VTA, "chunks"))


# A matrix-vector product of 512 outputs split by 10.


def test_512_outputs_by_10_are_51_chunks_of_10_and_one_of_2_for_the_rule_on_the_inner_axis(golden):
    A, x, k = placeholder((512, 64), "int8", "A"), placeholder(64, "int8", "x"), reduce_axis(64, "k")
    C = compute(512, lambda i: sum(A[i, k].astype("int32") * x[k].astype("int32"), axis=k), "C")
    s = create_schedule(C)
    _, ii = s[C].split(s[C].axis[0], factor=10)
    recorder = Recorder(lambda _: [])
    emit_rule("gemv")(recorder)
    s[C].emit_insn(ii, "gemv")
    golden(lower(s, [A, x, C], VTA, "chunks"))
    build(s, [A, x, C], VTA)
    assert [chunk.extents for chunk in recorder.chunks] == [(10, 64)] * 51 + [(2, 64)]
    assert [chunk.offsets for chunk in recorder.chunks] == [{"io": n} for n in range(52)]
    assert [chunk.write.index[0].constant for chunk in recorder.chunks] == list(range(0, 520, 10))
    assert {(chunk.stage, chunk.pragma, chunk.role) for chunk in recorder.chunks} == {("C", "gemv", "reduce")}
    assert {tuple((loop.name, loop.kind) for loop in chunk.loops) for chunk in recorder.chunks} == {
        (("ii", "data"), ("k", "reduce"))
    }


def test_512_blocks_of_outputs_by_10_run_to_correct_outputs():
    A, x, k = placeholder((512, 16, 64), "int8", "A"), placeholder(64, "int8", "x"), reduce_axis(64, "k")
    C = compute((512, 16), lambda i, j: sum(A[i, j, k].astype("int32") * x[k].astype("int32"), axis=k), "C")
    s = create_schedule(C)
    result, rows, vector = s.cache_write(C, "acc"), s.cache_read(A, "wgt"), s.cache_read(x, "inp")
    io, ii = s[result].split(s[result].axis[0], factor=10)
    s[rows].compute_at(s[result], io)
    recorder = Recorder(RULES["gemm"])
    emit_rule("gemv", separate_init=True)(recorder)
    s[result].emit_insn(ii, "gemv")
    for T in (rows, vector):
        s[T].emit_insn(s[T].axis[0], "dma")
    program = run(s, VTA, filled(A, x))
    updates = [chunk.extents for chunk in recorder.chunks if chunk.role == "update"]
    assert updates == [(10, 16, 64)] * 51 + [(2, 16, 64)]
    assert [load.y_size * load.x_size for load in loads_of(program, "A")] == [40] * 51 + [8]


# A copy with tail and padding at once.


def copy_with_tail_and_padding(factor: int) -> tuple[Schedule, list[Tensor]]:
    """A padded image of 15 rows, copied ``factor`` rows at a time into the scratchpad of a convolution."""
    A, W = placeholder((1, 13, 13, 16), "int8", "A"), placeholder((16, 3, 3, 16), "int8", "W")
    C = conv2d(A, W, padding=1, name="C")
    padded = C.computation.reads[0].tensor
    s = create_schedule(C)
    result, weights = s.cache_write(C, "acc"), s.cache_read(W, "wgt")
    s[padded].set_scope("inp")
    _, yi = s[padded].split(s[padded].axis[1], factor=factor)
    s[padded].emit_insn(yi, "dma")
    s[weights].emit_insn(s[weights].axis[0], "dma")
    s[result].emit_insn(s[result].axis[0], "gemm")
    return s, [A, W, C]


def test_a_copy_that_needs_a_tail_condition_and_padding_at_once(golden):
    s, (A, W, C) = copy_with_tail_and_padding(4)
    golden("".join(lower(s, [A, W, C], VTA, stage) for stage in ("loops", "chunks")))
    program = run(s, VTA, filled(A, W))
    assert [pads(load) for load in loads_of(program, "A")] == [
        (3, 13, 1, 0, 1, 1),
        (4, 13, 0, 0, 1, 1),
        (4, 13, 0, 0, 1, 1),
        (2, 13, 0, 1, 1, 1),
    ]


@pytest.mark.parametrize("factor", [1, 2, 7, 14, 15, 16])
def test_tail_and_padding_for_other_factors(factor):
    s, (A, W, _) = copy_with_tail_and_padding(factor)
    program = run(s, VTA, filled(A, W))
    rows = [load.y_pad_0 + load.y_size + load.y_pad_1 for load in program.instructions if is_image(load)]
    assert np.sum(rows) == 15


def is_image(instruction: Instruction) -> bool:
    return isinstance(instruction, Load) and instruction.memory_type == MemoryType.INP


def test_a_shifted_row_of_values_with_a_tail_and_padding_on_both_ends():
    A = placeholder((30, 16), "int8", "A")
    B = compute((37, 16), lambda i, j: select((i >= 3) & (i < 33), A[i - 3, j], 0), "B")
    s = create_schedule(B)
    copy = s.cache_write(B, "acc")
    io, ii = s[B].split(s[B].axis[0], factor=8)
    s[copy].compute_at(s[B], io)
    s[copy].emit_insn(s[copy].axis[0], "dma")
    s[B].emit_insn(ii, "dma")
    program = run(s, VTA, filled(A))
    assert [(load.y_size * load.x_size, load.x_pad_0, load.x_pad_1) for load in loads_of(program, "A")] == [
        (5, 3, 0),
        (8, 0, 0),
        (8, 0, 0),
        (8, 0, 0),
        (1, 0, 4),
    ]
    assert [each.x_size * each.y_size for each in program.instructions if isinstance(each, Store)] == [8, 8, 8, 8, 5]


# A user rule.


def square(chunk: Chunk) -> list[Instruction] | RuleMismatch:
    """``B[i] = A[i] * A[i]``: the operand copied, then multiplied by itself, element by element."""
    if chunk.role != "map" or {read.scope for read in chunk.reads} != {"acc"}:
        return RuleMismatch("operand must be in acc")
    view = vectors(chunk)
    assert view.write is not None
    instructions: list[Instruction] = []
    for n in range(int(np.prod([view.extents[loop] for loop in view.loops], dtype=int))):
        (loop,) = view.loops or [0]
        at = np.array([view.write.base + n * view.write.strides[loop]])
        source = np.array([view.reads[0].base + n * view.reads[0].strides[loop]])
        first, end, loads = chunk.emitter.pool.place(at, source, np.array([0]))
        zero = Gemm(first, end, 1, 1, 0, 0, 0, 0, 0, 0, reset=True)
        copy = Alu(AluOp.ADD, first, end, 1, 1, 0, 0, 0, 0)
        instructions += [*loads, zero, copy, Alu(AluOp.MUL, first, end, 1, 1, 0, 0, 0, 0)]
    return instructions


def test_a_user_rule_is_called_for_body_and_tail_and_its_instructions_run():
    A = placeholder(200, "int8", "A")
    B = compute(200, lambda i: A[i].astype("int32") * A[i].astype("int32"), "B")
    s = create_schedule(B)
    result, source = s.cache_write(B, "acc"), s.cache_read(A, "acc")
    io, ii = s[B].split(s[B].axis[0], factor=48)
    for T in (result, source):
        s[T].compute_at(s[B], io)
    recorder = Recorder(square)
    emit_rule("vsquare")(recorder)
    s[result].emit_insn(s[result].axis[0], "vsquare")
    s[source].emit_insn(s[source].axis[0], "dma")
    s[B].emit_insn(ii, "dma")
    program = run(s, VTA, filled(A))
    assert [chunk.extents for chunk in recorder.chunks] == [(48,), (48,), (48,), (48,), (8,)]
    multiplications = [each for each in program.instructions if isinstance(each, Alu) and each.alu_opcode == AluOp.MUL]
    assert len(multiplications) == 13, "one for each vector"


def test_a_user_rule_may_take_a_reduction():
    """Rule "reduce": initialisation and updates in one chunk; here the maximum over rows, by the built-in rule."""
    A, k = placeholder((9, 40), "int8", "A"), reduce_axis(9, "k")
    B = compute(40, lambda i: max(A[k, i], axis=k), "B")
    s = create_schedule(B)
    result, source = s.cache_write(B, "acc"), s.cache_read(A, "acc")
    recorder = Recorder(RULES["alu"])
    emit_rule("vmax", separate_init=True)(recorder)
    _, ii = s[result].split(s[result].axis[0], factor=32)
    s[result].emit_insn(ii, "vmax")
    s[source].emit_insn(s[source].axis[0], "dma")
    run(s, VTA, filled(A))
    assert [(chunk.role, chunk.extents) for chunk in recorder.chunks] == [
        ("init", (32,)),
        ("update", (32, 9)),
        ("init", (8,)),
        ("update", (8, 9)),
    ]
