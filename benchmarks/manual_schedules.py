"""Manual schedules of three of ResNet-18's convolutions on `vta`, as a reference for autotuned ones.

The tile sizes are the best of about sixty for each shape: rows, columns, output channels, and the reduction tile of
input channels, with the channel loop outside or inside the spatial tile loops. `python benchmarks/layers.py` prints
both.
"""

from typing import NamedTuple

import lathe as lt

Shape = tuple[int, int, int, int, int]


class Tiles(NamedTuple):
    """Tile sizes of a convolution's result and of its reduction, and whether the channel loop is outermost."""

    rows: int
    columns: int
    channels: int
    reduction: int
    channels_first: bool


BY_HAND: dict[Shape, Tiles] = {
    (56, 64, 64, 3, 1): Tiles(7, 14, 32, 16, channels_first=False),
    (28, 128, 256, 1, 2): Tiles(7, 7, 256, 32, channels_first=True),
    (7, 512, 512, 3, 1): Tiles(7, 7, 64, 16, channels_first=False),
}


def scheduled(output: lt.Tensor, tiles: Tiles) -> lt.Schedule:
    """The schedule of a requantised convolution with given tile sizes."""
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
    reduction, inner = s[conv].split("rc", factor=tiles.reduction)
    s[conv].reorder(reduction, *s[conv].axis, "ry", "rx", inner)
    loaded = data
    if data.computation is None:
        loaded = s.cache_read(data, "inp", [conv])
    else:
        s[data].set_scope("inp")
    s[loaded].compute_at(s[conv], reduction)
    if tiles.channels_first:
        s[kernel].compute_at(s[output], channels)
    else:
        s[kernel].compute_at(s[conv], reduction)
    return s
