"""Pass ``compact-strided-loads``: GEMMs with strided reads load only the pixels that they read, if that is as fast."""

import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.configs import HardwareConfig
from lathe.isa import Load, MemoryType
from lathe.scheduler.passes.pipeline import run_until
from lathe.sim import simulate_program

QUICK = VTA.with_(**{"memory.latency": 0})
SLOW = VTA.with_(**{"memory.latency": 200})


def conv(data: lt.Tensor, kernel: int = 1, filters: int = 32, **options: object) -> lt.Tensor:
    name = str(options["name"])
    weights = lt.placeholder((filters, kernel, kernel, data.shape[-1]), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, **options), 7, name=f"{name}.narrow")


def image(*shape: int) -> lt.Tensor:
    return lt.placeholder(shape, "int8", name="data")


def first_pixels(data: lt.Tensor) -> lt.Tensor:
    """Reads pixels of each remainder, so that the host does not pack the input by the stride."""
    return lt.compute((1, 2, 2, 1), lambda n, y, x, c: data[n, y, x, c] + 1, name="pixels")


def loaded(output: lt.Tensor, config: HardwareConfig, *others: lt.Tensor) -> int:
    """The bytes of data that are loaded; checks the outputs against NumPy."""
    given = random_inputs([output, *others], seed=3)
    program = run(lt.create_schedule([output, *others]), config, given)
    return simulate_program(program, given).counters.bytes_read["inp"]


@pytest.mark.parametrize(("step", "pixels"), [(2, 6 * 7), (3, 4 * 5)])
def test_every_nth_pixel_of_an_input(step, pixels):
    data = image(1, 12, 13, 32)
    assert loaded(conv(data, stride=step, name="conv"), QUICK, first_pixels(data)) == pixels * 32


def test_only_rows_are_skipped_if_memory_latency_is_long():
    """Bursts of one pixel each would wait for the memory, so whole rows are loaded."""
    data = image(1, 12, 13, 32)
    assert loaded(conv(data, stride=2, name="conv"), SLOW, first_pixels(data)) == 6 * 13 * 32


def test_machines_with_several_rows_per_vector():
    config = lt.load_config("batch4").with_(**{"memory.latency": 0})
    for images in (1, 4):
        data = image(images, 12, 16, 32)
        outputs = [conv(data, stride=2, name="conv"), first_pixels(data)]
        run(lt.create_schedule(outputs), config, random_inputs(outputs, seed=3))


def test_pixels_along_vector_rows_are_loaded_completely():
    """The rows of a vector are stored contiguously: strided ones would need identity GEMMs."""
    config = VTA.with_(name="pair", batch=2, block_in=8, block_out=16, **{"memory.bus_bits": 32})
    data = image(1, 9, 8, 8)
    output = lt.conv2d(data, lt.placeholder((16, 1, 1, 8), "int8", name="weights"), stride=2, name="conv")
    outputs = [output, first_pixels(data)]
    given = random_inputs(outputs, seed=3)
    program = run(lt.create_schedule(outputs), config, given)
    assert simulate_program(program, given).counters.gemm_operations == 5 * 4


def test_dilation_equal_to_the_stride():
    assert loaded(conv(image(1, 13, 13, 16), 3, stride=2, dilation=2, name="conv"), QUICK) == 7 * 7 * 16


def test_a_tensor_that_another_layer_reads_completely():
    """After a residual block's first layer one consumer reads all pixels, the shortcut every other one."""
    first = conv(image(1, 10, 10, 16), name="first")
    wide, shortcut = conv(first, 3, stride=2, padding=1, name="wide"), conv(first, stride=2, name="shortcut")
    output = lt.requantise(lt.add(wide, shortcut, name="added"), 1, name="output")
    names = {
        stage.name: stage for stage in run_until(lt.create_schedule(output), QUICK, "compact-strided-loads").stages
    }
    assert names["first.narrow.read"].tensor.shape == (1, 5, 5, 32)
    loaded(output, QUICK)


def test_a_strided_slice_stage_costs_nothing():
    data = image(1, 14, 14, 64)
    taken = lt.compute((1, 7, 7, 64), lambda n, y, x, c: data[n, 2 * y, 2 * x, c], name="taken")
    by_hand, by_stride = conv(taken, name="conv"), conv(data, stride=2, name="conv")
    one, other = (
        simulate_program(run(lt.create_schedule(each), QUICK, inputs := random_inputs([each], seed=3)), inputs).cycles
        for each in (by_hand, by_stride)
    )
    assert one == other


def test_every_other_pixel_of_some_channels():
    data = image(1, 8, 8, 64)
    taken = lt.compute((1, 4, 4, 20), lambda n, y, x, c: data[n, 2 * y, 2 * x, c + 9], name="taken")
    loaded(conv(taken, name="conv"), QUICK)


def test_rows_and_pixels_on_the_rtl():
    config = TINY.with_(**{"memory.latency": 0})
    data = image(1, 9, 9, 8)
    outputs = [conv(data, filters=8, stride=2, name="conv"), first_pixels(data)]
    program = simulate_and_check(lt.create_schedule(outputs), config)
    data = [each for each in program.instructions if isinstance(each, Load) and each.memory_type == MemoryType.INP]
    assert {each.x_size for each in data} == {1}
