"""Merging of groups with few channels into one GEMM: fewer vectors, with zeros in weights that the host CPU packs."""

import numpy as np
import pytest
from checking import check_program
from shaped_machines import machine

import lathe as lt
from lathe.frontend import placeholders


def grouped(groups: int, channels: int, filters: int, kernel: int = 3, layout: str | None = None) -> lt.Tensor:
    """A grouped convolution of 2×6×5 pixels with given channels and filters per group, requantised to int8."""
    data = lt.placeholder((2, 6, 5, groups * channels), "int8", name="data")
    extent = {"O": groups * filters, "H": kernel, "W": kernel, "I": channels}
    weights = lt.placeholder(tuple(extent[letter] for letter in layout or "OHWI"), "int8", name="weights")
    sums = lt.conv2d(data, weights, padding=kernel // 2, groups=groups, kernel_layout=layout, name="conv")
    return lt.requantise(sums, 7, name="output")


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", [(1, 16, 16), (2, 8, 16), (1, 16, 4), (2, 4, 4)])
@pytest.mark.parametrize("groups", [(2, 8, 8), (4, 4, 4), (4, 6, 10), (4, 2, 8), (3, 4, 5), (4, 1, 3), (6, 1, 2)])
def test_groups_are_as_they_were(groups, shape):
    check_program(grouped(*groups), machine(*shape))


@pytest.mark.parametrize("layout", ["OHWI", "OIHW", "HWIO"])
def test_groups_that_fill_blocks_together_are_one(layout):
    """Four groups of four channels are merged into one of sixteen, with a quarter of the vectors."""
    result = check_program(grouped(4, 4, 4, kernel=1, layout=layout), machine(1, 16, 16))
    pixels = 2 * 6 * 5
    assert result.counters.gemm_operations == pixels
    assert result.counters.alu_operations == 4 * pixels


@pytest.mark.parametrize("layout", ["OHWI", "OIHW", "HWIO"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_groups_of_one_channel_are_one_where_each_has_several_filters(kernel, layout):
    """Five groups of three filters fill one vector with fifteen lanes, instead of five with three."""
    output = grouped(5, 1, 3, kernel=kernel, layout=layout)
    result = check_program(output, machine(1, 16, 16))
    assert result.counters.alu_operations == 4 * 2 * 6 * 5


def test_channels_by_themselves_stay_on_diagonals():
    """Groups of one channel and one filter use diagonal weights."""
    output, config = grouped(16, 1, 1), machine(1, 16, 16)
    check_program(output, config)
    assert "diagonal weights" in str(lt.explain(output, config))


def test_groups_that_fill_blocks_are_not():
    result = check_program(grouped(2, 16, 16, kernel=1), machine(1, 16, 16))
    assert result.counters.gemm_operations == 2 * 2 * 6 * 5


def test_of_a_chain_channels_stay_together():
    """The layers before and after it also have full vectors."""
    data = lt.placeholder((1, 6, 5, 16), "int8", name="data")
    first, last = (lt.placeholder((16, 1, 1, 16), "int8", name=name) for name in ("first", "last"))
    weights = lt.placeholder((16, 3, 3, 4), "int8", name="weights")
    before = lt.requantise(lt.conv2d(data, first, name="conv1"), 7, name="before")
    between = lt.requantise(lt.conv2d(before, weights, padding=1, groups=4, name="conv2"), 7, name="between")
    result = check_program(lt.requantise(lt.conv2d(between, last, name="conv3"), 7, name="after"), machine(1, 16, 16))
    assert result.counters.alu_operations == 3 * 4 * 6 * 5


def test_groups_that_elements_hold_together_are_loaded_together():
    """Two groups of eight channels take as many GEMMs as one of sixteen, which loads half as many vectors."""
    slow = machine(1, 16, 8).with_(**{"memory.bus_bits": 64, "memory.cycles_per_beat": 8})
    result = check_program(grouped(2, 8, 8, kernel=1), slow)
    assert result.counters.bytes_read["inp"] == 16 * 2 * 6 * 5


@pytest.mark.parametrize("images", [1, 2])
def test_groups_that_elements_hold_together_are_turned_together(images):
    """Where stored vectors are converted to another layout, half-empty ones take twice as many GEMMs as full ones."""
    data = lt.placeholder((images, 6, 5, 16), "int8", name="data")
    first, weights = (lt.placeholder((16, 1, 1, channels), "int8", name=f"weights{channels}") for channels in (16, 8))
    before = lt.requantise(lt.conv2d(data, first, name="conv1"), 7, name="before")
    after = lt.requantise(lt.conv2d(before, weights, groups=2, name="conv2"), 7, name="after")
    result = check_program(after, machine(2, 16, 8))
    layers_and_turns = 3 if images == 2 else 2  # one image, with eight channels in a vector, needs no layout conversion
    assert result.counters.gemm_operations == layers_and_turns * 6 * 5 * 2


def test_weights_of_the_program_are_packed_in_the_same_way():
    output = grouped(4, 4, 4)
    weights = next(each for each in placeholders([output]) if each.name == "weights")
    values = np.random.default_rng(3).integers(-128, 128, weights.shape, np.int8)
    check_program(output, machine(1, 16, 16), constants={"weights": values})


def test_weights_that_the_program_computes_keep_their_groups():
    data = lt.placeholder((1, 4, 4, 16), "int8", name="data")
    given = lt.placeholder((16, 1, 1, 4), "int8", name="given")
    weights = lt.relu(given, name="weights")
    check_program(lt.conv2d(data, weights, groups=4, name="conv"), machine(1, 16, 16))


@pytest.mark.parametrize("groups", [(4, 4, 4), (4, 6, 10), (4, 1, 3)])
def test_the_bound_is_of_the_better_way_and_counts_no_zeros(groups):
    output, config = grouped(*groups), machine(1, 16, 16)
    bound = lt.bound(output, config)
    result = check_program(output, config)
    assert bound.cycles <= result.cycles
    assert bound.products == result.program.products


def test_what_is_built_is_what_is_meant():
    output = grouped(4, 4, 4)
    lt.build(output, [*placeholders([output]), output], machine(1, 16, 16), check=True)
