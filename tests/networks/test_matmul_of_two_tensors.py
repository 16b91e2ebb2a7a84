"""Matmuls of two 8-bit tensors: vectors, transposed matrices, biases, with 8-bit and float results."""

import numpy as np
import pytest
from networks_checking import checked, where
from qdq_models import QdqModel


def on_npu(graph: QdqModel, made: str) -> None:
    result = checked(graph.model(made), units={made: graph.scales.get(made, 1e-5)})
    assert where(result)["layer"] == "npu"
    assert {row.why for row in result.layers if row.where == "host"} <= {"it converts between float and 8 bits"}


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [((20,), (20, 24)), ((5, 20), (20,)), ((20,), (20,)), ((3, 5, 20), (20,)), ((20,), (3, 20, 24))],
)
def test_matmuls_with_vectors(dtype, quantised, constant, first, second):
    graph = QdqModel(seed=40, dtype=dtype)
    data = graph.input(*first)
    other = graph.weights(*second, per_channel=False)[0] if constant else graph.input(*second, name="other")
    made = graph.node("MatMul", data, other, name="layer")
    on_npu(graph, graph.quantised(made, 0.02) if quantised else made)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "bias", "attributes"),
    [
        ((5, 20), (20, 24), None, {}),
        ((20, 5), (20, 24), None, {"transA": 1}),
        ((5, 20), (24, 20), (24,), {"transB": 1, "alpha": 0.5}),
        ((20, 5), (24, 20), (5, 24), {"transA": 1, "transB": 1, "beta": 2.0}),
        ((5, 20), (20, 24), (5, 1), {}),
        ((5, 20), (20, 24), (), {"alpha": -1.5}),
    ],
)
def test_a_gemm_of_two_tensors(dtype, quantised, first, second, bias, attributes):
    graph = QdqModel(seed=41, dtype=dtype)
    operands = [graph.input(*first), graph.input(*second, name="other")]
    if bias is not None:
        operands.append(graph.constant(np.asarray(graph.random.normal(0, 0.3, bias), np.float32)))
    made = graph.node("Gemm", *operands, name="layer", **attributes)
    on_npu(graph, graph.quantised(made, 0.02) if quantised else made)


def test_a_gemm_whose_first_operand_is_constant():
    graph = QdqModel(seed=42)
    held, _ = graph.weights(20, 5, per_channel=False)
    made = graph.node("Gemm", held, graph.input(20, 24), name="layer", transA=1)
    on_npu(graph, graph.quantised(made, 0.02))


def test_additions_to_a_matmul_of_two_tensors():
    """A value for each column is the matmul's bias; one for each row of a matrix times a vector is a separate Add."""
    graph = QdqModel(seed=43)
    operands = graph.input(2, 5, 20), graph.input(2, 20, 24, name="other")
    added = graph.constant(graph.random.normal(0, 0.3, 24).astype(np.float32))
    made = graph.node("Add", graph.node("MatMul", *operands, name="layer"), added)
    on_npu(graph, graph.quantised(made, 0.02))
    graph = QdqModel(seed=44)
    operands = graph.input(5, 20), graph.input(20, name="other")
    added = graph.constant(np.arange(5, dtype=np.float32))
    made = graph.quantised(graph.node("Add", graph.node("MatMul", *operands, name="layer"), added), 0.02)
    assert where(checked(graph.model(made), units={made: 0.02}))["layer"] == "npu"
