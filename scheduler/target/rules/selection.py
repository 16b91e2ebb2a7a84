"""Products that move blocks of values: each of the elements that hold a block together has a matrix of its own."""

from lathe.scheduler.target.chunk import Chunk, RuleMismatch, VectorOperand, VectorView


def select_by_element(chunk: Chunk, view: VectorView, matrices: VectorOperand) -> None:
    """Let the matrices go with the loop over elements that belong together, the last one, not with what is summed.

    The sum over matrices that the chunk's expression has is a form to speak of all of them. Raises RuleMismatch if the
    chunk has not all.
    """
    summed = [n for n, loop in enumerate(chunk.loops) if loop.kind == "reduce" and loop.extent > 1]
    elements = len(view.extents) - 1
    if [view.extents[n] for n in summed] != [view.extents[elements]]:
        raise RuleMismatch(f"{chunk.stage} must be summed over all its matrices in one chunk", kind="limit")
    for n in summed:
        matrices.strides[n] = 0
        view.lanes.add(n)
    matrices.strides[elements] = 1
