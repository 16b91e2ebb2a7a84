"""The workloads that a sweep file may name: operators with their shapes, and networks.

A workload is a function whose parameters are the keys that the file gives. To add one, write the function with the
decorator; its docstring is what `lathe sweep --workloads` shows.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, TypeAlias, get_args

from numpy.typing import NDArray

from lathe.frontend import Tensor, compute, placeholder, placeholders
from lathe.frontend import operators as op
from lathe.networks.digits.job import DEFAULT_BATCH
from lathe.networks.digits.network import digits_network
from lathe.sweeps.specification import Parameter

Border = NewType("Border", int)
"""Rows and columns around an image, which may be none; every other number of a workload is at least 1."""

Epilogue: TypeAlias = Literal["cut", "requantise"]


@dataclass(frozen=True)
class Workload:
    """A tensor program to measure, and the arrays that are part of it."""

    output: Tensor
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def tensors(self) -> list[Tensor]:
        """All arguments of the program."""
        return [*placeholders([self.output]), self.output]


Builder = Callable[..., Workload]

WORKLOADS: dict[str, Builder] = {}


def workload(function: Builder) -> Builder:
    """Let sweep files name this function."""
    WORKLOADS[function.__name__] = function
    return function


def known_workloads() -> dict[str, dict[str, Parameter]]:
    """Workloads with their parameters."""
    return {
        name: {parameter.name: _form_of(parameter) for parameter in inspect.signature(function).parameters.values()}
        for name, function in WORKLOADS.items()
    }


def _form_of(parameter: inspect.Parameter) -> Parameter:
    """What the annotation says that a parameter may be."""
    words = get_args(parameter.annotation) if parameter.annotation is Epilogue else ()
    return Parameter(parameter.default is parameter.empty, 0 if parameter.annotation is Border else 1, words)


def make(name: str, parameters: Mapping[str, Any]) -> Workload:
    """The workload of a name. Raises LatheError for parameters that make none together."""
    return WORKLOADS[name](**parameters)


def finished(sums: Tensor, epilogue: Epilogue) -> Tensor:
    """int32 sums as int8: their low bits, as the machine stores them, or requantised by a shift of 8."""
    if epilogue == "cut":
        return compute(sums.shape, lambda *i: sums[i].astype("int8"), "cut")
    return op.requantise(sums, 8)


@workload
def matmul(m: int, n: int, k: int, epilogue: Epilogue = "cut") -> Workload:
    """A (m, k) times B (n, k), transposed."""
    A, B = placeholder((m, k), "int8", name="A"), placeholder((n, k), "int8", name="B")
    return Workload(finished(op.matmul(A, B, transpose_b=True), epilogue))


@workload
def dense(inputs: int, outputs: int, batch: int = 1, epilogue: Epilogue = "requantise") -> Workload:
    """A fully connected layer with bias."""
    data, weight = placeholder((batch, inputs), name="data"), placeholder((outputs, inputs), name="weight")
    bias = placeholder((outputs,), "int32", name="bias")
    return Workload(finished(op.dense(data, weight, bias), epilogue))


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
) -> Workload:
    """A convolution of images (batch, height, width, channels)."""
    data = placeholder((batch, height, width, channels), name="data")
    per_group = channels // groups if groups > 0 else channels
    weight = placeholder((filters, kernel, kernel, per_group), name="weight")
    sums = op.conv2d(data, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return Workload(finished(sums, epilogue))


@workload
def max_pool2d(height: int, width: int, channels: int, window: int = 2, batch: int = 1) -> Workload:
    """The maximum over square windows that do not overlap."""
    return Workload(op.max_pool2d(placeholder((batch, height, width, channels), name="data"), window))


@workload
def avg_pool2d(height: int, width: int, channels: int, window: int = 2, batch: int = 1) -> Workload:
    """The average over square windows that do not overlap."""
    return Workload(op.avg_pool2d(placeholder((batch, height, width, channels), name="data"), window))


@workload
def relu(height: int, width: int, channels: int, batch: int = 1) -> Workload:
    """max(x, 0) on images in int8."""
    return Workload(op.relu(placeholder((batch, height, width, channels), name="data")))


@workload
def add(height: int, width: int, channels: int, batch: int = 1) -> Workload:
    """The sum of two int8 images, cut to int8."""
    A, B = (placeholder((batch, height, width, channels), name=name) for name in ("A", "B"))
    return Workload(finished(op.add(A, B), "cut"))


@workload
def digits(batch: int = DEFAULT_BATCH) -> Workload:
    """The digits network of `lathe run`."""
    network = digits_network(batch)
    return Workload(network.logits, network.constants)
