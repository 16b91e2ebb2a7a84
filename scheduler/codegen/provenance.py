"""Provenance of chunks: which tensor elements each chunk computes, without addresses.

The emitter records it for translation validation (``lathe.validation``), which shares no address arithmetic with rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lathe.frontend import Tensor
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.isel.chunk import Chunk, ChunkLoop, Index, described


@dataclass(frozen=True, slots=True)
class ChunkProvenance:
    """A chunk of ``tensor``: at each point of ``loops`` it computes the element at ``index``, linear in them.

    ``role``: "map" or "reduce" if elements are complete afterwards, "init" if they hold the start of a reduction,
    "update" if a part of one has been accumulated. ``stage`` and enclosing loops, ``offsets``, name it in messages.
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


def provenance_of(chunk: Chunk, axes: Sequence[Axis]) -> ChunkProvenance:
    """The provenance of a chunk; ``axes`` are those of the tensor, in order."""
    index = tuple(chunk.axes[axis] for axis in axes)
    return ChunkProvenance(chunk.write.tensor, chunk.role, chunk.loops, index, chunk.stage, chunk.offsets)
