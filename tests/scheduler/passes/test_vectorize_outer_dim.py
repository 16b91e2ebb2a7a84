"""Pass ``vectorize-outer-dim``: images fill lanes that channels would leave empty, with repeated weights."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from random_programs import random_inputs
from seeds import check_each
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Program, Repeating
from lathe.scheduler.passes.pipeline import run_until
from lathe.scheduler.schedule_ir.stage import VectorLayout

LATHE16, BATCH4 = lt.load_config("lathe16"), lt.load_config("batch4")
NARROW = VTA.with_(name="narrow", block_out=8, inp_buffer_bytes=8192, wgt_buffer_bytes=32768, acc_buffer_bytes=32768)
WIDE = TINY.with_(name="wide", block_out=16)
IMAGES = VectorLayout(None, 0)


def tensor(*shape: int, name: str, dtype: str = "int8") -> lt.Tensor:
    return lt.placeholder(shape, dtype, name=name)


def depthwise(data: lt.Tensor, name: str = "deep", stride: int = 1) -> lt.Tensor:
    weights = tensor(3, 3, data.shape[-1], name=f"{name}.weights")
    return lt.requantise(lt.depthwise_conv2d(data, weights, padding=1, stride=stride, name=name), 7, name=f"{name}.o")


def conv(data: lt.Tensor, filters: int, name: str = "conv", kernel: int = 1) -> lt.Tensor:
    weights = tensor(filters, kernel, kernel, data.shape[-1], name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, padding=kernel // 2, name=name), 7, name=f"{name}.o")


def residual(data: lt.Tensor) -> lt.Tensor:
    added = lt.add(conv(data, data.shape[-1], "branch"), data, name="added")
    return lt.requantise(lt.relu(added, name="sum"), 1, name="narrowed")


def built(outputs: lt.Tensor | Sequence[lt.Tensor], config: lt.HardwareConfig = VTA) -> Program:
    """The program; checks its outputs against NumPy."""
    all_ = list(outputs) if isinstance(outputs, Sequence) else [outputs]
    return run(lt.create_schedule(all_), config, random_inputs(all_, seed=4))


def layouts(outputs: lt.Tensor | Sequence[lt.Tensor], config: lt.HardwareConfig = VTA) -> set[VectorLayout | None]:
    """The vector layouts that the pass gives the stages of a program."""
    return {
        stage.state.vector_layout
        for stage in run_until(lt.create_schedule(outputs), config, "vectorize-outer-dim").stages
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("config", [VTA, LATHE16, NARROW, WIDE], ids=lambda each: each.name)
def test_few_channels_of_many_images(config):
    """Eight images take one cycle of the matrix core per tap, channel and filter, and fill the vectors."""
    deep = depthwise(tensor(8, 9, 9, 3, name="data"))
    output = residual(deep)
    assert layouts(output, config) == {IMAGES}
    program = built(output, config)
    assert program.segment("deep.weights").layout.reorderings[0] == Repeating((3, 3, 3), 8)


def test_the_rtl_takes_the_same_cycles():
    """With data vectors of half the width of result vectors, and with wider ones."""
    output = conv(depthwise(tensor(8, 3, 5, 2, name="data")), 2)
    for config in (WIDE, TINY.with_(name="deep", block_in=16)):
        assert layouts(output, config) == {IMAGES}
        simulate_and_check(lt.create_schedule(output), config)


def test_only_the_host_repeats_weights():
    """They are inputs of the shape in the program, with each value on the diagonal for each image."""
    output = depthwise(tensor(8, 7, 7, 3, name="data"))
    layout = built(output).segment("deep.weights").layout
    assert layout.shape == (3, 3, 3)
    weights = np.arange(1, 28, dtype=np.int8).reshape(3, 3, 3)
    elements = layout.pack(weights).reshape(27, 16, 16)
    for element, weight in zip(elements, weights.reshape(-1), strict=True):
        assert element.tolist() == np.diag([weight] * 8 + [0] * 8).tolist()
    assert layout.unpack(layout.pack(weights)).tolist() == weights.tolist()


def test_many_channels_stay_in_lanes():
    data = tensor(8, 9, 9, 32, name="data")
    assert layouts(conv(depthwise(data), 32)) == {None}
    built(conv(depthwise(data), 32))


def test_one_image_fills_no_lanes():
    assert layouts(depthwise(tensor(1, 9, 9, 3, name="data"))) == {None}


def test_pixels_of_1x1_convolutions_fill_lanes_too():
    """Pixels of a 1×1 convolution are as independent as images; those of a 3×3 one are not."""
    one, other = (tensor(1, 16, 7, 3, name=name) for name in ("one", "other"))
    both = lt.requantise(lt.add(one, other, name="both"), 1, name="half")
    assert layouts(conv(both, 3)) == {VectorLayout(None, 1)}
    assert layouts(conv(both, 3, kernel=3)) == {None}
    built(conv(both, 3))


def test_a_stage_that_reads_a_single_image_keeps_channels_in_lanes():
    """An axis that does not run through a stage is no candidate for any, and the search terminates."""
    data = tensor(8, 9, 9, 3, name="data")
    deep = depthwise(data)
    first = lt.compute(deep.shape[1:], lambda y, x, c: lt.relu(deep)[0, y, x, c], name="first")
    assert layouts(first) == {None}
    whole = lt.compute(deep.shape, lambda n, y, x, c: deep[n, y, x, c] + deep[0, y, x, c], name="whole")
    assert layouts(whole) == {None}
    built(whole)


def test_a_sum_over_images_keeps_channels_in_lanes():
    data = tensor(8, 9, 9, 3, name="data")
    deep = depthwise(data)
    image = lt.reduce_axis(8, "image")
    total = lt.compute(
        deep.shape[1:], lambda y, x, c: lt.sum(deep[image, y, x, c].astype("int32"), axis=(image,)), name="total"
    )
    assert layouts(total) == {None}
    built(total)


def test_biases_and_scales_are_the_same_for_all_images():
    deep = lt.depthwise_conv2d(tensor(8, 9, 9, 3, name="data"), tensor(3, 3, 3, name="weights"), padding=1, name="deep")
    bias, scale = tensor(3, name="bias", dtype="int32"), tensor(3, name="scale")
    biased = lt.compute(deep.shape, lambda n, y, x, c: deep[n, y, x, c] + bias[c], name="biased")
    narrow = lt.requantise(biased, 7, name="narrow")
    scaled = lt.compute(
        deep.shape, lambda n, y, x, c: narrow[n, y, x, c].astype("int32") * scale[c].astype("int32"), name="scaled"
    )
    output = lt.requantise(scaled, 5, name="output")
    assert layouts(output) == {IMAGES}
    built([narrow, output])


def test_scales_of_channels_are_the_same_for_all_images():
    parameters = tensor(3, 2, name="parameters", dtype="int32")
    deep = lt.depthwise_conv2d(tensor(8, 9, 9, 3, name="data"), tensor(3, 3, 3, name="weights"), padding=1, name="deep")
    output = lt.requantise(deep, parameters=parameters, name="output")
    assert layouts(output, LATHE16) == {IMAGES}
    built(output, LATHE16)


def test_a_scheduled_stage_keeps_its_layout():
    output = conv(depthwise(tensor(8, 9, 9, 3, name="data")), 3)
    s = lt.create_schedule(output)
    s[output].split(output.computation.axes[1], factor=3)
    assert {stage.state.vector_layout for stage in run_until(s, VTA, "vectorize-outer-dim").stages} == {None}
    run(s, VTA, random_inputs([output], seed=4))


def test_weights_with_another_use_are_not_repeated():
    """One input is the weights of a GEMM and an operand of a sum: it is stored in one form."""
    data, both = tensor(8, 9, 9, 3, name="data"), tensor(3, 3, name="both")
    made = lt.requantise(
        lt.compute(
            (8, 9, 9, 3),
            lambda n, y, x, o: lt.sum(
                data[n, y, x, (c := lt.reduce_axis(3, "c"))].astype("int32") * both[o, c].astype("int32"), axis=(c,)
            ),
            name="product",
        ),
        5,
        name="made",
    )
    output = lt.compute(made.shape, lambda n, y, x, o: made[n, y, x, o] + both[0, o], name="output")
    assert layouts(output) == {None}
    built(output)


def _random(seed: int) -> None:
    """Checks programs of few channels against NumPy, on any machine."""
    random = Random(seed)
    images, size = random.choice([2, 3, 8, 16, 19]), random.choice([5, 7])
    last = tensor(images, size, size, random.choice([1, 2, 3, 4]), name="data")
    for n in range(random.randint(1, 3)):
        match random.choice(["depthwise", "conv", "residual"] if n == 0 else ["depthwise", "conv"]):
            case "depthwise":
                last = depthwise(last, f"deep{n}", random.choice([1, 2]))
            case "conv":
                last = conv(last, random.choice([1, 2, 4]), f"conv{n}", random.choice([1, 3]))
            case _:
                last = residual(last)
    built(last, random.choice([VTA, LATHE16, NARROW, WIDE, BATCH4]))


@pytest.mark.seeds(5, slow=219)
def test_random_programs_of_few_channels(seeds):
    check_each(seeds, _random)
