"""Pass ``insert-cache-reads``: loads for stages whose compute location the user has set; LOADs pad with zeros."""

import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Load, MemoryType, Program, Store

BATCH4 = lt.load_config("batch4")


def convolution(filters: int = 40, shape=(2, 7, 9, 32)) -> tuple[lt.Schedule, lt.Tensor, lt.Tensor, lt.Tensor]:
    """A padded 3×3 convolution and its requantisation in a stage of its own: schedule, sum, and both."""
    data = lt.placeholder(shape, "int8", name="data")
    weights = lt.placeholder((filters, 3, 3, shape[-1]), "int8", name="weights")
    conv = lt.conv2d(data, weights, padding=1, name="conv")
    output = lt.requantise(conv, 6, name="output")
    s = lt.create_schedule(output)
    return s, conv, s.cache_write(output, "acc"), output


def built(s: lt.Schedule, config: lt.HardwareConfig = VTA) -> Program:
    """The program; checks its outputs against NumPy."""
    return run(s, config, random_inputs(list(s.program), seed=6))


def stored(program: Program) -> set[str]:
    labels = [program.labels[n] for n in program.label_of]
    pairs = zip(program.instructions, labels, strict=True)
    return {label for each, label in pairs if isinstance(each, Store)}


def padded(program: Program, memory: MemoryType) -> bool:
    """Whether LOADs to a memory have padding."""
    loads = (each for each in program.instructions if isinstance(each, Load) and each.memory_type == memory)
    return any(each.y_pad_0 or each.x_pad_0 for each in loads)


@pytest.mark.sample(1)
@pytest.mark.parametrize("config", [VTA, BATCH4, TINY], ids=lambda each: each.name)
def test_an_unscheduled_padding_is_loaded_for_a_placed_gemm(config):
    """Regression: it was computed completely, and stored before the first GEMM."""
    s, conv, narrow, output = convolution(filters=16 if config is TINY else 40)
    rows, _ = s[output].split(s[output].axis[1], factor=2 if config is TINY else 4)
    if config is TINY:
        rows = s[output].split(s[output].axis[3], factor=4)[0]
    for each in (narrow, conv):
        s[each].compute_at(s[output], rows)
    program = built(s, config)
    assert stored(program) == {"output"}
    assert padded(program, MemoryType.INP)


@pytest.mark.slow
def test_a_padding_of_images_that_are_weights_is_loaded_to_wgt():
    """Filters are in four rows, since loops split their blocks: the images are the weights, which no STORE writes."""
    s, conv, narrow, output = convolution()
    images, rows, columns, filters = s[output].axis
    columns, part_of_columns = s[output].split(columns, factor=8)
    rows, part_of_rows = s[output].split(rows, factor=2)
    filters, part_of_filters = s[output].split(filters, factor=4)
    s[output].reorder(part_of_columns, part_of_rows, rows, filters, images, columns, part_of_filters)
    for each in (narrow, conv):
        s[each].compute_at(s[output], columns)
    program = built(s, BATCH4)
    assert stored(program) == {"output"}
    assert padded(program, MemoryType.WGT)


def test_a_padding_placed_by_the_user_stays_there():
    s, conv, narrow, output = convolution()
    rows, _ = s[output].split(s[output].axis[1], factor=4)
    for each in (narrow, conv):
        s[each].compute_at(s[output], rows)
    pad = conv.computation.reads[0].tensor
    s[pad].split(s[pad].axis[1], factor=3)
    assert stored(built(s)) == {"conv.pad", "output"}


def test_a_padding_that_two_gemms_read_is_stored():
    data = lt.placeholder((1, 7, 9, 16), "int8", name="data")
    pad = lt.compute(
        (1, 9, 11, 16),
        lambda n, y, x, c: lt.select((y >= 1) & (y < 8) & (x >= 1) & (x < 10), data[n, y - 1, x - 1, c], 0),
        name="pad",
    )
    sums = [
        lt.conv2d(pad, lt.placeholder((16, 3, 3, 16), "int8", name=f"weights{n}"), name=f"conv{n}") for n in range(2)
    ]
    s = lt.create_schedule([lt.requantise(each, 6, name=f"output{n}") for n, each in enumerate(sums)])
    for each in sums:
        s[each].set_scope("acc")
    assert "pad" in stored(built(s))


def test_on_the_rtl():
    s, conv, narrow, output = convolution(filters=4, shape=(1, 5, 6, 4))
    rows, _ = s[output].split(s[output].axis[1], factor=2)
    for each in (narrow, conv):
        s[each].compute_at(s[output], rows)
    simulate_and_check(s)
