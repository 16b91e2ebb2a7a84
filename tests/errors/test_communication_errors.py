"""Every refusal of a command on buffers in turn and on queues: the whole message, and the schedule as before."""

from collections.abc import Callable

import pytest
from refused_commands import A, B, C, M, N, Refused, X, check_refused, steps

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
    Refused("no_buffer_at_all", C, lambda s: s[B].double_buffer(0),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not 0.", placed()),
    Refused("too_many_buffers", C, lambda s: s[B].double_buffer(17),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not 17.", placed()),
    Refused("a_truth_value_of_buffers", C, lambda s: s[B].double_buffer(True),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not True.", placed()),
    Refused("buffers_of_a_stage_in_dram", C, lambda s: s[B].double_buffer(),
        "stage of double_buffer must live in a scratchpad, not 'B' in dram, where all values have places of their "
        "own. Use set_scope first, or undo it with s[B].double_buffer(None)."),
    Refused("to_dram_afterwards", C, lambda s: s[B].set_scope("dram"),
        "stage of double_buffer must live in a scratchpad, not 'B' in dram (set_scope), where all values have places "
        "of their own. Use set_scope first, or undo it with s[B].double_buffer(None).", placed(1)),
    Refused("to_the_root_afterwards", C, lambda s: s[B].compute_root(),
        "stage of double_buffer must be computed in a loop, whose iterations take turns, not 'B' at the root "
        "(compute_root). Use compute_at first, or undo it with s[B].double_buffer(None).", placed(2)),
    Refused("no_thread_at_all", C, lambda s: s[C].vthread("i", 0),
        "threads of loop i of stage C must be from 1 to its iterations, 60, not 0."),
    Refused("more_threads_than_iterations", C, lambda s: s[C].vthread("io", 5),
        "threads of loop io of stage C must be from 1 to its iterations, 4, not 5.", placed()),
    Refused("a_truth_value_of_threads", C, lambda s: s[C].vthread("i", True),
        "threads of loop i of stage C must be from 1 to its iterations, 60, not True."),
    Refused("threads_of_a_loop_of_another_stage", C, lambda s: s[C].vthread(s[B].axis[0], 2),
        "axis of vthread on stage C must be one of its present loops (i), not 'i' of another stage. Take it from "
        "s[C].axis, .reduce_axis or from what a command on this stage returned."),
    Refused("a_loop_split_afterwards", C, lambda s: s[C].split("i", 8),
        "loop i of stage C must stay a loop to run in 2 threads, not be replaced by split. Call vthread last.",
        lambda s: s[C].vthread("i", 2)),
    Refused("threads_inside_an_instruction", C, lambda s: s[C].vthread("i", 2),
        "loop i of stage C must be outside the nest that emit_insn gives to rule 'alu' to run in 2 threads (vthread). "
        "Put the pragma on an inner loop.",
        lambda s: s[C].emit_insn("i", "alu")),
    Refused("threads_of_a_shared_loop", C, lambda s: s[B].vthread("i", 2),
        "loop i of stage B must be one that it runs by itself to run in 2 threads, not one that it shares with C "
        "(vthread). Call vthread on C.",
        lambda s: s[C].after(s[B], "i")),
    Refused("an_iteration_that_reads_what_another_makes", F, lambda s: s[F].vthread("i", 2),
        "loop i of stage F must be parallel to run in 2 threads, but one iteration reads what another makes: F(i=0) "
        "reads B[0] that B(i=0) writes.",
        steps(lambda s: s[F].shift("i", 1), lambda s: s[F].after(s[B], "i")), ParallelismError),
    Refused("a_window_that_goes_from_thread_to_thread", F, lambda s: s[F].vthread("i", 2),
        "loop i of stage F must be parallel to run in 2 threads, but reuse buffer B keeps values from one iteration "
        "to the next.",
        steps(lambda s: s[B].set_scope("acc"), lambda s: s[B].reuse_at(s[F], "i"))),
    Refused("sums_in_dram_that_two_threads_begin", G, lambda s: s[G].vthread("io", 2),
        "loop io of stage G must be parallel to run in 2 threads, but iterations 0 and 1 both begin the sum S[4], in "
        "dram: in a buffer inside the loop each thread would have its own.",
        steps(lambda s: s[G].split("i", 4), lambda s: s[S].compute_at(s[G], "io"))),
    Refused(
        "sums_in_a_buffer_that_two_threads_share",
        G,
        lambda s: s[G].vthread("io", 2),
        "loop io of stage G must be parallel to run in 2 threads, but iterations 0 and 1 both begin the sum S[4], in "
        "S[i]: in a buffer inside the loop each thread would have its own.",
        steps(
            lambda s: s[G].split("i", 4),
            lambda s: s[S].compute_at(s[G], "io"),
            lambda s: s[S].store_in(lambda i: [i], scope="acc"),
        ),
    ),
    Refused("cells_that_iterations_take_turns_in", C, lambda s: s[C].vthread("io", 2),
        "buffer B must be allocated inside loop io of stage C, which runs in 2 threads, not outside, where the values "
        "of several iterations would be in the same cells at the same time. Use s.allocate_at(B, s[C], io).",
        folded()),
    Refused("two_buffers_for_one_around_all_loops", C, lambda s: s[B].double_buffer(2),
        "stage of double_buffer must be in a buffer that is allocated in a loop, whose iterations take turns, not 'B' "
        "in B, which is there around all loops. Use s.allocate_at first, or undo it with s[B].double_buffer(None).",
        folded()),
    Refused("a_unit_that_is_none", C, lambda s: s[C].send("fetch"),
        "unit of send of stage C must be one of load, compute, store, not 'fetch'."),
    Refused(
        "a_unit_that_is_no_name",
        C,
        lambda s: s[C].receive(1),  # type: ignore[arg-type]
        "unit of receive of stage C must be one of load, compute, store, not 1.",
    ),
    Refused(
        "a_unit_that_is_a_list",
        C,
        lambda s: s[C].receive([]),  # type: ignore[arg-type]
        "unit of receive of stage C must be one of load, compute, store, not [].",
    ),
    Refused("fewer_tokens_ahead_than_none", C, lambda s: s[C].receive("compute", "i", ahead=-1),
        "tokens ahead of receive of stage C must be a number from 0 on, not -1."),
    Refused("a_token_from_store_to_load", C, lambda s: s[C].send("load", "i"),
        "unit of send of stage C must be compute, next to store, where its values are made, not 'load'. Only compute "
        "can pass a token on between load and store."),
    Refused("a_token_from_compute_to_itself", C, lambda s: s[B].receive("compute"),
        "unit of receive of stage B must be load or store, next to compute, where its values are made, not 'compute'. "
        "Only compute can pass a token on between load and store.", placed()),
    Refused("values_made_elsewhere_afterwards", C, lambda s: s[B].set_scope("inp"),
        "unit of send of stage B must be compute, next to load, where its values are made (set_scope), not 'store'. "
        "Only compute can pass a token on between load and store.",
        steps(placed(), lambda s: s[B].send("store"))),
    Refused("a_token_in_a_loop_that_is_not_there", C, lambda s: s[C].receive("compute", "k"),
        "axis of receive on stage C must be one of its present loops (i), not 'k'. Take it from s[C].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("a_token_of_store_in_a_reduction", M, lambda s: s[M].send("compute", s[M].reduce_axis[0]),
        "loop k of send of stage M must be a data loop, not one of a reduction, which compute carries out, not "
        "store. Use s.cache_write(M, 'acc') first, and send there."),
    Refused("a_barrier_in_a_loop_of_another_stage", C, lambda s: s.barrier_at(s[C], s[B].axis[0]),
        "axis of barrier_at on stage C must be one of its present loops (i), not 'i' of another stage. Take it from "
        "s[C].axis, .reduce_axis or from what a command on this stage returned."),
    Refused("a_barrier_at_an_input", C, lambda s: s.barrier_at(A),
        "stage of the schedule must be one of B, C, not 'A'. Inputs have no stage: cache them with s.cache_read to "
        "place them."),
    Refused("a_loop_with_a_barrier_fused_afterwards", N, lambda s: s[N].fuse(*s[N].axis),
        "loop i of stage N must stay a loop to have a barrier, not be replaced by fuse. Call barrier_at last.",
        lambda s: s.barrier_at(s[N], "i")),
    Refused("a_loop_with_a_token_in_an_instruction_afterwards", N, lambda s: s[N].emit_insn("i", "alu"),
        "loop io of stage N must be outside the nest that emit_insn gives to rule 'alu' to receive a token "
        "(emit_insn). Put the pragma on an inner loop.",
        lambda s: s[N].receive("compute", "io")),
    Refused("a_barrier_in_a_shared_loop", C, lambda s: s.barrier_at(s[B], "i"),
        "loop i of stage B must be one that it runs by itself to have a barrier, not one that it shares with C "
        "(barrier_at). Call barrier_at on C.",
        lambda s: s[C].after(s[B], "i")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)
