"""Views of schedules hold the states of their stages, and must agree with the schedule after every change."""

from dataclasses import replace

import pytest

import lathe as lt
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule_state import SubSchedule


def chain() -> tuple[list[lt.Tensor], Edit]:
    """Three stages, one after the other, and an edit of their schedule."""
    a = lt.placeholder((8,), "int32", name="A")
    b = lt.compute((8,), lambda i: a[i] + 1, name="B")
    c = lt.compute((8,), lambda i: b[i] * 2, name="C")
    d = lt.compute((8,), lambda i: c[i] - 3, name="D")
    return [a, b, c, d], Edit(lt.create_schedule(d).state)


def assert_views_agree(edit: Edit) -> None:
    assert [stage.id for stage in edit.stages] == list(edit.state.stages)
    for key, state in edit.state.stages.items():
        assert edit.by_id(key).state is state


def test_a_stage_follows_every_change_and_every_way_back() -> None:
    (_, b, c, _), edit = chain()
    given = edit.state
    stage = edit[b]

    def refused() -> None:
        with edit.transaction():
            stage.change(scope="acc")
            assert_views_agree(edit)
            edit.remove(edit[c])
            assert_views_agree(edit)
            raise KeyError

    with pytest.raises(KeyError):
        refused()
    assert edit.state is given
    assert stage.state.scope == "dram"
    assert_views_agree(edit)


def test_a_stage_that_is_taken_out_stays_as_it_was_last() -> None:
    (_, b, _, _), edit = chain()
    stage = edit[b]
    stage.change(scope="acc")
    edit.remove(stage)
    assert stage.state.scope == "acc"
    assert stage not in edit.stages
    edit.insert(stage, before=edit.stages[0])
    assert edit.stages[0] is stage
    assert_views_agree(edit)


def test_a_new_stage_changes_before_it_has_a_place() -> None:
    (_, b, _, _), edit = chain()
    new = edit.new(edit[b].state)
    new.change(scope="acc")
    assert new.state.scope == "acc"
    assert new not in edit.stages
    assert_views_agree(edit)


def test_tables_are_found_again_for_other_stages_and_kept_for_the_same_ones() -> None:
    (_, b, c, _), edit = chain()
    tables = edit.state.def_use
    edit.update(speculatable=frozenset({edit[b].id}))
    assert edit.state.def_use is tables
    edit.remove(edit[b])
    assert edit.producer(b) is None
    assert edit.producer(c) is edit[c]
    assert [stage.name for stage in edit.consumers(c)] == ["D"]


def test_a_part_knows_no_maker_outside() -> None:
    (_, b, c, _), edit = chain()
    part = SubSchedule(edit, [edit[c]])
    assert part.producer(c) is edit[c]
    assert part.producer(b) is None


def test_a_view_goes_on_from_the_states_of_a_fork_by_itself() -> None:
    (_, b, _, _), edit = chain()
    twin = edit.fork()
    twin[b].put(replace(twin[b].state, scope="acc"))
    assert edit[b].state.scope == "dram"
    assert_views_agree(twin)


def test_nobody_sets_what_a_stage_is() -> None:
    (_, b, _, _), edit = chain()
    with pytest.raises(AttributeError, match=r"state of stage B cannot be set"):
        edit[b].state = edit[b].state
