"""Schedules of programs with symbolic parameters: primitives have the same results as with constants."""

import pytest
from executions import confirm
from nests import check, text
from random_commands import LOOPS, ORDER, commands
from random_programs import Choice
from seeds import check_each
from shares import BUILD, Shares, check_shares, counted

from lathe.frontend import Tensor, compute, max, min, parameter, placeholder, placeholders, reduce_axis, select, sum
from lathe.scheduler import LegalityError, Schedule, ScheduleError, bind, create_schedule
from lathe.scheduler.primitives.transform_layout import AXIS_SEPARATOR


def stencils(n: object, m: object) -> list[Tensor]:
    A = placeholder((n, m), "int32", "A")
    B = compute((n, m), lambda i, j: A[i, j] + select(j > 0, A[i, max(j - 1, 0)], 3), "B")
    C = compute((n, m), lambda i, j: B[i, j] * 2 + B[min(i + 1, n - 1), j], "C", where=lambda i, j: j <= i + 2)
    return [C]


def products(n: object, m: object) -> list[Tensor]:
    A, W = placeholder((n, m), "int8", "A"), placeholder((4, m), "int8", "W")
    k = reduce_axis((0, m), "k")
    P = compute((n, 4), lambda i, j: sum(A[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), "P")
    return [P, compute((n, 4), lambda i, j: P[i, j] >> 1, "Q")]


def chain(n: object, m: object) -> list[Tensor]:
    A = placeholder((m, n), "int32", "A")
    B = compute((n + 2, m), lambda i, j: select(i >= 2, A[j, max(i - 2, 0)], 0), "B")
    return [compute((n, m), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], "C")]


PROGRAMS = [stencils, products, chain]


def carried_out(schedule: Schedule, choice: Choice, count: int) -> list[str]:
    done = []
    for _ in range(count):
        command = commands(choice, schedule, (*LOOPS, *ORDER))
        try:
            command.run(schedule)
            done.append(command.text)
        except ScheduleError:
            pass
    return done


def check_bound(seed: int) -> None:
    """With typical values equal to the constants, the same random commands are accepted and give the same nests."""
    choice = Choice(seed)
    program, n, m = choice.pick(PROGRAMS), choice.number(1, 7), choice.number(1, 6)
    opened = create_schedule(program(parameter("n", typical=n), parameter("m", typical=m)))
    plain = create_schedule(program(n, m))
    number = choice.number(0, 2**30)
    assert carried_out(opened, Choice(number), 6) == carried_out(plain, Choice(number), 6)
    bound = bind(opened, {"n": n, "m": m})
    assert text(bound, "order", "loops") == text(plain, "order", "loops")


@pytest.mark.slow
@pytest.mark.seeds(12, slow=228, block=30)
def test_a_bound_schedule_is_the_schedule_of_the_bound_program(seeds):
    check_each(seeds, check_bound)


def check_other_numbers(seed: int) -> None:
    choice = Choice(seed)
    opened = create_schedule(choice.pick(PROGRAMS)(parameter("n", typical=5), parameter("m", typical=6)))
    carried_out(opened, choice, 6)
    with counted(BUILD, ScheduleError) as refusal:
        bound = bind(opened, {"n": choice.number(1, 9), "m": choice.number(1, 9)})
    if refusal:
        assert str(refusal[0]).startswith("Cannot replay primitive ")
        return
    check(bound)


@pytest.mark.seeds(12, slow=228, block=30)
def test_with_other_numbers_the_commands_keep_the_meaning_or_are_refused(seeds):
    happened = check_each(seeds, check_other_numbers)
    check_shares(happened, BUILD, Shares(0.95, {"argument": 0.04, "legality": 0.05, "limit": 0.02}))


def test_commands_take_formulas():
    N = parameter("N", minimum=4, typical=12)
    A = placeholder((N, 6), "int32", "A")
    B = compute((N, 6), lambda i, j: A[i, j] + 1, "B")
    s = create_schedule(B)
    outer, inner = s[B].split("i", factor=N // 2)
    s[B].reverse(outer)
    for n in (12, 9):
        assert [loop.extent for loop in _loops(bind(s, {"N": n}))] == [3 if n % 2 else 2, n // 2, 6]


def _loops(schedule: Schedule) -> list[object]:
    from lathe.scheduler.loop_ir.compute_locations import place_stages

    (placement,) = place_stages(schedule).values()
    return list(placement.loops.variables)


def test_layouts_and_caches_are_made_again():
    N = parameter("N", minimum=4, typical=8)
    A = placeholder((N, 6), "int32", "A")
    B = compute((N, 6), lambda i, j: A[i, j] + 1, "B")
    C = compute((N, 6), lambda i, j: B[N - 1 - i, j] * 2, "C")
    s = create_schedule(C)
    s[B].transform_layout(lambda i, j: [j, AXIS_SEPARATOR, i])
    copy = s.cache_read(A, "acc", [B])
    s[copy].compute_at(s[B], s[B].axis[0])
    s[C].tile(*s[C].axis, 2, 3)
    for n in (4, 8, 11):
        bound = bind(s, {"N": n})
        assert bound[bound.stages[1]].op.shape == (6, n)
        check(bound)


def test_a_command_that_other_numbers_make_illegal_is_refused_when_they_are_known():
    N = parameter("N", typical=100)
    A = placeholder((N,), "int32", "A")
    P = compute((N,), lambda i: A[i] + 1, "P")
    Q = compute((N,), lambda i: P[N - 1 - i] * 2, "Q", where=lambda i: i >= 60)
    s = create_schedule(Q)
    s[Q].after(s[P], "i")
    assert bind(s, {"N": 120}).count().redundant == 0
    with pytest.raises(LegalityError) as refused:
        bind(s, {"N": 122})
    assert refused.value.witness.consumer == {"i": 60}
    unchecked = create_schedule(bind(Q, {"N": 122}))
    from unittest import mock

    with mock.patch("lathe.scheduler.primitives.transaction.check_schedule"):
        stage = unchecked.stages[1]
        stage.after(unchecked.stages[0], "i")
    confirm(refused.value.witness, unchecked)


def test_a_program_without_parameters_stays_as_it_is():
    A = placeholder((4,), "int32", "A")
    B = compute((4,), lambda i: A[i] + 1, "B")
    s = create_schedule(B)
    assert s.recording is None
    assert placeholders(bind(B, {}))[0].shape == (4,)
