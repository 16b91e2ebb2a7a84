"""Rule selection by ``takes``: for stages without ``emit_insn``, and for peeled boxes of chunks."""

from dataclasses import replace

import numpy as np
import pytest
from error_checks import check_mentions, raises
from random_networks import machines
from random_operators import OperatorProgram
from random_programs import Choice

import lathe as lt
from lathe.isa import Alu, AluOp, Gemm
from lathe.scheduler import create_schedule
from lathe.scheduler.isel.chunk import vectors
from lathe.scheduler.isel.rules import BUILT_IN, RULES
from lathe.scheduler.isel.statement import Statement, statement_of
from lathe.scheduler.passes.pipeline import PASSES, run_pipeline
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target

VTA = lt.load_config("vta")


def takers(statement: Statement) -> list[str]:
    asked = {name: RULES[name].takes for name in BUILT_IN}
    return [name for name, takes in asked.items() if takes is not None and takes(statement)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", range(20))
def test_one_built_in_rule_takes_each_statement(seed):
    choice = Choice(seed)
    config = machines(choice)
    completed = run_pipeline(create_schedule(OperatorProgram(choice, choice.number(1, 5)).outputs), config)
    for stage in completed.stages:
        assert takers(statement_of(stage)) == [stage.state.rule]
        assert takers(statement_of(stage, "init")) == ["reset"]


def clamp(chunk: lt.Chunk) -> list[lt.Instruction]:
    """``max(x, 0)``, which reads x after the first write, so that it cannot be computed in place."""
    view = vectors(chunk)
    (count,) = {view.extents[n] for n in view.loops} or {1}
    first, end, loads = chunk.emitter.pool.place(*(np.array([at]) for at in (view.write.base, view.reads[0].base, 0)))
    asked.append(chunk.stage)
    return [
        *loads,
        Gemm(first, end, 1, count, 0, 1, 0, 0, 0, 0, reset=True),
        Alu(AluOp.ADD, first, end, 1, count, 0, 1, 0, 1),
        Alu(AluOp.MAX, first, end, 1, count, 0, 1, 0, 1, use_imm=True),
    ]


asked: list[str] = []


def is_clamped(statement: Statement) -> bool:
    return statement.scope == "acc" and "max(" in str(statement.value)


def clamped_program() -> tuple[lt.Tensor, lt.Tensor]:
    A = lt.placeholder((64,), "int8", name="A")
    B = lt.compute((64,), lambda i: A[i].astype("int32") + 5, name="B")
    return A, lt.compute((64,), lambda i: lt.max(B[i], 0), name="C")


def runs(A: lt.Tensor, C: lt.Tensor, schedule: lt.Schedule | None = None) -> None:
    inputs = {"A": np.random.default_rng(0).integers(-128, 128, A.shape).astype(A.dtype)}
    found = lt.simulate(lt.build(schedule or C, [A, C], VTA), inputs)
    np.testing.assert_array_equal(found.outputs["C"], lt.reference(C, inputs))


def test_a_user_defined_rule_is_selected_by_takes_and_gets_a_buffer_of_its_own():
    """Without ``in_place``, its result does not alias its operand, which it would overwrite."""
    asked.clear()
    lt.emit_rule("clamp", takes=is_clamped, reads=("acc",), writes="acc")(clamp)
    A, C = clamped_program()
    runs(A, C)
    assert set(asked) == {"C.acc"}


def test_in_a_buffer_of_the_users_it_is_refused_where_it_would_overwrite_its_operand():
    lt.emit_rule("clamp", takes=is_clamped, reads=("acc",), writes="acc")(clamp)
    A, C = clamped_program()
    s = create_schedule(C)
    made = s.cache_write(C, "acc")
    buffer = s.buffer("b", scope="acc")
    for tensor in (C.computation.reads[0].tensor, made):
        s[tensor].store_in(buffer)
    mentions = ("stage C.acc in place of B", "buffer b", "first operand")
    raises(lt.EmitError, lt.build, s, [A, C], VTA, mentions=mentions)
    RULES["clamp"] = replace(RULES["clamp"], in_place=True, emit=RULES["alu"].emit)
    runs(A, C, s)


def test_takes_must_be_a_function():
    mentions = ("takes", "'clamp'", "function of a Statement", "'max'", "emit_insn")
    raises(lt.ScheduleError, lt.emit_rule, "clamp", takes="max", kind="argument", mentions=mentions)


def test_without_takes_a_rule_is_selected_by_emit_insn_only():
    asked.clear()
    lt.emit_rule("clamp", reads=("acc",), writes="acc")(clamp)
    runs(*clamped_program())
    assert not asked


def test_of_two_rules_that_take_a_statement_the_one_registered_later_is_selected():
    A, C = clamped_program()
    for name in ("first", "second"):
        lt.emit_rule(name, takes=is_clamped)(clamp)
    assert "C.acc: @rule second" in lt.lower(C, [A, C], VTA, stage="select-instructions")
    lt.emit_rule("first")(clamp)
    lt.emit_rule("second")(clamp)
    assert "C.acc: @rule second" in lt.lower(C, [A, C], VTA, stage="select-instructions")


def test_a_peeled_box_goes_to_the_rule_that_takes_its_expression():
    A = lt.placeholder((64,), "int32", name="A")
    C = lt.compute((64,), lambda i: lt.select(i < 32, lt.max(A[i], 0), A[i] + 1), name="C")
    alu = RULES["alu"]

    def without_max(chunk: lt.Chunk) -> object:
        return lt.RuleMismatch("there must be no max") if "max(" in str(chunk.expression) else alu(chunk)

    RULES["alu"] = replace(alu, emit=without_max)
    lt.emit_rule("clamp", takes=lambda each: is_clamped(each) and "select" not in str(each.value), writes="acc")(clamp)
    runs(A, C)
    (found,) = lt.explain(C, VTA).of("C.acc")
    assert (found.asked, found.taken) == ("alu", (("alu", 1), ("clamp", 1)))


def test_a_rule_is_not_called_for_results_in_other_memories():
    A = lt.placeholder((64,), "int32", name="A")
    B = lt.compute((64,), lambda i: A[i], name="B")
    asked.clear()
    lt.emit_rule("clamp", writes="acc")(clamp)
    s = create_schedule(B)
    s[B].emit_insn(s[B].axis[0], "clamp")
    with pytest.raises(lt.EmitError, match=r"must satisfy rule 'clamp': result B must be in acc, not in dram\."):
        lt.build(s, [A, B], VTA)
    assert not asked


def test_a_stage_without_a_rule_is_a_counterexample():
    (given,) = next(each for each in PASSES if each.name == "select-instructions").establishes
    A, C = clamped_program()
    edit = Edit(run_pipeline(create_schedule(C), VTA).state)
    assert given.counterexample(edit, Target(VTA)) is None
    edit.stages[1].change(rule=None)
    name = edit.stages[1].name
    check_mentions(given.counterexample(edit, Target(VTA)), name, given.sentence)
