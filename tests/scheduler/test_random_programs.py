"""Random programs under random schedules: NumPy, the loop nest and the machine agree; refusals are justified."""

from unittest import mock

import numpy as np
import pytest
from executions import confirm
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from random_programs import Choice, commands, programs, random_inputs

from lathe.configs import load_config
from lathe.frontend import placeholders, reference
from lathe.scheduler import LegalityError, Schedule, ScheduleError, create_schedule, interpret, lower
from lathe.scheduler.completion import copied

ALL = (
    "split",
    "split",
    "tile",
    "reorder",
    "fuse",
    "unroll",
    "compute_at",
    "compute_at",
    "compute_root",
    "emit_insn",
    "set_scope",
    "cache_write",
    "cache_read",
)
CONFIG = load_config("tiny")


def text_of(schedule: Schedule) -> str:
    tensors = [*placeholders(schedule.outputs), *schedule.outputs]
    return "".join(lower(schedule, tensors, CONFIG, stage) for stage in ("order", "loops"))


def check_random_schedule(seed: int, most_computations: int, most_commands: int) -> None:
    choice = Choice(seed)
    outputs = programs(choice, most_computations)
    schedule = create_schedule(outputs)
    for _ in range(most_commands):
        command = commands(choice, schedule, ALL)
        before, kept = copied(schedule), text_of(schedule)
        try:
            command.run(schedule)
            note(command.text)
        except LegalityError as error:
            event("a command refused with a witness")
            note(f"refused: {command.text}: {error}")
            with mock.patch("lathe.scheduler.legality.check_schedule"):
                command.run(before)
            confirm(error.witness, before)
            assert text_of(schedule) == kept
        except ScheduleError:
            assert text_of(schedule) == kept
    inputs = random_inputs(outputs, seed=1)
    expected = reference(outputs, inputs)
    for name, values in interpret(schedule, inputs).items():
        wanted = expected[name] if isinstance(expected, dict) else expected
        assert np.array_equal(values, wanted), f"{name} differs from its NumPy meaning"


SEEDS = st.integers(0, 2**40)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=SEEDS, computations=st.integers(1, 5), commands=st.integers(1, 10))
def test_every_accepted_schedule_keeps_the_meaning(seed, computations, commands):
    check_random_schedule(seed, computations, commands)


@pytest.mark.nightly
@settings(max_examples=20000, deadline=None, print_blob=True)
@given(seed=SEEDS, computations=st.integers(1, 7), commands=st.integers(1, 20))
def test_every_accepted_schedule_keeps_the_meaning_over_many_more(seed, computations, commands):
    check_random_schedule(seed, computations, commands)
