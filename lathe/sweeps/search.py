"""Searches a sweep's grid with Optuna, which chooses the points to measure, for one or several objectives.

In a sweep file::

    search: {objectives: [cycles, energy_pj], points: 100, seed: 0}   # -efficiency: maximise it

One objective is optimised by TPE, several by NSGA-II, over the steps of all axes. No point is measured twice: a point
that the sampler suggests again gets its known metrics. A resumed search starts with all known metrics.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from typing import Any

from lathe.sweeps.errors import SweepError
from lathe.sweeps.execution import ExecutionOptions, available_cores, measured_points
from lathe.sweeps.measurement import OK, Options, Row
from lathe.sweeps.specification import Point, Search, Sweep

MOST_SUGGESTIONS = 200
"""After so many suggestions in a row that are already known, the first unknown point of the grid is taken instead."""


def optuna() -> Any:
    """The package. Raises SweepError that names the extra to install."""
    try:
        return import_module("optuna")
    except ImportError as error:
        raise SweepError(
            f"Cannot import package 'optuna', which a search requires: {error}. Install it with: pip install "
            "'lathe-npu[sweep]'."
        ) from None


class Study:
    """An Optuna study of a sweep's grid, by grid index."""

    def __init__(self, sweep: Sweep, search: Search, known: Mapping[int, Mapping[str, float] | None]) -> None:
        package = optuna()
        package.logging.set_verbosity(package.logging.ERROR)
        self.sweep, self.search, self.package = sweep, search, package
        several = len(search.objectives) > 1
        # The number of known points is part of the seed, so that a resumed search does not repeat its suggestions.
        seed = search.seed + len(known)
        sampler = package.samplers.NSGAIISampler if several else package.samplers.TPESampler
        self.study = package.create_study(
            directions=["maximize" if name.startswith("-") else "minimize" for name in search.objectives],
            sampler=sampler(seed=seed),
        )
        self.known: dict[int, tuple[float, ...] | None] = {}
        self.waiting: dict[int, list[Any]] = {}
        for index, numbers in known.items():
            self.known[index] = self._values(numbers)
            self._add(index)

    def ask(self) -> int | None:
        """The grid index of the next point to measure; None if all are known or being measured."""
        for _ in range(MOST_SUGGESTIONS):
            trial = self.study.ask()
            index = self._index(trial)
            if index in self.known:
                self._tell(trial, self.known[index])
            elif index in self.waiting:
                self.waiting[index].append(trial)
            elif self.sweep.broken(self.sweep.point(index)) is not None:
                self.known[index] = None
                self._tell(trial, None)
            else:
                self.waiting[index] = [trial]
                return index
        taken = {*self.known, *self.waiting}
        unknown = next((each for each in self.sweep.indices() if each not in taken), None)
        if unknown is not None:
            self.waiting[unknown] = []
        return unknown

    def tell(self, index: int, numbers: Mapping[str, float] | None) -> None:
        """Report the metrics of a point to the study; None if it has none."""
        self.known[index] = self._values(numbers)
        trials = self.waiting.pop(index)
        for trial in trials:
            self._tell(trial, self.known[index])
        if not trials:
            self._add(index)

    def _values(self, numbers: Mapping[str, float] | None) -> tuple[float, ...] | None:
        names = [name.removeprefix("-") for name in self.search.objectives]
        if numbers is None or any(numbers.get(name) is None for name in names):
            return None
        return tuple(float(numbers[name]) for name in names)

    def _tell(self, trial: Any, values: tuple[float, ...] | None) -> None:
        if values is None:
            self.study.tell(trial, state=self.package.trial.TrialState.FAIL)
        else:
            self.study.tell(trial, list(values))

    def _sizes(self, workload: int) -> dict[str, int]:
        """The axes of a workload's grid with their numbers of steps: its parameters, the base and the machine's."""
        _, grid = self.sweep.workloads[workload]
        return {
            **{f"workload {workload} {','.join(axis.keys)}": len(axis.steps) for axis in grid.axes},
            "base": len(self.sweep.bases),
            **{f"machine {','.join(axis.keys)}": len(axis.steps) for axis in self.sweep.machine.axes},
        }

    def _index(self, trial: Any) -> int:
        """The grid index of the steps that a trial suggests."""
        workload = trial.suggest_int("workload", 0, len(self.sweep.workloads) - 1)
        index = 0
        for name, size in self._sizes(workload).items():
            index = index * size + int(trial.suggest_int(name, 0, size - 1))
        return index + self._before(workload)

    def _before(self, workload: int) -> int:
        machines = len(self.sweep.bases) * self.sweep.machine.count
        return sum(grid.count * machines for _, grid in self.sweep.workloads[:workload])

    def _add(self, index: int) -> None:
        """Add a trial with the known metrics of a point."""
        values = self.known[index]
        if values is None:
            return
        workload = max(at for at in range(len(self.sweep.workloads)) if self._before(at) <= index)
        sizes = self._sizes(workload)
        steps, rest = {}, index - self._before(workload)
        for name, size in reversed(sizes.items()):
            rest, steps[name] = divmod(rest, size)
        distributions = self.package.distributions
        ranges = {"workload": distributions.IntDistribution(0, len(self.sweep.workloads) - 1)}
        ranges |= {name: distributions.IntDistribution(0, size - 1) for name, size in sizes.items()}
        self.study.add_trial(
            self.package.trial.create_trial(params={"workload": workload, **steps}, distributions=ranges, values=values)
        )


def run_search(
    sweep: Sweep, options: Options, running: ExecutionOptions, known: Mapping[int, Mapping[str, float] | None]
) -> Generator[tuple[int, Row], None, None]:
    """Measure the points that Optuna suggests, until the search's number of points, ``known`` included, is reached."""
    search = sweep.search
    assert search is not None, "the sweep has no search"
    study = Study(sweep, search, known)
    remaining = search.points - len(known)

    def suggested() -> Iterator[tuple[int, Point]]:
        for _ in range(remaining):
            index = study.ask()
            if index is None:
                return
            yield index, sweep.point(index)

    if remaining <= 0:
        return
    jobs = running.jobs or available_cores()
    with closing(measured_points(suggested(), remaining, options, running, ahead=jobs)) as results:
        for index, row in results:
            study.tell(index, row.numbers if row.status == OK else None)
            yield index, row


def check_packages(sweep: Sweep) -> None:
    """Raise SweepError if a sweep requires a package that is not installed."""
    if sweep.search is not None:
        optuna()
