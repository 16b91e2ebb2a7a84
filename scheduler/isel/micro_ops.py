"""What a rule may ask of the scratchpad of micro-ops."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Load


class MicroOps(Protocol):
    """The scratchpad of micro-ops, as rules see it."""

    @property
    def capacity(self) -> int:
        """Micro-ops that one sequence may have."""
        ...

    def place(
        self, dst: NDArray[np.int64], src: NDArray[np.int64], wgt: NDArray[np.int64]
    ) -> tuple[int, int, list[Load]]:
        """Where a sequence is: first and one past last, and the LOAD that is needed before, if any."""
        ...
