"""What chunks say that they make: the elements, not where they are.

Emission notes it for whoever checks the instructions afterwards (``lathe.validation``), who shares no arithmetic on
addresses with the rules that made them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lathe.frontend import Tensor
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.isel.chunk import Chunk, ChunkLoop, Index, described


@dataclass(frozen=True, slots=True)
class ChunkProvenance:
    """A chunk of ``tensor``: at each point of ``loops`` the element at ``index``, linear in them.

    ``role`` is "map" or "reduce" for elements that are complete afterwards, "init" for those that hold the start of a
    reduction, "update" for those to which a part of one has been added. ``stage`` and the values of the loops outside,
    ``offsets``, name the chunk in messages.
    """

    tensor: Tensor
    role: str
    loops: tuple[ChunkLoop, ...]
    index: tuple[Index, ...]
    stage: str
    offsets: Mapping[str, int]

    @property
    def text(self) -> str:
        """The chunk as messages name it."""
        return described(self.stage, self.role, self.loops, self.offsets)


def made_chunk(chunk: Chunk, axes: Sequence[Axis]) -> ChunkProvenance:
    """What a chunk makes; ``axes`` are those of the elements, in order."""
    index = tuple(chunk.axes[axis] for axis in axes)
    return ChunkProvenance(chunk.write.tensor, chunk.role, chunk.loops, index, chunk.stage, chunk.offsets)
