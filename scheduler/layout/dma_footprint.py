"""The DMA footprint of a box of a tensor in DRAM: its extents along each stride, and the LOADs that transfer it."""

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from types import MappingProxyType

from lathe.scheduler.layout.physical_layout import PhysicalLayout


def parts_of_box(
    physical: PhysicalLayout, box: Sequence[int], steps: Mapping[int, int], bordered: Collection[int] = ()
) -> list[tuple[int, int]]:
    """Vectors of a box and of the whole tensor along each stride in DRAM, outermost first: pairs (box, whole).

    ``steps``: strides of dimensions of which only every n-th index is loaded. A ``bordered`` dimension never counts as
    whole, because LOAD inserts padding between rows that are contiguous in DRAM. Of a group of contiguous vectors in
    DRAM (``PhysicalLayout.group``), one is loaded at a time unless they are contiguous in the scratchpad too.
    """
    parts: list[tuple[int, int]] = []
    for dim in physical.order:
        whole = physical.blocks(dim, 0, physical.view[dim])
        parts.append((physical.blocks(dim, 0, box[dim]), whole + 1 if dim in bordered else whole))
        if dim in steps:
            parts.append((1, steps[dim]))
    if (grouped := _grouped(physical)) is not None:
        group = physical.group
        n = [dim for each in physical.order for dim in ((each, None) if each in steps else (each,))].index(grouped)
        part, whole = parts[n]
        parts[n] = ceil(part / group), ceil(whole / group)
        parts.append((group if physical.contiguous else 1, group))
    return parts


def _grouped(physical: PhysicalLayout) -> int | None:
    """The dimension along the columns, if groups of its blocks are contiguous in DRAM."""
    return physical.lanes.cols if physical.group > 1 and physical.lanes.conversions is None else None


def loads_of_box(physical: PhysicalLayout, box: Sequence[int], steps: Mapping[int, int] = MappingProxyType({})) -> int:
    """The number of LOADs that transfer a box: each moves rows of contiguous vectors, one stride apart."""
    blocks = parts_of_box(physical, box, steps)
    while blocks and blocks[-1][0] == blocks[-1][1]:  # dimensions that are loaded whole are merged into the row
        blocks.pop()
    loads, strided, goes_on = 1, False, False
    if (grouped := _grouped(physical)) is not None and not physical.contiguous:
        loads = min(physical.blocks(grouped, 0, box[grouped]), physical.group)
    for part, whole in blocks[-2::-1]:  # outside the row: one stride for the rows, and whole dimensions that extend it
        if part > 1 and strided and not goes_on:
            loads *= part
            continue
        goes_on = part == whole and (goes_on or not strided)
        strided = strided or part > 1
    return loads
