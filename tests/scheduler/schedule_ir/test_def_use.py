"""Producers, consumers and attached stages in the def-use index, compared with a scan of all stages."""

import pytest
from random_programs import Choice, programs
from random_schedules import any_command
from shares import COMMAND, counted

from lathe.scheduler import Schedule, create_schedule


def check_tables(s: Schedule) -> None:
    """Fails unless the index agrees with the stages."""
    states = [(stage, stage.state) for stage in s.stages]
    tensors = {tensor for _, state in states for tensor in state.tensors}
    tensors |= {read.tensor for _, state in states for read in state.computation.reads}
    for tensor in tensors:
        readers = [one for one, state in states if any(read.tensor is tensor for read in state.computation.reads)]
        assert list(s.consumers(tensor)) == readers
        assert s.producer(tensor) is next((one for one, state in states if tensor in state.tensors), None)
    for host in s.stages:
        guests = [one for one, state in states if state.attachment and state.attachment.enclosing is host.id]
        assert list(s.attached(host)) == guests


@pytest.mark.parametrize("seed", range(60))
def test_tables_follow_any_command(seed):
    choice = Choice(seed)
    s = create_schedule(programs(choice, choice.number(2, 4)))
    check_tables(s)
    for _ in range(8):
        command = any_command(choice, s)
        with counted(COMMAND):
            command.run(s)
        check_tables(s)


def test_a_table_is_taken_over_where_changes_do_not_matter():
    choice = Choice(0)
    s = create_schedule(programs(choice, 3))
    stage = s.stages[0]
    readers = s.state.def_use.consumers
    stage.unroll(stage.leaf_axis[0])
    assert s.state.def_use.consumers is readers
