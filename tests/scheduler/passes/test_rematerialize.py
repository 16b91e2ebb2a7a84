"""Pass ``rematerialize``: wide values are recomputed for each consumer, where that is cheaper than storing them."""

import pytest
from random_programs import random_inputs
from shaped_machines import machine
from small_machine import VTA, run, simulate_and_check

import lathe as lt
from lathe.frontend import placeholders
from lathe.scheduler.passes.pipeline import run_until


def conv(channels=16, kernel=1, name="conv", **options):
    data = lt.placeholder((1, 6, 7, channels), "int8", name="data")
    weights = lt.placeholder((16, kernel, kernel, channels), "int8", name="weights")
    return lt.conv2d(data, weights, name=name, **options)


def narrowed(tensor, shift, name):
    return lt.requantise(tensor, shift, name=name)


def stages(schedule, config=VTA):
    """The names of the stages after this pass; checks the outputs against NumPy."""
    run(schedule, config, random_inputs([*schedule.outputs], seed=1))
    return [stage.name for stage in run_until(schedule, config, "rematerialize").stages]


@pytest.mark.parametrize("config", [VTA, machine(2, 16, 8), machine(2, 4, 16)], ids=["1x16x16", "2x16x8", "2x4x16"])
def test_two_consumers_of_a_gemm(config):
    total = conv()
    schedule = lt.create_schedule([narrowed(total, 3, "one"), narrowed(total, 5, "other")])
    assert stages(schedule, config) == ["conv", "one", "conv.again", "other"]


def test_each_copy_computes_only_what_its_consumer_reads():
    """A pool reads six of seven columns, and every other consumer all of them."""
    total = conv()
    pool = lt.max_pool2d(total, 2, stride=2, name="pool")
    schedule = lt.create_schedule([pool, narrowed(total, 5, "whole")])
    assert set(stages(schedule)) == {"conv", "pool", "whole", "conv.again"}
    shapes = {each.name: each.tensor.shape for each in run_until(schedule, VTA, "rematerialize").stages}
    assert (shapes["conv"], shapes["conv.again"]) == ((1, 6, 6, 16), (1, 6, 7, 16))


def test_only_outputs_are_stored_wide():
    total = conv()
    schedule = lt.create_schedule([total, narrowed(total, 3, "narrow")])
    assert stages(schedule) == ["conv", "conv.again", "narrow"]


def test_the_whole_chain_is_duplicated():
    bias = lt.placeholder((16,), "int32", name="bias")
    total = lt.bias_add(conv(kernel=3, channels=3, padding=1), bias, name="biased")
    schedule = lt.create_schedule([narrowed(total, 3, "one"), narrowed(total, 5, "other")])
    again = ["conv.pad.again", "conv.again", "biased.again"]
    assert stages(schedule) == ["conv.pad", "conv", "biased", "one", *again, "other"]


def test_values_between_wide_ones():
    """The copy of the second has a producer of its own."""
    first = conv()
    second = lt.compute(first.shape, lambda *i: first[i] * 3 + 1, name="second")
    schedule = lt.create_schedule([narrowed(first, 3, "of_first"), narrowed(second, 3, "one"), second])
    found = stages(schedule)
    assert found.count("conv") == found.count("second") == 1
    assert {name for name in found if "again" in name} >= {"conv.again", "second.again"}


def test_consumers_of_one_group_share_a_copy():
    total = conv()
    doubled = lt.add(total, lt.relu(total, name="positive"), name="doubled")
    schedule = lt.create_schedule([narrowed(doubled, 3, "one"), narrowed(total, 5, "other")])
    assert stages(schedule) == ["conv", "positive", "doubled", "one", "conv.again", "other"]


def test_duplicates_keep_their_order():
    """``sum`` reads ``conv`` before ``positive``, which reads it, too."""
    total = conv()
    doubled = lt.compute(total.shape, lambda *i: total[i] + lt.relu(total, name="positive")[i], name="doubled")
    schedule = lt.create_schedule([narrowed(doubled, 3, "one"), narrowed(doubled, 5, "other")])
    again = ["conv.again", "positive.again", "doubled.again"]
    assert stages(schedule) == ["conv", "positive", "doubled", "one", *again, "other"]


def test_a_long_chain_of_values_that_are_read_twice_is_visited_once():
    """Each value is read by the next one and by another operand of it: there are 2⁴⁰ paths from last to first."""
    total = conv()
    for n in range(40):
        total = lt.add(total, lt.relu(total, name=f"positive{n}"), name=f"sum{n}")
    schedule = lt.create_schedule([narrowed(total, 3, "one"), narrowed(total, 5, "other")])
    found = [stage.name for stage in run_until(schedule, VTA, "rematerialize").stages]
    assert not any("again" in name for name in found), "they take more steps than planes"


@pytest.mark.parametrize(
    "reader",
    [
        lambda total: lt.max_pool2d(total, 2, stride=1, name="windows"),
        lambda total: lt.compute((1, 5, 6, 16), lambda n, y, x, c: total[n, y + 1, x, c] + 0, name="shifted"),
    ],
    ids=["windows", "shifted"],
)
def test_values_that_are_stored_for_another_consumer(reader):
    total = conv()
    schedule = lt.create_schedule([reader(total), narrowed(total, 3, "narrow")])
    found = stages(schedule)
    assert found.index("conv.again") == found.index("narrow") - 1


def test_long_sums_are_stored():
    total = conv(channels=64, kernel=3)
    assert "conv.again" not in stages(lt.create_schedule([narrowed(total, 8, "one"), narrowed(total, 9, "other")]))


def test_narrow_values_are_stored():
    values = narrowed(conv(), 3, "narrow")
    schedule = lt.create_schedule([values, lt.relu(values, name="positive")])
    assert stages(schedule) == ["conv", "narrow", "positive"]


def test_a_loop_of_the_user_is_not_changed():
    total = conv()
    schedule = lt.create_schedule([narrowed(total, 3, "one"), narrowed(total, 5, "other")])
    schedule[total].split("y", factor=3)
    assert "conv.again" not in stages(schedule)


def test_it_is_faster():
    total = conv()
    outputs = [narrowed(total, 3, "one"), narrowed(total, 5, "other")]
    schedule, stored = lt.create_schedule(outputs), lt.create_schedule(outputs)
    stored[total].split("n", factor=1)
    tensors = [*placeholders(outputs), *outputs]
    cycles = [lt.simulate(lt.build(each, tensors, VTA), timing_only=True).cycles for each in (schedule, stored)]
    assert 2 * cycles[0] < cycles[1]


def test_on_the_rtl():
    total = conv()
    simulate_and_check(lt.create_schedule([total, narrowed(total, 3, "narrow")]), machine(2, 4, 8))
