"""The workloads of sweep files: operators with their shapes, networks, and models, topologies and scripts in files.

A workload is a function whose parameters are the keys in the sweep file. To add one, write the function with the
decorator; `lathe sweep --workloads` prints its docstring.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NewType, TypeAlias, get_args

from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend import operators as op
from lathe.networks.digits.network import DEFAULT_BATCH, digits_network
from lathe.sweeps.scalesim import Convolution, Product, layer_of
from lathe.sweeps.specification import Parameter
from lathe.sweeps.workload_types import Measurable, Model, Scripted, TensorProgram

Border = NewType("Border", int)
"""Rows and columns of padding; may be 0, unlike all other integers of a workload."""

Epilogue: TypeAlias = Literal["cut", "requantise"]


Builder = Callable[..., Measurable]

WORKLOADS: dict[str, Builder] = {}

ANY = "**"
"""Stands for parameters with arbitrary names."""


def workload(function: Builder) -> Builder:
    """Decorator that registers a function as a workload."""
    WORKLOADS[function.__name__] = function
    return function


def known_workloads() -> dict[str, dict[str, Parameter]]:
    """The parameters of all workloads, by name; ``ANY`` among them if a workload takes others, too."""
    return {
        name: {
            ANY if parameter.kind is parameter.VAR_KEYWORD else parameter.name: _declared(parameter)
            for parameter in inspect.signature(function).parameters.values()
        }
        for name, function in WORKLOADS.items()
    }


def _declared(parameter: inspect.Parameter) -> Parameter:
    """The description of a parameter, from its annotation and default."""
    words = get_args(parameter.annotation) if parameter.annotation is Epilogue else ()
    required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    least = 0 if parameter.annotation is Border else 1
    return Parameter(
        required, least, words, text=parameter.annotation in (str, Path), path=parameter.annotation is Path
    )


def make(name: str, parameters: Mapping[str, Any]) -> Measurable:
    """Create a workload by its name. Raises LatheError for parameters that are invalid together."""
    return WORKLOADS[name](**parameters)


def finished(sums: Tensor, epilogue: Epilogue) -> Tensor:
    """int32 sums as int8: their low bits, as the machine stores them, or requantised by a shift of 8 bits."""
    if epilogue == "cut":
        return compute(sums.shape, lambda *i: sums[i].astype("int8"), "cut")
    return op.requantise(sums, 8)


def product(m: int, n: int, k: int) -> Tensor:
    """A matmul with int32 results."""
    A, B = placeholder((m, k), "int8", name="A"), placeholder((n, k), "int8", name="B")
    return op.matmul(A, B, transpose_b=True)


@workload
def matmul(m: int, n: int, k: int, epilogue: Epilogue = "cut") -> TensorProgram:
    """A (m, k) times B (n, k), transposed."""
    return TensorProgram(finished(product(m, n, k), epilogue))


@workload
def dense(inputs: int, outputs: int, batch: int = 1, epilogue: Epilogue = "requantise") -> TensorProgram:
    """A fully connected layer with bias."""
    data, weight = placeholder((batch, inputs), name="data"), placeholder((outputs, inputs), name="weight")
    bias = placeholder((outputs,), "int32", name="bias")
    return TensorProgram(finished(op.dense(data, weight, bias), epilogue))


@workload
def conv2d(
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel: int = 3,
    batch: int = 1,
    stride: int = 1,
    padding: Border = Border(0),
    dilation: int = 1,
    groups: int = 1,
    epilogue: Epilogue = "cut",
) -> TensorProgram:
    """A convolution of images (batch, height, width, channels)."""
    data = placeholder((batch, height, width, channels), name="data")
    per_group = channels // groups if groups > 0 else channels
    weight = placeholder((filters, kernel, kernel, per_group), name="weight")
    sums = op.conv2d(data, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return TensorProgram(finished(sums, epilogue))


@workload
def max_pool2d(height: int, width: int, channels: int, window: int = 2, batch: int = 1) -> TensorProgram:
    """The maximum over square windows that do not overlap."""
    return TensorProgram(op.max_pool2d(placeholder((batch, height, width, channels), name="data"), window))


@workload
def avg_pool2d(height: int, width: int, channels: int, window: int = 2, batch: int = 1) -> TensorProgram:
    """The average over square windows that do not overlap."""
    return TensorProgram(op.avg_pool2d(placeholder((batch, height, width, channels), name="data"), window))


@workload
def relu(height: int, width: int, channels: int, batch: int = 1) -> TensorProgram:
    """max(x, 0) on images in int8."""
    return TensorProgram(op.relu(placeholder((batch, height, width, channels), name="data")))


@workload
def add(height: int, width: int, channels: int, batch: int = 1) -> TensorProgram:
    """The sum of two int8 images, cut to int8."""
    A, B = (placeholder((batch, height, width, channels), name=name) for name in ("A", "B"))
    return TensorProgram(finished(op.add(A, B), "cut"))


@workload
def digits(batch: int = DEFAULT_BATCH) -> TensorProgram:
    """The digits network that `lathe run` runs by default."""
    network = digits_network(batch)
    return TensorProgram(network.logits, network.constants)


@workload
def onnx(path: Path, shapes: str = "") -> Model:
    """An ONNX model; shapes "x=1,3,48,192 y=1,8" set the symbolic dimensions of its inputs."""
    return Model.read(str(path), shapes)


@workload
def topology(path: Path, layer: str) -> TensorProgram:
    """A layer of a SCALE-Sim topology, a CSV file; every layer of it if none is named."""
    shape = layer_of(str(path), layer)
    if isinstance(shape, Product):
        return TensorProgram(finished(product(shape.m, shape.n, shape.k), "cut"), follows_from=repr(shape))
    assert isinstance(shape, Convolution)
    data = placeholder((shape.batch, shape.height, shape.width, shape.channels), name="data")
    filters, per_group = shape.filters * shape.groups, shape.channels // shape.groups
    weight = placeholder((filters, shape.kernel_height, shape.kernel_width, per_group), name="weight")
    strides = (shape.stride_height, shape.stride_width)
    sums = op.conv2d(data, weight, stride=strides, groups=shape.groups)
    return TensorProgram(finished(sums, "cut"), follows_from=repr(shape))


@workload
def python(path: Path, function: str = "build", files: str = "", **parameters: object) -> Scripted:
    """A function of a Python file, called with the machine and with all other parameters.

    It returns a tensor, a list of tensors, a network of lt.from_onnx, or a program built from one of these. A stored
    row is valid until a file in the script's folder changes, or only those named by files, "weights.npz tables".
    """
    return Scripted.read(str(path), function, parameters, files or None)
