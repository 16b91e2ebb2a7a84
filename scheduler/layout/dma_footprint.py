"""How a box of a tensor lies in DRAM: its parts along each stride, and the instructions that move it."""

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from types import MappingProxyType

from lathe.scheduler.layout.physical_layout import PhysicalLayout


def parts_of_box(
    physical: PhysicalLayout, box: Sequence[int], steps: Mapping[int, int], bordered: Collection[int] = ()
) -> list[tuple[int, int]]:
    """Elements of a box and of the whole tensor, from the outermost stride in DRAM on.

    Dimensions that are ``bordered`` have no whole: a LOAD puts padding between their ends, which adjoin in DRAM.
    Of a group that adjoins there for the sake of a wider memory, one is loaded at a time where scratchpads keep them
    apart.
    """
    parts: list[tuple[int, int]] = []
    for dim in physical.order:
        whole = physical.blocks(dim, 0, physical.view[dim])
        parts.append((physical.blocks(dim, 0, box[dim]), whole + 1 if dim in bordered else whole))
        if dim in steps:
            parts.append((1, steps[dim]))
    if (grouped := _grouped(physical)) is not None:
        group = physical.group
        place = [dim for each in physical.order for dim in ((each, None) if each in steps else (each,))].index(grouped)
        part, whole = parts[place]
        parts[place] = ceil(part / group), ceil(whole / group)
        parts.append((group if physical.adjoins else 1, group))
    return parts


def _grouped(physical: PhysicalLayout) -> int | None:
    """The dimension of which groups adjoin in DRAM."""
    return physical.lanes.cols if physical.group > 1 and physical.lanes.turns is None else None


def instructions_of(
    physical: PhysicalLayout, box: Sequence[int], steps: Mapping[int, int] = MappingProxyType({})
) -> int:
    """LOADs that bring a box: each has rows of adjoining elements, one stride apart."""
    blocks = parts_of_box(physical, box, steps)
    while blocks and blocks[-1][0] == blocks[-1][1]:  # the row, and what it continues
        blocks.pop()
    loads, strided, goes_on = 1, False, False
    if (grouped := _grouped(physical)) is not None and not physical.adjoins:
        loads = min(physical.blocks(grouped, 0, box[grouped]), physical.group)
    for part, whole in blocks[-2::-1]:  # around the dimension that ends the row: the stride, and what continues it
        if part > 1 and strided and not goes_on:
            loads *= part
            continue
        goes_on = part == whole and (goes_on or not strided)
        strided = strided or part > 1
    return loads
