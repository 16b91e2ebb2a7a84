"""Dead elements between windows: through chains of stages, with and without padding."""

import pytest
from convolutions import conv
from random_programs import random_inputs
from shaped_machines import machine
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.scheduler.passes.pipeline import run_until


def image(shape=(1, 20, 23, 16)):
    return lt.placeholder(shape, "int8", name="data")


def depthwise(data, **options):
    weights = lt.placeholder((3, 3, data.shape[-1]), "int8", name=f"{options['name']}.weights")
    return lt.requantise(lt.depthwise_conv2d(data, weights, **options), 5, name=f"{options['name']}.narrow")


def made(output: lt.Tensor) -> dict[str, tuple[int, ...]]:
    """The shape of each stage's tensor, without images; checks the outputs against NumPy on three machines."""
    schedule = lt.create_schedule(output)
    for config in (VTA, TINY, machine(2, 4, 16)):
        run(schedule, config, random_inputs([output], seed=1))
    tensors = [*lt.frontend.placeholders([output]), output]
    lt.build(output, tensors, VTA, check=True)
    return {stage.name: stage.tensor.shape[1:] for stage in run_until(schedule, VTA, "eliminate-dead-elements").stages}


@pytest.mark.sample(1)
@pytest.mark.parametrize("border", [0, 1])
def test_a_convolution_before_windows(border):
    """With padding the first window starts before the first row, for which it reads padding of the data."""
    first = conv(image(), 3, name="first")
    pool = conv(first, 3, stride=2, padding=border, name="second")
    found = made(conv(pool, 1, stride=3, name="third"))
    assert found["second"] == (3, 4, 16)
    assert found["first"] == found["first.narrow"] == (3, 3, 4, 3, 16)
    assert ("data.border" in found) == bool(border)


@pytest.mark.slow
def test_an_existing_padding_is_widened():
    first = conv(image(), 3, padding=1, name="first")
    found = made(conv(conv(first, 3, stride=2, padding=1, name="second"), 1, stride=3, name="third"))
    assert found["first"] == (4, 3, 4, 3, 16)
    assert found["first.pad"] == (23, 23, 16)
    assert "first.pad.border" not in found


@pytest.mark.sample(1)
@pytest.mark.parametrize("first", [0, 1])
def test_a_padding_of_a_dilated_image_reads_nothing_out_of_bounds(first):
    """Every other pixel exists: also of a row before the first, unless a condition excludes that."""
    image_ = image((1, 9, 9, 3))
    stretched = lt.compute(
        (1, 19, 19, 3),
        lambda n, y, x, c: (
            lt.select((y % 2 == first) & (x % 2 == first), image_[n, y // 2, x // 2, c], 0)
            if first
            else lt.select((y % 2 == 0) & (x % 2 == 0) & (y < 18) & (x < 18), image_[n, y // 2, x // 2, c], 0)
        ),
        name="stretched",
    )
    output = conv(conv(stretched, 3, filters=8, name="first"), 2, filters=8, stride=3, padding=1, name="second")
    made(output)
    assert not lt.verify(lt.build(output, [*lt.frontend.placeholders([output]), output], VTA))


def test_a_depthwise_convolution_of_stored_windows():
    """The padding has a dimension more than the stored tensor, whose layout the cost model of conversions needs."""
    first = conv(image((1, 4, 2, 4)), 1, filters=4, name="first")
    weights = lt.placeholder((4, 2, 2, 1), "int8", name="weights")
    output = lt.conv2d(first, weights, stride=3, padding=1, groups=4, name="second")
    run(lt.create_schedule(output), machine(2, 8, 16), random_inputs([output], seed=1))


def test_depthwise_and_maxima():
    first = depthwise(image((2, 20, 21, 16)), padding=1, name="first")
    pool = lt.max_pool2d(first, 2, stride=2, name="pool")
    found = made(conv(pool, 1, stride=3, name="last"))
    assert found["pool"] == (4, 4, 16)
    assert found["first"] == (4, 2, 4, 2, 16)


@pytest.mark.slow
def test_windows_through_two_layers():
    """3×3 before windows of 3 reads 5 of 8 rows."""
    first = conv(conv(image((1, 28, 28, 8)), 1, 8, name="first"), 3, 8, name="second")
    third = conv(first, 3, 8, stride=4, name="third")
    found = made(conv(third, 1, 8, stride=2, name="last"))
    assert found["second"] == (3, 3, 3, 3, 8)
    assert found["first"] == (3, 5, 3, 5, 8)


@pytest.mark.slow
def test_windows_of_different_consumers():
    before = conv(image((1, 24, 24, 16)), 1, name="first")
    one = conv(conv(before, 2, stride=3, name="one"), 1, stride=2, name="one.last")
    other = conv(conv(before, 3, stride=3, name="other"), 1, stride=2, name="other.last")
    found = made(lt.requantise(lt.add(one, other, name="added"), 1, name="output"))
    assert found["first"] == (4, 3, 4, 3, 16)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("kernel", "stride", "dimensions"), [(3, 3, 3), (3, 4, 5), (7, 8, 3), (2, 3, 5)])
def test_windows_with_few_dead_elements_between_them(kernel, stride, dimensions):
    first = conv(image((1, 42, 42, 16)), 1, name="first")
    assert len(made(conv(first, kernel, stride=stride, name="second"))["first"]) == dimensions


def test_outputs_and_scheduled_stages_are_not_shrunk():
    first = conv(image(), 3, name="first")
    output = conv(conv(first, 3, stride=2, name="second"), 1, stride=3, name="third")
    schedule = lt.create_schedule([first, output])
    run(schedule, VTA, random_inputs([first, output], seed=1))
    assert run_until(schedule, VTA, "eliminate-dead-elements")[first].tensor.shape == first.shape
    schedule = lt.create_schedule(output)
    schedule[first].split(first.op.axis[1], 4)
    run(schedule, VTA, random_inputs([output], seed=1))
    assert run_until(schedule, VTA, "eliminate-dead-elements")[first].tensor.shape == first.shape


def test_fewer_cycles():
    """Of 40 × 40 pixels, 9 of 36 are computed."""
    first = conv(image((1, 42, 42, 16)), 3, name="first")
    output = conv(conv(first, 3, stride=2, name="second"), 1, stride=3, name="third")
    program = run(lt.create_schedule(output), VTA, random_inputs([output], seed=1))
    assert lt.simulate(program, timing_only=True).cycles < 1.4 * lt.bound(output, VTA).cycles < 40 * 40 * 9


def test_on_the_rtl():
    first = conv(image((1, 9, 9, 8)), 3, 8, name="first")
    simulate_and_check(
        lt.create_schedule(conv(conv(first, 2, 8, stride=2, name="second"), 1, 8, stride=2, name="third"))
    )
