"""What a sweep file says: the machines and the workloads, and the points of their grid.

The form of the file, with every key that it may have::

    base: vta                            # a shipped machine or a file beside this one, or a list of them
    machine:                             # parameters to change, by the keys that `lathe configs vta` shows
      memory.latency: [0, 32, 128]       # a value or a list of values; the grid has every combination
      memory.outstanding_reads: {from: 2, to: 8, step: 2}       # a range, both ends in it
      uop_buffer_bytes: {powers_of_two: [8192, 65536]}          # likewise, by doubling
      block_in, block_out: [16, 32]      # parameters that move together, with one value for all ...
      inp_buffer_bytes, acc_buffer_bytes: [[32768, 131072], [65536, 262144]]   # ... or one value each
      clock_mhz: 200                     # no parameter of a machine: what time and the DRAM are counted with
      dram: [ddr3_1600, hbm2]            # a memory of `dram.yaml`: bus, rate and latency, at that clock
    constraints:                         # what must hold of a machine; other points are left out
      - inp_buffer_bytes + wgt_buffer_bytes + acc_buffer_bytes <= 2**20
    workloads:                           # operators with their shapes, again a value or a list of each
      - matmul: {m: [64, 256], n: 256, k: 256}
      - digits: {batch: 8}
      - onnx: {path: resnet18.onnx}      # and models, layers of SCALE-Sim's topologies, functions in Python
    sample: {points: 100, seed: 0}       # so many points of the grid instead of all; or search:, see `search.py`
    schedules: each                      # or shared, see `share_programs.py`
    budget: 12                           # schedules that are tried for each operator, 1 unless given
    metrics: [cycles, energy_pj]         # the columns of numbers, all unless given
    energy: mine.yaml                    # energies of actions instead of Lathe's own, see `energy.py`
    hardware: counts                     # or {device: ecp5-45k}: numbers of the RTL, see `hardware.py`
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
    """The steps of a range of whole numbers for so many keys, none of which is held: there may be 10⁸ of them."""

    def __init__(self, numbers: range, keys: int = 1) -> None:
        self.numbers, self.keys = numbers, keys

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> Values: ...

    @overload
    def __getitem__(self, at: slice) -> "Span": ...

    def __getitem__(self, at: int | slice) -> "Values | Span":
        found = self.numbers[at]
        return Span(found, self.keys) if isinstance(found, range) else (found,) * self.keys

    def step_of(self, values: Values) -> int | None:
        """Where values stand; None where they do not."""
        if len(set(values)) > 1 or type(values[0]) is not int or values[0] not in self.numbers:
            return None
        return self.numbers.index(values[0])


@dataclass(frozen=True)
class Axis:
    """Keys that move together, and the values that they take at each of its steps."""

    keys: tuple[str, ...]
    steps: Sequence[Values]

    def step_of(self, values: Values) -> int | None:
        """Where the first step with these values is; None where none has them."""
        return self.steps.step_of(values) if isinstance(self.steps, Span) else self._places.get(values)

    @cached_property
    def _places(self) -> dict[Values, int]:
        return {values: step for step, values in reversed(list(enumerate(self.steps)))}


@dataclass(frozen=True)
class Grid:
    """Every combination of the steps of its axes."""

    axes: tuple[Axis, ...]

    @cached_property
    def count(self) -> int:
        """How many combinations there are; 1 without any axis."""
        return math.prod(len(axis.steps) for axis in self.axes)

    def at(self, place: int) -> dict[str, Any]:
        """Keys to values of one combination, of ``count``; the last axis is fastest."""
        chosen: list[Values] = []
        for axis in reversed(self.axes):
            place, step = divmod(place, len(axis.steps))
            chosen.append(axis.steps[step])
        return {
            key: value
            for axis, values in zip(self.axes, reversed(chosen), strict=True)
            for key, value in zip(axis.keys, values, strict=True)
        }

    def place(self, steps: Sequence[int]) -> int:
        """The place of the combination that has these steps of the axes: what ``at`` takes apart."""
        place = 0
        for axis, step in zip(self.axes, steps, strict=True):
            place = place * len(axis.steps) + step
        return place

    def points(self) -> Iterator[dict[str, Any]]:
        """Keys to values of every combination."""
        return map(self.at, range(self.count))

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key of every axis, in order."""
        return tuple(key for axis in self.axes for key in axis.keys)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload: whether it must be given, and what it may be.

    A whole number of at least ``least``, or if there are ``words`` one of these, or any ``text``; a ``path`` is one of
    a file beside the sweep's.
    """

    required: bool
    least: int = 1
    words: tuple[str, ...] = ()
    text: bool = False
    path: bool = False

    def takes(self, value: object) -> bool:
        """Whether a value is one."""
        if self.text:
            return isinstance(value, str) and bool(value)
        if self.words:
            return value in self.words
        return type(value) is int and value >= self.least

    @property
    def contract(self) -> str:
        """What a value must be, for messages."""
        if self.text:
            return "a text"
        return " or ".join(self.words) if self.words else f"a whole number of at least {self.least}"


@dataclass(frozen=True)
class Point:
    """One measurement: a workload with its parameters, on a base machine with changed parameters."""

    base: str
    changes: Mapping[str, Any]
    workload: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """Points of a grid, drawn without repeating any; the same ones for one seed."""

    points: int
    seed: int = 0

    def places(self, count: int) -> list[int]:
        """Which of ``count`` points, in rising order."""
        chance = random.Random(self.seed)
        if count <= sys.maxsize:
            return sorted(chance.sample(range(count), min(self.points, count)))
        found: set[int] = set()  # more than Python's lists can number: hardly one is drawn twice
        while len(found) < self.points:
            found.add(chance.randrange(count))
        return sorted(found)


@dataclass(frozen=True)
class Search:
    """What Optuna looks for: metrics to make small (or, with a minus before them, great), and in how many points."""

    objectives: tuple[str, ...]
    points: int
    seed: int = 0


@dataclass(frozen=True)
class Sweep:
    """A sweep file's content. `bases` are what `load_config` takes; `workloads` are names with their grids.

    ``allows`` says of a point whether the constraints hold; ``metrics`` are the columns that were asked for, none for
    all; ``energies`` the file of a table of energies, if another than Lathe's is wanted; ``hardware`` what is asked of
    the RTL, if anything is; ``budget`` how many schedules are tried for each tensor program.
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
        """How many points the grid has, those among them that a constraint forbids."""
        return self._ends[-1] if self._ends else 0

    def point(self, place: int) -> Point:
        """The point at a place of the grid, of ``count``; workloads are slowest, then bases, then machines."""
        number = bisect.bisect_right(self._ends, place)
        inside = place - self.first_place(number)
        workload, grid = self.workloads[number]
        inside, machine = divmod(inside, self.machine.count)
        parameters, base = divmod(inside, len(self.bases))
        return Point(self.bases[base], self.machine.at(machine), workload, grid.at(parameters))

    def first_place(self, number: int) -> int:
        """The place where the points of a workload begin, by its number in the file."""
        return self._ends[number - 1] if number else 0

    def places(self) -> Iterator[int]:
        """The places that are measured: all of the grid, or a sample of it, without those that a constraint forbids."""
        chosen = range(self.count) if self.sample is None else self.sample.places(self.count)
        return (place for place in chosen if self.broken(self.point(place)) is None)

    def points(self) -> tuple[Point, ...]:
        """The points at these places."""
        return tuple(map(self.point, self.places()))

    @property
    def parameter_keys(self) -> tuple[str, ...]:
        """The parameters of all workloads, each once, in the order of the file."""
        return tuple(dict.fromkeys(key for _, grid in self.workloads for key in grid.keys))
