"""What chunks say that they make: the elements, not where they are.

Emission notes it for whoever checks the instructions afterwards (``lathe.validation``), who shares no arithmetic on
addresses with the rules that made them.
"""

from dataclasses import dataclass

from lathe.frontend import Tensor
from lathe.scheduler.chunk import Chunk, ChunkLoop, Index


@dataclass(frozen=True)
class MadeChunk:
    """A chunk of ``tensor``: at each point of ``loops`` the element at ``index``, linear in them.

    ``role`` is "map" or "reduce" for elements that are complete afterwards, "init" for those that hold the start of a
    reduction, "update" for those to which a part of one has been added. ``text`` names the chunk in messages.
    """

    tensor: Tensor
    role: str
    loops: tuple[ChunkLoop, ...]
    index: tuple[Index, ...]
    text: str


def made_by(chunk: Chunk) -> MadeChunk:
    """What a chunk makes."""
    tensor = chunk.write.tensor
    index = tuple(value for axis, value in chunk.axes.items() if axis.kind == "data")
    assert len(index) == tensor.ndim, f"{chunk.describe()} has {len(index)} data axes"
    return MadeChunk(tensor, chunk.role, chunk.loops, index, chunk.describe())
