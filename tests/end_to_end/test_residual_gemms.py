"""Residual additions by the matrix core: the int8 residual is added by an identity GEMM."""

import pytest
from checking import check_program
from shaped_machines import machine

import lathe as lt
from lathe.isa import Alu, AluOp

SHAPES = [(1, 16, 16), (1, 16, 4), (1, 8, 16), (2, 16, 16), (4, 16, 8)]


@pytest.fixture(params=[machine(*shape) for shape in SHAPES], ids=lambda each: each.name)
def shaped(request: pytest.FixtureRequest) -> lt.HardwareConfig:
    return request.param


def convolution(data: lt.Tensor, taps: int, name: str) -> lt.Tensor:
    """A convolution that keeps size and channels, requantised to int8."""
    channels = data.shape[-1]
    weight = lt.placeholder((channels, taps, taps, channels), "int8", name=f"{name}.weight")
    return lt.requantise(lt.conv2d(data, weight, padding=taps // 2, name=name), 7, name=f"{name}.bytes")


def additions(result: lt.Result) -> int:
    """ALU instructions that add two tensors."""
    instructions = result.program.instructions
    return sum(isinstance(each, Alu) and each.opcode == AluOp.ADD and not each.use_imm for each in instructions)


@pytest.mark.sample(2)
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("channels", [16, 20])
def test_a_residual(taps, channels, shaped):
    data = lt.placeholder((2, 5, 7, channels), "int8", name="data")
    first = convolution(data, 1, "first")
    total = lt.add(convolution(first, taps, "second"), first, name="total")
    result = check_program(lt.requantise(lt.relu(total), 1, name="output"), shaped)
    assert additions(result) == 0


def test_sums_themselves_are_added_to(shaped):
    """The GEMM adds the residual to the convolution's int32 accumulators."""
    data = lt.placeholder((2, 5, 7, 16), "int8", name="data")
    weight = lt.placeholder((16, 3, 3, 16), "int8", name="weight")
    sums = lt.conv2d(data, weight, padding=1, name="conv")
    result = check_program(lt.requantise(lt.add(sums, data, name="total"), 6, name="output"), shaped)
    assert additions(result) == 0


def test_two_inputs(shaped):
    left, right = (lt.placeholder((2, 6, 5, 32), "int8", name=name) for name in ("left", "right"))
    result = check_program(lt.requantise(lt.add(left, right, name="total"), 1, name="output"), shaped)
    assert additions(result) == 0


@pytest.mark.parametrize("channels", [32, 36])
def test_of_two_inputs_one_is_loaded_and_the_other_added_to_it(channels):
    """Loading a vector takes less than a cycle: one operand needs no GEMM or reset; channels may leave lanes empty."""
    wide = machine(2, 16, 4).with_(**{"memory.bus_bits": 256, "memory.latency": 50})
    left, right = (lt.placeholder((1, 16, 16, channels), "int8", name=name) for name in ("left", "right"))
    result = check_program(lt.requantise(lt.add(left, right, name="total"), 1, name="output"), wide)
    vectors = 16 * 16 * channels // (2 * 4)
    counters = result.counters
    assert (counters.gemm_operations, counters.reset_operations) == (vectors, 0)
    assert counters.bytes_read["acc8"] == 16 * 16 * channels


def test_what_is_added_to_a_sum_of_bytes_is_data():
    """Also after another addition; never weights, since only one lane in eight would be used."""
    config = machine(1, 8, 16)
    data, first, second = (lt.placeholder((1, 28, 26, 32), "int8", name=name) for name in ("data", "first", "second"))
    before = lt.requantise(lt.add(data, first, name="sum"), 1, name="before")
    result = check_program(lt.requantise(lt.add(before, second, name="total"), 1, name="output"), config)
    assert additions(result) == 0
    assert result.counters.bytes_read["wgt"] <= 32 // 8 * config.wgt_element_bytes


def test_channels_that_fill_half_a_block_take_half_the_products():
    """8 of 16 lanes are two blocks of four, which take fewer cycles than a load and an addition."""
    data = lt.placeholder((1, 8, 8, 8), "int8", name="data")
    total = lt.add(convolution(data, 3, "conv"), data, name="total")
    config = machine(1, 4, 16).with_(**{"memory.bus_bits": 256})
    result = check_program(lt.requantise(total, 1, name="output"), config)
    assert additions(result) == 0


@pytest.mark.sample(2)
def test_an_operand_that_others_want_keeps_its_cells(shaped):
    """The branch is an output, too: the residual must not be added in its accumulators."""
    data = lt.placeholder((2, 5, 4, 16), "int8", name="data")
    branch = convolution(data, 3, "branch")
    total = lt.requantise(lt.add(branch, data, name="total"), 1, name="output")
    check_program([total, branch], shaped)


@pytest.mark.sample(2)
def test_where_sums_begin_with_products(shaped):
    """Residuals are also added on machines whose first GEMM overwrites the accumulators (gemm_begin)."""
    begins = shaped.with_(extensions=("gemm_begin",))
    data = lt.placeholder((2, 6, 5, 16), "int8", name="data")
    other = lt.placeholder((2, 6, 5, 16), "int8", name="other")
    total = lt.add(convolution(data, 3, "conv"), other, name="total")
    check_program(lt.requantise(total, 1, name="output"), begins)


def test_a_border_that_parts_of_a_group_both_load_is_turned_for_both():
    """Small wgt splits convolution and addition: the border's source, not the padded tensor, is converted for both."""
    config = machine(4, 4, 16)
    config = config.with_(wgt_buffer_bytes=64 * config.wgt_element_bytes)
    data = lt.placeholder((1, 7, 5, 17), "int8", name="data")
    weights = lt.placeholder((48, 3, 3, 17), "int8", name="weights")
    first = lt.requantise(lt.conv2d(data, weights, padding=1, name="first"), 5, name="first.bytes")
    total = lt.add(convolution(first, 3, "second"), first, name="total")
    check_program(lt.requantise(lt.relu(total), 1, name="output"), config)
