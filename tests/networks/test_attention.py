"""Attention on the NPU: splitting and joining of heads are views without data movement."""

from itertools import product

import numpy as np
import pytest
from networks_checking import LATHE16, checked, random_inputs, with_onnxruntime
from qdq_models import QdqModel
from transformer_models import transformer_block

import lathe as lt
from lathe.networks.mixed_radix import Index, in_digits, regrouped


class Centred(QdqModel):
    """A graph with centred zero points, so that values do not saturate on one side."""

    def zero_point(self) -> int:
        return int(self.random.integers(4, 20)) + (128 if self.dtype == "uint8" else 0)


def moved(graph: QdqModel, data: str, *, shape: tuple[int, ...] = (), order: tuple[int, ...] = ()) -> str:
    """Reshaped or transposed data."""
    if shape:
        return graph.layer("Reshape", data, graph.constant(np.array(shape, np.int64)), same=True)
    return graph.layer("Transpose", data, same=True, perm=list(order))


def cycles_of(result: lt.NetworkResult, *kinds: str) -> int:
    """The cycles of all NPU layers whose names have a prefix."""
    return sum(row.cycles for row in result.layers if row.where == "npu" and row.name.startswith(kinds))


def attention(graph: QdqModel, data: str, batch: int, rows: int, heads: int, depth: int) -> str:
    """The matmuls of queries and keys and of the scores with values, for each head, without the softmax in between."""

    def part(order: tuple[int, ...]) -> str:
        made = graph.product(data, heads * depth)
        return moved(graph, moved(graph, made, shape=(batch, rows, heads, depth)), order=order)

    q, k, v = part((0, 2, 1, 3)), part((0, 2, 3, 1)), part((0, 2, 1, 3))
    scores = graph.layer("MatMul", q, k, scale=30 * np.sqrt(depth) * graph.scales[q] * graph.scales[k])
    mixed = graph.layer("MatMul", scores, v, scale=30 * np.sqrt(rows) * graph.scales[scores] * graph.scales[v])
    joined = moved(graph, moved(graph, mixed, order=(0, 2, 1, 3)), shape=(batch, rows, heads * depth))
    return graph.product(joined, heads * depth)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("batch", "rows", "heads", "depth"),
    [(1, 20, 2, 32), (2, 16, 3, 16), (1, 18, 2, 24), (2, 12, 2, 8), (1, 7, 1, 20), (3, 1, 4, 16)],
)
def test_splitting_heads_is_a_view(dtype, batch, rows, heads, depth):
    graph = Centred(seed=3, dtype=dtype)
    made = attention(graph, graph.input(batch, rows, 40), batch, rows, heads, depth)
    result = checked(graph.model(made), units={made: 3 * graph.scales[made]})
    assert cycles_of(result, "Reshape", "Transpose") == 0
    assert len(np.unique(result.outputs[made])) > 20


@pytest.mark.slow
def test_sums_of_rows_fill_lanes_where_columns_do_not():
    graph = Centred(seed=3)
    made = attention(graph, graph.input(1, 33, 40), 1, 33, 2, 8)
    result = checked(graph.model(made), units={made: 3 * graph.scales[made]})
    assert result.cycles < 50_000  # 395,312 where rows are summed for 16 of 33 columns


@pytest.mark.slow
def test_a_block_of_a_transformer_and_its_attention_alone():
    for options in ({}, {"chain": True}, {"normalised": False}):
        model = transformer_block(24, 64, 2, **options)
        generator = np.random.default_rng(1)
        model = lt.quantize(model, {"x": generator.standard_normal((3, 1, 24, 64)).astype(np.float32)})
        network, inputs = lt.from_onnx(model), random_inputs(model)
        result = lt.simulate(network.build(LATHE16), inputs)
        ((name, made),) = result.outputs.items()
        assert np.array_equal(made, lt.reference(network, inputs)[name])
        (expected,) = with_onnxruntime(model, inputs)
        assert np.sum(made * expected) > 0.999 * np.linalg.norm(made) * np.linalg.norm(expected)
        products = [row for row in result.layers if row.macs]
        assert {row.where for row in products} == {"npu"}
        assert len(products) == (6 if "normalised" in options else 8)
        turned = [row for row in result.layers if "turned" in row.name or "reshape" in row.name]
        assert sum(row.cycles for row in turned) < 200


def test_sums_of_a_split_and_an_unsplit_tensor():
    graph = QdqModel(seed=4)
    data = graph.input(2, 12, 32)
    made = moved(graph, graph.product(data, 32), shape=(2, 12, 2, 16))
    other = moved(graph, graph.layer("Relu", data, scale=0.02), shape=(2, 12, 2, 16))
    found = graph.layer("Add", made, other, scale=0.1)
    turned = moved(graph, made, order=(0, 2, 1, 3))
    again = graph.layer("Mul", turned, moved(graph, found, order=(0, 2, 1, 3)), scale=0.2)
    checked(graph.model(again), units={again: 3 * graph.scales[again]})


def test_a_tensor_with_a_layout_conflict_is_copied():
    graph = QdqModel(seed=5)
    data = graph.product(graph.input(24, 32), 32)
    turned = moved(graph, data, order=(1, 0))
    squares = graph.layer("MatMul", turned, data, scale=1.0)
    made = graph.product(turned, 16)
    joined = graph.layer("MatMul", squares, made, scale=5.0)
    checked(graph.model(joined), units={joined: 4 * graph.scales[joined]})


@pytest.mark.slow
def test_outputs_that_are_views(tmp_path):
    graph = QdqModel(seed=6)
    data = graph.input(2, 6, 32)
    made = graph.product(data, 48)
    heads = moved(graph, made, shape=(2, 6, 3, 16))
    turned = moved(graph, heads, order=(2, 0, 3, 1))
    of_data = moved(graph, moved(graph, data, shape=(2, 6, 2, 16)), order=(0, 2, 1, 3))
    outputs = (made, heads, turned, of_data)
    model = graph.model(*outputs)
    checked(model, units={name: graph.scales[name] for name in outputs})
    program, inputs = lt.from_onnx(model).build(LATHE16), random_inputs(model)
    program.save(tmp_path / "program.npz")
    again = lt.simulate(lt.NetworkProgram.load(tmp_path / "program.npz"), inputs).outputs
    for name, expected in lt.simulate(program, inputs).outputs.items():
        assert np.array_equal(again[name], expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 1, 6), (2, 1, 3), (1, 6, 1)])
@pytest.mark.parametrize("filters", [1, 6])
def test_matmuls_of_one_row_one_column_and_one_value(shape, filters):
    graph = Centred(seed=9)
    data = graph.input(1, 6)
    seen = moved(graph, data, shape=shape)
    made = graph.product(seen, filters)
    turned = moved(graph, moved(graph, made, shape=(*shape[:2], 1, filters)), order=(2, 0, 3, 1))
    left = moved(graph, turned, shape=(1, filters * 6 // shape[2], 1))
    right = moved(graph, made, shape=(1, 1, filters * 6 // shape[2]))
    found = graph.layer("MatMul", left, right, scale=0.05)
    total = graph.layer("Add", left, moved(graph, right, order=(0, 2, 1)), scale=0.05)
    checked(graph.model(found, total), units={found: 3 * graph.scales[found], total: 3 * graph.scales[total]})


def test_reshapes_across_factors_are_copied():
    graph = QdqModel(seed=7)
    made = graph.product(graph.input(6, 32), 48)
    across = moved(graph, moved(graph, made, shape=(6, 3, 16)), shape=(9, 32))
    checked(graph.model(found := graph.product(across, 16)), units={found: 3 * graph.scales[found]})


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ((256,), (4, 64)),
        ((4, 64), (256,)),
        ((2, 3, 4), (6, 4)),
        ((6, 4), (8, 3)),
        ((1, 5, 1), (5,)),
        ((2, 6), (1, 4, 3, 1)),
    ],
)
def test_an_index_in_other_digits_is_the_same_index(own, wanted):
    for digits in product(*map(range, own)):
        found = in_digits(Index(own, digits), wanted)
        assert all(0 <= digit < extent for digit, extent in zip(found, wanted, strict=True))
        assert np.ravel_multi_index(found, wanted) == np.ravel_multi_index(digits, own)


def test_axes_are_the_digits_of_another_shape_only_where_none_is_cut():
    assert regrouped([2, 3, 4], (1, 6, 4)) == [[], [0, 1], [2]]
    assert regrouped([6, 4], (2, 12)) is None
    assert regrouped([], (1, 1)) == [[], []]
