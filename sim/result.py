"""Results of a simulation."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from numpy.typing import NDArray

from lathe.configs import LatheError
from lathe.configs.errors import shown
from lathe.configs.html_repr import repr_html
from lathe.isa import Program
from lathe.sim.counters import Counters
from lathe.sim.trace import Trace, TraceError


class OutputError(LatheError):
    """A request for an output that a result does not have."""


class Outputs(dict[str, NDArray[Any]]):
    """The computed arrays of a launch, by name; a dictionary whose error explains a missing name.

    ``names`` are all outputs of the program; a timing-only launch has computed none of them.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], names: Collection[str]) -> None:
        super().__init__(arrays)
        self.names = tuple(names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return super().__getitem__(name) if isinstance(name, str) else self.__missing__(name)

    def __missing__(self, name: object) -> NDArray[Any]:
        if isinstance(name, str) and name in self.names:
            raise OutputError(
                f"Cannot return output {name!r} of this result: only its timing was simulated. Simulate without "
                "timing_only, and with inputs."
            )
        raise OutputError(
            f"The name of an output must be one of the program's, {', '.join(self.names)}, not {shown(name)}. Correct "
            "the name."
        )

    def __reduce__(self) -> tuple[type["Outputs"], tuple[dict[str, NDArray[Any]], tuple[str, ...]]]:
        return Outputs, (dict(self), self.names)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Outputs and timing of one launch of a program.

    ``outputs``: arrays of the logical shapes and dtypes of the program's outputs, by name; empty if only timing was
    simulated, in which case a lookup raises :class:`OutputError`. ``tokens``: the four counts afterwards. ``trace`` is
    None if it was not requested.
    """

    program: Program
    outputs: Mapping[str, NDArray[Any]]
    cycles: int
    tokens: tuple[int, int, int, int]
    counters: Counters
    trace: Trace | None

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        outputs = [f"{name}: {array.dtype} {array.shape}" for name, array in self.outputs.items()]
        return f"Result({', '.join([f'{self.cycles} cycles', *outputs])})"

    def __post_init__(self) -> None:
        names = [segment.name for segment in self.program.outputs]
        object.__setattr__(self, "outputs", Outputs(self.outputs, names))

    @property
    def efficiency(self) -> float | None:
        """The algorithm's multiply-accumulates as a fraction of the matrix core's peak in these cycles.

        Lanes without values and taps in padding do not count, unlike in ``counters.gemm_operations``. None for a
        program whose multiply-accumulates are unknown.
        """
        return self.program.efficiency(self.cycles)

    def write_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the trace for Perfetto, with the program's labels; see :meth:`Trace.write_chrome_trace`.

        Raises :class:`TraceError` when no trace was recorded.
        """
        if self.trace is None:
            raise TraceError("Cannot write the trace of this result: none was recorded. Simulate with trace=True.")
        labels, label_of = self.program.labels, self.program.label_of.tolist()
        self.trace.write_chrome_trace(path, lambda instruction: labels[label_of[instruction]])
