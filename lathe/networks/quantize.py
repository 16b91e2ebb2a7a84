"""Float models brought to 8 bits by onnxruntime's own quantiser, with recurrent nodes unrolled first.

Before, onnxruntime folds constants and BatchNormalization (``quant_pre_process``), where it can. Both run in the host's
process (``ort_quantizer.py``), which may take so much memory and time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.errors import shown
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.reading import Model, read_model
from lathe.frontend.onnx.unroll_rnn import OLDEST_OPSET, RECURRENT, unrolled
from lathe.frontend.onnx.value_types import TensorType
from lathe.frontend.onnx.worker_tasks import TaskError, run_task
from lathe.networks import ort_quantizer

Sample = Mapping[str, NDArray[Any]]
QUANTISER = Path(ort_quantizer.__file__)


@dataclass(frozen=True)
class Quantised:
    """A ModelProto in 8 bits; names of recurrent nodes that were unrolled, and of others the reason why not.

    ``kinds``: those of nodes that were quantised.
    ``unprepared``: why it was quantised as it is, without ``quant_pre_process``; empty if that worked.
    """

    proto: Any
    kinds: tuple[str, ...]
    unrolled: tuple[str, ...]
    stayed: Mapping[str, str]
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
    """A float model (a path or a ModelProto) in 8 bits, as a ModelProto with QuantizeLinear and DequantizeLinear.

    ``calibration`` holds an array for each input, by name, in its shape and dtype, or several samples, with one more
    dimension in front; the ranges of values are those that they make. ``shapes`` says what open shapes of inputs are.
    Weights get a scale for each filter (``per_channel``) and have zero points of 0; values between layers have, too, if
    ``symmetric``. ``only`` names the kinds of nodes that are quantised, all that onnxruntime's quantiser takes unless
    given. LSTM, GRU and RNN of fixed length are unrolled first, so that their products are quantised.

    Raises ModelError for a model that cannot be read, that has layers of 8 bits already, or that onnxruntime does not
    quantise, and for data that do not fit it.
    """
    read = read_model(model, shapes)
    samples = samples_of(calibration, inputs_of(read))
    return quantised(read, samples, per_channel=per_channel, symmetric=symmetric, only=only).proto


def inputs_of(model: Model) -> dict[str, TensorType | None]:
    """The inputs of a model by name; None for what is no tensor."""
    return {name: model.types.get(name) for name in model.inputs}


def is_float(model: Model) -> bool:
    """Whether nothing of a model is of 8 bits yet, and something of it could be."""
    if any(_is_of_bytes(node.op_type) for node in model.nodes):
        return False
    known = {*quantisable(), *RECURRENT}
    made = (model.types.get(name) for node in model.nodes if node.op_type in known for name in node.output)
    return any(each is not None and each.dtype == "float32" for each in made)


def quantisable() -> tuple[str, ...]:
    """The kinds of nodes that onnxruntime's quantiser takes."""
    registry = extra("onnxruntime.quantization.registry")
    return tuple(sorted({*registry.QLinearOpsRegistry, *registry.QDQRegistry}))


def _is_of_bytes(kind: str) -> bool:
    return kind.startswith("QLinear") or kind.endswith(("QuantizeLinear", "DequantizeLinear", "Integer"))


def samples_of(calibration: object, types: Mapping[str, TensorType | None]) -> list[Sample]:
    """Calibration data as one dictionary for each sample. Raises ModelError for what does not fit the inputs."""
    if not isinstance(calibration, Mapping):
        raise ModelError(f"calibration data must be arrays by name ({', '.join(types)}), not {shown(calibration)}.")
    if {*calibration} != {*types}:
        given = ", ".join(sorted(map(str, calibration))) or "none"
        raise ModelError(f"calibration data must be arrays of the names {', '.join(sorted(types))}, not {given}.")
    stacks = {name: _stack(name, np.asarray(calibration[name]), wanted) for name, wanted in types.items()}
    counts = {name: len(stack) for name, stack in stacks.items()}
    if len(set(counts.values())) > 1:
        told = " and ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise ModelError(f"calibration data must be as many samples of each input, not {told}.")
    return [{name: stack[at] for name, stack in stacks.items()} for at in range(min(counts.values(), default=1))]


def _stack(name: str, array: NDArray[Any], wanted: TensorType | None) -> NDArray[Any]:
    """The samples of one input."""
    if wanted is None:
        raise ModelError(f"input {name!r} must be a tensor for a model to be quantised, not something else.")
    fits = array.shape == wanted.shape or array.shape[1:] == wanted.shape
    if not fits or array.size == 0 or str(array.dtype) != wanted.dtype:
        raise ModelError(
            f"calibration data of {name!r} must be an array of shape {wanted.shape} and dtype {wanted.dtype}, or "
            f"several such with one more dimension in front, not of shape {array.shape} and dtype {array.dtype}."
        )
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ModelError(f"calibration data of {name!r} must be finite numbers, and are not.")
    return array[np.newaxis] if array.shape == wanted.shape else array


def quantised(
    model: Model,
    samples: Sequence[Sample],
    *,
    per_channel: bool = True,
    symmetric: bool = False,
    only: Sequence[str] | None = None,
) -> Quantised:
    """A model in 8 bits; :func:`quantize` tells of the options."""
    own = next((node for node in model.nodes if _is_of_bytes(node.op_type)), None)
    if own is not None:
        raise ModelError(
            f"model {model.name!r} must be in float to be quantised, and has node {own.name or own.output[0]!r} of "
            f"{own.op_type} already. Use it as it is."
        )
    kinds = _kinds(only)
    prepared, unprepared = _prepared(_of_known_opset(model))
    recurrent = {node.name or node.output[0] for node in prepared.nodes if node.op_type in RECURRENT}
    apart = unrolled(prepared) if "Gemm" in kinds else None
    proto = prepared.proto if apart is None else apart.proto
    stayed = dict.fromkeys(recurrent, "no Gemm is quantised") if apart is None else dict(apart.stayed)
    made = _quantised(model.name, _named(proto), samples, kinds, per_channel, symmetric)
    return Quantised(made, kinds, tuple(sorted(recurrent - {*stayed})), stayed, unprepared)


def _kinds(only: Sequence[str] | None) -> tuple[str, ...]:
    known = quantisable()
    if only is None:
        return known
    if isinstance(only, str) or not only:
        raise ModelError(f"kinds of nodes to quantise must be a list of one or more names, not {shown(only)}.")
    for kind in only:
        if kind not in known:
            raise ModelError(
                f"kinds of nodes to quantise must be among those that onnxruntime's quantiser takes "
                f"({', '.join(known)}), not {shown(kind)}."
            )
    return tuple(only)


def _of_known_opset(model: Model) -> Model:
    """The model in an opset in which scales of several channels can be written, and recurrent nodes unrolled."""
    opset = next((each.version for each in model.proto.opset_import if each.domain in ("", "ai.onnx")), OLDEST_OPSET)
    if opset >= OLDEST_OPSET:
        return model
    try:
        proto = extra("onnx.version_converter").convert_version(model.proto, OLDEST_OPSET)
    except Exception as error:  # the converter's own errors are RuntimeError and others
        raise ModelError(
            f"opset of model {model.name!r} must be at least {OLDEST_OPSET} to be quantised, and it cannot be brought "
            f"there from {opset}: {_line(error)}. Export it anew."
        ) from None
    return replace(model, proto=proto)


def _again(proto: Any, model: Model) -> Model:
    """A changed ModelProto, read under the same name."""
    return replace(read_model(proto), name=model.name)


def _prepared(model: Model) -> tuple[Model, str]:
    """The model as ``quant_pre_process`` leaves it; or as it is, and why."""
    try:
        made = run_task(QUANTISER, "prepared", _doing(model.name), model=model.proto.SerializeToString())
    except TaskError as error:  # it fails in many ways
        return model, _line(error)
    try:
        return _again(extra("onnx").load_model_from_string(bytes(made)), model), ""
    except ModelError as error:
        return model, _line(error)


def _named(proto: Any) -> Any:
    """The same with a name for every node, by which its layer is known later, and with biases as they are quantised.

    Onnxruntime leaves biases (1, N) where it makes one product of MatMul and Add, and its quantiser then takes scales
    of filters for one.
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
            QUANTISER, "quantised", _doing(name), model=model, per_channel=per_channel, symmetric=symmetric, **options
        )
    except TaskError as error:
        raise ModelError(
            f"model {name!r} must be one that onnxruntime's quantiser takes, and is not: {_line(error)}."
        ) from None
    return extra("onnx").load_model_from_string(bytes(made))


def _doing(name: str) -> str:
    return f"quantising of model {name!r}"


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
