"""The host worker: a child process that computes nodes on the host CPU, with requests and replies through pipes.

It runs as a script that imports nothing of Lathe, so that it starts quickly. onnxruntime computes a model without graph
optimisations. A model that it refuses is computed node by node: by onnxruntime if it accepts the node, by ONNX's
reference evaluator otherwise.
"""

import contextlib
import functools
import gc
import importlib.util
import io
import itertools
import os
import pickle
import queue
import re
import signal
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import IO, Any

import numpy as np

MEMORY, REFUSED, MISSING, MADE, AT = "memory", "refused", "missing", "made", "at"
"""Kinds of replies."""
CALL = "call"
"""The first item of a request to call a function."""
PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : (Non-zero status code .*? Status Message: )?")
"""What precedes the error in onnxruntime's messages."""
NO_MEMORY = ("bad_alloc", "Failed to allocate memory", "std::length_error", "Failed to serialize proto")
"""Messages of libraries that cannot allocate a tensor."""
TOO_LARGE = (*NO_MEMORY, "overflow", "Maximum allowed", "array is too big")
"""These, and messages about tensors larger than the address space."""


def send(stream: IO[bytes], message: object) -> None:
    """Write a message: the lengths of all parts, the pickled message, and its arrays as raw bytes."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(head), *(each.raw() for each in arrays)]
    _write(stream, memoryview(struct.pack(f"<{len(parts) + 1}Q", len(parts), *(part.nbytes for part in parts))))
    for part in parts:
        _write(stream, part)


def receive(stream: IO[bytes]) -> Any:
    """Read a message that ``send`` wrote. Raises EOFError if the other process has ended."""
    (count,) = struct.unpack("<Q", _read(stream, 8))
    sizes = struct.unpack(f"<{count}Q", _read(stream, 8 * count))
    head, *arrays = [_read(stream, size) for size in sizes]
    return pickle.loads(head, buffers=arrays)


def _write(stream: IO[bytes], data: memoryview) -> None:
    """Write all data: one write to an unbuffered stream may be partial."""
    while data.nbytes:
        data = data[stream.write(data) :]


def _read(stream: IO[bytes], size: int) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        count = stream.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        at += count
    return found


class RefusedError(Exception):
    """A node that neither library can compute, or that needs more memory than the limit."""

    def __init__(self, kind: str, node: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.node, self.text = kind, node, text


def text_of(error: BaseException) -> str:
    """The message of an error, in one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return PREFIX.sub("", text)[:200].rstrip(".?")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is a lack of memory."""
    return isinstance(error, MemoryError) or any(word in str(error) for word in NO_MEMORY)


def is_too_large(error: BaseException, before: BaseException) -> bool:
    """Whether an error is a lack of memory, or it and the error before it are about tensors that are too large."""
    return is_out_of_memory(error) or all(any(word in text for word in TOO_LARGE) for text in (str(error), str(before)))


def names_read(node: Any) -> list[str]:
    """The tensors that a node reads, including those that the bodies of its control flow capture."""
    found = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        bodies = [attribute.g, *attribute.graphs] if attribute.HasField("g") or attribute.graphs else []
        for body in bodies:
            own = {each.name for each in (*body.input, *body.initializer)}
            own |= {each.values.name for each in body.sparse_initializer}
            for inner in body.node:
                found |= dict.fromkeys(name for name in names_read(inner) if name not in own)
                own |= set(inner.output)
            found |= dict.fromkeys(each.name for each in body.output if each.name and each.name not in own)
    return list(found)


def session_of(model: bytes) -> Any:
    """onnxruntime's session for a serialised model, one thread, graph optimisations off."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # memory that a session frees is available to others
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_session(session: Any, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
    """The outputs with the dtypes of their types: onnxruntime returns types that NumPy lacks as integers."""
    types = {each.name: each.type for each in session.get_outputs()}
    input_names = {each.name for each in session.get_inputs()}
    made = session.run(list(outputs), {name: values for name, values in inputs.items() if name in input_names})
    return [_with_declared_dtype(values, types[name]) for name, values in zip(outputs, made, strict=True)]


def _with_declared_dtype(values: Any, type_name: str) -> Any:
    onnx: Any = import_module("onnx")
    name = type_name.removeprefix("tensor(").removesuffix(")").upper()
    kind = dict(onnx.TensorProto.DataType.items()).get(name)
    if not isinstance(values, np.ndarray) or kind is None or not name.startswith(("FLOAT8", "BFLOAT16")):
        return values
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    return values if values.dtype == dtype or values.dtype.itemsize != dtype.itemsize else values.view(dtype)


class LoadedModel:
    """A cached model: a session for all of it, or a runner for each node if onnxruntime refuses the model."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.session: Any = None
        self.nodes: list[NodeRunner] | None = None

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str], separately: bool, evaluated: set[int]) -> Any:
        """The outputs in order. Raises RefusedError with the name of the node."""
        if not separately and self.nodes is None:
            try:
                self.session = self.session or session_of(self.model)
                return run_session(self.session, inputs, outputs) if outputs else []
            except ImportError:
                raise
            except Exception as error:  # onnxruntime's exceptions have no other common base
                self.session = None
                if not outputs:
                    raise RefusedError(REFUSED, "", text_of(error)) from None
        return self._node_by_node(inputs, outputs, evaluated)

    def _node_by_node(self, inputs: Mapping[str, Any], outputs: Sequence[str], evaluated: set[int]) -> list[Any]:
        if self.nodes is None:
            onnx: Any = import_module("onnx")
            proto = onnx.load_model_from_string(self.model)
            self.nodes = [NodeRunner(proto, number) for number in range(len(proto.graph.node))]
            self.held = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer
                         if each.name in outputs}  # fmt: skip
        values = {**self.held, **inputs}
        last = {name: number for number, node in enumerate(self.nodes) for name in node.reads}
        for number, node in enumerate(self.nodes):
            send_to_parent((AT, number, node.name))
            made = node.run({name: values[name] for name in node.reads if name in values}, number in evaluated)
            values |= made
            for name in {*node.reads, *made}:
                if last.get(name, -1) <= number and name not in outputs:
                    values.pop(name, None)
        return [values[name] for name in outputs]


class NodeRunner:
    """One node of a model, computed by onnxruntime or by ONNX's reference evaluator."""

    def __init__(self, proto: Any, number: int) -> None:
        self.proto, self.node = proto, proto.graph.node[number]
        self.name = self.node.name or next(filter(None, self.node.output), self.node.op_type)
        self.outputs = [name for name in self.node.output if name]
        read = names_read(self.node)
        self.held = [each for each in proto.graph.initializer if each.name in read]
        self.sparse = [each for each in proto.graph.sparse_initializer if each.values.name in read]
        known = {*(each.name for each in self.held), *(each.values.name for each in self.sparse)}
        self.reads = [name for name in read if name not in known]
        self.session: Any = None
        self.evaluator: Any = None

    def run(self, inputs: Mapping[str, Any], evaluated: bool) -> dict[str, Any]:
        """The node's outputs by name; ``evaluated``: without onnxruntime."""
        refusal: Exception = RuntimeError("it crashed the process")
        if not evaluated and self.evaluator is None:
            try:
                self.session = self.session or session_of(self._model(inputs))
                return dict(zip(self.outputs, run_session(self.session, inputs, self.outputs), strict=True))
            except ImportError:
                raise
            except Exception as error:
                self.session = None
                if is_out_of_memory(error):
                    raise RefusedError(MEMORY, self.name, text_of(error)) from None
                refusal = error
        try:
            canonical = self._canonical(inputs)
            if canonical is not None:  # of the shapes of these inputs
                return dict(zip(self.outputs, _computed(canonical, inputs, self.outputs), strict=True))
            if self.evaluator is None:
                self.evaluator = import_module("onnx.reference").ReferenceEvaluator(self._proto([self.node], inputs))
            return dict(zip(self.outputs, self.evaluator.run(self.outputs, dict(inputs)), strict=True))
        except Exception as error:
            kind = MEMORY if is_too_large(error, refusal) else REFUSED
            self.evaluator = None
            raise RefusedError(
                kind, self.name, f"onnxruntime reports: {text_of(refusal)}; ONNX's evaluator: {text_of(error)}"
            ) from None

    def _model(self, inputs: Mapping[str, Any]) -> bytes:
        found: bytes = self._proto([self.node], inputs).SerializeToString()
        return found

    def _canonical(self, inputs: Mapping[str, Any]) -> Any:
        """The canonical form of the node as a model (``canonical_nodes.py``); None if it has no other."""
        onnx: Any = import_module("onnx")
        forms = _file("canonical_nodes.py")
        if self.node.op_type not in forms.REQUIRED:
            return None
        types = {name: np.asarray(values) for name, values in inputs.items() if isinstance(values, np.ndarray)}
        types |= {each.name: onnx.numpy_helper.to_array(each) for each in self.held}
        opset = next((each.version for each in self.proto.opset_import if each.domain in ("", "ai.onnx")), 0)
        numbers = itertools.count()
        made = forms.canonical_nodes(self.node, opset, types, lambda hint: f"{hint}:{next(numbers)}")
        return None if made is None else self._proto(made, inputs)

    def _proto(self, nodes: Sequence[Any], inputs: Mapping[str, Any]) -> Any:
        """Nodes as a model, whose inputs have the types of the arrays, and any shapes."""
        onnx: Any = import_module("onnx")
        known = {each.name: each for each in (*self.proto.graph.input, *self.proto.graph.value_info)}
        given = [known.get(name) or _info(onnx, name, values) for name, values in inputs.items()]
        made = [onnx.helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = onnx.helper.make_graph(nodes, "node", given, made, self.held, sparse_initializer=self.sparse)
        model = onnx.helper.make_model(
            graph, opset_imports=list(self.proto.opset_import), ir_version=self.proto.ir_version
        )
        model.functions.extend(self.proto.functions)
        return model


def _computed(proto: Any, inputs: Mapping[str, Any], outputs: Sequence[str]) -> list[Any]:
    """The outputs of a model by onnxruntime, or by ONNX's reference evaluator if onnxruntime refuses the model, too."""
    try:
        return run_session(session_of(proto.SerializeToString()), inputs, outputs)
    except ImportError:
        raise
    except Exception:  # onnxruntime's exceptions have no other common base
        found: list[Any] = import_module("onnx.reference").ReferenceEvaluator(proto).run(outputs, dict(inputs))
        return found


def _info(onnx: Any, name: str, values: Any) -> Any:
    if isinstance(values, list):
        each = _info(onnx, name, values[0]).type if values else onnx.helper.make_tensor_type_proto(1, None)
        return onnx.helper.make_value_info(name, onnx.helper.make_sequence_type_proto(each))
    if values is None:
        return onnx.helper.make_empty_tensor_value_info(name)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(values).dtype)
    return onnx.helper.make_tensor_value_info(name, kind, [None] * np.ndim(values))


def limit_memory(most: int) -> None:
    """Limit the memory of this process to ``most`` bytes more than it has, if the system supports it."""
    try:
        resource: Any = import_module("resource")
    except ImportError:  # Windows
        return
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            own = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        own = 0
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    total = own + most
    resource.setrlimit(resource.RLIMIT_AS, (total if hard == resource.RLIM_INFINITY else min(total, hard), hard))


def run_model(models: dict[int, LoadedModel], request: Any) -> tuple[Any, ...]:
    """The reply to a request to run a model: MADE with arrays, or an error; and the numbers of cached models."""
    key, model, dropped, inputs, outputs, separately, evaluated = request
    for each in dropped:
        models.pop(each, None)
    if model is not None:
        models[key] = LoadedModel(bytes(model))
    try:
        try:
            made = models[key].run(inputs, outputs, separately, evaluated)
        except RefusedError as error:
            if error.kind != MEMORY or len(models) == 1:
                raise
            serialised = models[key].model
            models.clear()  # other models may hold the missing memory
            gc.collect()
            models[key] = LoadedModel(serialised)
            made = models[key].run(inputs, outputs, separately, evaluated)
    except RefusedError as error:
        return error.kind, error.node, error.text, tuple(models)
    except ImportError as error:
        return MISSING, (error.name or "onnxruntime").partition(".")[0], text_of(error), tuple(models)
    except MemoryError as error:
        return MEMORY, "", text_of(error), tuple(models)
    return MADE, [np.asarray(each) if isinstance(each, np.generic) else each for each in made], tuple(models)


@functools.cache
def _file(path: str) -> Any:
    """The module of a file, named by its path from the folder of this one."""
    found = os.path.join(os.path.dirname(os.path.abspath(__file__)), path)
    spec: Any = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(found))[0], found)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_function(models: dict[int, LoadedModel], request: Any) -> tuple[Any, ...]:
    """The reply to a request to call a function of a file, as of ``run_model``. Frees all models for memory first."""
    _, path, name, arguments = request
    models.clear()
    gc.collect()
    try:
        return MADE, getattr(_file(path), name)(**arguments), ()
    except ImportError as error:
        return MISSING, (error.name or "onnxruntime").partition(".")[0], text_of(error), ()
    except Exception as error:  # libraries raise a dozen types
        return MEMORY if is_out_of_memory(error) else REFUSED, name, text_of(error), ()


def send_to_parent(message: object) -> None:
    """Send a message to the parent process."""
    send(_out, message)


_out: IO[bytes] = io.BytesIO()


def main() -> None:
    """Answer requests until the parent process ends, then exit, even during a computation."""
    global _out
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interrupted parent ends this process if necessary
    _out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # keep output of libraries out of the pipe
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        while True:
            try:
                requests.put(receive(source))
            except (EOFError, MemoryError, OSError):
                os._exit(0)

    with contextlib.suppress(ImportError):  # reported when needed
        import_module("onnx")
        import_module("onnxruntime")
    limit_memory(int(sys.argv[1]))
    threading.Thread(target=read, daemon=True).start()
    models: dict[int, LoadedModel] = {}
    while True:
        request = requests.get()
        found = call_function(models, request) if request[0] == CALL else run_model(models, request)
        del request
        send_to_parent(found)


if __name__ == "__main__":
    main()
