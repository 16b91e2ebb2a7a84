"""Layers as one stream of instructions, as several where the scheduler maps them only apart, or none."""

from collections.abc import Callable

from lathe.configs import LatheError
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.quant_graph import Layer
from lathe.networks.partition import NpuPart
from lathe.networks.program_steps import NpuStep


class UnmappedLayer(Exception):  # noqa: N818 - what to do next, which never leaves this room
    """A layer that has no mapping even alone, and why."""

    def __init__(self, layer: Layer, reason: str) -> None:
        super().__init__(reason)
        self.layer, self.reason = layer, reason


def streams_of(part: NpuPart, compiled: Callable[[NpuPart], NpuStep]) -> list[NpuStep]:
    """The part as few streams as halving it finds. Raises UnmappedLayer for a layer that cannot be one either.

    Raises ModelError for what no machine of this kind holds.
    """
    try:
        return [compiled(part)]
    except ModelError:
        raise
    except LatheError as error:
        if len(part.layers) == 1:
            told = " ".join(str(error).split()).partition(". ")[0].rstrip(".")
            raise UnmappedLayer(part.layers[0], f"it has no mapping: {told}") from None
    return [step for half in halves_of(part) for step in streams_of(half, compiled)]


def halves_of(part: NpuPart) -> tuple[NpuPart, NpuPart]:
    """The first half of the layers and the second, with what goes from the one to the other."""
    middle = len(part.layers) // 2
    first, second = part.layers[:middle], part.layers[middle:]
    made = {layer.output for layer in first}
    read_before, read_behind = ({name for layer in layers for name in layer.inputs} for layers in (first, second))
    between = tuple(layer.output for layer in first if layer.output in read_behind or layer.output in part.outputs)
    own = {layer.output for layer in second}
    return (
        NpuPart(first, tuple(name for name in part.inputs if name in read_before), between),
        NpuPart(
            second,
            tuple(dict.fromkeys(name for name in (*part.inputs, *between) if name in read_behind)),
            tuple(name for name in part.outputs if name in own and name not in made),
        ),
    )
