"""Copies by the host CPU before and after a launch: packing inputs into DRAM, and unpacking outputs."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.errors import shown
from lathe.isa.errors import ProgramError
from lathe.isa.layout import Layout
from lathe.isa.program import Program, Segment


@dataclass(frozen=True)
class HostCopy:
    """One copy between an array of the host CPU and a segment of the device's DRAM, in the segment's layout."""

    direction: Literal["host_to_device", "device_to_host"]
    segment: Segment

    @property
    def layout(self) -> Layout:
        layout = self.segment.layout
        assert layout is not None, f"segment {self.segment.name} has no layout"
        return layout

    @property
    def tensor(self) -> str:
        """The name of the array."""
        return self.segment.tensor

    @property
    def nbytes(self) -> int:
        """Its size in DRAM in bytes."""
        return self.layout.nbytes

    def pack(self, array: ArrayLike) -> NDArray[np.uint8]:
        """The segment's bytes for an array of shape ``layout.shape``. Raises ProgramError for another array."""
        given = np.asarray(array)
        if given.shape != self.layout.shape or given.dtype != np.dtype(self.layout.dtype):
            raise ProgramError(
                f"The array of a copy of {self.tensor!r} must have shape {self.layout.shape} and dtype "
                f"{self.layout.dtype}, not {given.shape} and {given.dtype}. Convert it first."
            )
        return np.ascontiguousarray(self.layout.pack(given)).view(np.uint8).reshape(-1)

    def unpack(self, content: NDArray[np.uint8]) -> NDArray[Any]:
        """The array from the segment's bytes. Raises ProgramError for another number of bytes."""
        if content.dtype != np.uint8 or content.size != self.nbytes:
            raise ProgramError(
                f"The content of a copy of {self.tensor!r} must be {self.nbytes} elements of dtype uint8, not "
                f"{content.size} of {content.dtype}."
            )
        physical = content.reshape(-1).view(self.layout.physical_dtype).reshape(self.layout.physical_shape)
        return self.layout.unpack(physical)

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.layout.shape))
        way = "to" if self.direction == "host_to_device" else "from"
        return (
            f"{self.direction} {self.tensor}: {self.layout.dtype}[{shape}] {way} {self.nbytes} bytes at "
            f"{self.segment.address:#x}"
        )


def host_copies(program: Program) -> tuple[HostCopy, ...]:
    """The host CPU's copies of a launch, in order: inputs are packed, then outputs unpacked.

    An input in two layouts is packed twice. Constants are part of the program.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"The program of host_copies must be a Program, not {shown(program)}. build returns one.")
    before = [HostCopy("host_to_device", each) for each in program.segments if each.role == "input"]
    after = [HostCopy("device_to_host", each) for each in program.segments if each.role == "output"]
    return tuple(each for each in (*before, *after) if each.segment.layout is not None)
