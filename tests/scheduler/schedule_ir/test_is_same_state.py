"""``ScheduleState.is_same_state``: whether anything has changed, however often the stages were reordered."""

from dataclasses import replace

import pytest

import lathe as lt
from lathe.scheduler.inspect import nest_difftest
from lathe.scheduler.schedule_ir.edit import Edit


def edited() -> Edit:
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.compute((4, 16), lambda i, j: A[i, j] + 1, name="B")
    C = lt.compute((4, 16), lambda i, j: B[i, j] + 2, name="C")
    return Edit(lt.create_schedule(C).state)


def swapped(edit: Edit) -> None:
    edit.reorder_stages(reversed(edit.stages))


CHANGES = {
    "another_memory": lambda edit: edit.stages[0].change(scope="acc"),
    "another_order": swapped,
    "one_stage_less": lambda edit: edit.remove(edit.stages[0]),
    "early_loads": lambda edit: edit.update(speculatable=frozenset({edit.stages[0].id})),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_is_another(change):
    edit = edited()
    before = edit.state
    change(edit)
    assert not edit.state.is_same_state(before)


def test_what_is_put_back_or_arranged_anew_is_the_same():
    edit = edited()
    before = edit.state
    edit.reorder_stages(edit.stages)
    edit.put({stage: stage.state for stage in edit.stages})
    assert edit.state is not before
    assert edit.state.is_same_state(before)


def test_a_nest_is_compared_again_only_when_it_may_be_another(monkeypatch):
    compared = []
    interpret = nest_difftest.interpret_nest
    monkeypatch.setattr(nest_difftest, "interpret_nest", lambda *given: compared.append(1) or interpret(*given))
    edit = edited()
    check = nest_difftest.NestCheck(edit, {})
    check("first", edit)
    check("second", edit)
    assert len(compared) == 1
    edit.stages[0].put(replace(edit.stages[0].state, scope="acc"))
    check("third", edit)
    assert len(compared) == 2
