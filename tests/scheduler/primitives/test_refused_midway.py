"""Composite primitives are transactions: if the last step is refused, the earlier ones are rolled back."""

from unittest import mock

import pytest
from error_checks import raises

import lathe as lt
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.verify_schedule import check_schedule


def chain(*shape: "int | lt.Parameter") -> list[lt.Tensor]:
    """Four tensors of two dimensions, each computed from the one before."""
    a = lt.placeholder(shape, "int32", name="A")
    b = lt.compute(shape, lambda i, j: a[i, j] + 1, name="B")
    c = lt.compute(shape, lambda i, j: b[i, j] * 2, name="C")
    return [a, b, c, lt.compute(shape, lambda i, j: c[i, j] - 3, name="D")]


COMMANDS = {
    "tile": lambda s, t: s[t[3]].tile("i", "j", 4, 4),
    "vectorize": lambda s, t: s[t[3]].vectorize("j", 4),
    "between": lambda s, t: s[t[2]].between(s[t[1]], "j", s[t[3]], "j"),
    "after": lambda s, t: s[t[3]].after(s[t[2]], "j"),
    "cache_write": lambda s, t: s.cache_write(t[3], "acc"),
    "cache_write at": lambda s, t: s.cache_write(t[3], "acc", at="i"),
    "transform_layout": lambda s, t: s.transform_layout(t[2], lambda i, j: [j, i]),
    "device_to_host": lambda s, t: s.device_to_host(t[1]),
}
"""Commands that change a schedule in several steps, or more of it than its stages."""


@pytest.mark.parametrize("parametric", [False, True], ids=["numbers", "parameter"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refused_at_its_last_step_leaves_nothing_behind(name: str, parametric: bool) -> None:
    def steps(refused_at: int | None) -> int:
        """The number of legality checks; if one of them refuses, the schedule is unchanged."""
        n = lt.parameter("n", 4, 64, typical=16) if parametric else 16
        tensors = chain(n, 16)
        schedule = lt.create_schedule(tensors[3])
        given, asked = schedule.state, 0
        states = {stage: stage.state for stage in schedule.stages}

        def check(*arguments: object) -> None:
            nonlocal asked
            asked += 1
            if asked == refused_at:
                raise ScheduleError("no", kind="legality")
            check_schedule(*arguments)

        with mock.patch("lathe.scheduler.primitives.transaction.check_schedule", check):
            if refused_at is None:
                COMMANDS[name](schedule, tensors)
            else:
                raises(ScheduleError, COMMANDS[name], schedule, tensors, kind="legality", mentions=("no",))
                assert schedule.state is given
                assert {stage: stage.state for stage in schedule.stages} == states
        return asked

    last = steps(None)
    assert last
    steps(last)
