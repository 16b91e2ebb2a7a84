"""Slices of channels of images: slices that start inside a block of lanes cost as much as aligned ones."""

import numpy as np
import pytest
from networks_checking import LATHE16, checked, where
from qdq_models import QdqModel

import lathe as lt

IDEAL = LATHE16.with_(**{"memory.latency": 0})


def part(graph: QdqModel, data: str, first: int, end: int, step: int = 1) -> str:
    """Channels of an image, as a Slice."""
    held = [graph.constant(np.array([each])) for each in (first, end, 1, step)]
    return graph.layer("Slice", data, *held, same=True)


def run(graph: QdqModel, *made: str) -> lt.NetworkResult:
    result = checked(graph.model(*made), IDEAL, units={each: graph.scales[each] for each in made})
    assert {row.why for row in result.layers if row.where == "host"} <= {"it converts between float and 8 bits"}
    return result


def cycles_of_parts(first: int, end: int) -> int:
    graph = QdqModel(seed=1)
    wide = graph.conv(graph.input(1, 64, 14, 14), 64, pads=[1, 1, 1, 1])
    return run(graph, graph.conv(part(graph, wide, first, end), 32, pads=[1, 1, 1, 1])).cycles


@pytest.mark.slow
def test_a_slice_without_other_consumers():
    """Only two blocks of the 64 output channels are computed, whatever the alignment of the slice."""
    lower = cycles_of_parts(0, 32)
    assert lower < 24_000
    for first, end in ((32, 64), (40, 64), (33, 60)):
        assert cycles_of_parts(first, end) == lower


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "most"), [((32, 32), 50_000), ((24, 24), 42_000), ((10, 20, 30), 60_000)])
def test_slices_with_a_convolution_each(sizes, most):
    graph = QdqModel(seed=2)
    wide = graph.conv(graph.input(1, 64, 14, 14), sum(sizes), pads=[1, 1, 1, 1])
    ends = np.cumsum(sizes)
    parts = [part(graph, wide, end - size, end) for size, end in zip(sizes, ends, strict=True)]
    assert run(graph, *(graph.conv(each, 32, pads=[1, 1, 1, 1]) for each in parts)).cycles < most


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("step", [1, 3])
def test_consumers_of_slices(step, dtype):
    """Consumers of slices with different channel positions, and values in padding channels."""
    graph = QdqModel(seed=3, dtype=dtype)
    wide = graph.conv(graph.input(1, 20, 6, 7), 60, 1)
    one, other = part(graph, wide, 7, 31, step), part(graph, wide, 33, 57, step)
    channels = graph.shapes[one][1]
    outputs = [
        one,
        graph.conv(one, channels, groups=channels, pads=[1, 1, 1, 1]),
        graph.layer("Add", one, other, scale=0.2),
        graph.layer("MaxPool", other, same=True, kernel_shape=[2, 2]),
        graph.layer("Sigmoid", other, scale=0.01),
        graph.layer("GlobalAveragePool", one),
        graph.layer("Concat", other, one, axis=1, same=True),
        part(graph, part(graph, wide, 5, 55), 9, 41, step),
        graph.layer("Transpose", one, same=True, perm=[0, 2, 3, 1]),
    ]
    found = where(run(graph, *outputs))
    assert {found[name] for name in found if name.startswith(("Slice", "Conv", "Add", "Concat"))} == {"npu"}


def test_slices_of_inputs_and_of_concatenations():
    graph = QdqModel(seed=4)
    data = graph.input(2, 50, 5, 6)
    one, other = part(graph, data, 3, 20), part(graph, data, 20, 50)
    both = graph.layer("Concat", graph.conv(other, 20, 1), one, axis=1, scale=0.1)
    across = part(graph, both, 12, 30)
    run(graph, graph.conv(across, 24, 1), across)


@pytest.mark.slow
def test_channels_shuffled_between_groups():
    """Halves of the channels go through different layers and are interleaved afterwards."""
    graph = QdqModel(seed=5)
    wide = graph.conv(graph.input(1, 16, 6, 6), 48, 1)
    half = graph.conv(part(graph, wide, 24, 48), 24, 1)
    both = graph.layer("Concat", part(graph, wide, 0, 24), half, axis=1, scale=0.1)
    grouped = graph.layer("Reshape", both, graph.constant(np.array([1, 2, 24, 6, 6])), same=True)
    turned = graph.layer("Transpose", grouped, same=True, perm=[0, 2, 1, 3, 4])
    shuffled = graph.layer("Reshape", turned, graph.constant(np.array([1, 48, 6, 6])), same=True)
    run(graph, graph.conv(part(graph, shuffled, 0, 24), 16, 1), part(graph, shuffled, 24, 48))


def test_slices_of_one_channel_and_of_a_row():
    graph = QdqModel(seed=6)
    wide = graph.conv(graph.input(1, 20, 6, 7), 40, 1)
    run(graph, part(graph, wide, 21, 22), graph.conv(part(graph, wide, 39, 40), 8, 1))
    graph = QdqModel(seed=7)
    row = graph.input(2, 40, 9)
    run(graph, part(graph, row, 17, 30))
