"""The default schedule compiles every program of operators for any machine, and outputs equal NumPy's."""

from unittest import mock

import pytest
from meanings import check_values
from random_networks import machines
from random_operators import OperatorProgram
from random_programs import Choice, random_inputs
from seeds import check_each, note

import lathe as lt
from lathe.frontend import format_program, placeholders
from lathe.isa import verify
from lathe.scheduler import build
from lathe.sim import simulate_program


def check_default_schedule(outputs: list[lt.Tensor], config: lt.HardwareConfig) -> lt.Program:
    """Build a program; fails if it is refused, has verifier findings, or differs from NumPy."""
    program = build(outputs, [*placeholders(outputs), *outputs], config)
    assert verify(program) == []
    inputs = random_inputs(outputs, seed=1)
    check_values(simulate_program(program, inputs, trace=False).outputs, outputs, inputs)
    return program


def check_random_operators(seed: int, most: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    config = config.with_(extensions=(*config.extensions, *choice.pick([(), ("pad_value",)])))
    outputs = OperatorProgram(choice, choice.number(1, most)).outputs
    note(f"{config}\n{format_program(outputs)}")
    check_default_schedule(outputs, config)


@pytest.mark.seeds(8, slow=492)
def test_every_program_of_operators_is_built(seeds):
    check_each(seeds, check_random_operators, 6)


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_the_same_for_many_more(seeds):
    check_each(seeds, check_random_operators, 8)


def test_two_convolutions_that_group_the_same_channels_differently():
    """No split of the channels suits both: chunks are split where the quotient in an index changes."""
    x = lt.placeholder((1, 5, 4, 12), "int8", name="x")
    q = lt.relu(x, name="q")
    first = lt.conv2d(q, lt.placeholder((8, 1, 1, 3), "int8", name="V"), groups=4, name="first")
    second = lt.conv2d(q, lt.placeholder((9, 2, 2, 4), "int8", name="W"), groups=3, padding=1, name="second")
    check_default_schedule([first, second], lt.load_config("vta"))


def test_a_border_around_a_reshaped_image_stays_behind_the_reshape():
    """The border enlarges the image, so it is not an element-wise stage that can move before the reshape."""
    x = lt.placeholder((3, 7, 5, 3), "int8", name="x")
    image = lt.reshape(lt.clip(x, -20, 90, name="clipped"), (21, 1, 5, 3), name="image")
    out = lt.conv2d(image, lt.placeholder((6, 1, 2, 3), "int8", name="W"), padding=((0, 1), (0, 2)), name="out")
    check_default_schedule([out], lt.load_config("batch4"))


def test_a_tile_that_begins_within_an_element_of_weights():
    x = lt.placeholder((12, 11), "int8", name="x")
    column = lt.reshape(lt.relu(x, name="r"), (132, 1), name="column")
    first = lt.dense(column, lt.placeholder((29, 1), "int8", name="V"), name="first")
    second = lt.matmul(lt.placeholder((5, 132), "int8", name="A"), column, name="second")
    check_default_schedule([first, second, lt.matmul(column, column, transpose_b=True)], lt.load_config("tiny"))


def test_a_border_of_zeros_around_what_was_stored_in_wider_elements():
    x = lt.placeholder((2, 9, 4, 17), "int8", name="x")
    pooled = lt.max_pool2d(x, (9, 4), name="pooled")
    W = lt.placeholder((4, 1, 1, 17), "int8", name="W")
    out = lt.conv2d(pooled, W, padding=((1, 0), (0, 0)), name="out")
    check_default_schedule([out, lt.relu(pooled, name="too")], lt.load_config("tiny").with_(block_out=16))


def identities(program: lt.Program) -> list[str]:
    return [segment.name for segment in program.segments if segment.name.startswith("identity")]


def test_values_are_moved_from_lane_to_lane_where_that_is_cheaper_than_doing_without_lanes():
    """A matrix multiplied from the left: the reduction runs over its rows, and its columns are the lanes."""
    x = lt.placeholder((64, 48), "int8", name="x")
    q = lt.requantise(lt.dense(x, lt.placeholder((48, 48), "int8", name="W"), name="d"), 8, name="q")
    q = lt.relu(q, name="r")
    A = lt.placeholder((33, 64), "int8", name="A")
    both = [lt.matmul(A, q, name="left"), lt.dense(q, lt.placeholder((17, 48), "int8", name="V"), name="right")]
    config = lt.load_config("vta")
    program = check_default_schedule(both, config)
    assert identities(program) == ["identity48"]
    assert "identity48" in program.images
    cycles = lt.simulate(program, timing_only=True).cycles
    with mock.patch("lathe.scheduler.passes.resolve_layout_conflicts.LARGEST_IDENTITY", 0):
        without = check_default_schedule(both, config)
    assert identities(without) == []
    assert cycles < lt.simulate(without, timing_only=True).cycles


def test_a_kernel_that_no_scratchpad_holds_is_taken_step_by_step():
    """Weights of 13 × 13 taps and two channel blocks do not fit `tiny` if only one reduction axis is tiled."""
    x = lt.placeholder((1, 15, 14, 9), "int8", name="x")
    out = lt.conv2d(x, lt.placeholder((5, 13, 13, 9), "int8", name="W"), padding=1, name="out")
    config = lt.load_config("tiny")
    check_default_schedule([out], config.with_(wgt_buffer_bytes=64, inp_buffer_bytes=64))


def small_machine(
    batch: int, block_in: int, block_out: int, inp: int, wgt: int, acc: int, uop: int
) -> lt.HardwareConfig:
    return lt.HardwareConfig(
        name="small",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        inp_buffer_bytes=inp,
        wgt_buffer_bytes=wgt,
        acc_buffer_bytes=acc,
        uop_buffer_bytes=uop,
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", lt.shipped_configs())
def test_stages_without_lanes_before_products_of_products(name):
    """Stages without a vector layout may still have to move to the ALU."""
    x = lt.placeholder((5, 64), "int8", name="x")
    r = lt.relu(x, name="r")
    c = lt.matmul(r, r, transpose_b=True, name="c")
    check_default_schedule([lt.matmul(lt.add(c, c, name="s"), c, name="d")], lt.load_config(name))


def test_a_border_along_the_columns_of_inputs():
    """Input vectors have more columns than accumulators, which have one each and are unaffected by the border."""
    data, weight = lt.placeholder((2, 9, 4, 1), "int8", name="data"), lt.placeholder((33, 1, 3, 1), "int8", name="W")
    out = lt.conv2d(data, weight, stride=(2, 3), padding=((2, 0), (1, 0)), name="out")
    check_default_schedule([out], small_machine(2, 32, 1, 512, 2048, 1024, 2048))


def test_what_is_loaded_before_all_loops_is_loaded_whole():
    """Strides skip some of it, which takes up space nevertheless."""
    data, weight = lt.placeholder((2, 3, 9, 2), "int8", name="data"), lt.placeholder((1, 3, 2, 1), "int8", name="W")
    out = lt.conv2d(data, weight, kernel_layout="HWIO", stride=3, dilation=(1, 2), name="out")
    check_default_schedule([out], small_machine(8, 32, 8, 2048, 1024, 32768, 32))
    image = lt.placeholder((3, 7, 3, 1), "int8", name="image")
    pooled = lt.max_pool2d(image, (2, 1), stride=(1, 3), padding=((1, 0), (0, 0)), name="pooled")
    check_default_schedule([pooled], small_machine(8, 4, 1, 1024, 32, 512, 32))


def test_only_data_of_products_is_tiled_in_wider_columns():
    data, bias = lt.placeholder((2, 17), "int32", name="data"), lt.placeholder((2,), "int32", name="bias")
    biased = lt.bias_add(data, bias, axis=0, name="biased")
    narrow = lt.requantise(biased, 1, name="narrow")
    check_default_schedule([biased, narrow], small_machine(2, 16, 1, 8192, 1024, 128, 64))


def test_a_computed_tensor_that_two_products_would_take_for_weights_of_other_rows():
    """Regression: a stored tensor has one layout, so one of the identity GEMMs reads it as data."""
    a = lt.placeholder((12, 14), "int8", name="a")
    k = lt.reduce_axis((0, 14), name="k")
    square = lt.compute(
        (12, 12), lambda i, j: lt.sum(a[i, k].astype("int32") * a[j, k].astype("int32"), axis=k), name="square"
    )
    narrow = lt.requantise(square, 1, name="narrow")
    first = lt.matmul(lt.placeholder((12, 12), "int8", name="x"), narrow, name="first")
    reshaped = lt.reshape(narrow, (72, 2), name="reshaped")
    second = lt.matmul(reshaped, lt.placeholder((2, 17), "int8", name="d"), name="second")
    check_default_schedule([first, second], lt.load_config("tiny"))
