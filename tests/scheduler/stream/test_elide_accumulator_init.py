"""Elision of accumulator resets by GEMMs that overwrite, on machines that have the extension ``gemm_begin``."""

from types import SimpleNamespace

import numpy as np
import pytest
from random_programs import random_inputs
from small_machine import TINY, run, simulate_and_check

import lathe as lt
from lathe.frontend import placeholders
from lathe.isa import Gemm, Load, MemoryType, Store, encode_uops
from lathe.scheduler.isel.rules.emit_gemm import gemm_instructions
from lathe.scheduler.isel.rules.loop_plan import LoopPlan
from lathe.scheduler.stream.elide_accumulator_init import ZeroInitTracker, dead_resets
from lathe.scheduler.stream.micro_op_pool import MicroOpPool

BEGINS = TINY.with_(extensions=("gemm_begin",))


def product(m, n, k):
    A, B = lt.placeholder((m, k), "int8", "A"), lt.placeholder((n, k), "int8", "B")
    return lt.matmul(A, B, transpose_b=True, name="C")


def convolution(pixels=6, channels=8, filters=8, kernel=3, padding=1):
    data = lt.placeholder((1, pixels, pixels, channels), "int8", "data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", "weights")
    return lt.requantise(lt.conv2d(data, weights, padding=padding, name="conv"), 6, name="out")


def gemms(program):
    return [each for each in program.instructions if isinstance(each, Gemm)]


def microops(program):
    return sum(each.x_size for each in program.instructions if isinstance(each, Load) and not each.memory_type)


def ran(schedule, config=BEGINS):
    """The validated program of a schedule or output, after a run that was compared with NumPy."""
    s = schedule if isinstance(schedule, lt.Schedule) else lt.create_schedule(schedule)
    arguments = [*placeholders(s.program), *s.program]
    lt.build(s, arguments, config, check=True)
    return run(s, config, random_inputs(list(s.program), seed=1))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "output",
    [
        product(4, 4, 4),
        product(9, 20, 12),
        product(1, 16, 24),
        product(30, 30, 30),
        convolution(),
        convolution(9, 4, 12),
    ],
    ids=["one block", "matmul", "vector", "partial blocks", "convolution", "more filters"],
)
def test_the_first_gemms_overwrite_and_nothing_is_reset(output):
    with_zeros, begun = ran(output, TINY), ran(output)
    assert any(each.reset for each in gemms(with_zeros))
    assert not any(each.begin for each in gemms(with_zeros))
    assert not any(each.reset for each in gemms(begun))
    assert any(each.begin for each in gemms(begun))
    inputs = random_inputs([output], seed=1)
    before, after = (lt.simulate(each, inputs) for each in (with_zeros, begun))
    assert after.counters.reset_operations == 0
    assert after.counters.gemm_operations == before.counters.gemm_operations
    simulate_and_check(lt.create_schedule(output), BEGINS)


def one_tile(output):
    """A schedule with the whole matmul or convolution, which is ``output`` or read by it, in one chunk."""
    s = lt.create_schedule(output)
    made = s.cache_write(output, "acc")
    sums = made if s[made].reduce_axis else output.computation.reads[0].tensor
    s[sums].set_scope("acc")
    for tensor, scope in zip([read.tensor for read in sums.computation.reads], ("inp", "wgt"), strict=True):
        if tensor in placeholders([output]):
            s.cache_read(tensor, scope, [sums])
        else:
            s[tensor].set_scope(scope)
    return s


def test_taps_of_one_instruction_are_split_after_the_first_of_each_accumulator():
    output = convolution(pixels=7, channels=4, filters=8, padding=0)
    (reset, alone), (begin, add) = gemms(ran(one_tile(output), TINY)), gemms(ran(one_tile(output)))
    assert reset.reset
    assert begin.begin
    assert not add.begin
    assert begin.uop_end == add.uop_bgn
    assert add.uop_end - begin.uop_bgn == alone.uop_end - alone.uop_bgn
    filters, taps = 2, 9
    assert begin.uop_end - begin.uop_bgn == filters
    assert add.uop_end - add.uop_bgn == filters * (taps - 1)
    assert (add.iter_out, add.iter_in) == (begin.iter_out, begin.iter_in) == (5, 5)


def test_an_instruction_loop_along_the_reduction_is_split_after_its_first_iteration():
    output = product(1, 8, 48)  # 12 blocks along the reduction, 2 of results
    program = ran(one_tile(output))
    first, rest = gemms(program)
    assert (first.begin, rest.begin) == (True, False)
    assert sorted((first.iter_out, first.iter_in)) == [1, 2]
    assert sorted((rest.iter_out, rest.iter_in)) == [2, 11]
    assert microops(program) <= microops(ran(one_tile(output), TINY)) + 1


def test_of_several_chunks_of_a_reduction_the_first_one_overwrites():
    s = lt.create_schedule(product(8, 8, 32))
    (C,) = s.outputs
    made = s.cache_write(C, "acc")
    ko, ki = s[made].split("k", factor=8)
    i, j = s[made].axis
    s[made].reorder(ko, i, j, ki)
    for each in placeholders([C]):
        s[s.cache_read(each, "inp" if each.name == "A" else "wgt", [made])].compute_at(s[made], ko)
    s[made].emit_insn(i, "gemm")
    found = gemms(ran(s))
    assert [each.begin for each in found] == [True, *[False] * (len(found) - 1)]
    assert len(found) >= 4
    assert "1 × init(i in 0..8, j in 0..8): gemm, 1 instruction; resets are elided" in str(lt.explain(s, BEGINS))
    assert "; 1 overwrites accumulators\n" in str(lt.explain(s, BEGINS))
    assert "overwrite" not in str(lt.explain(s, TINY))
    assert "elided" not in str(lt.explain(s, TINY))


def test_resets_are_live_if_the_alu_reads_their_zeros():
    A = lt.placeholder((8, 12, 4), "int32", "A")
    k = lt.reduce_axis((0, 12), name="k")
    C = lt.compute((8, 4), lambda i, j: lt.sum(A[i, k, j], axis=k), name="C")
    program = ran(C)
    assert any(each.reset for each in gemms(program))
    assert "; zeros are needed: the ALU reads them" in str(lt.explain(lt.create_schedule(C), BEGINS))


def test_loads_of_micro_ops_that_only_dead_resets_run_are_removed_with_them():
    def gemm(first, end, **flags):
        return Gemm(first, end, 1, 1, 0, 0, 0, 0, 0, 0, **flags)

    def load(first, size):
        return Load(MemoryType.UOP, first, 0, 1, size, size)

    stream = [
        load(0, 2),
        gemm(0, 2, reset=True),
        load(2, 1),
        gemm(0, 2, reset=True),
        gemm(2, 3, begin=True),
        load(0, 2),
    ]
    assert dead_resets([*stream, gemm(1, 2)], {1, 3}) == {0, 1, 3}
    assert dead_resets([*stream, gemm(1, 2)], {1}) == {1}
    assert dead_resets([load(0, 2), gemm(0, 2, reset=True), gemm(1, 2)], {1}) == {1}


def test_zeros_are_tracked_through_all_kinds_of_instructions():
    pool = MicroOpPool(BEGINS)
    zeros = ZeroInitTracker(BEGINS, pool)
    nothing = np.zeros(1, np.int64)
    first, end, loads = pool.place(nothing, nothing, nothing)

    def gemm(count, **flags):
        return Gemm(first, end, 1, count, 0, 1, 0, 0, 0, 0, **flags)

    zeros.advance([*loads, gemm(8, reset=True), gemm(4, reset=True)])
    cells = np.arange(8)
    assert zeros.holds_zeros(cells) is True
    assert zeros.claim(cells[:6])
    assert not zeros.claim(cells[5:])  # cells[5] is already claimed
    zeros.release_claims()
    assert zeros.claim(cells[5:])
    zeros.advance([gemm(2, begin=True)])
    assert zeros.holds_zeros(cells) is None
    assert zeros.holds_zeros(cells[:2]) is False
    zeros.release_claims()
    assert not zeros.claim(cells[1:3])
    assert zeros.dead_resets() == {1, 2}
    zeros.advance([Load(MemoryType.ACC, 4, 0, 1, 4, 4)])
    assert zeros.dead_resets() == {1, 2}
    zeros.advance([gemm(3)])
    assert zeros.dead_resets() == {1}
    assert zeros.live_resets == {2: "one GEMM adds to them and to other accumulators"}
    zeros.advance(
        [
            gemm(3, reset=True),
            gemm(3),
            gemm(1, reset=True),
            Store(sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1),
        ]
    )
    assert zeros.live_resets == {
        2: "one GEMM adds to them and to other accumulators",
        6: "a GEMM adds to them",
        8: "a STORE reads them",
    }


def emitted(begin, **plan):
    """The GEMMs emitted for a loop plan; ``begin``: whether accumulators hold zeros of resets."""
    pool = MicroOpPool(BEGINS)
    emitter = SimpleNamespace(pool=pool, begin=lambda _: begin)
    found = gemm_instructions(SimpleNamespace(config=BEGINS, emitter=emitter), LoopPlan(**plan))
    return [each for each in found if isinstance(each, Gemm)], pool.image().view("<u4")


def test_gemms_with_both_loops_over_one_accumulator_do_not_overwrite():
    table = tuple(np.array(each) for each in ([0], [0], [0]))
    plan = {"iter_out": 3, "iter_in": 3, "factor_out": (1, 3, 0), "factor_in": (1, 1, 0), "micro_ops": table}
    assert [each.begin for each in emitted(True, **plan)[0]] == [False]
    assert [each.begin for each in emitted(True, **plan | {"factor_out": (3, 3, 0)})[0]] == [True]


def test_micro_ops_of_one_accumulator_stay_in_order_and_the_first_ones_overwrite():
    dst, src = [4, 5, 4, 4, 6, 5], [0, 1, 2, 3, 4, 5]
    plan = {"iter_out": 1, "iter_in": 1, "factor_out": (0, 0, 0), "factor_in": (0, 0, 0)}
    plan["micro_ops"] = (np.array(dst), np.array(src), np.zeros(6, np.int64))
    (begin, add), words = emitted(True, **plan)
    ordered = encode_uops(BEGINS, [4, 5, 6, 4, 5, 4], [0, 1, 4, 2, 5, 3], 0)
    assert words.tolist() == ordered.tolist()
    assert (begin.begin, begin.uop_bgn, begin.uop_end) == (True, 0, 3)
    assert (add.begin, add.uop_bgn, add.uop_end) == (False, 3, 6)
    (alone,), words = emitted(False, **plan)
    assert (alone.begin, alone.uop_bgn, alone.uop_end, words.tolist()) == (False, 0, 6, ordered.tolist())


def test_both_loops_of_an_instruction_may_run_along_the_reduction():
    plan = {"iter_out": 3, "iter_in": 4, "factor_out": (0, 4, 4), "factor_in": (0, 1, 1)}
    plan["micro_ops"] = (np.array([7, 8]), np.array([0, 0]), np.array([0, 12]))
    found, words = emitted(True, **plan)
    assert [(each.begin, each.iter_out, each.iter_in) for each in found] == [
        (True, 1, 1), (False, 2, 4), (False, 1, 3)
    ]  # fmt: skip
    tables = [encode_uops(BEGINS, [7, 8], [at, at], [at, at + 12]).tolist() for at in (0, 4, 1)]
    assert [words[each.uop_bgn : each.uop_end].tolist() for each in found] == tables
