"""ResNet-18 (He et al., 2015, "Deep Residual Learning") for 224² pixels, float, with seeded weights.

python examples/models/resnet.py [-o resnet18.onnx] [--pixels 224]
"""

import argparse

import onnx
from float_graph import FloatGraph

BLOCKS = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels of each stage, and the stride of its first block; two blocks each."""


def resnet18(pixels: int = 224, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Input "image" (1, 3, pixels, pixels), output "classes" (1, classes)."""
    graph = FloatGraph("resnet18", seed)
    data = graph.node("Relu", graph.conv("image", 3, 64, 7, stride=2))
    data = graph.node("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for filters, stride in BLOCKS:
        for step in (stride, 1):
            first = graph.node("Relu", graph.conv(data, channels, filters, 3, stride=step))
            second = graph.conv(first, filters, filters, 3, gain=0.5)
            changes = step != 1 or channels != filters
            shortcut = graph.conv(data, channels, filters, 1, stride=step, gain=0.7) if changes else data
            data = graph.node("Relu", graph.node("Add", second, shortcut))
            channels = filters
    pooled = graph.node("Flatten", graph.node("GlobalAveragePool", data), axis=1)
    weights = graph.normal(channels, classes, fan_in=channels)
    graph.nodes.append(
        onnx.helper.make_node("Gemm", [pooled, weights, graph.normal(classes, fan_in=100)], ["classes"], "classifier")
    )
    return graph.model({"image": (1, 3, pixels, pixels)}, {"classes": (1, classes)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="resnet18.onnx")
    parser.add_argument("--pixels", type=int, default=224)
    given = parser.parse_args()
    onnx.save(resnet18(given.pixels), given.output)


if __name__ == "__main__":
    main()
