"""Layout propagation to inputs: ALU stages compute in the layout that GEMMs load where only inputs lead to them."""

import pytest
from random_programs import random_inputs
from shaped_machines import machine
from small_machine import run, simulate_and_check

import lathe as lt
from lathe.configs import load_config
from lathe.scheduler.passes.pipeline import run_until

SHAPES = [(2, 4, 16), (2, 16, 8), (4, 8, 16), (4, 16, 4), (4, 4, 32)]


def image(shape, name="data"):
    return lt.placeholder(shape, "int8", name=name)


def conv(data, name="conv", kernel=3, filters=8, **options):
    weights = lt.placeholder((filters, kernel, kernel, data.shape[-1]), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, name=name, **options), 7, name=f"{name}.narrow")


def difference(shape):
    one, other = image(shape), image(shape, "other")

    def element(n, y, x, c):
        return (one[n, y, x, c].astype("int32") - other[n, y, x, c].astype("int32") >> 1).astype("int8")

    return lt.compute(shape, element, name="difference")


def turned(output: lt.Tensor, config: lt.HardwareConfig) -> list[str]:
    """The tensors whose layout is converted; checks the outputs against NumPy."""
    schedule = lt.create_schedule(output)
    run(schedule, config, random_inputs([output], seed=1))
    stages = run_until(schedule, config, "insert-layout-conversions").stages
    return [each.name for each in stages if each.name.endswith(".turned")]


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("padding", [0, 1])
def test_a_difference_before_a_convolution(shape, images, padding):
    assert turned(conv(difference((images, 6, 7, 32)), padding=padding), machine(*shape)) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_maxima_over_windows(shape):
    assert turned(conv(lt.max_pool2d(image((1, 9, 9, 32)), 3, stride=2, name="pool")), machine(*shape)) == []


def test_several_consumers_with_one_layout():
    pool = lt.max_pool2d(image((2, 9, 9, 32)), 3, stride=1, name="pool")
    both = lt.add(conv(pool, "one"), conv(pool, "two"), name="added")
    assert turned(lt.requantise(both, 1, name="output"), machine(2, 16, 8)) == []


def test_the_result_of_a_gemm_is_converted():
    pool = lt.max_pool2d(conv(image((2, 9, 9, 16)), "first"), 2, stride=2, name="pool")
    assert turned(conv(pool, "second"), machine(2, 16, 8)) == ["pool.turned"]


def test_a_consumer_of_stored_vectors_keeps_the_conversion():
    """The sum of the residual has the layout of the GEMM before it."""
    before = difference((2, 6, 7, 8))
    output = lt.requantise(lt.add(conv(before, padding=1), before, name="again"), 1, name="output")
    assert turned(output, machine(2, 16, 8)) == ["difference.turned"]


def test_few_channels_of_a_long_reduction_are_converted():
    """Whole spans of 32 would take eight times the cycles of the ALU."""
    pool = lt.max_pool2d(image((2, 9, 9, 4)), 5, stride=1, name="pool")
    assert turned(conv(pool), machine(2, 32, 4)) == ["pool.turned"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("filters", [3, 4])
def test_one_image_of_one_block_of_channels_needs_no_conversion(shape, padding, filters):
    config, block = machine(*shape), min(shape[1:])
    before = conv(image((1, 6, 7, 8)), "first", filters=filters)
    assert turned(conv(before, "second", padding=padding), config) == []
    assert turned(conv(conv(image((2, 6, 7, 8)), "first", filters=filters), "second"), config)
    assert turned(conv(conv(image((1, 6, 7, 8)), "first", filters=block + 1), "second"), config)


@pytest.mark.parametrize(
    ("behind", "unit"), [("data", "diagonal"), ("maximum", "diagonal"), ("product", "no diagonal")]
)
def test_conversions_count_in_the_choice_of_the_alu(behind, unit):
    """The same GEMMs: data that depend only on inputs need no conversions, the result of a GEMM does."""
    config = load_config("vta").with_(
        name="2x4x32",
        batch=2,
        block_in=4,
        block_out=32,
        inp_buffer_bytes=2 * 4 * 1024,
        wgt_buffer_bytes=4 * 32 * 512,
        acc_buffer_bytes=2 * 32 * 4 * 1024,
    )
    before = image((1, 25, 25, 32))
    if behind == "maximum":
        before = lt.max_pool2d(image((1, 26, 26, 32)), 2, stride=1, name="pool")
    elif behind == "product":
        before = conv(image((1, 25, 25, 32)), kernel=1, filters=32)
    weights = lt.placeholder((3, 3, 32), "int8", name="deep.weights")
    deep = lt.depthwise_conv2d(before, weights, stride=2, name="deep")
    ((_, why),) = lt.explain(lt.requantise(deep, 7, name="output"), config).units
    assert why.startswith(unit)


def test_on_the_rtl():
    pool = lt.max_pool2d(image((1, 5, 5, 8)), 2, stride=1, name="pool")
    simulate_and_check(lt.create_schedule(conv(pool)), machine(2, 4, 8))


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_tensor_stored_between_two_stages_is_loaded_in_the_same_layout(shape):
    """The first is an output, too, so that the second loads it from DRAM."""
    first = difference((2, 6, 7, 32))
    second = lt.max_pool2d(first, 2, stride=1, name="pool")
    schedule = lt.create_schedule([conv(second), lt.relu(first, name="also")])
    run(schedule, machine(*shape), random_inputs([*schedule.outputs], seed=1))
