"""ResNet-18 and ResNet-50 (He et al., 2015, "Deep Residual Learning") for 224² pixels, float, with seeded weights.

python examples/models/resnet.py [--layers 18] [-o resnet18.onnx] [--pixels 224]
"""

import argparse

import onnx
from float_graph import FloatGraph

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels of each stage, and the stride of its first block."""
BLOCKS = (3, 4, 6, 3)
"""Blocks of each stage of ResNet-50; ResNet-18 has two."""


def resnet18(pixels: int = 224, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Input "image" (1, 3, pixels, pixels), output "classes" (1, classes)."""
    graph = FloatGraph("resnet18", seed)
    data = _stem(graph)
    channels = 64
    for filters, stride in STAGES:
        for step in (stride, 1):
            first = graph.node("Relu", graph.conv(data, channels, filters, 3, stride=step))
            second = graph.conv(first, filters, filters, 3, gain=0.35)
            changes = step != 1 or channels != filters
            shortcut = graph.conv(data, channels, filters, 1, stride=step, gain=0.7) if changes else data
            data = graph.node("Relu", graph.node("Add", second, shortcut))
            channels = filters
    return _classified(graph, data, channels, pixels, classes)


def resnet50(pixels: int = 224, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Input "image" (1, 3, pixels, pixels), output "classes" (1, classes); strides are in the 3×3 convolutions."""
    graph = FloatGraph("resnet50", seed)
    data = _stem(graph)
    channels = 64
    for (narrow, stride), blocks in zip(STAGES, BLOCKS, strict=True):
        wide = 4 * narrow
        for step in (stride, *(1,) * (blocks - 1)):
            first = graph.node("Relu", graph.conv(data, channels, narrow, 1))
            second = graph.node("Relu", graph.conv(first, narrow, narrow, 3, stride=step))
            third = graph.conv(second, narrow, wide, 1, gain=0.2)
            changes = step != 1 or channels != wide
            shortcut = graph.conv(data, channels, wide, 1, stride=step, gain=0.7) if changes else data
            data = graph.node("Relu", graph.node("Add", third, shortcut))
            channels = wide
    return _classified(graph, data, channels, pixels, classes)


def _stem(graph: FloatGraph) -> str:
    """The first layers of both: 7×7 convolution and max-pool, each with stride 2."""
    data = graph.node("Relu", graph.conv("image", 3, 64, 7, stride=2))
    return graph.node("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def _classified(graph: FloatGraph, data: str, channels: int, pixels: int, classes: int) -> onnx.ModelProto:
    graph.classifier(data, channels, classes, "classes")
    return graph.model({"image": (1, 3, pixels, pixels)}, {"classes": (1, classes)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="resnet18.onnx or resnet50.onnx unless given")
    parser.add_argument("--layers", type=int, choices=(18, 50), default=18)
    parser.add_argument("--pixels", type=int, default=224)
    given = parser.parse_args()
    model = (resnet18 if given.layers == 18 else resnet50)(given.pixels)
    onnx.save(model, given.output or f"resnet{given.layers}.onnx")


if __name__ == "__main__":
    main()
