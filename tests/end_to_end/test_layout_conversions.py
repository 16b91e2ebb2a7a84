"""Chains of layers on machines that store vectors in another layout than loads need."""

import numpy as np
import pytest
from checking import check_program
from error_checks import raises
from programs import requantised
from shaped_machines import machine

import lathe as lt

MACHINES = [
    machine(*shape)
    for shape in [(2, 8, 16), (2, 16, 8), (4, 4, 8), (4, 16, 4), (2, 4, 16), (4, 4, 32), (2, 32, 4), (8, 16, 8)]
]


@pytest.fixture(params=MACHINES, ids=lambda each: each.name)
def shaped(request: pytest.FixtureRequest) -> lt.HardwareConfig:
    return request.param


def convolution(data: lt.Tensor, channels: int, name: str, taps: int = 3, **arguments: object) -> lt.Tensor:
    weight = lt.placeholder((channels, taps, taps, data.shape[-1]), "int8", name=f"{name}.weight")
    return lt.requantise(lt.conv2d(data, weight, name=name, **arguments), 7, name=f"{name}.quantised")


@pytest.mark.sample(4)
@pytest.mark.parametrize("channels", [(16, 16, 16), (3, 12, 5), (24, 8, 40), (1, 1, 1)], ids=str)
def test_convolutions(channels, shaped):
    data = lt.placeholder((1, 5, 7, channels[0]), "int8", name="data")
    middle = convolution(data, channels[1], "first", padding=1)
    check_program(convolution(middle, channels[2], "second", padding=1, stride=2), shaped)


@pytest.mark.sample(2)
def test_as_many_elements_are_turned_as_a_tensor_has(shaped):
    """GEMM micro-ops: those of both layers, and one for each narrower vector in each layout conversion."""
    data = lt.placeholder((1, 8, 8, 32), "int8", name="data")
    first = convolution(data, 32, "first", 1)
    result = check_program(convolution(first, 32, "second", 1), shaped)
    rows = 8 * 8 // shaped.batch  # vectors of pixels
    layer = rows * (32 // shaped.block_out) * (32 // shaped.block_in)
    turn = rows * 32 // min(shaped.block_in, shaped.block_out)
    turns = {"2x8x16": 1, "2x16x8": 1, "4x4x8": 2, "4x16x4": 1, "2x4x16": 1, "4x4x32": 1, "2x32x4": 1, "8x16x8": 3}[
        shaped.name
    ]
    assert result.counters.gemm_operations == 2 * layer + turns * turn


def test_of_one_image_only_its_row_is_turned():
    """Of the 8 vectors of 4 × 4 that a stored one fills, only the two with the first row's channels are converted."""
    data = lt.placeholder((1, 6, 6, 32), "int8", name="data")
    first = convolution(data, 32, "first")
    result = check_program(convolution(first, 32, "second"), machine(4, 4, 32))
    taps = 9 * 8  # 32 channels in vectors of four
    assert result.counters.gemm_operations == (4 * 4 + 2 * 2) * taps + 4 * 4 * 2


@pytest.mark.sample(1)
def test_a_tensor_that_is_read_as_it_is_too(shaped):
    """A residual addition reads the tensor as stored; the two convolutions that read it share one converted copy."""
    data = lt.placeholder((1, 6, 6, 12), "int8", name="data")
    first = convolution(data, 12, "first", padding=1)
    left, right = convolution(first, 12, "left", padding=1), convolution(first, 12, "right", taps=1)
    total = lt.add(lt.add(left, right, name="sum"), first, name="total")
    output = lt.requantise(total, 1, name="output")
    check_program([output, first], shaped)


@pytest.mark.sample(1)
def test_a_product_with_itself(shaped):
    """Data and weights of one GEMM are the same tensor; only the data can be converted."""
    data, weight = (
        lt.placeholder(shape, "int8", name=name) for name, shape in [("data", (9, 24)), ("weight", (24, 24))]
    )
    first = requantised()(lt.matmul(data, weight, transpose_b=True, name="first"))
    check_program(lt.matmul(first, first, transpose_b=True, name="second"), shaped)


@pytest.mark.sample(3)
def test_what_a_schedule_places_in_inp(shaped):
    """The user's own copy into inp loads the converted tensor."""
    data, weight = (
        lt.placeholder(shape, "int8", name=name) for name, shape in [("data", (8, 32)), ("weight", (32, 32))]
    )
    first = lt.requantise(lt.matmul(data, weight, transpose_b=True, name="P"), 7, name="first")
    output = lt.matmul(first, weight, transpose_b=True, name="Q")
    schedule = lt.create_schedule(output)
    schedule.cache_read(first, "inp", output)
    program = lt.build(schedule, [data, weight, output], shaped, check=True)
    inputs = {"data": np.arange(256).reshape(8, 32).astype(np.int8), "weight": np.eye(32, dtype=np.int8) * 2 - 1}
    assert np.array_equal(lt.simulate(program, inputs).outputs["Q"], lt.reference(output, inputs))


def test_a_build_ends_where_no_lanes_agree():
    """A tensor computed in its consumer's loops cannot be converted: an error, instead of endless retries."""
    shaped = MACHINES[0]
    data, weight = (
        lt.placeholder(shape, "int8", name=name) for name, shape in [("data", (8, 32)), ("weight", (32, 32))]
    )
    first = lt.requantise(lt.matmul(data, weight, transpose_b=True, name="P"), 7, name="first")
    output = lt.matmul(first, weight, transpose_b=True, name="Q")
    schedule = lt.create_schedule(output)
    loaded = schedule.cache_read(first, "inp", output)
    row = output.op.axis[0]
    schedule[loaded].compute_at(schedule[output], row)
    schedule[first].compute_at(schedule[output], row)
    mentions = ("tensor 'first'", "inp", "16 columns", 8, "batch 2", "block_in", "block_out")
    raises(lt.BuildError, lt.build, schedule, [data, weight, output], shaped, kind="machine", mentions=mentions)


def test_a_product_takes_the_lanes_that_its_readers_need():
    """For 1×1, pixels would fill columns better than 10 filters, but the 3×3 consumer needs channels in columns."""
    wide = machine(1, 16, 32)
    data = lt.placeholder((1, 6, 59, 12), "int8", name="data")
    output = convolution(convolution(data, 10, "first", 1), 4, "second", 3)
    result = check_program(output, wide)
    assert result.counters.gemm_operations == 6 * 59 + 4 * 57 * 9
