"""Random machines with RESCALE, and random quantised layers: sums with a factor per channel, added, looked up."""

from typing import Any

import numpy as np
from random_programs import Choice

from lathe.configs import ConfigError, HardwareConfig, load_config
from lathe.configs.encoding import GEMM_BEGIN, LOOKUP, RESCALE, RESCALE_ADD
from lathe.frontend import Tensor, placeholder, placeholders
from lathe.frontend.operators import conv2d, dense, lookup, matmul, requantise, rescaled_add
from lathe.frontend.tensor.rescale_parameters import rescale_parameters, rescaled_add_parameters


def rescaling(config: HardwareConfig, parameters: int = 64, tables: int = 2) -> HardwareConfig:
    """The machine with all RESCALE extensions, and so many vectors of parameters and so many tables."""
    extensions = dict.fromkeys((*config.extensions, RESCALE, RESCALE_ADD, LOOKUP))
    return config.with_(
        name=f"{config.name}, rescaling",
        extensions=tuple(extensions),
        par_buffer_bytes=parameters * config.block_out * 8,
        lut_buffer_bytes=tables * 256 * config.block_out,
    )


def quantised_machines(choice: Choice) -> HardwareConfig:
    """A shipped machine with RESCALE, and some parameters changed."""
    config = load_config(choice.pick(["tiny", "vta", "batch4"]))
    config = config.with_(extensions=choice.pick([(), (GEMM_BEGIN,)]))
    changes = {
        "batch": [1, 1, 2, 4],
        "block_in": [4, 8, 16],
        "block_out": [4, 8, 16],
        "acc_buffer_bytes": [8192, 131072],
        "uop_buffer_bytes": [1024, 32768],
        "memory.bus_bits": [64, 128],
        "memory.latency": [0, 3, 40],
    }
    for key in choice.shuffled(list(changes))[: choice.number(0, 3)]:
        try:
            config = config.with_(**{key: choice.pick(changes[key])})
        except ConfigError:
            continue  # invalid with the other parameters
    return rescaling(config, min(choice.pick([8, 16, 64]), config.wgt_depth), choice.pick([1, 2, 4]))


def quantised(choice: Choice, layers: int = 1) -> tuple[list[Tensor], dict[str, Any]]:
    """The outputs of a program of some layers, and random inputs; most parameters do not saturate all results."""
    count = iter(range(1000))
    parameters: list[Tensor] = []

    def name(what: str) -> str:
        return f"{what}{next(count)}"

    def rows(channels: int, *operands: int) -> Tensor:
        parameters.append(placeholder((channels, *operands, 2), "int32", name("parameters")))
        return parameters[-1]

    def brought(data: Tensor, other: Tensor | None, last: bool) -> Tensor:
        """Sums rescaled to 8 bits, alone or added to another tensor of the shape."""
        dtype = choice.pick(["int8", "uint8"]) if last else "int8"
        low, high = (0, 255) if dtype == "uint8" else (-128, 127)
        how = {
            "zero_point": choice.pick([0, choice.number(low, high)]),
            "dtype": dtype,
            "relu": bool(choice.number(0, 1)),
        }
        channels = data.shape[-1]
        if choice.number(0, 2) == 0:
            other = other or placeholder(data.shape, choice.pick(["int8", "int8", "int32"]), name("residual"))
            pair = choice.shuffled([data, other])
            made = rescaled_add(*pair, parameters=rows(channels, 2), name=name("added"), **how)
        else:
            made = requantise(data, parameters=rows(channels), name=name("quantised"), **how)
        return tabled(made, dtype if last else "int8") if choice.number(0, 3) == 0 else made

    def tabled(data: Tensor, dtype: str) -> Tensor:
        shape = choice.pick([(256,), (256, data.shape[-1])])
        return lookup(data, placeholder(shape, dtype, name("table")), name=name("looked_up"))

    def convolution(data: Tensor) -> Tensor:
        kernel = tuple(choice.number(1, min(3, extent)) for extent in data.shape[1:3])
        weight = placeholder((choice.number(1, 20), *kernel, data.shape[3]), "int8", name("weight"))
        return conv2d(data, weight, stride=choice.number(1, 2), padding=choice.number(0, 1), name=name("conv"))

    kind = choice.pick(["image", "image", "product", "pointwise"])
    if kind == "pointwise":
        shape = tuple(choice.number(1, 20) for _ in range(choice.number(1, 3)))
        data = placeholder(shape, choice.pick(["int32", "int8"]), name("data"))
        if data.dtype == "int8" and choice.number(0, 1):
            return _with_inputs(choice, [tabled(data, choice.pick(["int8", "uint8"]))], parameters)
        return _with_inputs(choice, [brought(data, None, last=True)], parameters)
    if kind == "product":
        A = placeholder((choice.number(1, 12), choice.number(1, 40)), "int8", name("A"))
        made = matmul(A, placeholder((A.shape[1], choice.number(1, 40)), "int8", name("B")), name=name("product"))
        for _ in range(layers - 1):
            data = brought(made, None, last=False)
            weight = placeholder((choice.number(1, 20), data.shape[1]), "int8", name("W"))
            made = dense(data, weight, name=name("dense"))
        return _with_inputs(choice, [brought(made, None, last=True)], parameters)
    shape = (choice.pick([1, 1, 2]), choice.number(3, 10), choice.number(3, 10), choice.pick([1, 3, 8, 17]))
    data = placeholder(shape, "int8", name("image"))
    for layer in range(layers):
        made = convolution(data)
        data = brought(made, data if data.shape == made.shape else None, last=layer == layers - 1)
    return _with_inputs(choice, [data], parameters)


def _with_inputs(
    choice: Choice, outputs: list[Tensor], parameters: list[Tensor]
) -> tuple[list[Tensor], dict[str, Any]]:
    generator = np.random.default_rng(choice.number(0, 1 << 30))
    inputs: dict[str, Any] = {}
    for tensor in placeholders(outputs):
        limits = np.iinfo(tensor.dtype)
        inputs[tensor.name] = generator.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
    for tensor in parameters:
        channels = len(inputs[tensor.name])
        scale = generator.uniform(-0.02, 0.05, (2, channels))
        bias = generator.integers(-9999, 9999, (2, channels))
        if choice.number(0, 3):
            add = len(tensor.shape) == 3
            inputs[tensor.name] = (
                rescaled_add_parameters(tuple(scale), tuple(bias)) if add else rescale_parameters(scale[0], bias[0])
            )
    return outputs, inputs
