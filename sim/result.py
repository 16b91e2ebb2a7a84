"""What comes out of a simulation."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from numpy.typing import NDArray

from lathe.configs import LatheError
from lathe.isa import Program
from lathe.sim.counters import Counters
from lathe.sim.trace import Trace


class TraceError(LatheError):
    """A trace that was not recorded is asked for."""


@dataclass(frozen=True, eq=False)
class Result:
    """Outputs and time of one launch of a program.

    ``outputs``: arrays of the logical shapes and dtypes of the program's outputs, by name; empty when only time was
    simulated. ``tokens``: the four counts afterwards. ``trace`` is None when it was not asked for.
    """

    program: Program
    outputs: Mapping[str, NDArray[Any]]
    cycles: int
    tokens: tuple[int, int, int, int]
    counters: Counters
    trace: Trace | None

    def write_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the trace for Perfetto, with the program's labels; see :meth:`Trace.write_chrome_trace`.

        Raises :class:`TraceError` when no trace was recorded.
        """
        if self.trace is None:
            raise TraceError("The trace of this result must have been recorded, and was not. Simulate with trace=True.")
        labels, label_of = self.program.labels, self.program.label_of.tolist()
        self.trace.write_chrome_trace(path, lambda instruction: labels[label_of[instruction]])
