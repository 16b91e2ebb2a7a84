"""Random padded layouts and contracts: ``overcompute`` accepts only correct schedules, refuses only incorrect ones."""

import numpy as np
import pytest
from nests import check, text
from padded import check_poisoned, confirm_refused, poisoned
from random_programs import Choice, random_inputs
from seeds import check_each, event, note

from lathe.frontend import Tensor, compute, max, min, placeholder, prod, reduce_axis, select, sum
from lathe.scheduler import PaddingError, Schedule, ScheduleError, create_schedule, undef

CONTRACTS = (None, undef, 0, 1, -128, 127, 0, 0, undef)


def random_map(choice: Choice, rank: int):
    """A layout with axes in blocks or not, shifted or not, in any order."""
    factors = [choice.pick([0, 2, 3, 4, 5, 8]) for _ in range(rank)]
    offsets = [choice.pick([0, 0, 0, 1, 2]) for _ in range(rank)]
    seed = choice.number(0, 10**9)

    def function(*indices):
        found = []
        for index, factor, offset in zip(indices, factors, offsets, strict=True):
            moved = index + offset if offset else index
            found += [moved // factor, moved % factor] if factor else [moved]
        return Choice(seed).shuffled(found)

    return function


def random_program(choice: Choice) -> tuple[Tensor, Tensor]:
    """An input, and an element-wise stage or a reduction that reads it, perhaps with a condition at the border."""
    rows, columns = choice.number(2, 9), choice.number(2, 9)
    A = placeholder((rows, columns), "int8", "A")
    kind = choice.number(0, 5)
    if kind == 0:
        factor, term = choice.pick([1, 2, 3, 0]), choice.pick([0, 0, 1, -5])
        return A, compute((rows, columns), lambda i, j: A[i, j] * factor + term, "B")
    reduction = choice.pick([sum, prod, max, min])
    if kind < 4:
        j = reduce_axis(columns, "j")
        scale = choice.pick([1, 1, -1, 2])
        return A, compute(rows, lambda i: reduction(A[i, j] * scale, axis=j), "B")
    before, behind = choice.number(0, 2), choice.number(0, 2)
    j = reduce_axis((-before, columns + behind), "j")
    other = {sum: 0, prod: 1, max: -128, min: 127}[reduction]
    inside = lambda i, j: select((j >= 0) & (j < columns), A[i, j], other)  # noqa: E731
    return A, compute(rows, lambda i: reduction(inside(i, j), axis=j), "B")


def laid_out(
    choice: Choice, schedule: Schedule, tensor: Tensor, times: int, contracts: tuple[object, ...] = CONTRACTS
) -> None:
    for _ in range(times):
        pad_value = choice.pick(contracts)
        shape = schedule.layout(tensor).shape
        schedule.transform_layout(tensor, random_map(choice, len(shape)), pad_value=pad_value)
        note(f"{schedule.layout(tensor)}, pad_value={pad_value}")


def check_contract(schedule: Schedule, tensor: Tensor) -> None:
    """Fail unless the padding of a computed tensor holds the values of its contract."""
    inputs = random_inputs(list(schedule.program), seed=0)
    layout = schedule.layout(tensor)
    found = [poisoned(schedule, inputs, offset)[schedule.current(tensor).name] for offset in (0, 7)]
    zeros = np.zeros(layout.tensor.shape, tensor.dtype)
    wanted = [layout.pack(zeros, poison) for poison in (1, 2)]
    live = layout.pack(np.ones(layout.tensor.shape, np.int8), 0, live=True) == 1
    defined = (wanted[0] == wanted[1]) & ~live
    for values in found:
        np.testing.assert_array_equal(values[defined], wanted[0][defined])


def check_seed(seed: int) -> None:
    choice = Choice(seed)
    A, B = random_program(choice)
    schedule = create_schedule(B)
    if choice.number(0, 1):
        laid_out(choice, schedule, A, choice.number(1, 2))
        laid_out(choice, schedule, B, choice.number(0, 2))
    else:  # what is likely to be accepted
        needed = schedule.padding_needed(A).value
        laid_out(choice, schedule, B, choice.number(0, 1), (None, undef))
        laid_out(choice, schedule, A, 1, (undef,) if needed is None else (needed,))
    if choice.number(0, 1):
        try:
            schedule[B].reorder_to_buffer(A)
        except ScheduleError as error:
            note(f"refused: {error}")
    elif choice.number(0, 1):
        schedule[B].split(choice.pick(schedule[B].leaf_axis), choice.number(2, 5))
    before = text(schedule)
    note(before)
    axis = choice.pick([None, *schedule[B].leaf_axis])
    try:
        schedule[B].overcompute(axis)
        event("accepted")
        assert text(schedule) != before
    except PaddingError as error:
        event("refused")
        note(str(error))
        confirm_refused(schedule, B, error.witness)
    except ScheduleError as error:
        event("no condition, or loops of another making")
        note(str(error))
    check(schedule)
    check_poisoned(schedule)
    check_contract(schedule, B)
    if choice.number(0, 1):
        try:
            schedule[B].branch(choice.pick([None, *schedule[B].leaf_axis]))
        except ScheduleError as error:
            note(f"refused: {error}")
        schedule.remove_dead_stores()
        check_poisoned(schedule)
        check_contract(schedule, B)


@pytest.mark.seeds(20, slow=480, block=50)
def test_overcompute_is_right_where_accepted_and_wrong_where_refused(seeds):
    check_each(seeds, check_seed)


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_overcompute_of_many_more(seeds):
    check_each(seeds, check_seed)


def check_padding(seed: int) -> None:
    choice = Choice(seed)
    A, B = random_program(choice)
    schedule = create_schedule(B)
    laid_out(choice, schedule, A, choice.number(1, 3))
    layout = schedule.layout(A)
    taken = {layout.index(*point) for point in np.ndindex(A.shape)}
    assert len(taken) == np.prod(A.shape)
    assert set(layout.padding) == set(np.ndindex(layout.shape)) - taken
    assert layout.padding_count == len(layout.padding)
    packed = layout.pack(np.arange(np.prod(A.shape)).reshape(A.shape))
    values = {layout.index(*point): n for n, point in enumerate(np.ndindex(A.shape))}
    assert all(packed[cell] == n for cell, n in values.items())


@pytest.mark.seeds(8, slow=192)
def test_padding_is_where_no_index_leads(seeds):
    check_each(seeds, check_padding)
