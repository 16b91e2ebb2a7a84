"""Pass ``eliminate-dead-elements``: strided reads, borders of dimensions, and chains of stages."""

import pytest
from convolutions import conv
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Gemm
from lathe.scheduler.passes.pipeline import run_until


def image(shape=(1, 12, 13, 16)):
    return lt.placeholder(shape, "int8", name="data")


def made(output: lt.Tensor) -> dict[str, tuple[int, ...]]:
    """The shape of each stage's tensor after the pass; checks the outputs against NumPy on two machines."""
    schedule = lt.create_schedule(output)
    for config in (VTA, TINY):
        run(schedule, config, random_inputs([output], seed=1))
    return {stage.name: stage.tensor.shape for stage in run_until(schedule, VTA, "eliminate-dead-elements").stages}


@pytest.mark.parametrize(("step", "shape"), [(2, (6, 7)), (3, (4, 5))])
def test_a_strided_1x1_convolution_after_another_layer(step, shape):
    output = conv(conv(image(), 3, padding=1, name="first"), 1, stride=step, name="second")
    found = made(output)
    assert found["first"][1:3] == found["first.narrow"][1:3] == found["second"][1:3] == shape


def test_a_chain_of_strides():
    first = lt.relu(conv(image(), 1, stride=1, name="first"), name="relu")
    output = conv(conv(first, 1, stride=2, name="second"), 1, stride=2, name="third")
    found = made(output)
    assert found["first"][1:3] == found["relu"][1:3] == found["second"][1:3] == found["third"][1:3] == (3, 4)


def test_strides_with_an_offset():
    data = image((9, 32))
    triples = lt.compute((9, 32), lambda i, j: data[i, j].astype("int32") * 3, name="triples")
    output = lt.compute((3, 32), lambda i, j: (triples[3 * i + 1, j] >> 9).astype("int8"), name="output")
    assert made(output)["triples"] == (3, 32)


def test_dead_rows_at_both_borders():
    data = image((20, 16))
    twice = lt.compute((20, 16), lambda i, j: data[i, j].astype("int32") * 2, name="twice")
    output = lt.compute((5, 16), lambda i, j: (twice[i + 3, j] + twice[i + 7, j] >> 2).astype("int8"), name="output")
    assert made(output)["twice"] == (9, 16)


def test_a_single_demanded_element():
    data = image((5, 16))
    doubled = lt.compute((5, 16), lambda i, j: data[i, j].astype("int32") * 2, name="doubled")
    output = lt.compute((4, 16), lambda i, j: (doubled[2, j] + i.astype("int32") >> 2).astype("int8"), name="output")
    assert made(output)["doubled"] == (1, 16)


def test_a_single_element_between_borders_is_computed_where_it_is_made():
    """Of rows -1 and 1 only one exists: its consumer reads the producer's result, not every other row."""
    weights, bias = lt.placeholder((16, 1, 1, 16), "int8", name="w"), lt.placeholder((16,), "int32", name="bias")
    biased = lt.bias_add(lt.conv2d(image((1, 2, 2, 16)), weights, name="first"), bias, name="biased")
    output = conv(lt.requantise(biased, 7, name="narrow"), 1, stride=2, padding=1, name="second")
    assert made(output)["biased"] == (1, 1, 1, 16)
    program = run(lt.create_schedule(output), VTA, random_inputs([output], seed=1))
    assert [segment.name for segment in program.segments if segment.role == "temporary"] == ["narrow"]


def test_channels():
    narrow = conv(image(), 1, name="first")
    output = lt.compute((1, 12, 13, 8), lambda n, y, x, c: narrow[n, y, x, 2 * c + 1], name="output")
    assert made(output)["first"][3] == 8


def test_zero_padding_of_strided_elements():
    """Pixels with padding between them are read under a condition, which is not changed."""
    before = conv(image((1, 9, 9, 16)), 1, name="first")
    output = conv(before, 1, stride=2, padding=2, name="second")
    assert made(output)["first"][1:3] == (5, 5)


def test_consumers_that_read_different_elements():
    before = conv(image(), 1, name="first")
    wide, shortcut = conv(before, 3, stride=2, padding=1, name="wide"), conv(before, 1, stride=2, name="shortcut")
    output = lt.requantise(lt.add(wide, shortcut, name="added"), 1, name="output")
    assert made(output)["first"][1:3] == (12, 13)


def test_consumers_that_read_the_same_elements():
    before = conv(image(), 1, name="first")
    one, other = (conv(before, 1, stride=2, name=name) for name in ("one", "other"))
    output = lt.requantise(lt.add(one, other, name="added"), 1, name="output")
    assert made(output)["first"][1:3] == (6, 7)


def test_outputs_and_scheduled_stages_are_not_shrunk():
    before = conv(image(), 1, name="first")
    output = conv(before, 1, stride=2, name="second")
    schedule = lt.create_schedule([before, output])
    run(schedule, VTA, random_inputs([before, output], seed=1))
    assert run_until(schedule, VTA, "eliminate-dead-elements")[before].tensor.shape == before.shape
    schedule = lt.create_schedule(output)
    schedule[before].split(before.op.axis[1], 4)
    run(schedule, VTA, random_inputs([output], seed=1))
    assert run_until(schedule, VTA, "eliminate-dead-elements")[before].tensor.shape == before.shape


def products(output: lt.Tensor) -> int:
    program = run(lt.create_schedule(output), VTA, random_inputs([output], seed=1))
    gemms = (each for each in program.instructions if isinstance(each, Gemm) and not each.reset)
    return sum((each.uop_end - each.uop_bgn) * each.iter_out * each.iter_in for each in gemms)


def test_a_quarter_of_the_multiplications_remains():
    first = conv(image((1, 32, 32, 16)), 1, name="first")
    assert products(first) == 32 * 32
    assert products(conv(first, 1, stride=2, name="second")) == 2 * 16 * 16


def test_on_the_rtl():
    simulate_and_check(
        lt.create_schedule(conv(conv(image((1, 7, 7, 8)), 3, padding=1, name="first"), 1, stride=2, name="second"))
    )
