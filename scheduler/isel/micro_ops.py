"""The interface of the micro-op scratchpad to emission rules."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Load


class MicroOps(Protocol):
    """The micro-op scratchpad, as rules use it."""

    @property
    def capacity(self) -> int:
        """The most micro-ops that one sequence may have."""
        ...

    def place(
        self, dst: NDArray[np.int64], src: NDArray[np.int64], wgt: NDArray[np.int64]
    ) -> tuple[int, int, list[Load]]:
        """Allocate a sequence: its first address, one past its last, and the LOAD that it needs first, if any."""
        ...
