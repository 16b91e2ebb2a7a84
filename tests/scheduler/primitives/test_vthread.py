"""``vthread``: interleaved iterations, separate buffers, loads concurrent with GEMM; and unchanged results."""

from contextlib import suppress

import numpy as np
import pytest
from documented import before_and_after
from error_checks import raises
from nests import check, text, two_stages
from queues import TINY, Tiles, overlap, ran, stage_in_tiles
from random_commands import ORDER, any_schedule, commands
from random_hand_schedules import hand_schedules
from random_programs import Choice, random_inputs
from recurrent_programs import TwoLayers
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.frontend.operators import matmul, requantise
from lathe.isa import Gemm, Instruction, Load, MemoryType, Store
from lathe.scheduler import (
    CapacityError,
    EmitError,
    ParallelismError,
    Schedule,
    ScheduleError,
    build,
    create_schedule,
    interpret,
)
from lathe.scheduler.primitives.vthread import vthread
from lathe.sim import Result, simulate_program


def stream(result: Result) -> list[Instruction]:
    assert result.trace is not None
    return list(result.trace.stream)


def test_documentation_shows_before_and_after():
    B, C, s = stage_in_tiles()
    before = text(s)
    s[C].vthread("io", 2)
    assert (before, text(s)) == before_and_after(vthread)
    assert "  band io [4] @vthread 2\n" in text(s, "order")
    check(s)
    s[C].vthread("io", 1)
    assert text(s) == before


def test_the_other_name_and_the_usual_number():
    B, C, s = two_stages(64)
    outer, _ = s[C].split("i", 16)
    s[C].virtual_threads(outer)
    assert dict(s[C].state.threads) == {outer: 2}


@pytest.mark.usefixtures("loads_as_emitted")
@pytest.mark.parametrize("parts", [1, 8])
def test_loads_overlap_products_of_another_thread_and_not_without(parts):
    found = []
    for threads in (1, 2):
        tiles = Tiles(60, parts=parts)
        halves = tiles.halves()
        tiles.alone()
        tiles.schedule[tiles.D].vthread(halves, threads)
        check(tiles.schedule)
        found.append(ran(tiles))
    alone, together = found
    assert overlap(alone) == 0
    assert overlap(together) > 0
    assert together.cycles < alone.cycles
    np.testing.assert_array_equal(alone.outputs["D"], together.outputs["D"])


def turns_of(kinds: str) -> list[tuple[str, int]]:
    """Runs of the same letter, with their lengths."""
    found: list[tuple[str, int]] = []
    for kind in kinds:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + 1)
        else:
            found.append((kind, 1))
    return found


@pytest.mark.parametrize(("tiles", "threads"), [(8, 2), (7, 2), (7, 3), (1, 1), (2, 2), (5, 5)])
def test_instructions_of_each_kind_come_for_all_threads_in_turn(tiles, threads):
    work = Tiles(8 * tiles)
    s = work.schedule
    _, rows, columns = s[work.D].leaf_axis
    narrow, inner = s[work.D].split(columns, factor=32)
    s[work.D].reorder(narrow, work.loop, rows, inner)
    for tensor in (work.made, work.C, work.rows):
        s[tensor].compute_at(s[work.D], work.loop)
    work.alone()
    config = TINY.with_(inp_buffer_bytes=2048, acc_buffer_bytes=8192)
    s[work.D].vthread(work.loop, threads)
    program = run(s, config, work.inputs())
    loads, products, stores = [], [], []
    kinds = ""
    for each in program.instructions:
        if isinstance(each, Load) and each.memory_type == MemoryType.INP and each.x_size:
            kinds += "l"
            loads.append(each.sram_base)
        elif isinstance(each, Gemm) and not each.reset:
            kinds += "g"
            products.append(each.uop_bgn)
        elif isinstance(each, Store) and each.x_size:
            kinds += "s"
            stores.append(each.sram_base)
    groups = [threads] * (tiles // threads) + [tiles % threads] * (tiles % threads > 0)
    parts = len(stores) - 2 * tiles  # the last tile of a single thread is stored in slices
    assert turns_of(kinds[: len(kinds) - parts]) == [
        (kind, count) for _ in range(2) for count in groups for kind in "lgs"
    ]
    expected = [thread for _ in range(2) for count in groups for thread in range(count)]
    assert loads == [64 * thread for thread in expected]
    assert len(set(stores[: 2 * tiles])) == threads


def test_threads_inside_threads_each_have_their_own_buffers():
    A, B = placeholder((64, 64), "int8", "A"), placeholder((64, 64), "int8", "B")
    D = requantise(matmul(A, B, transpose_b=True, name="C"), 8, name="D")
    s = create_schedule(D)
    yo, xo, _, _ = s[D].tile(*s[D].axis, 16, 16)
    s[D].vthread(yo, 2)
    s[D].vthread(xo, 3)
    check(s)
    generator = np.random.default_rng(0)
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    program = run(s, load_config("vta"), inputs)
    stores = [each.sram_base for each in program.instructions if isinstance(each, Store) and each.x_size]
    assert len(set(stores)) == 2 * 3 * 2  # double-buffered, since that fits
    explained = s.explain(load_config("vta"))
    assert next(each for each in explained.buffers if each.stage == "C").slots % 6 == 0


def test_parts_of_a_reduction_run_in_threads():
    tiles = Tiles(20, parts=8)
    assert tiles.part is not None
    tiles.alone()
    tiles.schedule[tiles.C].vthread(tiles.part, 2)
    check(tiles.schedule)
    result = ran(tiles)
    assert overlap(result) > 0
    kinds = "".join(
        "l" if isinstance(each, Load) else "g"
        for each in stream(result)
        if (isinstance(each, Load) and each.memory_type == MemoryType.INP)
        or (isinstance(each, Gemm) and not each.reset)
    )
    assert turns_of(kinds) == [("l", 2), ("g", 2)] * (3 * 8 // 2)


def test_a_loop_of_a_stage_that_nobody_has_placed():
    for extent in (64, 60):
        A, B = placeholder((extent, 64), "int8", "A"), placeholder((32, 64), "int8", "B")
        D = requantise(matmul(A, B, transpose_b=True, name="C"), 8, name="D")
        generator = np.random.default_rng(0)
        inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
        for loop, threads in (("data", 2), ("data", 3), ("reduce", 2)):
            s = create_schedule(D if loop == "data" else D.computation.reads[0].tensor)
            stage = s[s.outputs[0]]
            if loop == "data":
                outer, _ = stage.split(stage.axis[0], factor=16)
            else:
                outer, _ = stage.split("k", factor=16)
                stage.reorder(outer, *stage.axis)
            stage.vthread(outer, threads)
            check(s)
            run(s, load_config("vta"), inputs)


def test_windows_that_slide_inside_a_thread():
    image = placeholder((6, 10, 16), "int8", "image")
    r = reduce_axis(3, "r")
    B = compute((6, 8, 16), lambda y, x, c: sum(image[y, x + r, c].astype("int32"), axis=r), "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].compute_at(s[B], "x")
    s.reuse_at(image, s[B], "x")
    s[B].vthread("y", 2)
    check(s)
    inputs = random_inputs([B], seed=3)
    program = run(s, load_config("vta"), inputs)
    assert simulate_program(program, inputs).counters.bytes_read["acc8"] == 6 * 10 * 16


def test_a_buffer_of_the_users_inside_the_loop_is_one_for_each_thread():
    A = placeholder((64, 16), "int8", "A")
    B = compute((64, 16), lambda i, c: A[i, c].astype("int32") + 1, "B")
    C = compute((64, 16), lambda i, c: (B[i, c] >> 1).astype("int8"), "C")
    s = create_schedule(C)
    made = s.cache_write(C, "acc")
    outer, _ = s[C].split("i", 8)
    s[made].compute_at(s[C], outer)
    s[B].compute_at(s[C], outer)
    buffer = s[B].store_in(lambda i, c: [i % 8, c], scope="acc")
    s.allocate_at(buffer, s[C], outer)
    s[B].double_buffer(1)
    s[C].vthread(outer, 3)
    check(s)
    config = load_config("vta")
    run(s, config, random_inputs([C], seed=0))
    assert next(each for each in s.explain(config).buffers if each.stage == "B").slots == 3


def test_diagonals_of_a_recurrence_run_in_threads():
    network = TwoLayers()
    s = create_schedule(network.h)
    for loop in ("t", "l"):
        with pytest.raises(ParallelismError):
            s[network.h].vthread(loop, 2)
    along, diagonal = s[network.h].skew("t", "l")
    s[network.h].reorder(diagonal, along)
    s[network.h].vthread(along, 2)
    data = network.data()
    expected = network.meaning(data)["h"]
    np.testing.assert_array_equal(interpret(s, data)["h"], expected)
    program = build(s, [*network.inputs, network.h], load_config("vta"))
    np.testing.assert_array_equal(simulate_program(program, data).outputs["h"], expected)


def test_buffers_of_all_threads_must_fit():
    tiles = Tiles()
    tiles.alone()
    tiles.schedule[tiles.D].vthread(tiles.loop, 4)
    mentions = ("acc", 256, 512, "C 128 × 4", "C 64", "8×64", "fewer threads")
    raises(CapacityError, build, tiles.schedule, [tiles.A, tiles.B, tiles.D], TINY, kind="machine", mentions=mentions)


KINDS = ("split", "reorder", "fuse", "compute_at", "compute_at", "compute_at", "set_scope", "reuse_at", "cache_read")


def threaded(choice: Choice, schedule: Schedule) -> bool:
    """Apply ``vthread`` to random loops; whether any was accepted."""
    return [started(choice, schedule) for _ in range(5)].count(True) > 0


def started(choice: Choice, schedule: Schedule) -> bool:
    stage = choice.pick(schedule.stages)
    loop = choice.pick(stage.leaf_axis)
    before = text(schedule, "order")
    try:
        stage.vthread(loop, choice.number(2, 3))
    except ScheduleError:
        assert text(schedule, "order") == before
        return False
    return True


@pytest.mark.seeds(8, slow=112)
def test_any_schedule_in_threads_keeps_its_meaning(seed):
    choice = Choice(seed)
    schedule = any_schedule(choice, (*KINDS, *ORDER), 5)
    if threaded(choice, schedule):
        with suppress(ScheduleError):
            commands(choice, schedule, KINDS).run(schedule)
        check(schedule)


@pytest.mark.seeds(4, slow=36)
def test_any_schedule_by_hand_runs_in_threads_on_the_machine(seed):
    choice = Choice(seed)
    schedule, _ = hand_schedules(choice, TINY)
    if not threaded(choice, schedule):
        return
    check(schedule)
    try:
        run(schedule, TINY, random_inputs(list(schedule.program), seed=seed))
    except (CapacityError, EmitError):
        return


def test_iterations_that_are_left_out_read_and_begin_nothing():
    """Regression: stages in a shifted loop were assumed to read also in iterations that do not run."""
    a = placeholder((4, 3), "int32", name="a")
    k = reduce_axis((0, 3), name="k")
    p = compute(4, lambda i: sum(a[i, k], axis=k), name="p")
    q = compute(4, lambda i: p[i] * 2, name="q")
    c = compute((1, 4), lambda x, i: q[i] + x.astype("int32"), name="c")
    schedule = create_schedule(c)
    x = schedule[c].shift("x", 3)
    schedule[q].compute_at(schedule[c], x)
    schedule[p].compute_at(schedule[q], "i")
    schedule[c].vthread(x, 2)
    check(schedule)
