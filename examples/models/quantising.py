"""A float model brought to 8 bits by onnxruntime's quantiser: QDQ, a scale for each filter.

Where onnxruntime can, it prepares the model before: constants folded, normalisations within the convolutions before.
"""

import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

Arrays = Mapping[str, np.ndarray]
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators to name where nothing but products bears 8 bits."""

OPSET = 13
"""The first in which DequantizeLinear knows a scale for each filter."""


class _Given(CalibrationDataReader):
    """Calibration with some inputs, one after the other."""

    def __init__(self, inputs: Iterable[Arrays]) -> None:
        self.left = iter(inputs)

    def get_next(self) -> Arrays | None:
        return next(self.left, None)


def quantise(
    model: onnx.ModelProto,
    calibration: Iterable[Arrays],
    path: str | PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    operators: Sequence[str] | None = None,
    symmetric: bool = False,
) -> None:
    """Write a quantised model to a file; scales of activations are those of the ``calibration`` inputs.

    ``shapes`` binds open ones of inputs, ``operators`` names what is brought to 8 bits (what onnxruntime chooses unless
    given); ``symmetric``: zero points of 0 for activations.
    """
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    _bind(bound.graph, shapes or {})
    if any(each.domain in ("", "ai.onnx") and each.version < OPSET for each in bound.opset_import):
        bound = onnx.version_converter.convert_version(bound, OPSET)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # advice to prepare the model, though it has been
    try:
        with tempfile.TemporaryDirectory() as folder:
            plain, prepared = Path(folder) / "float.onnx", Path(folder) / "prepared.onnx"
            onnx.save(bound, plain)
            try:
                quant_pre_process(plain, prepared, skip_symbolic_shape=True)
            except Exception:  # of several types; it refuses some models, which are quantised as they are then
                prepared = plain
            ready = onnx.load(prepared)
            _flatten_biases(ready.graph)
            quantize_static(
                ready,
                path,
                _Given(calibration),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                op_types_to_quantize=None if operators is None else list(operators),
                extra_options={"ActivationSymmetric": symmetric},
            )
    finally:
        logging.disable(before)


def _bind(graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Fix shapes of inputs. Others were told for open ones, and are found again."""
    for each in graph.input:
        for dim, size in zip(each.type.tensor_type.shape.dim, shapes.get(each.name, ()), strict=False):
            dim.dim_value = size
    if shapes:
        del graph.value_info[:]
        for each in graph.output:
            each.type.tensor_type.ClearField("shape")


def _flatten_biases(graph: onnx.GraphProto) -> None:
    """Make biases (1, N) of products such of (N,): the quantiser takes them for as many as they have rows."""
    biases = {node.input[2] for node in graph.node if node.op_type == "Gemm" and len(node.input) > 2}
    for each in graph.initializer:
        if each.name in biases and len(each.dims) == 2 and each.dims[0] == 1:
            del each.dims[0]
