"""Every refusal of a primitive on double buffering or queues: kind and mentions, and an unchanged schedule."""

from collections.abc import Callable

import pytest
from refused_primitives import A, B, C, M, N, Refused, X, check_refused, steps

from lathe.frontend import compute, reduce_axis, sum
from lathe.scheduler import ParallelismError, Schedule

F = compute(59, lambda i: B[i] + B[i + 1], "F")
k = reduce_axis(6, "k")
S = compute(8, lambda i: sum(X[i, k].astype("int32"), axis=k), "S")
G = compute(7, lambda i: S[i] + S[i + 1], "G")


def placed(slots: int | None = None) -> Callable[[Schedule], None]:
    """B in acc, in tiles of C."""

    def prepare(s: Schedule) -> None:
        outer, _ = s[C].split("i", factor=16)
        s[B].set_scope("acc")
        s[B].compute_at(s[C], outer)
        s[B].double_buffer(slots)

    return prepare


def folded() -> Callable[[Schedule], None]:
    """B in acc, in tiles of C that use the same 16 cells."""
    return steps(placed(), lambda s: s[B].store_in(lambda i: [i % 16], scope="acc"))


# fmt: off
CASES = [
    Refused("no_buffer_at_all", C, lambda s: s[B].double_buffer(0), "argument", ("B", 1, 16, 0), placed()),
    Refused("too_many_buffers", C, lambda s: s[B].double_buffer(17), "argument", ("B", 1, 16, 17), placed()),
    Refused("a_truth_value_of_buffers", C, lambda s: s[B].double_buffer(True),
        "argument", ("B", 1, 16, "True"), placed()),
    Refused("buffers_of_a_stage_in_dram", C, lambda s: s[B].double_buffer(),
        "argument", ("double_buffer", "B", "dram")),
    Refused("to_dram_afterwards", C, lambda s: s[B].set_scope("dram"),
        "argument", ("double_buffer", "B", "dram", "(set_scope)"), placed(1)),
    Refused("to_the_root_afterwards", C, lambda s: s[B].compute_root(),
        "argument", ("double_buffer", "B", "(compute_root)"), placed(2)),
    Refused("no_thread_at_all", C, lambda s: s[C].vthread("i", 0), "argument", ("i", "C", 1, 60, 0)),
    Refused("more_threads_than_iterations", C, lambda s: s[C].vthread("io", 5),
        "argument", ("io", "C", 1, 4, 5), placed()),
    Refused("a_truth_value_of_threads", C, lambda s: s[C].vthread("i", True), "argument", ("i", "C", 1, 60, "True")),
    Refused("threads_of_a_loop_of_another_stage", C, lambda s: s[C].vthread(s[B].axis[0], 2),
        "argument", ("axis", "vthread", "C", "i")),
    Refused("a_loop_split_afterwards", C, lambda s: s[C].split("i", 8),
        "limit", ("i", "C", 2, "split"), lambda s: s[C].vthread("i", 2)),
    Refused("threads_inside_an_instruction", C, lambda s: s[C].vthread("i", 2),
        "machine", ("i", "C", "emit_insn", "alu", 2, "vthread"), lambda s: s[C].emit_insn("i", "alu")),
    Refused("threads_of_a_shared_loop", C, lambda s: s[B].vthread("i", 2),
        "limit", ("i", "B", 2, "C", "vthread"), lambda s: s[C].after(s[B], "i")),
    Refused("an_iteration_that_reads_what_another_makes", F, lambda s: s[F].vthread("i", 2),
        "legality", (2, "F(i=0)", "B[0]", "B(i=0)"),
        steps(lambda s: s[F].shift("i", 1), lambda s: s[F].after(s[B], "i")), ParallelismError),
    Refused("a_window_that_goes_from_thread_to_thread", F, lambda s: s[F].vthread("i", 2),
        "legality", ("i", "F", 2, "B"), steps(lambda s: s[B].set_scope("acc"), lambda s: s[B].reuse_at(s[F], "i"))),
    Refused("sums_in_dram_that_two_threads_begin", G, lambda s: s[G].vthread("io", 2),
        "legality", ("io", "G", 2, 0, 1, "S[4]", "dram"),
        steps(lambda s: s[G].split("i", 4), lambda s: s[S].compute_at(s[G], "io"))),
    Refused("sums_in_a_buffer_that_two_threads_share", G, lambda s: s[G].vthread("io", 2),
        "legality", ("io", "G", 2, 0, 1, "S[4]", "i"),
        steps(lambda s: s[G].split("i", 4), lambda s: s[S].compute_at(s[G], "io"),
              lambda s: s[S].store_in(lambda i: [i], scope="acc"))),
    Refused("cells_that_iterations_take_turns_in", C, lambda s: s[C].vthread("io", 2),
        "legality", ("B", "io", "C", 2), folded()),
    Refused("two_buffers_for_one_around_all_loops", C, lambda s: s[B].double_buffer(2),
        "argument", ("double_buffer", "B"), folded()),
    Refused("a_unit_that_is_none", C, lambda s: s[C].send("fetch"),
        "argument", ("send", "C", "load, compute, store", "fetch")),
    Refused(
        "a_unit_that_is_no_name",
        C,
        lambda s: s[C].receive(1),  # type: ignore[arg-type]
        "argument", ("receive", "C", "load, compute, store", 1),
    ),
    Refused(
        "a_unit_that_is_a_list",
        C,
        lambda s: s[C].receive([]),  # type: ignore[arg-type]
        "argument", ("receive", "C", "load, compute, store", "[]"),
    ),
    Refused("fewer_tokens_ahead_than_none", C, lambda s: s[C].receive("compute", "i", ahead=-1),
        "argument", ("receive", "C", 0, -1)),
    Refused("a_token_from_store_to_load", C, lambda s: s[C].send("load", "i"),
        "machine", ("send", "C", "compute", "store", "load")),
    Refused("a_token_from_compute_to_itself", C, lambda s: s[B].receive("compute"),
        "machine", ("receive", "B", "compute"), placed()),
    Refused("values_made_elsewhere_afterwards", C, lambda s: s[B].set_scope("inp"),
        "machine", ("send", "B", "compute", "load", "(set_scope)", "store"),
        steps(placed(), lambda s: s[B].send("store"))),
    Refused("a_token_in_a_loop_that_is_not_there", C, lambda s: s[C].receive("compute", "k"),
        "argument", ("axis", "receive", "C", "i", "k")),
    Refused("a_token_of_store_in_a_reduction", M, lambda s: s[M].send("compute", s[M].reduce_axis[0]),
        "machine", ("k", "send", "M")),
    Refused("a_barrier_in_a_loop_of_another_stage", C, lambda s: s.barrier_at(s[C], s[B].axis[0]),
        "argument", ("axis", "barrier_at", "C", "i")),
    Refused("a_barrier_at_an_input", C, lambda s: s.barrier_at(A), "argument", ("B, C", "A")),
    Refused("a_loop_with_a_barrier_fused_afterwards", N, lambda s: s[N].fuse(*s[N].axis),
        "limit", ("i", "N", "fuse"), lambda s: s.barrier_at(s[N], "i")),
    Refused("a_loop_with_a_token_in_an_instruction_afterwards", N, lambda s: s[N].emit_insn("i", "alu"),
        "machine", ("io", "N", "emit_insn", "alu"), lambda s: s[N].receive("compute", "io")),
    Refused("a_barrier_in_a_shared_loop", C, lambda s: s.barrier_at(s[B], "i"),
        "limit", ("i", "B", "C", "barrier_at"), lambda s: s[C].after(s[B], "i")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal_and_schedule_unchanged(case):
    check_refused(case)
