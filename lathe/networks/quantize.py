"""Quantisation of float models to 8 bits by onnxruntime's quantiser.

Its ``quant_pre_process`` folds constants and BatchNormalization if it can; then recurrent nodes are unrolled.
onnxruntime runs in the host worker process (``ort_quantizer.py``), with limits of memory and time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.errors import shown
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.reading import Model, read_model
from lathe.frontend.onnx.unroll_rnn import OLDEST_OPSET, RECURRENT, unrolled
from lathe.frontend.onnx.value_types import TensorType
from lathe.frontend.onnx.worker_tasks import TaskError, run_task
from lathe.networks import ort_quantizer

Sample = Mapping[str, NDArray[Any]]
QUANTISER = Path(ort_quantizer.__file__)


@dataclass(frozen=True)
class Quantised:
    """A quantised ModelProto, the names of unrolled recurrent nodes, and the reasons why others are not unrolled.

    ``kinds``: operators that were quantised. ``unprepared``: why ``quant_pre_process`` failed; empty if it did not.
    """

    proto: Any
    kinds: tuple[str, ...]
    unrolled: tuple[str, ...]
    not_unrolled: Mapping[str, str]
    unprepared: str


def quantize(
    model: object,
    calibration: Mapping[str, ArrayLike],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    per_channel: bool = True,
    symmetric: bool = False,
    only: Sequence[str] | None = None,
) -> Any:
    """Quantise a float model (a path or a ModelProto) to a ModelProto with QuantizeLinear and DequantizeLinear.

    ``calibration`` has an array for each input, by name, in its shape and dtype, or several samples, with an additional
    leading dimension; they determine the ranges of values. ``shapes`` binds dynamic shapes of inputs. ``per_channel``:
    weights have a scale for each output channel. Zero points of weights are 0; those of activations also, if
    ``symmetric``. ``only``: the operators to quantise, by default all that onnxruntime's quantiser supports. LSTM, GRU
    and RNN with a static number of time steps are unrolled first, so that their matmuls are quantised.

    Raises ModelError for a model that cannot be read, is already quantised, or cannot be quantised by onnxruntime, and
    for calibration data that does not match it.
    """
    read = read_model(model, shapes)
    samples = samples_of(calibration, inputs_of(read))
    return quantised(read, samples, per_channel=per_channel, symmetric=symmetric, only=only).proto


def inputs_of(model: Model) -> dict[str, TensorType | None]:
    """The types of a model's inputs by name; None for an input that is not a tensor."""
    return {name: model.types.get(name) for name in model.inputs}


def is_float(model: Model) -> bool:
    """Whether a model has float nodes that can be quantised, and no quantised ones."""
    if any(_is_of_bytes(node.op_type) for node in model.nodes):
        return False
    known = {*quantisable(), *RECURRENT}
    made = (model.types.get(name) for node in model.nodes if node.op_type in known for name in node.output)
    return any(each is not None and each.dtype == "float32" for each in made)


def quantisable() -> tuple[str, ...]:
    """The operators that onnxruntime's quantiser supports."""
    registry = optional_import("onnxruntime.quantization.registry")
    return tuple(sorted({*registry.QLinearOpsRegistry, *registry.QDQRegistry}))


def _is_of_bytes(kind: str) -> bool:
    return kind.startswith("QLinear") or kind.endswith(("QuantizeLinear", "DequantizeLinear", "Integer"))


def samples_of(calibration: object, types: Mapping[str, TensorType | None]) -> list[Sample]:
    """Calibration data as a dictionary for each sample. Raises ModelError unless it matches the inputs."""
    if not isinstance(calibration, Mapping):
        raise ModelError(f"calibration data must be arrays by name ({', '.join(types)}), not {shown(calibration)}.")
    if {*calibration} != {*types}:
        given = ", ".join(sorted(map(str, calibration))) or "none"
        raise ModelError(f"calibration data must have arrays for inputs {', '.join(sorted(types))}, not {given}.")
    stacks = {name: _stack(name, np.asarray(calibration[name]), expected) for name, expected in types.items()}
    counts = {name: len(stack) for name, stack in stacks.items()}
    if len(set(counts.values())) > 1:
        numbers = " and ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise ModelError(f"calibration data must have the same number of samples of each input, not {numbers}.")
    return [{name: stack[at] for name, stack in stacks.items()} for at in range(min(counts.values(), default=1))]


def _stack(name: str, array: NDArray[Any], expected: TensorType | None) -> NDArray[Any]:
    """The samples of one input."""
    if expected is None:
        raise ModelError(f"Cannot quantise a model with input {name!r}, which is not a tensor.")
    fits = array.shape == expected.shape or array.shape[1:] == expected.shape
    if not fits or array.size == 0 or str(array.dtype) != expected.dtype:
        raise ModelError(
            f"calibration data of {name!r} must be an array of shape {expected.shape} and dtype {expected.dtype}, or "
            f"several such with an additional leading dimension, not of shape {array.shape} and dtype {array.dtype}."
        )
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ModelError(f"calibration data of {name!r} must be finite, without infinity and NaN.")
    return array[np.newaxis] if array.shape == expected.shape else array


def quantised(
    model: Model,
    samples: Sequence[Sample],
    *,
    per_channel: bool = True,
    symmetric: bool = False,
    only: Sequence[str] | None = None,
) -> Quantised:
    """Quantise a model; for the options see :func:`quantize`."""
    own = next((node for node in model.nodes if _is_of_bytes(node.op_type)), None)
    if own is not None:
        raise ModelError(
            f"Cannot quantise model {model.name!r}: it is already quantised, as node {own.name or own.output[0]!r} is "
            f"{own.op_type}. Use it as it is."
        )
    kinds = _kinds(only)
    prepared, unprepared = _prepared(_of_known_opset(model))
    recurrent = {node.name or node.output[0] for node in prepared.nodes if node.op_type in RECURRENT}
    apart = unrolled(prepared) if "Gemm" in kinds else None
    proto = prepared.proto if apart is None else apart.proto
    stayed = dict.fromkeys(recurrent, "Gemm is not to be quantised") if apart is None else dict(apart.not_unrolled)
    made = _quantised(model.name, _named(proto), samples, kinds, per_channel, symmetric)
    return Quantised(made, kinds, tuple(sorted(recurrent - {*stayed})), stayed, unprepared)


def _kinds(only: Sequence[str] | None) -> tuple[str, ...]:
    known = quantisable()
    if only is None:
        return known
    if isinstance(only, str) or not only:
        raise ModelError(f"operators to quantise must be a list of at least one name, not {shown(only)}.")
    for kind in only:
        if kind not in known:
            raise ModelError(
                f"operators to quantise must be among those of onnxruntime's quantiser ({', '.join(known)}), not "
                f"{shown(kind)}."
            )
    return tuple(only)


def _of_known_opset(model: Model) -> Model:
    """The model in an opset that has per-channel scales and the operators of unrolled recurrent nodes."""
    opset = next((each.version for each in model.proto.opset_import if each.domain in ("", "ai.onnx")), OLDEST_OPSET)
    if opset >= OLDEST_OPSET:
        return model
    try:
        proto = optional_import("onnx.version_converter").convert_version(model.proto, OLDEST_OPSET)
    except Exception as error:  # the converter's own errors are RuntimeError and others
        raise ModelError(
            f"Cannot convert model {model.name!r} from opset {opset} to {OLDEST_OPSET}, the oldest that can be "
            f"quantised: {_line(error)}. Export it again."
        ) from None
    return replace(model, proto=proto)


def _read_again(proto: Any, model: Model) -> Model:
    """A changed ModelProto, read again under the same name."""
    return replace(read_model(proto), name=model.name)


def _prepared(model: Model) -> tuple[Model, str]:
    """The model after ``quant_pre_process``; or the model itself, and why that failed."""
    try:
        made = run_task(QUANTISER, "prepared", _task(model.name), model=model.proto.SerializeToString())
    except TaskError as error:  # it fails in many ways
        return model, _line(error)
    try:
        return _read_again(optional_import("onnx").load_model_from_string(bytes(made)), model), ""
    except ModelError as error:
        return model, _line(error)


def _named(proto: Any) -> Any:
    """The model with a name for every node, so that layers have one, and with 1-D biases of Gemm.

    When onnxruntime fuses MatMul and Add, the bias is (1, N), for which its quantiser confuses per-channel scales.
    """
    nodes = proto.graph.node
    for node in nodes:
        node.name = node.name or next((name for name in node.output if name), "")
    biases = {node.input[2] for node in nodes if node.op_type == "Gemm" and len(node.input) > 2}
    others = {name for node in nodes for n, name in enumerate(node.input) if node.op_type != "Gemm" or n != 2}
    for each in proto.graph.initializer:
        if each.name in biases - others and len(each.dims) == 2 and each.dims[0] == 1:
            del each.dims[0]
    return proto


def _quantised(
    name: str, proto: Any, samples: Sequence[Sample], kinds: Sequence[str], per_channel: bool, symmetric: bool
) -> Any:
    options = {"samples": [dict(each) for each in samples], "kinds": tuple(kinds)}
    model = proto.SerializeToString()
    try:
        made = run_task(
            QUANTISER, "quantised", _task(name), model=model, per_channel=per_channel, symmetric=symmetric, **options
        )
    except TaskError as error:
        raise ModelError(f"model {name!r} is not supported by onnxruntime's quantiser: {_line(error)}.") from None
    return optional_import("onnx").load_model_from_string(bytes(made))


def _task(name: str) -> str:
    return f"quantisation of model {name!r}"


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
