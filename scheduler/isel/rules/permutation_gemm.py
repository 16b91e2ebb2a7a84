"""Permutation GEMMs (layout conversion): each vector of a group is multiplied with a selection matrix of its own."""

from dataclasses import replace

from lathe.scheduler.isel.chunk import BufferView, Chunk, VectorView
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.layout.vector_relayout import selection, vectors_with_rows


def selected_by_element(chunk: Chunk, view: VectorView) -> VectorView:
    """The view in which the selection matrices, read last, are indexed by the last loop, over the vectors of a group.

    The reduction over matrices in the chunk's expression only stands for that pairing, and is dropped. Vectors that
    hold no rows of the tensor, as with one image and a batch of 4, are left out. Raises RuleMismatch if the chunk does
    not cover all matrices.
    """
    turns, rows = place_of_result(view).physical.lanes.conversions, view.write.rows
    assert turns is not None, f"{chunk.stage} is no layout conversion"
    summed = [n for n, loop in enumerate(chunk.loops) if loop.kind == "reduce" and loop.extent > 1]
    elements = len(view.extents) - 1
    if [view.extents[n] for n in summed] != [len(selection(chunk.config, turns))]:
        raise RuleMismatch(f"a chunk of {chunk.stage} must cover all selection matrices", kind="limit")
    *others, matrices = view.reads
    steps = [0 if n in summed else stride for n, stride in enumerate(matrices.strides)]
    steps[elements] = 1
    if not rows.broadcast and rows.first == 0:
        held = min(vectors_with_rows(chunk.config, turns, rows.count), view.extents[elements])
        view = replace(view, extents=(*view.extents[:elements], held))
    return replace(view, lanes=view.lanes | set(summed), reads=(*others, replace(matrices, strides=tuple(steps))))


def place_of_result(view: VectorView) -> BufferView:
    """The buffer of the accumulators that a view writes."""
    place = view.write.operand.place
    assert place is not None, f"{view.write.operand.tensor.name} is in no memory"
    return place
