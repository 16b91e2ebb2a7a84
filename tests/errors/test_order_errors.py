"""Every refusal of a command on the order of stages and of instances: the whole message, and the schedule as before."""

from functools import partial

import pytest
from refused_commands import (
    ELSEWHERE,
    F2,
    M2,
    M3,
    N2,
    R3,
    W1,
    Y2,
    A,
    B,
    C,
    D,
    E,
    M,
    N,
    Q,
    Refused,
    W,
    check_refused,
    half,
)

from lathe.frontend import compute
from lathe.frontend.arith.polyhedra import limited_operations
from lathe.scheduler import LegalityError, ScheduleError, Stage, create_schedule
from lathe.scheduler.schedule_trace import commands_of

COMMANDS = commands_of(Stage)

# fmt: off
# fmt: off
CASES = [
    Refused("inline_output", D, lambda s: s[D].inline(),
        "stage of inline must be one that only its readers need, not 'D', whose D is an output of the program."),
    Refused("inline_reduction", M2, lambda s: s[M].inline(),
        "stage of inline must be an expression of its own point, not 'M', a reduction. Compute it where it is needed "
        "with compute_at."),
    Refused("inline_after_a_split", D, lambda s: s[B].inline(),
        "stage of inline must be as it was made, not 'B', which has a place, a scratchpad, or changed loops. Call "
        "inline before other commands.",
        lambda s: s[B].split("i", 4)),
    Refused("inline_with_a_stage_inside", F2, lambda s: s[C].inline(),
        "stage of inline must be as it was made, not 'C', which has B computed inside it. Call inline before other "
        "commands.",
        lambda s: s[B].compute_at(s[C], "i")),
    Refused("after_no_stage", D, lambda s: s[C].after(B, "i"),
        "other stage of after on stage C must be a stage, as s[B] is, not Tensor(B: int8[60])."),
    Refused("after_itself", D, lambda s: s[C].after(s[C], "i"),
        "other stage of after on stage C must be another one, not itself."),
    Refused("after_stage_of_another_schedule", D, lambda s: s[C].after(ELSEWHERE[B], "i"),
        "other stage of after on stage C must be a stage of the same schedule, not 'B' of another."),
    Refused("after_its_reader", D, lambda s: s[B].after(s[C], "i"),
        "stage B must come before C, which reads it, not after it (after)."),
    Refused("after_its_reader_at_the_root", D, lambda s: s[B].after(s[C]),
        "stage B must come before C, which reads it, not after it (after)."),
    Refused("before_what_it_reads", D, lambda s: s[C].before(s[B]),
        "stage B must come before C, which reads it, not after it (after)."),
    Refused("after_too_deep", M3, lambda s: s[M3].after(s[R3], "j"),
        "axis of after on stage M3 must be one of its outermost 1 loops, as many as R3 has, not 'j'."),
    Refused("after_in_a_reduction", [M2, Y2], lambda s: s[M].after(s[Y2], "k"),
        "axis of after on stage M must be one of its outermost 2 loops, as many as Y2 has, not 'k'."),
    Refused("after_in_a_part_of_a_fused_loop", N2, lambda s: s[N2].after(s[N], "i.ioo"),
        "loops that stage N shares with N2 must be loops of N2 that a fuse has made as they are, or none, not i.ioo, "
        "which other commands have made of a fused one (after). Let N2 share the loops of N instead, or fuse last.",
        lambda s: s[N2].split(s[N2].fuse("i", "io"), 4)),
    Refused("after_what_is_computed_elsewhere", D, lambda s: s[C].after(s[B], "i"),
        "loops that stage B shares with C must be loops of a stage that is computed whole, but C is computed at loop "
        "i of D (after). Undo that with compute_root.",
        lambda s: s[C].compute_at(s[D], "i")),
    Refused("after_inside_a_pragma", D, lambda s: s[C].after(s[B], "i"),
        "loops that stage B shares with C must be outside the nest that emit_insn gives to rule 'alu', not i of C "
        "(after). Put the pragma on an inner loop.",
        lambda s: s[C].emit_insn("i", "alu")),
    Refused("reorder_of_a_shared_loop_and_one_of_its_own", N2, lambda s: s[N2].reorder("io", "i"),
        "loops that stage N shares with N2 must stay their outermost loops, one for one, not be changed on one side "
        "(i of N, down to i of N2; reorder). Change the loops first, and put the stages together afterwards.",
        lambda s: s[N2].after(s[N], "i")),
    Refused("reorder_of_a_shared_loop_and_one_of_its_own_on_the_other_side", N2, lambda s: s[N].reorder("io", "i"),
        "loops that stage N shares with N2 must stay their outermost loops, one for one, not be changed on one side "
        "(i of N, down to i of N2; reorder). Change the loops first, and put the stages together afterwards.",
        lambda s: s[N2].after(s[N], "i")),
    Refused("after_too_early", D, lambda s: s[D].after(s[C], "i"),
        "after must leave C ahead of what D reads of it, not in loop i of D as it stands: D reads cells that no "
        "iteration so far has made. For example, D(i=0) reads C[59] that C(i=59) writes.", error=LegalityError),
    Refused("shift_of_what_must_come_first", D, lambda s: s[B].shift("i", 1),
        "shift must leave B ahead of what C reads of it, not in loop i of C as it stands: C reads cells that no "
        "iteration so far has made. For example, C(i=0) reads B[0] that B(i=0) writes.",
        lambda s: s[C].after(s[B], "i"), error=LegalityError),
    Refused("reverse_of_a_shared_loop", D, lambda s: s[B].reverse("i"),
        "reverse must leave B ahead of what C reads of it, not in loop i of C as it stands: C reads cells that no "
        "iteration so far has made. For example, C(i=0) reads B[0] that B(i=0) writes.",
        lambda s: s[C].after(s[B], "i"), error=LegalityError),
    Refused("between_whose_second_half_is_refused", D, lambda s: s[B].between(s[C], "i", s[D], "i"),
        "after must leave B ahead of what C reads of it, not in loop i of D as it stands: C runs before the loop that "
        "makes the values. For example, C(i=0) reads B[0] that B(i=0) writes.", error=LegalityError),
    Refused("compute_at_no_stage", D, lambda s: s[B].compute_at(C, "i"),
        "consumer of compute_at of stage B must be a stage, as s[C] is, not Tensor(C: int8[60])."),
    Refused("set_schedule_with_parameters", D, lambda s: s[B].set_schedule("[n] -> { [i] -> [i + n] }"),
        "map of set_schedule on stage B must be of axes and numbers, not of parameters (n). Write their values."),
    Refused("set_schedule_at_late_times", D, lambda s: s[B].set_schedule("{ [i] -> [1000000000000000000000 * i] }"),
        "map of set_schedule on stage B must give times between -2147483648 and 2147483648, not "
        "59000000000000000000000."),
    Refused("compute_at_of_a_stage_with_a_map", D, lambda s: s[B].compute_at(s[C], "i"),
        "stage of compute_at must be one whose loops are for any part of it, not 'B', whose loops set_schedule gives "
        "for the whole (compute_at). Let it share loops with after instead.",
        lambda s: s[B].set_schedule("{ [i] -> [59 - i] }")),
    Refused("earlier_iterations_within_an_exact_region", compute(29, lambda i: W[2 * i] * 2, "G"),
        lambda s: s[W].compute_at(s[s.outputs[0]], "i", region="exact"),
        "consumer of stage B with region 'missing' must be computed as a box, in the order of its loops, not as "
        "region 'exact' as 'W' is (compute_at). Place W with region='box'.",
        prepared=lambda s: s[B].compute_at(s[W], "i", region="missing")),
    Refused("reuse_within_an_exact_region", compute(56, lambda i: Q[i] + Q[i + 2], "R"),
        lambda s: s.reuse_at(A, s[Q], "i"),
        "consumer of reuse buffer A.reuse must be computed as a box, in the order of its loops, not as region 'exact' "
        "as 'Q' is (reuse_at). Place Q with region='box'.",
        prepared=lambda s: s[Q].compute_at(s[s.outputs[0]], "i", region="exact")),
    Refused("parallel_loop_with_a_reuse_buffer", W1, lambda s: s[W1].parallelize("i"),
        "loop i of stage W1 must be parallel to be marked parallelize (parallelize), but reuse buffer A.reuse keeps "
        "values from one iteration to the next.",
        prepared=lambda s: s.reuse_at(A, s[W1], "i")),
    Refused("compute_at_of_an_unknown_region", D, lambda s: s[B].compute_at(s[C], "i", "all"),
        "region of compute_at of stage B must be 'box', 'exact' or 'missing', not 'all'."),
    Refused("compute_at_of_what_is_missing_in_a_scratchpad", W, lambda s: s[B].compute_at(s[W], "i", "missing"),
        "region 'missing' of stage B must make what its readers have not got, not leave it to values that are gone or "
        "yet to come (compute_at, loop i of W): stage W reads the values after the loop iteration that makes them "
        "has ended. For example, W(i=1) reads B[1] that B(i=1) writes.",
        lambda s: s[B].set_scope("acc"), error=LegalityError),
    Refused("set_schedule_of_a_stage_computed_elsewhere", E, lambda s: s[half].set_schedule("{ [i] -> [i] }"),
        "stage of set_schedule must be computed whole, in loops of its own, not 'half', computed in loop i of E. Call "
        "set_schedule first.",
        lambda s: s[half].compute_at(s[E], "i")),
    Refused("set_schedule_with_a_stage_inside", E, lambda s: s[E].set_schedule("{ [i] -> [i] }"),
        "stage of set_schedule must be computed whole, in loops of its own, not 'E', with half computed inside it. "
        "Call set_schedule first.",
        lambda s: s[half].compute_at(s[E], "i")),
    Refused("set_schedule_with_a_pragma", D, lambda s: s[B].set_schedule("{ [i] -> [i] }"),
        "stage of set_schedule must be computed whole, in loops of its own, not 'B', with loops that emit_insn gives "
        "to rule 'alu'. Call set_schedule first.",
        lambda s: s[B].emit_insn("i", "alu")),
    Refused("set_schedule_of_many_pieces", D,
        lambda s: s[B].set_schedule("{ " + "; ".join(f"[i] -> [{i * i + 7}] : i = {i}" for i in range(60)) + " }"),
        "map of set_schedule on stage B must be of at most 16 pieces, not 60. Give a simpler one."),
    Refused("after_of_a_mixed_reduction", M2, lambda s: s[M2].after(s[M], "i"),
        "loops that stage M shares with M2 must each be of data axes or of the reduction of M, not of both (after). "
        "Let M2 share the loops of M instead.",
        lambda s: s[M].set_schedule("{ [i, j, k] -> [i, j + k, k] }")),
    Refused("set_schedule_no_map", D, lambda s: s[B].set_schedule("i -> -i"),
        "map of set_schedule on stage B must be an isl map, as in \"{ C[i, j] -> [j, i] }\", not 'i -> -i'."),
    Refused("set_schedule_no_text", D, lambda s: s[B].set_schedule(7),
        "map of set_schedule on stage B must be an isl map or its text, not 7."),
    Refused("set_schedule_other_rank", D, lambda s: s[B].set_schedule("{ [i, j] -> [i] }"),
        "map of set_schedule on stage B must have 1 axes (i), not 2."),
    Refused("set_schedule_leaves_points_out", D, lambda s: s[B].set_schedule("{ [i] -> [i] : i < 50 }"),
        "map of set_schedule on stage B must give every point a time, not leave out B(50)."),
    Refused("set_schedule_two_times", D, lambda s: s[B].set_schedule("{ [i] -> [t] : i <= t <= i + 1 }"),
        "map of set_schedule on stage B must give every point one time, not B(0) both [0] and [1]."),
    Refused("set_schedule_two_points_at_once", D, lambda s: s[B].set_schedule("{ [i] -> [floor(i/2)] }"),
        "map of set_schedule on stage B must give no two points the same time, not B(0) and B(1) both [0]."),
    Refused("axis_replaced_by_set_schedule", D, lambda s: s[B].reverse(s[B].axis[0]),
        "axis of reverse on stage B must be one of its present loops (t0), not 'i', which an earlier set_schedule has "
        "replaced. Use the axes that the command returned.",
        lambda s: s[B].set_schedule("{ [i] -> [-i] }")),
    Refused("is_parallel_without_stage", D, lambda s: s.is_parallel("i"),
        "axis of is_parallel must be a present loop of one of the stages (B, C, D), not 'i'. Name the stage, too, as "
        'in s.is_parallel("i", C).'),
    Refused("is_legal_unknown_command", D, lambda s: s.is_legal("fuze", C, "i"),
        f"command of is_legal must be a function of the schedule, or one of {', '.join(COMMANDS)}, "
        "allocate_at, barrier_at, cache_read, cache_write, copy_at, device_to_host, not 'fuze'."),
    Refused("is_legal_without_stage", D, lambda s: s.is_legal("fuse"),
        "command 'fuse' of is_legal must be followed by the stage that it is for."),
    Refused("shift_of_what_comes_later_to_the_front", D, lambda s: s[C].shift("i", -1),
        "shift must leave B ahead of what C reads of it, not in loop i of C as it stands: C reads cells that no "
        "iteration so far has made. For example, C(i=0) reads B[0] that B(i=0) writes.",
        lambda s: s[C].after(s[B], "i"), LegalityError),
    Refused("smallest_shift_unknown_axis", D, lambda s: s.smallest_shift(C, B, "x"),
        "axis of smallest_shift on stage C must be one of its present loops (i), not 'x'. Take it from s[C].axis, "
        ".reduce_axis or from what a command on this stage returned."),
]
# fmt: on
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)


def test_a_question_that_takes_too_long_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr("lathe.scheduler.query_results.limited_operations", partial(limited_operations, 10))
    s = create_schedule(D)
    with pytest.raises(ScheduleError) as caught:
        s.dependences()
    assert str(caught.value) == (
        "how C depends on B must be decided within 2000000 isl operations, and takes more. Use fewer splits and fused "
        "loops around it."
    )
