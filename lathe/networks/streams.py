"""Compilation of a partition to instruction streams; it is split if the scheduler cannot map it as a whole."""

from collections.abc import Callable

from lathe.configs import LatheError
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.quant_graph import Layer
from lathe.networks.partition import NpuPartition
from lathe.networks.program_steps import NpuStep


class UnmappedLayer(Exception):  # noqa: N818 - always caught in this package
    """A layer that the scheduler cannot map even alone, and the reason."""

    def __init__(self, layer: Layer, reason: str) -> None:
        super().__init__(reason)
        self.layer, self.reason = layer, reason


def compile_streams(partition: NpuPartition, compiled: Callable[[NpuPartition], NpuStep]) -> list[NpuStep]:
    """The streams of a partition, which is halved recursively until each half can be mapped.

    Raises UnmappedLayer for a layer that cannot be mapped alone, and ModelError for tensors that exceed the machine.
    """
    try:
        return [compiled(partition)]
    except ModelError:
        raise
    except LatheError as error:
        if len(partition.layers) == 1:
            reason = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
            raise UnmappedLayer(partition.layers[0], f"the scheduler cannot map it: {reason}") from None
    return [step for half in halves_of(partition) for step in compile_streams(half, compiled)]


def halves_of(partition: NpuPartition) -> tuple[NpuPartition, NpuPartition]:
    """The two halves of a partition's layers; tensors that the second reads are outputs of the first."""
    middle = len(partition.layers) // 2
    first, second = partition.layers[:middle], partition.layers[middle:]
    first_outputs = {layer.output for layer in first}
    read_first, read_second = ({name for layer in layers for name in layer.inputs} for layers in (first, second))
    between = tuple(layer.output for layer in first if layer.output in read_second or layer.output in partition.outputs)
    second_outputs = {layer.output for layer in second}
    return (
        NpuPartition(first, tuple(name for name in partition.inputs if name in read_first), between),
        NpuPartition(
            second,
            tuple(dict.fromkeys(name for name in (*partition.inputs, *between) if name in read_second)),
            tuple(name for name in partition.outputs if name in second_outputs and name not in first_outputs),
        ),
    )
