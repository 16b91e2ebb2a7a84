"""Stages with padded layouts in each other's loops on random machines: NumPy, loop nest, simulator and verifier agree.

Values go from one padded layout to another, through scratchpads or DRAM. Iterations that conditions on padding skip
compute nothing, and no consumer may depend on them.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from meanings import check_machine
from random_programs import Choice, random_inputs
from seeds import check_each, note
from shares import BUILD, COMMAND, Shares, check_shares, counted
from small_machine import loaded_early, memory_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, format_program, placeholder, recurrence, reduce_axis, reference, sum
from lathe.isa import Store, verify
from lathe.isa.diagnostics import FindingKind
from lathe.scheduler import build, create_schedule, undef
from lathe.scheduler.schedule import Stage

MACHINES = ("vta", "tiny", "batch4", "wide", "lathe16")
TINY = load_config("tiny")


def blocks(kind: int, factor: int, offset: int) -> Callable[..., list]:
    """A layout with blocks of columns or rows (blocks of columns outermost in kind 2), and padding in front."""
    return [
        lambda i, j: [i, (j + offset) // factor, (j + offset) % factor],
        lambda i, j: [(i + offset) // factor, j, (i + offset) % factor],
        lambda i, j: [(j + offset) // factor, i, (j + offset) % factor],
    ][kind]


def stages(height: int, width: int, shift: int, total: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """An input, a producer, a consumer that reads it at two points, and the output: the consumer or its row sums."""
    A = placeholder((height, width), "int32", "A")
    P = compute((height, width), lambda y, x: A[y, x] + 1, "P")
    Q = compute((height - shift, width - shift), lambda y, x: P[y, x] * 100 + P[y + shift, x + shift], "Q")
    if not total:
        return A, P, Q, Q
    k = reduce_axis(width - shift, "k")
    return A, P, Q, compute((height - shift,), lambda y: sum(Q[y, k], axis=k), "T")


def attempt(what: str, command: Callable[[], object]) -> None:
    note(what)
    with counted(COMMAND):
        command()


def cut(choice: Choice, stage: Stage) -> None:
    """Perhaps a split, and perhaps a barrier, at a random loop."""
    loop = choice.pick(list(stage.leaf_axis))
    if choice.number(0, 1):
        factor = choice.number(2, 5)
        attempt(f"split {stage.name} {loop.name} by {factor}", lambda: stage.split(loop, factor))
        loop = choice.pick(list(stage.leaf_axis))
    if choice.number(0, 2) == 0:
        attempt(f"barrier of {stage.name} at {loop.name}", lambda: stage.schedule.barrier_at(stage, loop))


def check_seed(seed: int) -> None:
    choice = Choice(seed)
    shift = choice.number(0, 1)
    _, P, Q, T = stages(choice.number(2, 9), choice.number(2, 20), shift, bool(choice.number(0, 1)))
    s = create_schedule(T)
    note(format_program([T]))
    for tensor in (P, Q):
        if choice.number(0, 3):
            layout = choice.number(0, 2), choice.number(2, 6), choice.number(0, 3)
            pad = choice.pick([None, undef, undef, 0])
            attempt(f"{tensor.name} {layout} {pad}", lambda: s.transform_layout(tensor, blocks(*layout), pad_value=pad))  # noqa: B023
    for tensor in dict.fromkeys((P, Q, T)):
        if choice.number(0, 1):
            cut(choice, s[tensor])
    if choice.number(0, 3):
        loop, region = choice.pick(list(s[Q].leaf_axis)), choice.pick(["missing", "missing", "box", "exact"])
        attempt(f"compute_at {loop.name} {region}", lambda: s[P].compute_at(s[Q], loop, region))
    name = choice.pick(MACHINES)
    note(name)
    check_machine(s, load_config(name))


@pytest.mark.seeds(4, slow=196, block=10)
def test_padded_stages_in_each_others_loops(seeds):
    happened = check_each(seeds, check_seed)
    check_shares(happened, COMMAND, Shares(0.95, {"argument": 0.03, "legality": 0.03, "limit": 0.03}))
    check_shares(happened, BUILD, Shares(0.92, {"machine": 0.08}))


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_many_more_padded_stages(seeds):
    check_each(seeds, check_seed)


@pytest.mark.parametrize("cut", [0, 1])
def test_what_is_missing_is_not_left_to_iterations_that_padding_leaves_out(cut):
    """Regression: loops of Q start after its padding; its copy of P in acc seemed to need an earlier row."""
    _, P, Q, _ = stages(2, 2, 1, False)
    s = create_schedule(Q)
    s.transform_layout(Q, blocks(1, 2, 1), pad_value=undef)
    s[Q].split(s[Q].leaf_axis[cut], 2)
    s[P].compute_at(s[Q], s[Q].leaf_axis[3], "missing")
    run(s, TINY, random_inputs([Q], seed=1))


def test_undefined_cells_of_a_scratchpad_that_nobody_writes_are_not_read():
    """The loops of P are split and keep its conditions, so that cells of its padding are never written."""
    _, P, Q, _ = stages(1, 1, 0, False)
    s = create_schedule(Q)
    for tensor, kind in ((P, 0), (Q, 2)):
        s.transform_layout(tensor, blocks(kind, 2, 1), pad_value=undef)
    s[P].split(s[P].leaf_axis[0], 2)
    s[P].compute_at(s[Q], s[Q].leaf_axis[0])
    run(s, TINY, random_inputs([Q], seed=1))


def test_blank_padding_may_be_loaded_though_nothing_is_stored_there():
    """The loops of P are split and keep its conditions; its consumer loads whole blocks."""
    A, P, Q, _ = stages(4, 6, 0, False)
    s = create_schedule(Q)
    s.transform_layout(P, blocks(0, 2, 1), pad_value=undef)
    s[P].split(s[P].leaf_axis[0], 2)
    program = run(s, TINY, random_inputs([Q], seed=1))
    assert loaded_early(program) == ["P"]
    stores = [n for n, each in enumerate(program.instructions) if isinstance(each, Store) and each.x_size]
    instructions = list(program.instructions)
    instructions[stores[0]] = replace(instructions[stores[0]], x_size=0)  # of P: its elements are then undefined
    assert {each.kind for each in verify(replace(program, instructions=tuple(instructions)))} == {
        FindingKind.UNINITIALISED_DRAM
    }
    s = create_schedule(Q)
    assert loaded_early(build(s, [A, Q], TINY)) == []


@pytest.mark.parametrize("region", ["box", "missing"])
def test_padding_that_nobody_reads_is_not_made_where_parts_are_computed(region):
    """The loops of Q compute what it reads of P, without the zero padding after each row; T loads whole rows."""
    A = placeholder((3, 5), "int32", "A")
    P = compute((3, 5), lambda y, x: A[y, x] + 1, "P")
    Q = compute((3, 5), lambda y, x: P[y, x] * 2, "Q")
    k = reduce_axis(5, "k")
    T = compute(3, lambda y: sum(P[y, k], axis=k), "T")
    s = create_schedule([Q, T])
    s.transform_layout(P, blocks(0, 4, 0), pad_value=0)
    s[P].compute_at(s[Q], "x", region)
    inputs = random_inputs([Q, T], seed=1)
    program = run(s, TINY, inputs)
    assert loaded_early(program) == ["P"]
    _, after = memory_of(program, inputs)  # memory that held something else before
    for tensor, expected in reference([Q, T], inputs).items():
        segment = program.segment(tensor)
        stored = after[segment.address : segment.end].view(segment.layout.physical_dtype)
        np.testing.assert_array_equal(segment.layout.unpack(stored.reshape(segment.layout.physical_shape)), expected)


def test_states_whose_elements_fill_step_by_step_are_no_mistake():
    x = placeholder((6, 8), "int32", "x")
    S = recurrence((6, 8), lambda S, t, j: S[t - 1, j] + x[t, j], init=0, name="S")
    assert isinstance(S, Tensor)
    s = create_schedule(S)
    s.transform_layout(S, lambda i, j: [i // 2, j, i % 2])
    run(s, TINY, random_inputs([S], seed=1))


def test_what_runs_in_loops_of_a_stage_in_pieces_has_its_operands_wherever_it_runs():
    """Q's first rows are padding: nothing of P is missing there, but its copy in acc is computed nevertheless."""
    check_seed(160)
