"""Splitting of large NPU partitions: compile time grows with the square of the number of layers.

Unrolled recurrent layers give hundreds of small ones. A convolutional network has fewer, and stays in one stream.
"""

from collections.abc import Sequence
from itertools import pairwise

from lathe.frontend.onnx.quant_graph import Layer
from lathe.networks.partition import NpuPartition, Partition

MOST_LAYERS = 128
"""Most layers of an instruction stream."""


def split_long_partitions(partitions: Sequence[Partition]) -> list[Partition]:
    """The partitions, with large ones split into successive ones of about the same number of layers."""
    return [each for part in partitions for each in (_split(part) if isinstance(part, NpuPartition) else [part])]


def _split(partition: NpuPartition) -> list[Partition]:
    count = -(-len(partition.layers) // MOST_LAYERS)
    if count == 1:
        return [partition]
    ends = [len(partition.layers) * number // count for number in range(count + 1)]
    slices = [partition.layers[first:end] for first, end in pairwise(ends)]
    return [_partition_of(partition, slices, number) for number in range(count)]


def _partition_of(partition: NpuPartition, slices: Sequence[tuple[Layer, ...]], number: int) -> NpuPartition:
    own = slices[number]
    made = dict.fromkeys(layer.output for layer in own)
    read = dict.fromkeys(name for layer in own for name in layer.inputs)
    later = {name for piece in slices[number + 1 :] for layer in piece for name in layer.inputs}
    needed = {*later, *partition.outputs}
    return NpuPartition(own, tuple(name for name in read if name not in made), tuple(n for n in made if n in needed))
