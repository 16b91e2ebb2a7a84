"""ONNX's node tests with Lathe's backend: it passes all that onnxruntime passes, and all of quantised operators."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_suite import QUANTISED, cases, figures, verdict

from lathe.networks import backend

QUICK = (*QUANTISED, "test_if", "loop", "scan", "sequence_map", "optional", "string", "bfloat16", "nonzero", "qdq")
"""Substrings of the names of tests: quantised operators, control flow, and values other than float tensors."""


def passed(found):
    assert found
    assert [each.name for each in found if each.lathe and not each.onnxruntime] == []
    assert [each.name for each in found if each.lathe and each.is_quantised] == []
    assert {each.met for each in figures(found)} == {None, True}


@pytest.mark.slow
def test_types_other_than_tensors():
    passed([verdict(case) for case in cases(QUICK)])


@pytest.mark.slow
def test_matmuls_run_on_the_npu_if_weights_and_scales_are_constants():
    found = [verdict(case) for case in cases(("qlinear", "convinteger", "matmulinteger"))]
    assert len(found) == 12
    assert [each.name for each in found if each.constant] == []
    assert all(each.constant_on_npu and not each.on_npu for each in found)


@pytest.mark.slow
def test_all():
    passed([verdict(case) for case in cases()])


def test_one_node():
    node = helper.make_node("Add", ["a", "b"], ["y"])
    a, b = np.ones((2, 3), np.float32), np.full((3,), 2, np.float32)
    (made,) = backend.run_node(node, [a, b], opset_version=17)
    assert np.array_equal(made, a + b)
    (made,) = backend.run_node(node, {"a": a, "b": b})
    assert np.array_equal(made, a + b)


def test_open_shapes_are_those_of_the_inputs():
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "graph", [value], [made])
    prepared = backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for count in (1, 4):
        assert np.array_equal(prepared.run([np.full((count, 3), -1, np.float32)])[0], np.ones((count, 3)))


def test_devices():
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")
