"""Every refusal of a primitive on a stage and its compute location: kind and mentions, and an unchanged schedule."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from error_checks import raises
from refused_primitives import ELSEWHERE, A, B, C, D, E, M, Refused, X, check_refused, half, high, low, steps, text_of

from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend.arith.polyhedra import limited_operations
from lathe.scheduler import LegalityError, Schedule, ScheduleError, create_schedule


def inside(consumer: Tensor, stage: Tensor, axis: str = "i") -> Callable[[Schedule], None]:
    return lambda s: s[stage].compute_at(s[consumer], axis)


places, table = placeholder(8, "int8", "places"), placeholder(256, "int8", "table")
looked_up = compute(8, lambda i: table[places[i].astype("int32") + 128], "looked_up")

# fmt: off
CASES = [
    Refused("a_stage_of_an_input", D, lambda s: s[A], "argument", ("B, C, D", "A")),
    Refused("a_stage_by_name", D, lambda s: s["C"], "argument", ("C", "B, C, D")),
    Refused("an_axis_by_an_unknown_name", D, lambda s: s[D].split("j", factor=4),
        "argument", ("axis", "split", "D", "i", "j")),
    Refused("an_axis_of_another_stage", D, lambda s: s[D].unroll(s[C].axis[0]),
        "argument", ("axis", "unroll", "D", "i")),
    Refused("an_axis_that_was_split", D, lambda s: s[D].unroll(s[D].axis[0]),
        "argument", ("axis", "unroll", "D", "io", "ii", "i", "split", "fuse"), lambda s: s[D].split("i", factor=4)),
    Refused("an_axis_that_is_none", D, lambda s: s[D].unroll(None), "argument", ("axis", "unroll", "D", "i")),
    Refused("compute_at_in_another_schedule", D, lambda s: s[C].compute_at(ELSEWHERE[D], "i"),
        "argument", ("compute_at", "C", "D")),
    Refused("compute_at_in_itself", D, lambda s: s[C].compute_at(s[C], "i"), "argument", ("compute_at", "C")),
    Refused("compute_at_in_what_is_computed_inside", D, lambda s: s[C].compute_at(s[B], "i"),
        "legality", ("compute_at", "C", "B"), inside(C, B)),
    Refused("compute_at_in_what_comes_before", D, lambda s: s[C].compute_at(s[B], "i"),
        "legality", ("compute_at", "C", "B")),
    Refused("compute_at_of_an_output", [C, D], lambda s: s[C].compute_at(s[D], "i"),
        "limit", ("C", "output", "cache_write")),
    Refused("compute_at_in_an_emitted_nest", D, inside(D, C),
        "machine", ("i", "D", "emit_insn", "alu", "C", "compute_at"), lambda s: s[D].emit_insn("i", "alu")),
    Refused("emit_insn_around_a_stage_inside", D, lambda s: s[D].emit_insn("io", "alu"),
        "machine", ("io", "D", "emit_insn", "alu", "C"),
        steps(lambda s: s[D].split("i", factor=4), inside(D, C, "io"))),
    Refused("reorder_that_brings_a_stage_into_the_emitted_nest", M, lambda s: s[M].reorder("j", "i"),
        "machine", ("i", "M", "emit_insn", "gemm", "X.inp", "reorder"),
        steps(lambda s: s.cache_read(X, "inp"), lambda s: s[M].emit_insn("j", "gemm"),
              lambda s: s[s[M].op.reads[0].tensor].compute_at(s[M], "i"))),
    Refused("compute_at_with_a_reader_after_the_loop", D, inside(C, B),
        "legality", ("C", "compute_at", "D(i=0)", "B[0]", "B(i=0)"), lambda s: s[B].set_scope("acc"), LegalityError),
    Refused("compute_at_with_a_reader_before_the_loop", D, inside(D, B),
        "legality", ("D", "compute_at", "C(i=0)", "B[0]", "B(i=0)"), error=LegalityError),
    Refused("compute_at_that_makes_too_little_for_a_later_reader", E, lambda s: s[B].compute_at(s[half], "i"),
        "legality", ("half", "compute_at", "E(i=30)", "B[30]", "B(i=30)"), error=LegalityError),
    Refused("set_scope_that_loses_values_for_a_reader_after_the_loop", D, lambda s: s[B].set_scope("inp"),
        "legality", ("C", "set_scope", "D(i=0)", "B[0]", "B(i=0)"), inside(C, B), LegalityError),
    Refused("cache_read_to_an_unknown_scope", D, lambda s: s.cache_read(A, "l2"),
        "argument", ("cache_read of A", "dram", "inp", "wgt", "acc", "l2")),
    Refused("cache_read_of_what_nobody_reads", D, lambda s: s.cache_read(D, "inp"), "argument", ("cache_read", "D")),
    Refused("cache_read_of_no_tensor", D, lambda s: s.cache_read("A", "inp"), "argument", ("cache_read", "A")),
    Refused("cache_read_for_one_that_does_not_read_it", D, lambda s: s.cache_read(A, "inp", [D]),
        "argument", ("cache_read of A", "B", "D")),
    Refused("cache_read_for_a_number", D, lambda s: s.cache_read(A, "inp", 3), "argument", ("C", 3)),
    Refused("cache_read_for_nobody", D, lambda s: s.cache_read(A, "inp", []), "argument", ("cache_read of A",)),
    Refused("cache_read_gathered_along_no_number", D, lambda s: s.cache_read(A, "inp", gathered=["i"]),
        "argument", ("cache_read of A", "['i']")),
    Refused("cache_read_gathered_along_no_dimension", D, lambda s: s.cache_read(A, "inp", gathered=[1]),
        "argument", ("cache_read of A", 0, "[1]")),
    Refused("cache_read_gathered_by_data", looked_up, lambda s: s.cache_read(table, "acc", gathered=[0]),
        "argument", ("cache_read", "table", 0)),
    Refused("cache_write_to_an_unknown_scope", D, lambda s: s.cache_write(D, 3),
        "argument", ("cache_write of D", "dram", "inp", "wgt", "acc", 3)),
    Refused("cache_write_of_an_input", D, lambda s: s.cache_write(A, "acc"), "argument", ("B, C, D", "A")),
    Refused("cache_write_of_two_outputs", [low, high], lambda s: s.cache_write(low.computation, "acc"),
        "argument", ("cache_write", "pair.0, pair.1")),
    Refused("cache_write_after_a_split", D, lambda s: s.cache_write(D, "acc"),
        "limit", ("cache_write", "D"), lambda s: s[D].split("i", factor=4)),
    Refused("cache_write_after_unroll", D, lambda s: s.cache_write(D, "acc"),
        "limit", ("cache_write", "D"), lambda s: s[D].unroll("i")),
    Refused("cache_write_of_a_host", D, lambda s: s.cache_write(D, "acc"), "limit", ("cache_write", "D"), inside(D, C)),
    Refused("set_scope_to_an_unknown_one", D, lambda s: s[C].set_scope("shared"),
        "argument", ("stage C", "dram", "inp", "wgt", "acc", "shared")),
    Refused("set_scope_of_an_output", D, lambda s: s[D].set_scope("acc"), "machine", ("D", "dram", "acc")),
    Refused("set_scope_of_the_second_of_two_outputs", high, lambda s: s[high].set_scope("acc"),
        "machine", ("dram", "acc", "pair.1")),
    Refused("emit_insn_of_no_rule", D, lambda s: s[D].emit_insn("i", None), "argument", ("emit_insn", "D", "None")),
    Refused("emit_insn_of_an_unknown_rule", D, lambda s: s[D].emit_insn("i", "gem"),
        "argument", ("emit_insn", "D", "alu, dma, gemm, rescale, reset", "gem")),
    Refused("emit_insn_of_a_rule_unlike_any", D, lambda s: s[D].emit_insn("i", "fourier"),
        "argument", ("emit_insn", "D", "alu, dma, gemm, rescale, reset", "fourier")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal_and_schedule_unchanged(case):
    check_refused(case)


def test_a_question_too_hard_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr("lathe.scheduler.query_results.limited_operations", partial(limited_operations, 10))
    s = create_schedule(D)
    before = text_of(s)
    raises(ScheduleError, s[C].compute_at, s[D], "i", kind="limit", mentions=("C", "D", "compute_at", 2000000))
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
