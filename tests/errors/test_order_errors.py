"""Every refusal of a primitive on the order of stages and instances: kind and mentions, and an unchanged schedule."""

from functools import partial

import pytest
from error_checks import raises
from refused_primitives import (
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
from lathe.scheduler.schedule_trace import primitives_of

COMMANDS = primitives_of(Stage)

# fmt: off
CASES = [
    Refused("inline_output", D, lambda s: s[D].inline(), "legality", ("inline", "D")),
    Refused("inline_reduction", M2, lambda s: s[M].inline(), "limit", ("inline", "M")),
    Refused("inline_after_a_split", D, lambda s: s[B].inline(), "limit", ("inline", "B"), lambda s: s[B].split("i", 4)),
    Refused("inline_with_a_stage_inside", F2, lambda s: s[C].inline(),
        "limit", ("C", "inline", "B"), lambda s: s[B].compute_at(s[C], "i")),
    Refused("after_no_stage", D, lambda s: s[C].after(B, "i"),
        "argument", ("after", "C", "s[B]", "Tensor(B: int8[60])")),
    Refused("after_itself", D, lambda s: s[C].after(s[C], "i"), "argument", ("after", "C")),
    Refused("after_stage_of_another_schedule", D, lambda s: s[C].after(ELSEWHERE[B], "i"),
        "argument", ("after", "C", "B")),
    Refused("after_its_reader", D, lambda s: s[B].after(s[C], "i"), "legality", ("B", "C", "after")),
    Refused("after_its_reader_at_the_root", D, lambda s: s[B].after(s[C]), "legality", ("B", "C", "after")),
    Refused("before_what_it_reads", D, lambda s: s[C].before(s[B]), "legality", ("B", "C", "after")),
    Refused("after_too_deep", M3, lambda s: s[M3].after(s[R3], "j"), "argument", ("after", "M3", 1, "R3", "j")),
    Refused("after_in_a_reduction", [M2, Y2], lambda s: s[M].after(s[Y2], "k"),
        "argument", ("after", "M", 2, "Y2", "k")),
    Refused("after_in_a_part_of_a_fused_loop", N2, lambda s: s[N2].after(s[N], "i.ioo"),
        "limit", ("N", "N2", "i.ioo", "after"), lambda s: s[N2].split(s[N2].fuse("i", "io"), 4)),
    Refused("after_what_is_computed_elsewhere", D, lambda s: s[C].after(s[B], "i"),
        "limit", ("B", "i", "C", "D", "after"), lambda s: s[C].compute_at(s[D], "i")),
    Refused("after_inside_a_pragma", D, lambda s: s[C].after(s[B], "i"),
        "machine", ("B", "i", "C", "emit_insn", "alu", "after"), lambda s: s[C].emit_insn("i", "alu")),
    Refused("reorder_of_a_shared_loop_and_one_of_its_own", N2, lambda s: s[N2].reorder("io", "i"),
        "limit", ("N", "i", "N2", "reorder"), lambda s: s[N2].after(s[N], "i")),
    Refused("reorder_of_a_shared_loop_and_one_of_its_own_on_the_other_side", N2, lambda s: s[N].reorder("io", "i"),
        "limit", ("N", "i", "N2", "reorder"), lambda s: s[N2].after(s[N], "i")),
    Refused("after_too_early", D, lambda s: s[D].after(s[C], "i"),
        "legality", ("after", "D(i=0)", "C[59]", "C(i=59)"), error=LegalityError),
    Refused("shift_of_what_must_come_first", D, lambda s: s[B].shift("i", 1),
        "legality", ("shift", "C(i=0)", "B[0]", "B(i=0)"), lambda s: s[C].after(s[B], "i"), error=LegalityError),
    Refused("reverse_of_a_shared_loop", D, lambda s: s[B].reverse("i"),
        "legality", ("reverse", "C(i=0)", "B[0]", "B(i=0)"), lambda s: s[C].after(s[B], "i"), error=LegalityError),
    Refused("between_whose_second_half_is_refused", D, lambda s: s[B].between(s[C], "i", s[D], "i"),
        "legality", ("D", "after", "C(i=0)", "B[0]", "B(i=0)"), error=LegalityError),
    Refused("compute_at_no_stage", D, lambda s: s[B].compute_at(C, "i"),
        "argument", ("compute_at", "B", "C", "int8[60]")),
    Refused("set_schedule_with_parameters", D, lambda s: s[B].set_schedule("[n] -> { [i] -> [i + n] }"),
        "argument", ("set_schedule", "n", "B")),
    Refused("set_schedule_at_late_times", D, lambda s: s[B].set_schedule("{ [i] -> [1000000000000000000000 * i] }"),
        "limit", ("set_schedule", "B", -2147483648, 59000000000000000000000)),
    Refused("compute_at_of_a_stage_with_a_map", D, lambda s: s[B].compute_at(s[C], "i"),
        "limit", ("B", "compute_at", "set_schedule"), lambda s: s[B].set_schedule("{ [i] -> [59 - i] }")),
    Refused("earlier_iterations_within_an_exact_region", compute(29, lambda i: W[2 * i] * 2, "G"),
        lambda s: s[W].compute_at(s[s.outputs[0]], "i", region="exact"),
        "limit", ("B", "missing", "exact", "W", "compute_at"),
        prepared=lambda s: s[B].compute_at(s[W], "i", region="missing")),
    Refused("reuse_within_an_exact_region", compute(56, lambda i: Q[i] + Q[i + 2], "R"),
        lambda s: s.reuse_at(A, s[Q], "i"),
        "limit", ("exact", "Q", "reuse_at"), prepared=lambda s: s[Q].compute_at(s[s.outputs[0]], "i", region="exact")),
    Refused("parallel_loop_with_a_reuse_buffer", W1, lambda s: s[W1].parallelize("i"),
        "legality", ("i", "W1", "parallelize", "A.reuse"), prepared=lambda s: s.reuse_at(A, s[W1], "i")),
    Refused("compute_at_of_an_unknown_region", D, lambda s: s[B].compute_at(s[C], "i", "all"),
        "argument", ("compute_at", "B", "box", "exact", "missing", "all")),
    Refused("compute_at_of_what_is_missing_in_a_scratchpad", W, lambda s: s[B].compute_at(s[W], "i", "missing"),
        "legality", ("missing", "compute_at", "W(i=1)", "B[1]", "B(i=1)"),
        lambda s: s[B].set_scope("acc"), error=LegalityError),
    Refused("set_schedule_of_a_stage_computed_elsewhere", E, lambda s: s[half].set_schedule("{ [i] -> [i] }"),
        "limit", ("set_schedule", "half", "i", "E"), lambda s: s[half].compute_at(s[E], "i")),
    Refused("set_schedule_with_a_stage_inside", E, lambda s: s[E].set_schedule("{ [i] -> [i] }"),
        "limit", ("set_schedule", "E", "half"), lambda s: s[half].compute_at(s[E], "i")),
    Refused("set_schedule_with_a_pragma", D, lambda s: s[B].set_schedule("{ [i] -> [i] }"),
        "limit", ("set_schedule", "B", "emit_insn", "alu"), lambda s: s[B].emit_insn("i", "alu")),
    Refused("set_schedule_of_many_pieces", D,
        lambda s: s[B].set_schedule("{ " + "; ".join(f"[i] -> [{i * i + 7}] : i = {i}" for i in range(60)) + " }"),
        "limit", ("set_schedule", "B", 16, 60)),
    Refused("after_of_a_mixed_reduction", M2, lambda s: s[M2].after(s[M], "i"),
        "limit", ("M", "M2", "after"), lambda s: s[M].set_schedule("{ [i, j, k] -> [i, j + k, k] }")),
    Refused("set_schedule_no_map", D, lambda s: s[B].set_schedule("i -> -i"),
        "argument", ("set_schedule", "B", "C", "i -> -i")),
    Refused("set_schedule_no_text", D, lambda s: s[B].set_schedule(7), "argument", ("set_schedule", "B", 7)),
    Refused("set_schedule_other_rank", D, lambda s: s[B].set_schedule("{ [i, j] -> [i] }"),
        "argument", ("set_schedule", "B", 1, "i", 2)),
    Refused("set_schedule_leaves_points_out", D, lambda s: s[B].set_schedule("{ [i] -> [i] : i < 50 }"),
        "argument", ("set_schedule", "B(50)")),
    Refused("set_schedule_two_times", D, lambda s: s[B].set_schedule("{ [i] -> [t] : i <= t <= i + 1 }"),
        "argument", ("set_schedule", "B(0)", "[0]", "[1]")),
    Refused("set_schedule_two_points_at_once", D, lambda s: s[B].set_schedule("{ [i] -> [floor(i/2)] }"),
        "argument", ("set_schedule", "B(0)", "B(1)", "[0]")),
    Refused("axis_replaced_by_set_schedule", D, lambda s: s[B].reverse(s[B].axis[0]),
        "argument", ("axis", "reverse", "B", "t0", "i", "set_schedule"),
        lambda s: s[B].set_schedule("{ [i] -> [-i] }")),
    Refused("is_parallel_without_stage", D, lambda s: s.is_parallel("i"), "argument", ("i", "is_parallel", "B, C, D")),
    Refused("is_legal_unknown_command", D, lambda s: s.is_legal("fuze", C, "i"),
        "argument", ("is_legal", *COMMANDS, "cache_read", "copy_at", "device_to_host", "fuze")),
    Refused("is_legal_without_stage", D, lambda s: s.is_legal("fuse"), "argument", ("fuse", "is_legal")),
    Refused("shift_of_what_comes_later_to_the_front", D, lambda s: s[C].shift("i", -1),
        "legality", ("shift", "C(i=0)", "B[0]", "B(i=0)"), lambda s: s[C].after(s[B], "i"), LegalityError),
    Refused("smallest_shift_unknown_axis", D, lambda s: s.smallest_shift(C, B, "x"),
        "argument", ("axis", "smallest_shift", "C", "i", "x")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal_and_schedule_unchanged(case):
    check_refused(case)


def test_a_question_that_takes_too_long_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr("lathe.scheduler.query_results.limited_operations", partial(limited_operations, 10))
    s = create_schedule(D)
    raises(ScheduleError, s.dependences, kind="limit", mentions=("C", "B", 2000000))
