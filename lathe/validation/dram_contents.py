"""Where the elements of tensors are in DRAM, by the layouts that the program tells its host."""

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.isa import Segment
from lathe.isa.layout import Layout
from lathe.scheduler.codegen.compiled_program import Compiled


def stored_bytes(compiled: Compiled) -> dict[Tensor, NDArray[np.int64]]:
    """For tensors that have a segment of DRAM to themselves: the bytes of each element, (elements, bytes of each).

    Elements are those of the axes in which a tensor is laid out, padding included.
    """
    roles = ("output", "temporary")
    segments = {segment.tensor: segment for segment in compiled.program.segments if segment.role in roles}
    found: dict[Tensor, NDArray[np.int64]] = {}
    for stage in compiled.schedule.stages:
        if stage.state.scope != "dram" or stage.state.storage is not None:
            continue
        for tensor in stage.state.tensors:
            named = compiled.layout_of(tensor).tensor
            if named.name in segments:
                layout = segments[named.name].layout
                assert layout is not None, f"segment {named.name} has no layout"
                found[tensor] = _bytes(segments[named.name], Layout(layout.view, "int64", layout.axes))
                assert len(found[tensor]) == np.prod(tensor.shape), f"segment {named.name} is not one of {tensor}"
    return found


def output_bytes(segment: Segment) -> NDArray[np.int64]:
    """The bytes of each element of an output, as the host takes it from DRAM: (elements, bytes of each)."""
    layout = segment.layout
    assert layout is not None, f"segment {segment.name} has no layout"
    whole = Layout(layout.shape, "int64", layout.axes, view=layout.view, reorderings=layout.reorderings)
    return _bytes(segment, whole)


def _bytes(segment: Segment, numbers: Layout) -> NDArray[np.int64]:
    """``numbers`` is the segment's layout, of whatever elements are asked for, for numbers of cells."""
    layout = segment.layout
    assert layout is not None
    cells = np.arange(np.prod(numbers.physical_shape), dtype=np.int64).reshape(numbers.physical_shape)
    places = numbers.unpack(cells).reshape(-1, 1)
    if layout.storage == "planes":
        found = places + cells.size * np.arange(np.dtype(layout.dtype).itemsize)
    else:
        width = np.dtype(layout.physical_dtype).itemsize
        found = places * width + np.arange(width)
    return np.asarray(segment.address + found, np.int64)
