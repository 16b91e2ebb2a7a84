"""Programs with non-zero padding on simulator and RTL: with the extension, and without it, filled by the ALU."""

import numpy as np
import pytest

import lathe as lt


def tiny(*extensions: str) -> lt.HardwareConfig:
    return lt.load_config("tiny").with_(extensions=extensions)


def pooled(size: int, channels: int) -> tuple[list[lt.Tensor], lt.Tensor]:
    A = lt.placeholder((1, size, size, channels), "int8", name="A")
    return [A], lt.max_pool2d(A, 3, stride=2, padding=1, name="out")


def convolved(size: int, channels: int, filters: int) -> tuple[list[lt.Tensor], lt.Tensor]:
    A, W = (
        lt.placeholder((1, size, size, channels), "int8", name="A"),
        lt.placeholder((filters, 3, 3, channels), "int8", name="W"),
    )
    return [A, W], lt.requantise(lt.conv2d(A, W, padding=1, pad_value=-77, name="C"), 7, name="out")


def widest(size: int, channels: int) -> tuple[list[lt.Tensor], lt.Tensor]:
    A = lt.placeholder((1, size, size, channels), "int8", name="A")
    wide = lt.compute(A.shape, lambda *i: A[i].astype("int32") << 23, name="wide")
    padded = lt.pad2d(wide, 1, value=-(1 << 31), name="padded")
    return [A], lt.compute(padded.shape, lambda *i: (padded[i] >> 24).astype("int8"), name="out")


def cosimulated(
    inputs: list[lt.Tensor],
    output: lt.Tensor,
    config: lt.HardwareConfig,
    engine: str,
    schedule: lt.Schedule | None = None,
) -> lt.Program:
    program = lt.build(schedule or output, [*inputs, output], config)
    generator = np.random.default_rng(1)
    values = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    ran = lt.cosimulate(program, values, engines=("sim", engine)).check()
    np.testing.assert_array_equal(ran.first.outputs[output.name], lt.reference(output, values))
    return program


@pytest.mark.slow
@pytest.mark.parametrize("extensions", [(), ("pad_value",)], ids=["vta", "pad_value"])
def test_padding_of_a_pool_in_pysim(extensions):
    program = cosimulated(*pooled(5, 4), tiny(*extensions), "pysim")
    assert {load.padding for load in program.instructions if isinstance(load, lt.Load)} == {
        0,
        *([-128] * bool(extensions)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("extensions", [(), ("pad_value",)], ids=["vta", "pad_value"])
def test_zero_point_of_a_convolution_in_pysim(extensions):
    program = cosimulated(*convolved(4, 6, 5), tiny(*extensions), "pysim")
    assert any(load.padding == -77 for load in program.instructions if isinstance(load, lt.Load)) == bool(extensions)


@pytest.mark.slow
@pytest.mark.parametrize("extensions", [(), ("pad_value",)], ids=["vta", "pad_value"])
def test_least_int32_around_accumulators_in_pysim(extensions):
    cosimulated(*widest(4, 4), tiny(*extensions), "pysim")


@pytest.mark.parametrize(("value", "extensions"), [(0, ()), (-77, ("pad_value",))], ids=["vta", "pad_value"])
def test_a_padded_convolution_whose_input_channels_are_tiled_in_pysim(value, extensions):
    A, W = lt.placeholder((1, 3, 4, 8), "int8", name="A"), lt.placeholder((4, 3, 3, 8), "int8", name="W")
    C = lt.conv2d(A, W, padding=1, pad_value=value, name="out")
    s = lt.create_schedule(C)
    made = s.cache_write(C, "acc")
    weights, padded = s.cache_read(W, "wgt", [made]), C.computation.reads[0].tensor
    ry, rx, rc = s[made].reduce_axis
    outer, inner = s[made].split(rc, factor=4)
    s[made].reorder(outer, *s[made].axis, ry, rx, inner)
    s[padded].set_scope("inp")
    for operand in (padded, weights):
        s[operand].compute_at(s[made], outer)
    program = cosimulated([A, W], C, tiny(*extensions), "pysim", s)
    around = [each.padding for each in program.instructions if isinstance(each, lt.Load) and each.x_pad_0]
    assert around == [value, value]


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["vta", "lathe16"])
def test_padding_on_verilated_machines(name):
    config = lt.load_config(name)
    cosimulated(*pooled(14, 32), config, "verilator")
    cosimulated(*convolved(9, 24, 20), config, "verilator")
    cosimulated(*widest(6, 16), config, "verilator")
