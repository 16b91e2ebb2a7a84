"""Incremental layout analysis gives the result of a full analysis after each change, and re-evaluates few stages."""

from dataclasses import fields

import pytest
from random_networks import machines
from random_operators import OperatorProgram
from random_programs import Choice
from random_schedules import any_command, any_schedule
from seeds import check_each, event, note
from shares import COMMAND, counted

import lathe as lt
from lathe.frontend import format_program
from lathe.scheduler import Schedule, create_schedule
from lathe.scheduler.layout import layout_assignment
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir import def_use, schedule_state
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState
from lathe.scheduler.schedule_ir.stage import VectorLayout

planned = layout_assignment._Planner.planned


def parts(product: GemmMatch | None) -> list[object]:
    """The fields of a GEMM match, to be compared by identity."""
    return [] if product is None else [getattr(product, each.name) for each in fields(product)]


def check_plan(planner: layout_assignment._Planner) -> layout_assignment.LayoutAssignment:
    """The assignment, which must equal that of a planner without earlier results."""
    plan, fresh = planned(planner), planned(layout_assignment._Planner(planner.schedule, planner.config))
    assert plan.layouts == fresh.layouts
    assert plan.gemms.keys() == fresh.gemms.keys()
    for tensor, product in plan.gemms.items():
        both = zip(parts(product), parts(fresh.gemms[tensor]), strict=True)
        assert all(one is other for one, other in both), tensor.name
    event("planned")
    return plan


def check_tables(state: ScheduleState) -> None:
    """The tables of a state equal those computed from its stages."""
    fresh = def_use.DefUseIndex(state.stages)
    for name in ("producers", "consumers", "attached", "order"):
        assert dict(getattr(state.def_use, name)) == dict(getattr(fresh, name)), name


def check_programs_of_operators(seed: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    outputs = OperatorProgram(choice, choice.number(1, 8)).outputs
    note(f"{config}\n{format_program(outputs)}")
    run_pipeline(create_schedule(outputs), config, watch=lambda _, each: check_tables(each.state))


@pytest.fixture
def checked(monkeypatch):
    """Compare every assignment with a fresh one, and update tables incrementally however few stages there are."""
    monkeypatch.setattr(layout_assignment._Planner, "planned", check_plan)
    for module in (def_use, schedule_state):
        monkeypatch.setattr(module, "MANY", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("checked")
@pytest.mark.seeds(6, slow=624)
def test_while_schedules_are_completed(seeds):
    assert check_each(seeds, check_programs_of_operators)["planned"] > 5 * len(seeds)


def check_commands(seed: int) -> None:
    choice = Choice(seed)
    config = lt.load_config(choice.pick(["tiny", "vta", "batch4", "wide", "lathe16"]))
    s: Schedule = any_schedule(choice, 3)
    for _ in range(12):
        layout_assignment.assign_layouts(s, config)
        command = any_command(choice, s)
        with counted(COMMAND):
            command.run(s)
        check_tables(s.state)


@pytest.mark.usefixtures("checked")
@pytest.mark.seeds(6, slow=324)
def test_while_commands_are_given(seeds):
    assert check_each(seeds, check_commands)["planned"] > 5 * len(seeds)


def test_the_results_of_a_removed_stage_are_dropped():
    """Including the layout that it implied for the tensor of another stage."""
    A, B = (lt.placeholder((16, 16), "int8", name=name) for name in "AB")
    moved = lt.compute((16, 16), lambda i, j: A[j, i], name="moved")
    made = lt.matmul(moved, B, transpose_b=True, name="made")
    config, begun = lt.load_config("vta"), create_schedule(made)
    edit = layout_assignment.ScheduleView(begun.state)
    assert moved in layout_assignment.assign_layouts(edit, config).layouts
    planner = layout_assignment._Planner(edit, config)
    planned(planner)
    assert planner.analysis.lanes[moved] == VectorLayout(None, 1)
    only = {stage.id: stage.state for stage in begun.stages if stage.tensor is moved}
    changes = planner.analysis.stages.changed(only)
    planner.analysis.renew(changes, set())
    assert not planner.analysis.lanes


def evaluations(layers: int, monkeypatch) -> int:
    """How often stages of a chain of GEMMs are analysed while the chain is lowered."""
    made = lt.placeholder((16, 16), "int8", name="data")
    for n in range(layers):
        weights = lt.placeholder((16, 16), "int8", name=f"w{n}")
        made = lt.requantise(lt.matmul(made, weights, transpose_b=True, name=f"m{n}"), 6, name=f"r{n}")
    count, visit = [0], layout_assignment._Planner.visit
    with monkeypatch.context() as patched:
        patched.setattr(
            layout_assignment._Planner, "visit", lambda *args: (count.__setitem__(0, count[0] + 1), visit(*args))[1]
        )
        run_pipeline(create_schedule(made), lt.load_config("vta"))
    return count[0]


def test_the_number_of_evaluations_grows_linearly(monkeypatch):
    few, many = (evaluations(layers, monkeypatch) for layers in (8, 32))
    assert many < 4.5 * few
