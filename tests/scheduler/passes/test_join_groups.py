"""Groups of a convolution are multiplied together where they leave elements empty, with zeros in the weights."""

import numpy as np
import pytest
from random_programs import random_inputs
from shaped_machines import machine
from small_machine import TINY, VTA, on_rtl, run

import lathe as lt
from lathe.isa import BlockDiagonal, Program
from lathe.scheduler.passes.complete import up_to


def grouped(shape=(1, 9, 10, 16), filters=16, groups=4, kernel=3, name="conv", data=None, **options):
    data = lt.placeholder(shape, "int8", name="data") if data is None else data
    size = data.shape[-1] // groups
    weights = lt.placeholder((filters, kernel, kernel, size), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, groups=groups, name=name, **options), 7, name=f"{name}.narrow")


def joined(program: Program, name: str = "conv.weights") -> int:
    """How many groups are together."""
    (segment,) = [each for each in program.segments if each.tensor == name]
    assert segment.layout is not None
    steps = [step.together for step in segment.layout.reorderings if isinstance(step, BlockDiagonal)]
    return steps[0] if steps else 1


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "together"),
    [(16, 16, 4, 4), (64, 64, 16, 4), (24, 16, 2, 2), (64, 64, 4, 1), (32, 32, 2, 1), (48, 48, 4, 1), (64, 32, 2, 1)],
)
@pytest.mark.parametrize("options", [{}, {"padding": 1, "stride": 2}, {"dilation": 2}])
def test_as_many_as_fill_blocks(channels, filters, groups, together, options):
    output = grouped((2, 9, 10, channels), filters, groups, **options)
    assert joined(run(lt.create_schedule(output), VTA, random_inputs([output], seed=1))) == together


@pytest.mark.parametrize("config", [TINY, machine(2, 4, 16), machine(1, 32, 8), machine(4, 16, 8)], ids=str)
@pytest.mark.parametrize(("channels", "filters", "groups"), [(10, 20, 2), (12, 24, 4), (9, 6, 3), (8, 16, 8)])
def test_groups_of_all_sizes(config, channels, filters, groups):
    output = grouped((2, 6, 5, channels), filters, groups, padding=1)
    run(lt.create_schedule(output), config, random_inputs([output], seed=2))


@pytest.mark.parametrize(("kernel_layout", "shape"), [("OHWI", (16, 3, 3, 4)), ("HWIO", (3, 3, 4, 16))])
def test_weights_in_any_order(kernel_layout, shape):
    data = lt.placeholder((1, 8, 8, 16), "int8", name="data")
    weights = lt.placeholder(shape, "int8", name="conv.weights")
    sums = lt.conv2d(data, weights, groups=4, kernel_layout=kernel_layout, name="conv")
    output = lt.requantise(sums, 7, name="output")
    assert joined(run(lt.create_schedule(output), VTA, random_inputs([output], seed=3))) == 4


def test_chains_of_groups_keep_channels_together():
    """One stage in groups would have the channels of the one before it apart."""
    first = grouped(groups=4, name="first")
    output = grouped(data=first, groups=4, name="second")
    schedule = lt.create_schedule(output)
    run(schedule, VTA, random_inputs([output], seed=4))
    assert up_to(schedule, VTA, "split-axes")[first].tensor.shape == first.shape


def test_fewer_cycles_and_the_bound_knows():
    """A product, a reset and four steps of the ALU for one element of 16 filters, where four groups have one each."""
    output = grouped((1, 32, 32, 16), kernel=1)
    program = run(lt.create_schedule(output), VTA, random_inputs([output], seed=5))
    bound = lt.bound(output, VTA)
    assert (bound.gemm, bound.reset, bound.alu) == (32 * 32, 32 * 32, 4 * 32 * 32)
    assert bound.products == 32 * 32 * 16 * 4
    assert dict(bound.weights) == {"conv.weights": 256}
    assert bound.cycles <= lt.simulate(program, timing_only=True).cycles < 1.2 * bound.cycles


def test_the_bound_of_groups_that_fill_blocks_is_as_it_was():
    output = grouped((1, 8, 8, 64), filters=64, groups=4, kernel=1)
    assert lt.bound(output, VTA).gemm == 8 * 8 * 4


def test_constants_and_checks():
    output = grouped()
    given = random_inputs([output], seed=6)
    weights = {"conv.weights": given.pop("conv.weights")}
    tensors = [*lt.frontend.placeholders([output]), output]
    program = lt.build(output, tensors, VTA, constants=weights, check=True)
    found = lt.simulate(program, given).outputs[output.name]
    assert np.array_equal(found, lt.reference(output, {**given, **weights}))


def test_weights_that_others_read_too():
    """The host gives them twice, once with zeros and once as they are."""
    data = lt.placeholder((1, 8, 8, 16), "int8", name="data")
    other = lt.placeholder((1, 8, 8, 4), "int8", name="other")
    weights = lt.placeholder((16, 1, 1, 4), "int8", name="weights")
    one, two = lt.conv2d(data, weights, groups=4, name="one"), lt.conv2d(other, weights, name="two")
    output = lt.requantise(lt.add(one, two, name="added"), 7, name="output")
    run(lt.create_schedule(output), VTA, random_inputs([output], seed=7))


def test_computed_weights_and_stages_with_commands_stay_in_groups():
    output = grouped()
    schedule = lt.create_schedule(output)
    conv = next(stage for stage in schedule.stages if stage.name == "conv")
    conv.split(conv.op.axis[1], 2)
    assert joined(run(schedule, VTA, random_inputs([output], seed=8))) == 1
    data = lt.placeholder((1, 8, 8, 16), "int8", name="data")
    given = lt.placeholder((16, 3, 3, 4), "int8", name="given")
    weights = lt.compute(given.shape, lambda o, y, x, i: (given[o, y, x, i] >> 1).astype("int8"), name="weights")
    output = lt.requantise(lt.conv2d(data, weights, groups=4, name="conv"), 7, name="output")
    shapes = {stage.name: stage.tensor.shape for stage in up_to(lt.create_schedule(output), VTA, "split-axes").stages}
    assert shapes["conv"] == (1, 6, 6, 4, 4)


def test_on_the_rtl():
    on_rtl(lt.create_schedule(grouped((1, 6, 6, 8), filters=8, groups=4)))
