"""What the host computes: nodes of a model, by onnxruntime as they are written, or by ONNX's evaluator.

They run in a process of their own, which may take so much memory and time (``host_process``): a model may ask for more
than there is, or never end.
"""

import signal
from collections.abc import Mapping
from typing import Any

import numpy as np

from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.host_process import PROCESS, EndedError, too_large, too_late
from lathe.frontend.onnx.optional_imports import extra, not_there


def run_on_host(model: bytes, inputs: Mapping[str, Any], outputs: tuple[str, ...]) -> dict[str, Any]:
    """The outputs of a serialised ModelProto: arrays, lists of them for sequences, None for what is optional.

    Raises ModelError, which names the node, where neither onnxruntime nor ONNX's evaluator runs it, or where it takes
    more memory or time than it may.
    """
    given = {name: values if isinstance(values, list) or values is None else np.asarray(values)
             for name, values in inputs.items()}  # fmt: skip
    separately, evaluated = False, set[int]()
    while True:
        try:
            kind, *found = PROCESS.ask(model, given, outputs, separately, evaluated)
        except MemoryError:  # in this process, which takes what the other has made
            raise ModelError(
                f"results of nodes on the host ({', '.join(outputs)}) must fit into memory, and do not."
            ) from None
        except EndedError as ended:
            if ended.crowded and not ended.late:
                continue  # others' models may have been what it had no memory for
            node = ended.node or _only_node(model)
            if node is not None and ended.late:
                raise too_late(f"node {node[1]!r} on the host") from None
            if node is not None and node[0] in evaluated:
                raise ModelError(
                    f"node {node[1]!r} on the host must be computed by onnxruntime or ONNX's evaluator, and both "
                    f"ended their process: {status_of(ended.status)}."
                ) from None
            if node is None and separately:
                raise ModelError(
                    f"the process that computes for the host must go on, and ended: {status_of(ended.status)}."
                ) from None
            if node is not None:
                evaluated.add(node[0])
            separately = True  # one by one, so that the node is known, and onnxruntime left out where it dies
            continue
        if kind == host_worker.MADE:
            return dict(zip(outputs, found[0], strict=True))
        name, text = found
        if kind == host_worker.MISSING:
            raise not_there(name, text)
        if kind == host_worker.MEMORY:
            raise too_large(f"node {name!r} on the host")
        raise ModelError(
            f"node {name!r} on the host must be computed by onnxruntime or ONNX's evaluator, and is by neither. {text}."
        )


def host_takes(model: bytes) -> bool:
    """Whether onnxruntime makes a session for a model, none of which is computed."""
    try:
        return bool(PROCESS.ask(model, {}, (), False, set())[0] == host_worker.MADE)
    except EndedError as ended:
        return host_takes(model) if ended.crowded and not ended.late else False


def _only_node(model: bytes) -> tuple[int, str] | None:
    """The number and name of the node of a model that has but one."""
    nodes = extra("onnx").load_model_from_string(model).graph.node
    if len(nodes) != 1:
        return None
    return 0, nodes[0].name or next(filter(None, nodes[0].output), nodes[0].op_type)


def status_of(status: int) -> str:
    """What ended a process: a signal's name, or the status with which it ended itself."""
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"
