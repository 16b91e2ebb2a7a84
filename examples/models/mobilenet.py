"""MobileNetV2 (Sandler et al., 2018) of width 1 for 224² pixels, float, with seeded weights.

python examples/models/mobilenet.py [-o mobilenetv2.onnx] [--pixels 224]
"""

import argparse

import numpy as np
import onnx
from float_graph import FloatGraph

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion factor, channels, blocks, and stride of the first block of each stage (the paper's table 2)."""
LINEAR = 0.7
"""The gain that preserves the variance after a convolution without ReLU."""


def mobilenetv2(pixels: int = 224, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Input "image" (1, 3, pixels, pixels), output "classes" (1, classes)."""
    graph = FloatGraph("mobilenetv2", seed)
    least, most = graph.constant(np.float32(0)), graph.constant(np.float32(6))

    def clipped(data: str) -> str:
        return graph.node("Clip", data, least, most)

    data = clipped(graph.conv("image", 3, 32, 3, stride=2))
    channels = 32
    for wider, filters, blocks, stride in STAGES:
        for step in (stride, *(1,) * (blocks - 1)):
            inner = channels * wider
            wide = data if wider == 1 else clipped(graph.conv(data, channels, inner, 1))
            spatial = clipped(graph.conv(wide, inner, inner, 3, stride=step, groups=inner))
            keeps = step == 1 and channels == filters
            narrow = graph.conv(spatial, inner, filters, 1, gain=LINEAR / 2 if keeps else LINEAR)
            data = graph.node("Add", data, narrow) if keeps else narrow
            channels = filters
    data = clipped(graph.conv(data, channels, 1280, 1))
    graph.classifier(data, 1280, classes, "classes")
    return graph.model({"image": (1, 3, pixels, pixels)}, {"classes": (1, classes)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="mobilenetv2.onnx")
    parser.add_argument("--pixels", type=int, default=224)
    given = parser.parse_args()
    onnx.save(mobilenetv2(given.pixels), given.output)


if __name__ == "__main__":
    main()
