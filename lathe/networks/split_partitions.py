"""Long parts as several streams: the time that a stream takes to compile grows with the square of its layers.

Unrolled recurrent layers are hundreds of small ones. A convolutional network has fewer, and stays in one stream.
"""

from collections.abc import Sequence
from itertools import pairwise

from lathe.frontend.onnx.quant_graph import Layer
from lathe.networks.partition import NpuPart, Part

MOST_LAYERS = 128
"""Of one stream."""


def with_long_parts_cut(parts: Sequence[Part]) -> list[Part]:
    """The same parts; one of more layers than a stream has is several behind each other, of much the same length."""
    return [each for part in parts for each in (_cut(part) if isinstance(part, NpuPart) else [part])]


def _cut(part: NpuPart) -> list[Part]:
    count = -(-len(part.layers) // MOST_LAYERS)
    if count == 1:
        return [part]
    ends = [len(part.layers) * number // count for number in range(count + 1)]
    pieces = [part.layers[first:end] for first, end in pairwise(ends)]
    return [_piece(part, pieces, number) for number in range(count)]


def _piece(part: NpuPart, pieces: Sequence[tuple[Layer, ...]], number: int) -> NpuPart:
    own = pieces[number]
    made = dict.fromkeys(layer.output for layer in own)
    read = dict.fromkeys(name for layer in own for name in layer.inputs)
    later = {name for piece in pieces[number + 1 :] for layer in piece for name in layer.inputs}
    wanted = {*later, *part.outputs}
    return NpuPart(own, tuple(name for name in read if name not in made), tuple(n for n in made if n in wanted))
