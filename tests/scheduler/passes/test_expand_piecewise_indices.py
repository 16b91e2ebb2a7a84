"""Pass ``expand-piecewise-indices``: reads at maxima, minima and selects of indices, as of edge and reflect padding."""

import pytest
from random_programs import Choice, random_inputs
from seeds import check_each, event, note
from small_machine import TINY, VTA, run

import lathe as lt
from lathe.frontend import format_program, placeholders
from lathe.scheduler.passes.pipeline import run_until

LATHE16 = lt.load_config("lathe16")


def clamped(index, size: int):
    return lt.min(lt.max(index, 0), size - 1)


def reflected(index, size: int):
    return clamped(lt.select(index < 0, -index, lt.select(index >= size, 2 * size - 2 - index, index)), size)


def test_a_read_becomes_a_select_of_reads():
    data = lt.placeholder((8, 16), "int8", name="data")
    result = lt.compute((8, 16), lambda i, j: data[lt.max(i - 1, 0), j] + 1, "result")
    after = run_until(lt.create_schedule(result), VTA, "expand-piecewise-indices")
    (body,) = after[result].state.computation.bodies
    assert str(body) == "select(i - 1 >= 0, data[i - 1, j], data[0, j]) + 1"


@pytest.mark.parametrize("config", [TINY, VTA, LATHE16], ids=lambda config: config.name)
@pytest.mark.parametrize("padding", [clamped, reflected])
def test_a_blur_with_padding(padding, config):
    data = lt.placeholder((10, 18), "int8", name="data")
    k = lt.reduce_axis(3, "k")
    result = lt.compute(
        (10, 18), lambda i, j: lt.sum(data[padding(i + k - 1, 10), j].astype("int32"), axis=k), "result"
    )
    run(lt.create_schedule(result), config, random_inputs([result], seed=1))


def test_data_that_select_table_entries_are_left_to_lookups():
    table, data = lt.placeholder((256,), "int8", name="table"), lt.placeholder((4, 16), "uint8", name="data")
    result = lt.lookup(data, table, name="result")
    before = lt.create_schedule(result)
    after = run_until(before, LATHE16, "expand-piecewise-indices")
    assert after[result].state.computation is before[result].state.computation


def index_of(choice: Choice, axis, size: int):
    """An index within the size, in one of several pieces."""
    shift = choice.number(-3, 3)
    kind = choice.number(0, 5)
    if kind == 0:
        return clamped(axis + shift, size)
    if kind == 1:
        return lt.max(lt.min(axis + shift, size - 1), 0)
    if kind == 2:
        return lt.select(axis <= choice.number(0, size - 1), size - 1, 0)
    if kind == 3:
        return reflected(axis - 2, size)
    if kind == 4:
        return clamped(axis * 2 + shift, size)
    return lt.max(size - 1 - axis, 0)


def check_random(seed: int) -> None:
    choice = Choice(seed)
    rank = choice.number(1, 3)
    shape, made = (tuple(choice.number(2, 14) for _ in range(rank)) for _ in range(2))
    data = lt.placeholder(shape, choice.pick(["int8", "int32"]), name="data")
    source = choice.pick([data, lt.compute(shape, lambda *i: data[i] * 2, "source")])
    result = lt.compute(made, lambda *i: source[tuple(map(index_of, [choice] * rank, i, shape))] - 3, "result")
    schedule = lt.create_schedule(result)
    if choice.number(0, 1):
        outer, _ = schedule[result].split(choice.pick(schedule[result].leaf_axis), factor=choice.number(1, 5))
        if source is not data and choice.number(0, 1):
            schedule[source].compute_at(schedule[result], outer)
    note(f"{format_program([result])}\n{schedule}")
    for config in (VTA, LATHE16):
        try:
            run(schedule, config, random_inputs(placeholders([result]), seed=seed))
        except lt.CapacityError:
            event("too large")
        else:
            event("right")


@pytest.mark.seeds(5, slow=300)
def test_random_indices(seeds):
    happened = check_each(seeds, check_random)
    assert happened["right"] > happened["too large"]
