"""Three of ResNet-18's convolutions on `vta`, scheduled by hand, beside what is found.

The tiles by hand are the best of some sixty that were tried for each shape: rows, columns, channels, and input channels
of a part, with the channels' loop outside the tiles' or inside. `python benchmarks/layers.py` prints both.
"""

from typing import NamedTuple

import lathe as lt

Shape = tuple[int, int, int, int, int]


class Tiles(NamedTuple):
    """Tiles of a convolution's result, how many input channels are a part, and whether channels come outermost."""

    rows: int
    columns: int
    channels: int
    part: int
    channels_first: bool


BY_HAND: dict[Shape, Tiles] = {
    (56, 64, 64, 3, 1): Tiles(7, 14, 32, 16, channels_first=False),
    (28, 128, 256, 1, 2): Tiles(7, 7, 256, 32, channels_first=True),
    (7, 512, 512, 3, 1): Tiles(7, 7, 64, 16, channels_first=False),
}


def scheduled(output: lt.Tensor, tiles: Tiles) -> lt.Schedule:
    """The schedule of a requantised convolution in such tiles."""
    s = lt.create_schedule(output)
    conv = output.computation.reads[0].tensor
    data, weights = (read.tensor for read in conv.computation.reads)
    made, kernel = s.cache_write(output, "acc"), s.cache_read(weights, "wgt", [conv])
    s[conv].set_scope("acc")
    n, y, x, c = s[output].axis
    rows, row = s[output].split(y, factor=tiles.rows)
    columns, column = s[output].split(x, factor=tiles.columns)
    channels, channel = s[output].split(c, factor=tiles.channels)
    outer = (channels, rows, columns) if tiles.channels_first else (rows, columns, channels)
    s[output].reorder(n, *outer, row, column, channel)
    for tensor in (made, conv):
        s[tensor].compute_at(s[output], outer[-1])
    part, inner = s[conv].split("rc", factor=tiles.part)
    s[conv].reorder(part, *s[conv].axis, "ry", "rx", inner)
    loaded = data
    if data.computation is None:
        loaded = s.cache_read(data, "inp", [conv])
    else:
        s[data].set_scope("inp")
    s[loaded].compute_at(s[conv], part)
    if tiles.channels_first:
        s[kernel].compute_at(s[output], channels)
    else:
        s[kernel].compute_at(s[conv], part)
    return s
