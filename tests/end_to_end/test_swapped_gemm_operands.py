"""GEMMs with few filters: images fill the columns as weights and filters are the data, also with padding."""

import numpy as np
import pytest
from checking import check_program
from shaped_machines import machine

import lathe as lt
from lathe.frontend import placeholders

FEW = [(4, 4, 32), (1, 4, 4), (2, 8, 16), (1, 16, 8)]


def quick(shape: tuple[int, int, int]) -> lt.HardwareConfig:
    """A machine whose wide bus loads images as mostly empty weight columns no slower than GEMMs consume them."""
    return machine(*shape).with_(**{"memory.bus_bits": 512})


def few_filters(images: int, channels: int, filters: int, **arguments: object) -> lt.Tensor:
    """A 3×3 convolution of images of 6×7 pixels, requantised to int8."""
    data = lt.placeholder((images, 6, 7, channels), "int8", name="data")
    weights = lt.placeholder((filters, 3, 3, channels), "int8", name="weights")
    return lt.requantise(lt.conv2d(data, weights, name="conv", **arguments), 6, name="output")


@pytest.mark.sample(6)
@pytest.mark.parametrize("arguments", [{}, {"stride": 2}, {"dilation": 2}, {"padding": 2}], ids=str)
@pytest.mark.parametrize("channels", [3, 8, 20])
@pytest.mark.parametrize("shape", FEW)
def test_any_convolution(shape, channels, arguments):
    output = few_filters(8, channels, 3, **{"padding": 1, **arguments})
    result = check_program(output, quick(shape))
    if shape == (4, 4, 32) and not arguments:
        assert result.counters.bytes_read["inp"] < result.counters.bytes_read["wgt"]


def test_images_fill_columns_that_filters_leave_empty():
    """Eight images and four filters with weight vectors of 4 × 32: one micro-op for each pixel and tap, not two."""
    padded = check_program(few_filters(8, 4, 4, padding=1), quick((4, 4, 32)))
    assert padded.counters.gemm_operations < 6 * 7 * 9  # some of the taps that only meet padding are skipped


def test_images_that_would_be_waited_for_are_no_weights():
    """These images fill 8 of the 32 rows of a weight vector: over a narrow bus they load more slowly as weights."""
    result = check_program(few_filters(8, 4, 4, padding=1), machine(4, 4, 32))
    assert result.counters.bytes_read["wgt"] == 32 * 4 * 9


def test_a_border_of_what_the_program_computes_is_no_weights():
    """The tensor is stored in the vector layout of a GEMM's result, which is not that of weights."""
    data = lt.placeholder((8, 6, 7, 4), "int8", name="data")
    first = lt.placeholder((4, 1, 1, 4), "int8", name="first")
    before = lt.requantise(lt.conv2d(data, first, name="conv1"), 6, name="before")
    weights = lt.placeholder((4, 3, 3, 4), "int8", name="weights")
    check_program(lt.requantise(lt.conv2d(before, weights, padding=1, name="conv2"), 6, name="after"), quick((1, 4, 4)))


def test_a_layer_behind_it_reads_images_along_columns():
    output = few_filters(8, 8, 4, padding=1)
    pool = lt.max_pool2d(output, 2, stride=2, name="pool")
    check_program([pool, output], quick((1, 4, 8)))


@pytest.mark.parametrize("seed", range(6))
def test_random_layers_are_what_is_meant(seed):
    choice = np.random.default_rng(seed)
    images, channels, filters = (int(each) for each in choice.integers((2, 1, 1), (10, 24, 6)))
    arguments = {"padding": int(choice.integers(1, 3)), "stride": int(choice.integers(1, 3))}
    output = few_filters(images, channels, filters, **arguments)
    lt.build(output, [*placeholders([output]), output], quick(FEW[seed % 4]), check=True)
