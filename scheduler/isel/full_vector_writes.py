"""The check that a chunk writes every live lane of each vector that it writes."""

from collections.abc import Sequence

from lathe.scheduler.isel.chunk import Chunk, VectorOperand
from lathe.scheduler.isel.match_failures import RuleMismatch


def check_covers(operand: VectorOperand, chunk: Chunk, live_low: Sequence[int], live_high: Sequence[int]) -> None:
    """Raises RuleMismatch if a vector that a chunk writes has a live lane that the chunk does not write.

    ``live_low`` and ``live_high`` (inclusive) bound the live indices.
    """
    place = operand.operand.place
    assert place is not None
    for dim in place.physical.lanes.dims:
        block = place.physical.block(dim)
        index = operand.operand.index[dim]
        first, last = index.first(chunk.extents), index.last(chunk.extents)
        if block == 1:
            continue
        lane_range = operand.rows if dim == place.physical.lanes.rows else operand.cols
        whole = lane_range.count == block and first % block == 0
        if whole and (last + 1) % block == 0:
            continue
        moves = index.moves_by(block, chunk.extents)
        before = first % block and live_low[dim] < first
        after = (last + 1) % block and live_high[dim] > last
        if before or after or (moves and not whole):
            raise RuleMismatch(
                f"vector lanes along dimension {dim} of {operand.operand.tensor.name} must be written in whole blocks "
                f"of {block}, but the chunk writes {first}..{last} of live cells {live_low[dim]}..{live_high[dim]}",
                kind="machine",
            )
