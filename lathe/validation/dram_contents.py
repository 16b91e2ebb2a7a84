"""Addresses of tensor elements in DRAM, from the layouts that the program gives its host CPU."""

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.isa import Segment
from lathe.isa.layout import Layout
from lathe.scheduler.codegen.compiled_program import Compiled


def stored_bytes(compiled: Compiled) -> dict[Tensor, NDArray[np.int64]]:
    """For each tensor with its own segment of DRAM: the byte addresses of its elements, (elements, bytes per element).

    The elements are those of the tensor after layout changes, padding included.
    """
    roles = ("output", "temporary")
    segments = {segment.tensor: segment for segment in compiled.program.segments if segment.role in roles}
    addresses: dict[Tensor, NDArray[np.int64]] = {}
    for stage in compiled.schedule.stages:
        if stage.state.scope != "dram" or stage.state.storage is not None:
            continue
        for tensor in stage.state.tensors:
            named = compiled.layout_of(tensor).tensor
            if named.name in segments:
                layout = segments[named.name].layout
                assert layout is not None, f"segment {named.name} has no layout"
                addresses[tensor] = _bytes(segments[named.name], Layout(layout.view, "int64", layout.axes))
                assert len(addresses[tensor]) == np.prod(tensor.shape), f"segment {named.name} is not one of {tensor}"
    return addresses


def output_bytes(segment: Segment) -> NDArray[np.int64]:
    """The byte addresses from which the host CPU reads the elements of an output: (elements, bytes per element)."""
    layout = segment.layout
    assert layout is not None, f"segment {segment.name} has no layout"
    whole = Layout(layout.shape, "int64", layout.axes, view=layout.view, reorderings=layout.reorderings)
    return _bytes(segment, whole)


def _bytes(segment: Segment, numbers: Layout) -> NDArray[np.int64]:
    """The byte addresses of elements; ``numbers`` is the segment's layout for int64, which unpacks cell numbers."""
    layout = segment.layout
    assert layout is not None
    cells = np.arange(np.prod(numbers.physical_shape), dtype=np.int64).reshape(numbers.physical_shape)
    cell = numbers.unpack(cells).reshape(-1, 1)
    if layout.storage == "planes":
        offsets = cell + cells.size * np.arange(np.dtype(layout.dtype).itemsize)
    else:
        width = np.dtype(layout.physical_dtype).itemsize
        offsets = cell * width + np.arange(width)
    return np.asarray(segment.address + offsets, np.int64)
