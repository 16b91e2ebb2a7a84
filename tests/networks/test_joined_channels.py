"""Slices and concatenations of images: without data movement if channels start at a block of lanes; always exact."""

import random

import numpy as np
import pytest
from networks_checking import LATHE16, checked
from qdq_models import QdqModel

import lathe as lt

IDEAL = LATHE16.with_(**{"memory.latency": 0})
BORDER = [1, 1, 1, 1]


def part(graph: QdqModel, data: str, first: int, end: int, axis: int = 1) -> str:
    """A Slice of an axis."""
    held = [graph.constant(np.array([each])) for each in (first, end, axis, 1)]
    return graph.layer("Slice", data, *held, same=True)


def join(graph: QdqModel, *data: str) -> str:
    return graph.layer("Concat", *data, axis=1, same=True)


def run(graph: QdqModel, *made: str) -> lt.NetworkResult:
    return checked(graph.model(*made), IDEAL, units={each: graph.scales[each] for each in made})


def written(result: lt.NetworkResult) -> int:
    """The number of bytes that the NPU stores."""
    return result.counters.bytes_written["out"]


def idle(result: lt.NetworkResult, operator: str) -> bool:
    """Whether no layer of an operator takes cycles, except to requantise its operands."""
    own = [row for row in result.layers if row.name.startswith(operator) and not row.name.endswith(".requantised")]
    return not any(row.bytes for row in own)


@pytest.mark.slow
def test_convolutions_store_into_the_concatenation():
    graph = QdqModel(seed=1)
    data = graph.input(1, 32, 6, 6)
    both = join(graph, graph.conv(data, 32, pads=BORDER), graph.conv(data, 16, pads=BORDER))
    result = run(graph, graph.conv(both, 16, pads=BORDER))
    assert idle(result, "Concat")
    assert written(result) == 36 * (32 + 16 + 16)


def test_convolutions_read_slices_in_place():
    graph = QdqModel(seed=2)
    wide = graph.conv(graph.input(1, 32, 6, 6), 64, pads=BORDER)
    halves = [part(graph, wide, first, first + 32) for first in (0, 32)]
    result = run(graph, *(graph.conv(each, 16, pads=BORDER) for each in halves))
    assert idle(result, "Slice")
    assert written(result) == 36 * (64 + 16 + 16)


def test_rows_of_an_image_are_read_in_place():
    graph = QdqModel(seed=3)
    wide = graph.conv(graph.input(1, 32, 8, 5), 32, pads=BORDER)
    upper, lower = part(graph, wide, 0, 3, axis=2), part(graph, wide, 3, 8, axis=2)
    result = run(graph, graph.conv(upper, 16, pads=BORDER), graph.conv(lower, 16, pads=BORDER))
    assert idle(result, "Slice")


def test_nested_concatenations_with_other_consumers():
    """As in DenseNet: each layer reads all previous ones."""
    graph = QdqModel(seed=4)
    first = graph.conv(graph.input(1, 16, 5, 5), 32, pads=BORDER)
    second = graph.conv(first, 16, pads=BORDER)
    both = join(graph, first, second)
    third = graph.conv(both, 16, pads=BORDER)
    run(
        graph,
        graph.conv(join(graph, both, third), 16, 1),
        graph.layer("MaxPool", third, same=True, kernel_shape=[2, 2]),
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", ["twice", "of an input", "an output", "within a block", "a part of a part", "pooled"])
def test_other_concatenations_are_copied(case):
    graph = QdqModel(seed=5)
    data = graph.input(1, 32, 5, 5)
    one, other = graph.conv(data, 32, pads=BORDER), graph.conv(data, 32 if case != "within a block" else 24, 1)
    if case == "twice":
        run(graph, graph.conv(join(graph, one, other, one), 16, 1), graph.conv(join(graph, other, one), 16, 1))
    elif case == "of an input":
        run(graph, graph.conv(graph.layer("Concat", data, one, axis=1, scale=0.1), 16, 1))
    elif case == "an output":
        both = join(graph, one, other)
        run(graph, both, graph.conv(both, 16, 1), one)
    elif case == "within a block":
        run(graph, graph.conv(join(graph, other, one), 16, pads=BORDER))
    elif case == "a part of a part":
        wide = join(graph, one, other, graph.conv(data, 32, 1))
        inner = part(graph, part(graph, wide, 16, 80), 16, 48)
        run(graph, graph.conv(inner, 16, pads=BORDER), graph.layer("Add", inner, one, scale=0.2))
    else:
        run(graph, graph.layer("MaxPool", join(graph, one, other), same=True, kernel_shape=[2, 2], strides=[2, 2]))


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(6))
def test_random_slices_and_concatenations(seed):
    rng, graph = random.Random(seed), QdqModel(seed=seed)
    size = rng.choice([4, 5])
    made = [graph.input(1, rng.choice([16, 32, 40]), size, size)]
    for _ in range(7):
        one, other = rng.choice(made), rng.choice(made)
        channels = graph.shapes[one][1]
        kind = rng.choice(["conv", "conv", "conv", "join", "part", "add"])
        if kind == "conv":
            made.append(graph.conv(one, rng.choice([16, 32, 24]), pads=BORDER))
        elif kind == "join":
            made.append(graph.layer("Concat", one, other, axis=1, scale=0.1))
        elif kind == "part" and channels > 16:
            first = rng.choice([0, 16, channels - 16, 5])
            made.append(part(graph, one, first, min(channels, first + rng.choice([16, 32]))))
        elif graph.shapes[one] == graph.shapes[other]:
            made.append(graph.layer("Add", one, other, scale=0.2))
    run(graph, graph.conv(made[-1], 16, 1), graph.conv(made[-2], 16, 1))


@pytest.mark.sample(1)
@pytest.mark.parametrize("side", [8, 16])
def test_a_slice_with_the_shape_of_another_tensor_is_in_the_layout_of_the_whole(side):
    """A following matmul has 64 rows, viewed as 8 by 8, like the slice but unlike the whole tensor."""
    graph = QdqModel(seed=9, dtype="uint8")
    scale, zero = (graph.constant(np.array(each)) for each in (np.float32(0.004), np.uint8(120)))

    def weights(*shape: int) -> str:
        values = graph.random.integers(0, 256, shape).astype(np.uint8)
        return graph.node("DequantizeLinear", graph.constant(values), scale, zero)

    def layer(kind: str, *data: str, **attributes: object) -> str:
        return graph.layer(kind, *data, same=True, **attributes)

    data = graph.input(1, 16, side, side)
    if side == 16:
        data, side = layer("MaxPool", data, kernel_shape=[2, 2], strides=[2, 2]), 8
    first, second = part(graph, data, 0, 8), part(graph, data, 8, 16)
    made = graph.layer("Conv", second, weights(8, 8, 3, 3), pads=BORDER, scale=0.05)
    both = layer("Transpose", join(graph, first, made), perm=[0, 2, 3, 1])
    rows = layer("Reshape", both, graph.constant(np.array([1, side * side, 16])))
    product = layer("Transpose", graph.layer("MatMul", rows, weights(16, 12), scale=0.05), perm=[0, 2, 1])
    run(graph, layer("Reshape", product, graph.constant(np.array([1, 12, side, side]))))
