"""Evaluation of nodes on the host CPU, by onnxruntime or ONNX's reference evaluator.

They run in the host worker process, with limits of memory and time (``host_process``): a model may need more memory
than there is, or never end.
"""

import signal
from collections.abc import Mapping
from typing import Any

import numpy as np

from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.host_process import PROCESS, EndedError, memory_limit_error, timeout_error
from lathe.frontend.onnx.optional_imports import missing_package_error, optional_import


def run_on_host(model: bytes, inputs: Mapping[str, Any], outputs: tuple[str, ...]) -> dict[str, Any]:
    """The outputs of a serialised ModelProto: arrays, lists of them for sequences, None for absent optional values.

    Raises ModelError with the name of the node if neither onnxruntime nor ONNX's reference evaluator can run it, or if
    it exceeds the memory or time limit.
    """
    given = {name: values if isinstance(values, list) or values is None else np.asarray(values)
             for name, values in inputs.items()}  # fmt: skip
    separately, evaluated = False, set[int]()
    while True:
        try:
            kind, *found = PROCESS.ask(model, given, outputs, separately, evaluated)
        except MemoryError:  # in this process, on receiving the results
            raise ModelError(f"Cannot receive results ({', '.join(outputs)}) of the host CPU: out of memory.") from None
        except EndedError as ended:
            if ended.had_other_models and not ended.late:
                continue  # other models may have used up its memory
            node = ended.node or _only_node(model)
            if node is not None and ended.late:
                raise timeout_error(f"node {node[1]!r} on the host CPU") from None
            if node is not None and node[0] in evaluated:
                raise ModelError(
                    f"Cannot compute node {node[1]!r} on the host CPU: both onnxruntime and ONNX's evaluator crashed "
                    f"their process ({status_of(ended.status)})."
                ) from None
            if node is None and separately:
                raise ModelError(f"Cannot compute on the host CPU: worker ended ({status_of(ended.status)}).") from None
            if node is not None:
                evaluated.add(node[0])
            separately = True  # to learn which node it is, and run it without onnxruntime
            continue
        if kind == host_worker.MADE:
            return dict(zip(outputs, found[0], strict=True))
        name, text = found
        if kind == host_worker.MISSING:
            raise missing_package_error(name, text)
        if kind == host_worker.MEMORY:
            raise memory_limit_error(f"node {name!r} on the host CPU")
        raise ModelError(f"Cannot compute node {name!r} on the host CPU: {text}.")


def host_takes(model: bytes) -> bool:
    """Whether onnxruntime accepts a model, without running it."""
    try:
        return bool(PROCESS.ask(model, {}, (), False, set())[0] == host_worker.MADE)
    except EndedError as ended:
        return host_takes(model) if ended.had_other_models and not ended.late else False


def _only_node(model: bytes) -> tuple[int, str] | None:
    """The number and name of the node of a model with a single one."""
    nodes = optional_import("onnx").load_model_from_string(model).graph.node
    if len(nodes) != 1:
        return None
    return 0, nodes[0].name or next(filter(None, nodes[0].output), nodes[0].op_type)


def status_of(status: int) -> str:
    """The name of the signal that ended a process, or its exit status."""
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"
