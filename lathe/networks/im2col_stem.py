"""First convolutions, of few channels: their windows are laid side by side by the host, which packs inputs anyway.

An image of 3 channels fills 3 of 16 lanes, and each tap of a window is a step of its own. Where windows lie side by
side in the channels, a step takes as many values as there are lanes. The host can lay rows of windows so, or whole
windows; values that windows share are sent several times then, so that what takes longer, steps or bytes, decides. Of
7×7 taps by 2 in 224×224×3 to 64 filters, 16 lanes::

    as it is        49 steps a pixel    2,458,624 cycles
    rows            14                    702,464
    whole windows   10                    501,760, while 250,880 beats of 64 bits bring the data
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lathe.configs import HardwareConfig
from lathe.frontend.onnx.quant_graph import Conv, Layer
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.im2col import Windows

WORTH = 0.9
"""What windows side by side take at most, as a part of what the convolution takes as it is."""


@dataclass(frozen=True, eq=False)
class Im2colStem:
    """A first convolution of what the host sends as ``windows``, of shape ``shape``."""

    layer: Conv
    windows: Windows
    shape: tuple[int, ...]


def stems_of(
    layers: Sequence[Layer], types: Mapping[str, TensorType], config: HardwareConfig, given: Callable[[str], bool]
) -> dict[str, Im2colStem]:
    """By the tensors that the host sends, of which ``given`` tells, those that had better be windows."""
    found: dict[str, Im2colStem] = {}
    for layer in layers:
        if not isinstance(layer, Conv) or len(layer.inputs) != 1 or layer.groups != 1:
            continue
        tensor = layer.inputs[0]
        alone = sum(tensor in other.inputs for other in layers) == 1
        if alone and given(tensor) and len(types[tensor].shape) == len(layer.weights.shape) == 4:
            best = min(_forms(layer, types), key=lambda stem: _cycles(stem.layer, stem.shape, types, config))
            least = _cycles(best.layer, best.shape, types, config)
            if least <= WORTH * _cycles(layer, types[tensor].shape, types, config):
                found[tensor] = best
    return found


def _forms(layer: Conv, types: Mapping[str, TensorType]) -> list[Im2colStem]:
    """The convolution of rows of windows, and of whole ones."""
    batch, channels, height, _ = types[layer.inputs[0]].shape
    _, _, rows, columns = types[layer.output].shape
    filters, _, high, wide = layer.weights.shape
    (down, along), (apart_y, apart_x), (top, left, bottom, right) = layer.strides, layer.dilations, layer.pads
    border = layer.of_inputs[0].own_zero
    across = Windows((1, wide), (1, along), (1, apart_x), (0, left, 0, right), border)
    by_row = replace(
        layer,
        weights=layer.weights.transpose(0, 1, 3, 2).reshape(filters, channels * wide, high, 1),
        strides=(down, 1),
        dilations=(apart_y, 1),
        pads=(top, 0, bottom, 0),
    )
    both = Windows((high, wide), layer.strides, layer.dilations, layer.pads, border)
    whole = replace(
        layer, weights=layer.weights.reshape(filters, -1, 1, 1), strides=(1, 1), dilations=(1, 1), pads=(0, 0, 0, 0)
    )
    return [
        Im2colStem(by_row, across, (batch, channels * wide, height, columns)),
        Im2colStem(whole, both, (batch, channels * high * wide, rows, columns)),
    ]


def _cycles(layer: Conv, shape: tuple[int, ...], types: Mapping[str, TensorType], config: HardwareConfig) -> int:
    """What products and data take at least, the longer of both."""
    batch, channels, height, width = shape
    blocks = -(-channels // config.block_in)
    made = types[layer.output].shape
    pixels = -(-batch // config.batch) * made[2] * made[3]
    steps: int = pixels * -(-made[1] // config.block_out) * layer.weights.shape[2] * layer.weights.shape[3] * blocks
    values = batch * height * width * blocks * config.block_in
    return max(steps, -(-values // config.bus_bytes) * config.memory.cycles_per_beat)
