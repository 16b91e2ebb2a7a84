"""User-specified barriers and tokens: the order they enforce, seen in the trace; refusals; and unchanged results."""

from contextlib import suppress
from unittest import mock

import pytest
from documented import as_documented
from error_checks import check_mentions, raises
from messages import refusal
from nests import check, text
from queues import TINY, Tiles, ran, stage_in_tiles
from random_hand_schedules import hand_schedules
from random_programs import Choice, random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, define, placeholder, placeholders, select, state
from lathe.frontend.operators import matmul
from lathe.isa import Gemm, Instruction, Load, MemoryType, Store, Unit, unit_of
from lathe.scheduler import BuildError, CapacityError, EmitError, Schedule, ScheduleError, build, create_schedule, lower
from lathe.scheduler.primitives.barrier_at import barrier_at
from lathe.scheduler.primitives.send import send
from lathe.sim import Result, simulate_program


def test_documentation_shows_a_barrier():
    _, C, s = stage_in_tiles()
    with as_documented(barrier_at, s):
        s.barrier_at(s[C], "io")
        s.barrier_at(s[C], "io")  # has no further effect
    check(s)
    assert "C: @barrier_at at io\n" in text(s, "order")


def test_documentation_shows_tokens():
    B, C, s = stage_in_tiles()
    with as_documented(send, s):
        s[B].send("store")
        s[C].receive("compute", "io")
    check(s)
    assert "C: @receive compute at io\n" in text(s, "order")
    assert "B: @send store\n" in text(s, "order")


def test_a_barrier_before_a_stage_stands_between_its_buffer_and_its_loops():
    B, _, s = stage_in_tiles()
    s.barrier_at(B)
    lines = [line.strip() for line in text(s).splitlines()]
    assert lines[1:4] == ["buffer B in acc: [16*io + 16]", "barrier", "for i in 0..16:"]


def timed(result: Result) -> list[tuple[Instruction, int, int]]:
    """Instructions in stream order with their start and end."""
    trace = result.trace
    assert trace is not None
    own = [
        (number, start, end)
        for unit, number, start, end in zip(trace.unit, trace.instruction, trace.start, trace.end, strict=True)
        if unit < len(Unit)
    ]
    return [(trace.stream[number], start, end) for number, start, end in sorted(own)]


def is_barrier(each: Instruction) -> bool:
    return isinstance(each, Load) and each.memory_type == MemoryType.UOP and not each.x_size


@pytest.mark.parametrize("rows", [32, 28])
def test_all_that_comes_before_a_barrier_ends_before_anything_behind_begins(rows):
    tiles = Tiles(rows, parts=2)
    tiles.schedule.barrier_at(tiles.schedule[tiles.D], tiles.loop)
    events = timed(ran(tiles))
    barriers = [n for n, (each, _, _) in enumerate(events) if is_barrier(each)]
    assert len(barriers) == 4
    for n in barriers:
        assert max(end for _, _, end in events[:n]) < min(start for _, start, _ in events[n:])


def test_a_barrier_in_a_loop_of_a_reduction_keeps_loads_from_products():
    tiles = Tiles(16, parts=4)
    tiles.schedule.barrier_at(tiles.schedule[tiles.C], tiles.part)
    events = timed(ran(tiles))
    assert sum(is_barrier(each) for each, _, _ in events) == 2 * 4
    free = Tiles(16, parts=4)
    assert ran(free).cycles < max(end for _, _, end in events)


def test_threads_have_one_barrier_together():
    tiles = Tiles(24)
    halves = tiles.halves()
    tiles.schedule[tiles.D].vthread(halves, 2)
    tiles.schedule.barrier_at(tiles.schedule[tiles.C])
    check(tiles.schedule)
    assert sum(is_barrier(each) for each, _, _ in timed(ran(tiles))) == 3


def test_a_barrier_with_nothing_before_it_is_none():
    A, B = placeholder((8, 8), "int8", "A"), placeholder((8, 8), "int8", "B")
    C = matmul(A, B, transpose_b=True, name="C")
    s = create_schedule(C)
    s.barrier_at(C)
    program = build(s, [A, B, C], TINY)
    assert sum(is_barrier(each) for each in program.instructions) <= 1  # after the load of micro-ops


def two_products() -> tuple[Schedule, list[Tensor], list[Tensor]]:
    """Two matmuls, one after the other, with all their data loaded before."""
    data = [placeholder((16, 32), "int8", f"A{n}") for n in range(2)]
    weights = [placeholder((8, 32), "int8", f"W{n}") for n in range(2)]
    products = [matmul(data[n], weights[n], transpose_b=True, name=f"P{n}") for n in range(2)]
    s = create_schedule(products)
    made = [s.cache_write(product, "acc") for product in products]
    loaded = [s.cache_read(a, "inp", [m]) for a, m in zip(data, made, strict=True)]
    for w, m in zip(weights, made, strict=True):
        s.cache_read(w, "wgt", [m])
    first = ["A0.inp", "W0.wgt", "A1.inp"]
    s = s.fork()  # no primitive reorders loads
    s.reorder_stages(sorted(s.stages, key=lambda stage: first.index(stage.name) if stage.name in first else len(first)))
    return s, made, loaded


def test_a_token_makes_a_load_wait_for_what_comes_behind_it_in_the_stream():
    s, made, loaded = two_products()
    inputs = random_inputs(list(s.program), seed=0)
    free = timed(simulate_program(run(s, TINY, inputs), inputs))
    s[made[0]].send("load")
    s[loaded[1]].receive("compute")
    check(s)
    waiting = timed(simulate_program(run(s, TINY, inputs), inputs))
    for events, apart in ((free, False), (waiting, True)):
        product = next(end for each, _, end in events if isinstance(each, Gemm) and not each.reset)
        loads = [start for each, start, _ in events if isinstance(each, Load) and each.memory_type == MemoryType.INP]
        assert (loads[1] > product) == apart
    shown = lower(s, [*placeholders(s.program), *s.program], TINY, "communication")
    assert "sends to load: P0.acc" in shown
    assert "receives from compute: A1.inp" in shown


@pytest.mark.parametrize("ahead", [1, 2])
def test_tokens_ahead_let_iterations_wait_for_earlier_ones(ahead):
    tiles = Tiles(48)
    s = tiles.schedule
    s[tiles.rows].double_buffer(6)
    s[tiles.D].send("compute", tiles.loop)
    s[tiles.C].receive("store", ahead=ahead)
    check(s)
    assert f"C receives from store, {ahead} ahead" in text(s)
    config = TINY.with_(inp_buffer_bytes=2048)
    inputs = tiles.inputs()
    events = timed(simulate_program(run(s, config, inputs), inputs))
    resets = [start for each, start, _ in events if isinstance(each, Gemm) and each.reset]
    stores = [end for each, _, end in events if isinstance(each, Store)]
    assert all(start > stores[n] for n, start in enumerate(resets[ahead:]))
    assert any(start < stores[n] for n, start in enumerate(resets[ahead - 1 :]) if n < len(stores))


@pytest.mark.usefixtures("loads_as_emitted")
def test_a_token_that_derived_ones_imply_changes_nothing():
    tiles, plain = Tiles(32, parts=2), Tiles(32, parts=2)
    s = tiles.schedule
    s[tiles.rows].send("compute")
    s[tiles.C].receive("load", tiles.part)
    check(s)
    assert ran(tiles).trace.stream == ran(plain).trace.stream  # type: ignore[union-attr]


REFUSED = [
    (
        lambda t: (t.schedule[t.D].send("compute", t.loop), t.schedule[t.C].receive("store", t.part)),
        ("store->compute", "2 (2 by D at loop io)", "4 (4 by C at loop ko)"),
    ),
    (
        lambda t: t.schedule[t.rows].send("compute"),
        ("load->compute", "4 (4 by A.inp)", "0"),
    ),
    (
        lambda t: (t.schedule[t.D].send("compute", t.loop), t.schedule[t.C].receive("store")),
        (
            "store->compute",
            "C",
            "gemm of C at io=0 waits for store out of D at io=0",
            "D at loop io",
            "store out of D at io=0 waits for alu shr of D.acc at io=0",
        ),
    ),
    (
        lambda t: (t.schedule[t.C].send("load", t.part), t.schedule[t.rows].receive("compute")),
        (
            "compute->load",
            "A.inp",
            "load inp of A.inp at io=0, ko=0 waits for gemm of C at io=0, ko=0",
            "C at loop ko",
            "gemm of C at io=0, ko=0 waits for load inp of A.inp at io=0, ko=0",
        ),
    ),
]


@pytest.mark.parametrize(("signals", "mentions"), REFUSED)
def test_tokens_that_do_not_match_or_never_come_are_refused_before_anything_runs(signals, mentions):
    tiles = Tiles(16, parts=2)
    signals(tiles)
    check(tiles.schedule)
    arguments = [tiles.A, tiles.B, tiles.D]
    error = raises(ScheduleError, build, tiles.schedule, arguments, TINY, kind="legality", mentions=mentions)
    explained = tiles.schedule.explain(TINY)
    assert not explained.maps
    assert [refusal.message for refusal in explained.refusals] == [str(error)]


def test_a_queue_holds_as_many_tokens_as_its_counter():
    tiles = Tiles(64)
    tiles.schedule[tiles.rows].double_buffer(4)
    tiles.schedule[tiles.C].double_buffer(1)
    tensors = [tiles.A, tiles.B, tiles.D]
    with mock.patch("lathe.scheduler.stream.tokens.MOST_TOKENS", 4):
        build(tiles.schedule, tensors, TINY)
    with mock.patch("lathe.scheduler.stream.tokens.MOST_TOKENS", 3):
        mentions = ("load->compute", 3, 4)
        raises(ScheduleError, build, tiles.schedule, tensors, TINY, kind="machine", mentions=mentions)


def test_signals_and_tokens_are_counted_before_anything_runs():
    tiles = Tiles(28, parts=2)
    s = tiles.schedule
    halves = tiles.halves()
    s[tiles.D].vthread(halves, 2)
    s.barrier_at(s[tiles.C])
    s[tiles.rows].send("compute")
    s[tiles.C].receive("load", tiles.part)
    counts = s.count(TINY)
    assert (counts.barriers, counts.sent, counts.received) == (4, {"load->compute": 16}, {"load->compute": 16})
    program = build(s, [tiles.A, tiles.B, tiles.D], TINY)
    assert sum(is_barrier(each) for each in program.instructions) == 4
    assert counts.tokens == {
        "load->compute": sum(each.push_next for each in program.instructions if unit_of(each) == Unit.LOAD),
        "compute->load": sum(each.push_prev for each in program.instructions if unit_of(each) == Unit.COMPUTE),
        "compute->store": sum(each.push_next for each in program.instructions if unit_of(each) == Unit.COMPUTE),
        "store->compute": sum(each.push_prev for each in program.instructions if unit_of(each) == Unit.STORE),
    }
    assert str(counts).splitlines()[-2:] == ["barriers: 4", "load->compute, manual tokens: 16 sent, 16 received"]
    assert (s.count().barriers, s.count().tokens) == (4, {})


NEIGHBOURS = {"inp": ["compute"], "wgt": ["compute"], "acc": ["load", "store"], "dram": ["compute"]}


@pytest.mark.seeds(4, slow=56)
def test_any_signals_leave_the_values_as_they_are(seed):
    choice = Choice(seed)
    schedule, _ = hand_schedules(choice, TINY)
    for _ in range(choice.number(1, 3)):
        stage, other = choice.pick(schedule.stages), choice.pick(schedule.stages)
        loops = [each for each in stage.leaf_axis if each not in stage.state.emitted_leaves() and each.kind == "data"]
        kind = choice.number(0, 2)
        with suppress(ScheduleError):
            if kind == 0:
                schedule.barrier_at(stage, choice.pick([None, *loops]))
            elif kind == 1:
                stage.vthread(choice.pick(loops), 2) if loops else None
            else:
                to = choice.pick(NEIGHBOURS[stage.state.scope])
                loop = choice.pick([None, *loops])
                here = "compute" if stage.state.scope == "acc" else "store" if stage.state.scope == "dram" else "load"
                with schedule.transaction():
                    stage.send(to, loop)
                    other.receive(here, choice.pick([None, *other.leaf_axis[:1]]))
    check(schedule)
    with suppress(CapacityError, EmitError, ScheduleError):
        run(schedule, TINY, random_inputs(list(schedule.program), seed=seed))


def test_signals_and_threads_stay_where_layouts_are_transformed():
    A = placeholder((16, 64), "int8", "A")
    B = compute((16, 64), lambda i, j: A[i, j].astype("int32") + 1, "B")
    C = compute((16, 64), lambda i, j: B[i, j] * 2, "C")
    s = create_schedule(C)
    s.transform_layout(A, lambda i, j: [j, i])
    s.transform_layout(B, lambda i, j: [j // 16, i, j % 16])
    rows, _ = s[C].split(s[C].axis[0], factor=4)
    s.barrier_at(s[C], rows)
    s[C].vthread(rows, 2)
    check(s)
    program = run(s, load_config("vta"), random_inputs([C], seed=0))
    assert sum(is_barrier(each) for each in program.instructions) == s.count().barriers == 2
    assert "thread 1" in lower(s, [A, C], load_config("vta"), "communication")


def test_tokens_of_a_stage_that_the_machine_keeps_elsewhere_are_refused_by_name():
    """In a recurrence, values that only later stages of an iteration read are computed in acc and not stored."""
    x = placeholder(5, "int32", "x")
    r = state(5, "int32", "r")
    b = compute(5, lambda i: select(i >= 1, r[i - 1], 0) + 1, "b")
    r = define(r, lambda i: b[i] + x[i])
    s = create_schedule(r)
    s[b].receive("compute")
    error = refusal(BuildError, build, s, [x, r], load_config("tiny"))
    check_mentions(error, "receive", "stage b", "load or store", "'compute'", "'tiny'", "acc", "s[b].set_scope")


def test_tokens_of_a_stage_in_the_loops_of_another_are_those_of_its_stores():
    A = placeholder((4, 8), "int32", "A")
    B = compute((4, 8), lambda i, j: A[i, j] + 1, "B")
    C = compute((4, 8), lambda i, j: B[i, j] * 2, "C")
    s = create_schedule(C)
    s[B].compute_at(s[C], "i", "exact")
    s[B].receive("compute")
    mentions = ("compute->store", "4 by B")
    raises(ScheduleError, build, s, [A, C], load_config("tiny"), kind="legality", mentions=mentions)
