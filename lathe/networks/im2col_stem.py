"""Choice of im2col for first convolutions, along rows or of whole windows; the host CPU packs inputs anyway.

An image of 3 channels fills 3 of 16 lanes, with a micro-op for each tap. With im2col, the taps are in the channels and
fill the lanes. The host CPU can do im2col along rows only or for whole windows; overlapping windows then duplicate
data, so the longer of GEMM and load cycles decides. For 7×7 taps with stride 2 on 224×224×3, 64 filters, 16 lanes::

    direct                 49 micro-ops a pixel    2,458,624 cycles
    im2col along rows      14                        702,464
    im2col of windows      10                        501,760, while 250,880 beats of 64 bits load the data
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lathe.configs import HardwareConfig
from lathe.frontend.onnx.quant_graph import Conv, Layer
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.im2col import Windows

MAX_CYCLE_RATIO = 0.9
"""im2col is used if it takes at most this share of the cycles of the direct convolution."""


@dataclass(frozen=True, eq=False)
class Im2colStem:
    """A first convolution ``layer`` of data that the host CPU sends as ``windows`` with shape ``shape``."""

    layer: Conv
    windows: Windows
    shape: tuple[int, ...]


def im2col_stems(
    layers: Sequence[Layer], types: Mapping[str, TensorType], config: HardwareConfig, given: Callable[[str], bool]
) -> dict[str, Im2colStem]:
    """The first convolutions for which im2col pays off, by input; ``given``: whether the host CPU sends a tensor."""
    found: dict[str, Im2colStem] = {}
    for layer in layers:
        if not isinstance(layer, Conv) or len(layer.inputs) != 1 or layer.groups != 1:
            continue
        tensor = layer.inputs[0]
        alone = sum(tensor in other.inputs for other in layers) == 1
        if alone and given(tensor) and len(types[tensor].shape) == len(layer.weights.shape) == 4:
            best = min(_forms(layer, types), key=lambda stem: _cycles(stem.layer, stem.shape, types, config))
            least = _cycles(best.layer, best.shape, types, config)
            if least <= MAX_CYCLE_RATIO * _cycles(layer, types[tensor].shape, types, config):
                found[tensor] = best
    return found


def _forms(layer: Conv, types: Mapping[str, TensorType]) -> list[Im2colStem]:
    """The convolution with im2col along rows, and with im2col of whole windows."""
    batch, channels, height, _ = types[layer.inputs[0]].shape
    _, _, rows, columns = types[layer.output].shape
    filters, _, height_taps, width_taps = layer.weights.shape
    (down, along), (apart_y, apart_x), (top, left, bottom, right) = layer.strides, layer.dilations, layer.pads
    pad_value = layer.input_quants[0].int8_zero_point
    along_rows = Windows((1, width_taps), (1, along), (1, apart_x), (0, left, 0, right), pad_value)
    by_row = replace(
        layer,
        weights=layer.weights.transpose(0, 1, 3, 2).reshape(filters, channels * width_taps, height_taps, 1),
        strides=(down, 1),
        dilations=(apart_y, 1),
        pads=(top, 0, bottom, 0),
    )
    both = Windows((height_taps, width_taps), layer.strides, layer.dilations, layer.pads, pad_value)
    whole = replace(
        layer, weights=layer.weights.reshape(filters, -1, 1, 1), strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0)
    )
    return [
        Im2colStem(by_row, along_rows, (batch, channels * width_taps, height, columns)),
        Im2colStem(whole, both, (batch, channels * height_taps * width_taps, rows, columns)),
    ]


def _cycles(layer: Conv, shape: tuple[int, ...], types: Mapping[str, TensorType], config: HardwareConfig) -> int:
    """A lower bound on the cycles: the longer of GEMM and load."""
    batch, channels, height, width = shape
    blocks = -(-channels // config.block_in)
    made = types[layer.output].shape
    pixels = -(-batch // config.batch) * made[2] * made[3]
    steps: int = pixels * -(-made[1] // config.block_out) * layer.weights.shape[2] * layer.weights.shape[3] * blocks
    values = batch * height * width * blocks * config.block_in
    return max(steps, -(-values // config.bus_bytes) * config.memory.cycles_per_beat)
