"""Every refusal of a command on a stage and its place: the whole message, and the schedule as it was before."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from refused_commands import ELSEWHERE, A, B, C, D, E, M, Refused, X, check_refused, half, high, low, steps, text_of

from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend.arith.polyhedra import limited_operations
from lathe.scheduler import LegalityError, Schedule, ScheduleError, create_schedule


def inside(consumer: Tensor, stage: Tensor, axis: str = "i") -> Callable[[Schedule], None]:
    return lambda s: s[stage].compute_at(s[consumer], axis)


places, table = placeholder(8, "int8", "places"), placeholder(256, "int8", "table")
looked_up = compute(8, lambda i: table[places[i].astype("int32") + 128], "looked_up")

# fmt: off
CASES = [
    Refused("a_stage_of_an_input", D, lambda s: s[A],
        "stage of the schedule must be one of B, C, D, not 'A'. Inputs have no stage: cache them with s.cache_read "
        "to place them."),
    Refused("a_stage_by_name", D, lambda s: s["C"],
        "stage of the schedule must be asked for by its tensor, as in s[C], not by 'C'. Its stages are B, C, D."),
    Refused("an_axis_by_an_unknown_name", D, lambda s: s[D].split("j", factor=4),
        "axis of split on stage D must be one of its present loops (i), not 'j'. Take it from s[D].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("an_axis_of_another_stage", D, lambda s: s[D].unroll(s[C].axis[0]),
        "axis of unroll on stage D must be one of its present loops (i), not 'i' of another stage. Take it from "
        "s[D].axis, .reduce_axis or from what a command on this stage returned."),
    Refused("an_axis_that_was_split", D, lambda s: s[D].unroll(s[D].axis[0]),
        "axis of unroll on stage D must be one of its present loops (io, ii), not 'i', which an earlier split or fuse "
        "has replaced. Use the axes that the command returned.",
        lambda s: s[D].split("i", factor=4)),
    Refused("an_axis_that_is_none", D, lambda s: s[D].unroll(None),
        "axis of unroll on stage D must be one of its present loops (i), not None. Take it from s[D].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("compute_at_in_another_schedule", D, lambda s: s[C].compute_at(ELSEWHERE[D], "i"),
        "consumer of compute_at of stage C must be a stage of the same schedule, not 'D' of another."),
    Refused("compute_at_in_itself", D, lambda s: s[C].compute_at(s[C], "i"),
        "consumer of compute_at of stage C must be a stage that reads its values, not 'C' itself."),
    Refused("compute_at_in_what_is_computed_inside", D, lambda s: s[C].compute_at(s[B], "i"),
        "consumer of compute_at of stage C must be a stage outside its own loops, not 'B', which is computed inside C.",
        inside(C, B)),
    Refused("compute_at_in_what_comes_before", D, lambda s: s[C].compute_at(s[B], "i"),
        "consumer of compute_at of stage C must be a stage that comes after it, not 'B', which is computed before. "
        "Its readers are D."),
    Refused("compute_at_of_an_output", [C, D], lambda s: s[C].compute_at(s[D], "i"),
        "stage of compute_at must be one whose values only other stages read, not 'C', an output of the program. "
        "Copy it with s.cache_write(C, ...) and move the copy."),
    Refused("compute_at_in_an_emitted_nest", D, inside(D, C),
        "loop i of stage D must be outside the nest that emit_insn gives to rule 'alu', not inside it, for stage C to "
        "be computed there (compute_at). Put the pragma on an inner loop, or compute the stage further out.",
        lambda s: s[D].emit_insn("i", "alu")),
    Refused("emit_insn_around_a_stage_inside", D, lambda s: s[D].emit_insn("io", "alu"),
        "loop io of stage D must be outside the nest that emit_insn gives to rule 'alu', not inside it, for stage C "
        "to be computed there (emit_insn). Put the pragma on an inner loop, or compute the stage further out.",
        steps(lambda s: s[D].split("i", factor=4), inside(D, C, "io"))),
    Refused(
        "reorder_that_brings_a_stage_into_the_emitted_nest",
        M,
        lambda s: s[M].reorder("j", "i"),
        (
            "loop i of stage M must be outside the nest that emit_insn gives to rule 'gemm', not inside it, for "
            "stage X.inp to be computed there (reorder). Put the pragma on an inner loop, or compute the stage "
            "further out."
        ),
        steps(
            lambda s: s.cache_read(X, "inp"),
            lambda s: s[M].emit_insn("j", "gemm"),
            lambda s: s[s[M].op.reads[0].tensor].compute_at(s[M], "i"),
        ),
    ),
    Refused("compute_at_with_a_reader_after_the_loop", D, inside(C, B),
        "place of stage B must be a loop that all its readers are in, not loop i of C (compute_at): stage D reads the "
        "values after the loop iteration that makes them has ended. For example, D(i=0) reads B[0] that B(i=0) "
        "writes.",
        lambda s: s[B].set_scope("acc"), LegalityError),
    Refused("compute_at_with_a_reader_before_the_loop", D, inside(D, B),
        "place of stage B must be a loop that all its readers are in, not loop i of D (compute_at): stage C runs "
        "before the loop that makes the values. For example, C(i=0) reads B[0] that B(i=0) writes.",
        error=LegalityError),
    Refused("compute_at_that_makes_too_little_for_a_later_reader", E, lambda s: s[B].compute_at(s[half], "i"),
        "place of stage B must be a loop that all its readers are in, not loop i of half (compute_at): stage E reads "
        "cells that no iteration so far has made. For example, E(i=30) reads B[30] that B(i=30) writes.",
        error=LegalityError),
    Refused("set_scope_that_loses_values_for_a_reader_after_the_loop", D, lambda s: s[B].set_scope("inp"),
        "place of stage B must be a loop that all its readers are in, not loop i of C (set_scope): stage D reads the "
        "values after the loop iteration that makes them has ended. For example, D(i=0) reads B[0] that B(i=0) "
        "writes.", inside(C, B), LegalityError),
    Refused("cache_read_to_an_unknown_scope", D, lambda s: s.cache_read(A, "l2"),
        "scope of cache_read of A must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not 'l2'."),
    Refused("cache_read_of_what_nobody_reads", D, lambda s: s.cache_read(D, "inp"),
        "tensor of cache_read must be one that a stage reads, not 'D'."),
    Refused("cache_read_of_no_tensor", D, lambda s: s.cache_read("A", "inp"),
        "tensor of cache_read must be one that a stage reads, not 'A'."),
    Refused("cache_read_for_one_that_does_not_read_it", D, lambda s: s.cache_read(A, "inp", [D]),
        "readers of cache_read of A must be stages that read it (B), not 'D'."),
    Refused("cache_read_for_a_number", D, lambda s: s.cache_read(A, "inp", 3),
        "stage of the schedule must be asked for by its tensor, as in s[C], not by 3. Its stages are B, C, D."),
    Refused("cache_read_for_nobody", D, lambda s: s.cache_read(A, "inp", []),
        "readers of cache_read of A must be one stage or more, not none. Leave them out to mean all."),
    Refused("cache_read_gathered_along_no_number", D, lambda s: s.cache_read(A, "inp", gathered=["i"]),
        "gathered of cache_read of A must be numbers of dimensions, not ['i']."),
    Refused("cache_read_gathered_along_no_dimension", D, lambda s: s.cache_read(A, "inp", gathered=[1]),
        "gathered of cache_read of A must be different dimensions from 0 to 0, not [1]."),
    Refused("cache_read_gathered_by_data", looked_up, lambda s: s.cache_read(table, "acc", gathered=[0]),
        "gathered of cache_read of table must be dimensions that are read at affine indices, not 0. Copy all of it."),
    Refused("cache_write_to_an_unknown_scope", D, lambda s: s.cache_write(D, 3),
        "scope of cache_write of D must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not 3."),
    Refused("cache_write_of_an_input", D, lambda s: s.cache_write(A, "acc"),
        "stage of the schedule must be one of B, C, D, not 'A'. Inputs have no stage: cache them with s.cache_read "
        "to place them."),
    Refused("cache_write_of_two_outputs", [low, high], lambda s: s.cache_write(low.computation, "acc"),
        "tensor of cache_write must be one output of pair (pair.0, pair.1), not all of them."),
    Refused("cache_write_after_a_split", D, lambda s: s.cache_write(D, "acc"),
        "stage of cache_write must have its loops as they were made, not changed ones: D has been split, reordered, "
        "tagged, or has stages computed inside it. Call cache_write before other commands.",
        lambda s: s[D].split("i", factor=4)),
    Refused("cache_write_after_unroll", D, lambda s: s.cache_write(D, "acc"),
        "stage of cache_write must have its loops as they were made, not changed ones: D has been split, reordered, "
        "tagged, or has stages computed inside it. Call cache_write before other commands.",
        lambda s: s[D].unroll("i")),
    Refused("cache_write_of_a_host", D, lambda s: s.cache_write(D, "acc"),
        "stage of cache_write must have its loops as they were made, not changed ones: D has been split, reordered, "
        "tagged, or has stages computed inside it. Call cache_write before other commands.", inside(D, C)),
    Refused("set_scope_to_an_unknown_one", D, lambda s: s[C].set_scope("shared"),
        "scope of stage C must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not 'shared'."),
    Refused("set_scope_of_an_output", D, lambda s: s[D].set_scope("acc"),
        "scope of stage D must be dram, not 'acc', because D is an output of the program. Make a copy in the "
        "scratchpad with s.cache_write(D, 'acc')."),
    Refused("set_scope_of_the_second_of_two_outputs", high, lambda s: s[high].set_scope("acc"),
        "scope of stage pair must be dram, not 'acc', because pair.1 is an output of the program. Give each output a "
        "computation of its own, and make copies in the scratchpad with s.cache_write."),
    Refused("emit_insn_of_no_rule", D, lambda s: s[D].emit_insn("i", None),
        "rule of emit_insn on stage D must be the name of a rule, not None."),
    Refused("emit_insn_of_an_unknown_rule", D, lambda s: s[D].emit_insn("i", "gem"),
        "rule of emit_insn on stage D must be one of alu, dma, gemm, rescale, reset, not 'gem'. Did you mean 'gemm'? "
        "Register a rule of your own with @lathe.emit_rule(name)."),
    Refused("emit_insn_of_a_rule_unlike_any", D, lambda s: s[D].emit_insn("i", "fourier"),
        "rule of emit_insn on stage D must be one of alu, dma, gemm, rescale, reset, not 'fourier'. Register a rule of "
        "your own with @lathe.emit_rule(name)."),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)


def test_a_question_too_hard_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr("lathe.scheduler.query_results.limited_operations", partial(limited_operations, 10))
    s = create_schedule(D)
    before = text_of(s)
    with pytest.raises(ScheduleError) as caught:
        s[C].compute_at(s[D], "i")
    assert str(caught.value) == (
        "whether the read of C by D finds its value after compute_at must be decided within 2000000 isl operations, "
        "and takes more. Use fewer splits and fused loops around it."
    )
    assert text_of(s) == before


def test_a_witness_has_its_parts_by_name():
    s = create_schedule(D)
    s[B].set_scope("acc")
    with pytest.raises(LegalityError) as caught:
        s[B].compute_at(s[C], "i")
    witness: Any = caught.value.witness
    assert (witness.tensor, witness.cell) == ("B", (0,))
    assert (witness.producer_stage, witness.producer) == ("B", {"i": 0})
    assert (witness.consumer_stage, witness.consumer) == ("D", {"i": 0})
