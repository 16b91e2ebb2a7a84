"""What a sweep file says: the machines and the workloads, and the points of their grid.

The form of the file, with every key that it may have::

    base: vta                            # a shipped machine or a file beside this one, or a list of them
    machine:                             # parameters to change, by the keys that `lathe configs vta` shows
      memory.latency: [0, 32, 128]       # a value or a list of values; the grid has every combination
      block_in, block_out: [16, 32]      # parameters that move together, with one value for all ...
      inp_buffer_bytes, acc_buffer_bytes: [[32768, 131072], [65536, 262144]]   # ... or one value each
    workloads:                           # operators with their shapes, again a value or a list of each
      - matmul: {m: [64, 256], n: 256, k: 256}
      - digits: {batch: 8}
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Axis:
    """Keys that move together, and the values that they take at each of its steps."""

    keys: tuple[str, ...]
    steps: tuple[Values, ...]


@dataclass(frozen=True)
class Grid:
    """Every combination of the steps of its axes."""

    axes: tuple[Axis, ...]

    def points(self) -> Iterator[dict[str, Any]]:
        """Keys to values, the last axis fastest."""
        for steps in itertools.product(*(axis.steps for axis in self.axes)):
            yield {
                key: value
                for axis, values in zip(self.axes, steps, strict=True)
                for key, value in zip(axis.keys, values, strict=True)
            }

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key of every axis, in order."""
        return tuple(key for axis in self.axes for key in axis.keys)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload: whether it must be given, and what it may be.

    A whole number of at least ``least``, or if there are ``words`` one of these.
    """

    required: bool
    least: int = 1
    words: tuple[str, ...] = ()

    def takes(self, value: object) -> bool:
        """Whether a value is one."""
        if self.words:
            return value in self.words
        return type(value) is int and value >= self.least

    @property
    def contract(self) -> str:
        """What a value must be, for messages."""
        return " or ".join(self.words) if self.words else f"a whole number of at least {self.least}"


@dataclass(frozen=True)
class Point:
    """One measurement: a workload with its parameters, on a base machine with changed parameters."""

    base: str
    changes: Mapping[str, Any]
    workload: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Sweep:
    """A sweep file's content. `bases` are what `load_config` takes; `workloads` are names with their grids."""

    bases: Sequence[str]
    machine: Grid
    workloads: Sequence[tuple[str, Grid]]

    def points(self) -> tuple[Point, ...]:
        """All measurements, workloads slowest."""
        return tuple(
            Point(base, changes, workload, parameters)
            for workload, grid in self.workloads
            for parameters in grid.points()
            for base in self.bases
            for changes in self.machine.points()
        )

    @property
    def parameter_keys(self) -> tuple[str, ...]:
        """The parameters of all workloads, each once, in the order of the file."""
        return tuple(dict.fromkeys(key for _, grid in self.workloads for key in grid.keys))
