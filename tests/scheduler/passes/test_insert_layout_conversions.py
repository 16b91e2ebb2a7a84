"""Layout conversions for fewer images than vectors have rows: only vectors that hold an image are moved."""

import numpy as np
import pytest
from shaped_machines import machine
from small_machine import simulate_and_check

import lathe as lt
from lathe.frontend import placeholders
from lathe.isa import Load, MemoryType, Store

CHANNELS = 40


def chain(images: int) -> lt.Tensor:
    """A 1×1 convolution and a depthwise 3×3 one, on images of 6×5 pixels."""
    data = lt.placeholder((images, 6, 5, CHANNELS), "int8", name="data")
    weights = lt.placeholder((CHANNELS, 1, 1, CHANNELS), "int8", name="weights")
    filters = lt.placeholder((3, 3, CHANNELS), "int8", name="filters")
    first = lt.requantise(lt.conv2d(data, weights, name="conv"), 7, name="first")
    return lt.requantise(lt.depthwise_conv2d(first, filters, padding=1, name="depthwise"), 5, name="second")


def moved(program: lt.Program) -> tuple[int, int]:
    """The vectors that layout conversions store, and those that they load."""
    labelled = zip(program.instructions, program.label_of, strict=True)
    turns = [each for each, label in labelled if "turned" in program.labels[label]]
    loads = [each for each in turns if isinstance(each, Load) and each.memory_type == MemoryType.INP]
    stores = [each for each in turns if isinstance(each, Store)]
    return sum(each.x_size * each.y_size for each in stores), sum(each.x_size * each.y_size for each in loads)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("blocks", "elements"),
    [
        ((4, 32, 8), [(60, 60), (120, 60), (180, 60), (240, 60)]),  # each loaded vector yields one for each image
        ((4, 4, 32), [(60, 120), (60, 240), (60, 360), (60, 480)]),  # a row of each image is in two of eight
        ((4, 8, 16), [(180, 180), (180, 270), (180, 360), (180, 360)]),  # two conversions, with other rows between
        ((2, 16, 8), [(90, 90), (180, 90), (360, 180), (360, 180)]),  # three images are two vectors
    ],
)
@pytest.mark.parametrize("images", [1, 2, 3, 4])
def test_vectors_without_images_are_not_moved(blocks, elements, images):
    config, output = machine(*blocks), chain(images)
    tensors = placeholders(output)
    program = lt.build(output, [*tensors, output], config, check=True)
    assert moved(program) == elements[images - 1]
    random = np.random.default_rng(images)
    given = {each.name: random.integers(-128, 128, each.shape, np.int8) for each in tensors}
    outputs = lt.simulate(program, given).outputs
    assert np.array_equal(outputs["second"], lt.reference(output, given))
    assert lt.verify(program) == []


def test_it_runs_on_the_rtl():
    simulate_and_check(lt.create_schedule(chain(1)), machine(4, 32, 8))


def test_dram_rows_are_loaded_with_gaps_if_latency_is_long():
    """Two vectors of eight are a burst for each pixel, which waits for the memory; all of them are one burst."""
    patient = machine(4, 4, 32).with_(**{"memory.latency": 200})
    assert moved(lt.build(output := chain(1), [*placeholders(output), output], patient))[1] == 8 * 60
