"""The data classes of a parsed sweep (axes, grid, points, sample, search), and the format of its file.

The format of the file, with every key::

    base: vta                            # a shipped machine, a file in the same folder, or a list of these
    machine:                             # parameters to change, by the keys that `lathe configs vta` shows
      memory.latency: [0, 32, 128]       # a value or a list of values; the grid has every combination
      memory.outstanding_reads: {from: 2, to: 8, step: 2}       # a range, both ends inclusive
      uop_buffer_bytes: {powers_of_two: [8192, 65536]}          # likewise, by doubling
      block_in, block_out: [16, 32]      # parameters that change together, with one value for all ...
      inp_buffer_bytes, acc_buffer_bytes: [[32768, 131072], [65536, 262144]]   # ... or one value each
      clock_mhz: 200                     # the clock, to convert cycles to time, and a DRAM's times to cycles
      dram: [ddr3_1600, hbm2]            # a preset of `dram.yaml`: bus, rate and latency, at that clock
    constraints:                         # points whose machine violates one are omitted
      - inp_buffer_bytes + wgt_buffer_bytes + acc_buffer_bytes <= 2**20
    workloads:                           # operators with their shapes, again a value or a list of each
      - matmul: {m: [64, 256], n: 256, k: 256}
      - digits: {batch: 8}
      - onnx: {path: resnet18.onnx}      # also models, layers of SCALE-Sim's topologies, functions in Python
    sample: {points: 100, seed: 0}       # random points instead of the whole grid; or search:, see `search.py`
    schedules: each                      # or shared, see `share_programs.py`
    budget: 12                           # candidate schedules for each operator, 1 by default
    metrics: [cycles, energy_pj]         # the columns of metrics, all by default
    energy: mine.yaml                    # a table of energies instead of Lathe's own, see `energy.py`
    hardware: counts                     # or {device: ecp5-45k}: area and clock of the RTL, see `hardware.py`
"""

import bisect
import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from lathe.sweeps.hardware import Hardware

Values = tuple[Any, ...]


class Span(Sequence[Values]):
    """The steps of an integer range for one or several keys, computed on demand: there may be 10⁸ of them."""

    def __init__(self, numbers: range, keys: int = 1) -> None:
        self.numbers, self.keys = numbers, keys

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Values: ...

    @overload
    def __getitem__(self, at: slice) -> "Span": ...

    def __getitem__(self, at: int | slice) -> "Values | Span":
        value = self.numbers[at]
        return Span(value, self.keys) if isinstance(value, range) else (value,) * self.keys

    def step_of(self, values: Values) -> int | None:
        """The index of the step with these values, or None."""
        if len(set(values)) > 1 or type(values[0]) is not int or values[0] not in self.numbers:
            return None
        return self.numbers.index(values[0])


@dataclass(frozen=True)
class Axis:
    """Keys that change together, and their values at each step."""

    keys: tuple[str, ...]
    steps: Sequence[Values]

    def step_of(self, values: Values) -> int | None:
        """The index of the first step with these values, or None."""
        return self.steps.step_of(values) if isinstance(self.steps, Span) else self._indices.get(values)

    @cached_property
    def _indices(self) -> dict[Values, int]:
        return {values: step for step, values in reversed(list(enumerate(self.steps)))}


@dataclass(frozen=True)
class Grid:
    """Every combination of the steps of its axes."""

    axes: tuple[Axis, ...]

    @cached_property
    def count(self) -> int:
        """The number of combinations; 1 without any axis."""
        return math.prod(len(axis.steps) for axis in self.axes)

    def at(self, index: int) -> dict[str, Any]:
        """The values by key of the combination with this index, below ``count``; the last axis varies fastest."""
        chosen: list[Values] = []
        for axis in reversed(self.axes):
            index, step = divmod(index, len(axis.steps))
            chosen.append(axis.steps[step])
        return {
            key: value
            for axis, values in zip(self.axes, reversed(chosen), strict=True)
            for key, value in zip(axis.keys, values, strict=True)
        }

    def index_of(self, steps: Sequence[int]) -> int:
        """The index of the combination with these steps of the axes; inverse of ``at``."""
        index = 0
        for axis, step in zip(self.axes, steps, strict=True):
            index = index * len(axis.steps) + step
        return index

    def points(self) -> Iterator[dict[str, Any]]:
        """The values by key of every combination."""
        return map(self.at, range(self.count))

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key of every axis, in order."""
        return tuple(key for axis in self.axes for key in axis.keys)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload: whether it is required, and its type.

    An integer of at least ``least``; or one of ``words``, if there are any; or any ``text``, which may be a ``path``
    relative to the sweep file.
    """

    required: bool
    least: int = 1
    words: tuple[str, ...] = ()
    text: bool = False
    path: bool = False

    def takes(self, value: object) -> bool:
        """Whether a value is valid."""
        if self.text:
            return isinstance(value, str) and bool(value)
        if self.words:
            return value in self.words
        return type(value) is int and value >= self.least

    @property
    def contract(self) -> str:
        """The contract of a value, for error messages."""
        if self.text:
            return "a text"
        return " or ".join(self.words) if self.words else f"an integer of at least {self.least}"


@dataclass(frozen=True)
class Point:
    """One measurement: a workload with its parameters, on a base machine with changed parameters."""

    base: str
    changes: Mapping[str, Any]
    workload: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """Random points of a grid, without repetition, determined by the seed."""

    points: int
    seed: int = 0

    def indices(self, count: int) -> list[int]:
        """The indices of the points in a grid of ``count``, in rising order."""
        chance = random.Random(self.seed)
        if count <= sys.maxsize:
            return sorted(chance.sample(range(count), min(self.points, count)))
        chosen: set[int] = set()  # `sample` does not support larger ranges; repetitions are rare
        while len(chosen) < self.points:
            chosen.add(chance.randrange(count))
        return sorted(chosen)


@dataclass(frozen=True)
class Search:
    """A search by Optuna: the metrics to minimise (with a leading minus: to maximise), and the number of points."""

    objectives: tuple[str, ...]
    points: int
    seed: int = 0


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep file. `bases` are arguments of `load_config`; `workloads` are names with their grids.

    ``broken`` returns a constraint that a point violates, or None; ``metrics``: the requested columns, () for all;
    ``energies``: the file of a table of energies, None for Lathe's; ``hardware``: the requested hardware metrics;
    ``budget``: the number of candidate schedules for each tensor program.
    """

    bases: Sequence[str]
    machine: Grid
    workloads: Sequence[tuple[str, Grid]]
    constraints: tuple[str, ...] = ()
    broken: Callable[[Point], str | None] = field(default=lambda _: None, compare=False)
    sample: Sample | None = None
    search: Search | None = None
    shared: bool = False
    budget: int = 1
    metrics: tuple[str, ...] = ()
    energies: str | None = None
    hardware: Hardware | None = None

    @cached_property
    def _ends(self) -> list[int]:
        machines = len(self.bases) * self.machine.count
        return list(itertools.accumulate(grid.count * machines for _, grid in self.workloads))

    @property
    def count(self) -> int:
        """The number of points of the grid, including those that violate a constraint."""
        return self._ends[-1] if self._ends else 0

    def point(self, index: int) -> Point:
        """The point with an index, below ``count``; workloads vary slowest, then their parameters, bases, machines."""
        number = bisect.bisect_right(self._ends, index)
        inside = index - self.first_index(number)
        workload, grid = self.workloads[number]
        inside, machine = divmod(inside, self.machine.count)
        parameters, base = divmod(inside, len(self.bases))
        return Point(self.bases[base], self.machine.at(machine), workload, grid.at(parameters))

    def first_index(self, number: int) -> int:
        """The index of the first point of a workload, given by its number in the file."""
        return self._ends[number - 1] if number else 0

    def indices(self) -> Iterator[int]:
        """The indices of the points to measure: the whole grid or a sample, without those that violate a constraint."""
        chosen = range(self.count) if self.sample is None else self.sample.indices(self.count)
        return (index for index in chosen if self.broken(self.point(index)) is None)

    def points(self) -> tuple[Point, ...]:
        """The points to measure."""
        return tuple(map(self.point, self.indices()))

    @property
    def parameter_keys(self) -> tuple[str, ...]:
        """The names of all workloads' parameters, each once, in file order."""
        return tuple(dict.fromkeys(key for _, grid in self.workloads for key in grid.keys))
