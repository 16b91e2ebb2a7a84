"""What the host computes: nodes of a model, by onnxruntime as they are written, without its graph optimisations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.extra import extra

Arrays = Mapping[str, NDArray[Any]]


def run_on_host(model: bytes, inputs: Arrays, outputs: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The outputs of a serialised ModelProto. Raises ModelError where onnxruntime does not run it."""
    onnxruntime = extra("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        made = session.run(list(outputs), {name: np.asarray(values) for name, values in inputs.items()})
    except Exception as error:  # onnxruntime's own types have no common base but this
        text = " ".join(str(error).split())[:200].rstrip(".")
        raise ModelError(f"nodes on the host must run with onnxruntime, and do not: {text}.") from None
    return dict(zip(outputs, made, strict=True))
