"""Products that move blocks of values: each of the elements that hold a block together has a matrix of its own."""

from dataclasses import replace

from lathe.scheduler.isel.chunk import BufferView, Chunk, VectorView
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.layout.vector_relayout import elements_with_rows, selection


def selected_by_element(chunk: Chunk, view: VectorView) -> VectorView:
    """The view in which the matrices, read last, go with the loop over elements that belong together, not with sums.

    That loop is the last one.

    The sum over matrices that the chunk's expression has is a form to speak of all of them. Elements of rows that the
    tensor has not, as of one image where there are four rows, are left out. Raises RuleMismatch if the chunk has not
    all matrices.
    """
    turns, rows = place_of_result(view).physical.lanes.turns, view.write.rows
    assert turns is not None, f"{chunk.stage} turns nothing"
    summed = [n for n, loop in enumerate(chunk.loops) if loop.kind == "reduce" and loop.extent > 1]
    elements = len(view.extents) - 1
    if [view.extents[n] for n in summed] != [len(selection(chunk.config, turns))]:
        raise RuleMismatch(f"{chunk.stage} must be summed over all its matrices in one chunk", kind="limit")
    *others, matrices = view.reads
    steps = [0 if n in summed else stride for n, stride in enumerate(matrices.strides)]
    steps[elements] = 1
    if not rows.broadcast and rows.first == 0:
        held = min(elements_with_rows(chunk.config, turns, rows.count), view.extents[elements])
        view = replace(view, extents=(*view.extents[:elements], held))
    return replace(view, lanes=view.lanes | set(summed), reads=(*others, replace(matrices, strides=tuple(steps))))


def place_of_result(view: VectorView) -> BufferView:
    """Where the accumulators are that a view writes."""
    place = view.write.operand.place
    assert place is not None, f"{view.write.operand.tensor.name} has no place"
    return place
