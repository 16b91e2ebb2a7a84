"""DRAM permissions of a stream: those of a program's segments, or none for raw streams."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.isa.dram_rows import Ranges
from lathe.isa.program import ROLES, UOPS, Program, Segment
from lathe.isa.sparse_memory import PagedMemory


class DramMap(Protocol):
    """Where a stream may read and write, which bytes it must write before it reads them, and its micro-ops."""

    @property
    def readable(self) -> Ranges | None:
        """The bytes that LOAD may read; None: all."""
        ...

    @property
    def writable(self) -> Ranges | None:
        """The bytes that STORE may write; None: all."""
        ...

    @property
    def stored_first(self) -> Ranges:
        """The bytes that are undefined until STORE has written them."""
        ...

    def uop_words(self, address: int, count: int) -> NDArray[np.uint32] | None:
        """``count`` micro-op words at a byte address, or None when they are not known before the run."""
        ...

    def owner(self, address: int) -> str:
        """What a byte address belongs to, for messages."""
        ...


@dataclass(frozen=True)
class ProgramMap:
    """The permissions of a program's segments."""

    program: Program

    @property
    def readable(self) -> Ranges | None:
        """All segments."""
        return self._ranges(*ROLES)

    @property
    def writable(self) -> Ranges | None:
        """Outputs and temporaries."""
        return self._ranges("output", "temporary")

    @property
    def stored_first(self) -> Ranges:
        """Outputs and temporaries, too."""
        return self._ranges("output", "temporary")

    def uop_words(self, address: int, count: int) -> NDArray[np.uint32] | None:
        """From the images of segments with role uop."""
        for segment in self.program.segments:
            if segment.role == UOPS and segment.address <= address and address + 4 * count <= segment.end:
                start = address - segment.address
                return self.program.images[segment.name][start : start + 4 * count].view("<u4")
        return None

    def owner(self, address: int) -> str:
        """The segment's role and name."""
        for segment in self.program.segments:
            if segment.address <= address < segment.end:
                return f"{segment.role} segment {segment.name!r}"
        return "unmapped memory"

    def _ranges(self, *roles: str) -> Ranges:
        return _ranges(self._segments(roles))

    def _segments(self, roles: tuple[str, ...]) -> list[Segment]:
        return [segment for segment in self.program.segments if segment.role in roles]


def _ranges(segments: Sequence[Segment]) -> Ranges:
    return Ranges.of_pairs([(each.address, each.end) for each in segments if each.nbytes])


@dataclass(frozen=True)
class RawMap:
    """No restrictions: a raw stream may access every byte, and its micro-ops are in its memory image."""

    memory: PagedMemory

    @property
    def readable(self) -> Ranges | None:
        """Everything."""
        return None

    @property
    def writable(self) -> Ranges | None:
        """Everything."""
        return None

    @property
    def stored_first(self) -> Ranges:
        """Nothing."""
        return Ranges.of_pairs([])

    def uop_words(self, address: int, count: int) -> NDArray[np.uint32] | None:
        """From the image."""
        return self.memory.read(address, 4 * count).view("<u4")

    def owner(self, address: int) -> str:
        """A raw stream has no names for its memory."""
        return f"byte {address:#x}"
