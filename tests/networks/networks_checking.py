"""Runs of a model: results equal the reference's, and onnxruntime's within one unit."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from random_onnx import random_floats as random_inputs

import lathe as lt

LATHE16 = lt.load_config("lathe16")


def with_onnxruntime(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def checked(
    model: onnx.ModelProto, config: lt.HardwareConfig = LATHE16, *, units: dict[str, float] | None = None, seed: int = 0
) -> lt.NetworkResult:
    """Run a model; asserts that outputs equal the reference's, and onnxruntime's within one of ``units``."""
    network = lt.from_onnx(model)
    program = network.build(config)
    inputs = random_inputs(model, seed)
    result = lt.simulate(program, inputs)
    for name, expected in lt.reference(network, inputs).items():
        assert np.array_equal(result.outputs[name], expected), f"seed {seed}: {name} is not the reference's"
    for info, expected in zip(model.graph.output, with_onnxruntime(model, inputs), strict=True):
        made = result.outputs[info.name]
        assert made.shape == expected.shape
        off = np.abs(made - expected)
        assert off.max(initial=0) <= (units or {}).get(info.name, 0) * 1.001 + 1e-6, f"seed {seed}: {info.name}"
    npu = [row for row in result.layers if row.where == "npu"]
    assert sum(row.cycles for row in npu) == result.cycles
    return result


def where(result: lt.NetworkResult) -> dict[str, str]:
    """Where each layer ran, by name."""
    return {row.name: row.where for row in result.layers}
