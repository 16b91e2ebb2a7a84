"""A U-Net (Ronneberger et al., 2015) for 128² pixels, float, with seeded weights.

Convolutions are padded, and channels are a quarter of the paper's. Upsampling is by transposed convolutions.

python examples/models/unet.py [-o unet.onnx] [--pixels 128]
"""

import argparse

import onnx
from float_graph import FloatGraph

CHANNELS = (16, 32, 64, 128, 256)
"""Channels of each level of the encoder; the last is the bottleneck."""


def unet(pixels: int = 128, classes: int = 2, seed: int = 0) -> onnx.ModelProto:
    """Input "image" (1, 3, pixels, pixels), output "classes" (1, classes, pixels, pixels)."""
    graph = FloatGraph("unet", seed)

    def twice(data: str, channels: int, filters: int) -> str:
        first = graph.node("Relu", graph.conv(data, channels, filters, 3))
        return graph.node("Relu", graph.conv(first, filters, filters, 3))

    data, channels, skipped = "image", 3, list[str]()
    for filters in CHANNELS[:-1]:
        skipped.append(twice(data, channels, filters))
        data = graph.node("MaxPool", skipped[-1], kernel_shape=[2, 2], strides=[2, 2])
        channels = filters
    data = twice(data, channels, CHANNELS[-1])
    channels = CHANNELS[-1]
    for filters, other in zip(reversed(CHANNELS[:-1]), reversed(skipped), strict=True):
        # The windows do not overlap: each value is a sum over channels. The gain below 1 attenuates the upsampled
        # values, or a difference of one unit at an early layer would be amplified to many at the output.
        weights = graph.normal(channels, filters, 2, 2, fan_in=channels, gain=0.25)
        wide = graph.node("ConvTranspose", data, weights, kernel_shape=[2, 2], strides=[2, 2])
        data = twice(graph.node("Concat", wide, other, axis=1), 2 * filters, filters)
        channels = filters
    graph.conv(data, channels, classes, 1)
    graph.name_last("classes")
    return graph.model({"image": (1, 3, pixels, pixels)}, {"classes": (1, classes, pixels, pixels)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="unet.onnx")
    parser.add_argument("--pixels", type=int, default=128)
    given = parser.parse_args()
    onnx.save(unet(given.pixels), given.output)


if __name__ == "__main__":
    main()
