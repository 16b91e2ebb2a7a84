"""What comes out of a simulation."""

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
    """An output that a result does not have is asked for."""


class Outputs(dict[str, NDArray[Any]]):
    """The arrays that a launch has made, by name; a dictionary that says why it lacks one.

    ``names`` are all outputs of the program; a launch of time only has made none of them.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], names: Collection[str]) -> None:
        super().__init__(arrays)
        self.names = tuple(names)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return super().__getitem__(name) if isinstance(name, str) else self.__missing__(name)

    def __missing__(self, name: object) -> NDArray[Any]:
        if isinstance(name, str) and name in self.names:
            raise OutputError(
                f"The output {name!r} of this result must have been computed, and only time was simulated. Simulate "
                "without timing_only, and with inputs."
            )
        raise OutputError(
            f"The output asked for must be one of the program's, {', '.join(self.names)}, not {shown(name)}. Correct "
            "the name."
        )

    def __reduce__(self) -> tuple[type["Outputs"], tuple[dict[str, NDArray[Any]], tuple[str, ...]]]:
        return Outputs, (dict(self), self.names)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Outputs and time of one launch of a program.

    ``outputs``: arrays of the logical shapes and dtypes of the program's outputs, by name; empty when only time was
    simulated, and asking for one raises :class:`OutputError` then. ``tokens``: the four counts afterwards. ``trace`` is
    None when it was not asked for.
    """

    program: Program
    outputs: Mapping[str, NDArray[Any]]
    cycles: int
    tokens: tuple[int, int, int, int]
    counters: Counters
    trace: Trace | None

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        made = [f"{name}: {array.dtype} {array.shape}" for name, array in self.outputs.items()]
        return f"Result({', '.join([f'{self.cycles} cycles', *made])})"

    def __post_init__(self) -> None:
        names = [segment.name for segment in self.program.outputs]
        object.__setattr__(self, "outputs", Outputs(self.outputs, names))

    @property
    def efficiency(self) -> float | None:
        """The products that the algorithm adds up, by those that the matrix core could have made in these cycles.

        Lanes that hold no value and taps in padding do not count, unlike in ``counters.gemm_operations``. None for a
        program whose products nobody has counted.
        """
        return self.program.efficiency(self.cycles)

    def write_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the trace for Perfetto, with the program's labels; see :meth:`Trace.write_chrome_trace`.

        Raises :class:`TraceError` when no trace was recorded.
        """
        if self.trace is None:
            raise TraceError("The trace of this result must have been recorded, and was not. Simulate with trace=True.")
        labels, label_of = self.program.labels, self.program.label_of.tolist()
        self.trace.write_chrome_trace(path, lambda instruction: labels[label_of[instruction]])
