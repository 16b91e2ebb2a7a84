"""A search of a sweep's grid by Optuna: which points are worth measuring, for one or several metrics.

In a sweep file::

    search: {objectives: [cycles, energy_pj], points: 100, seed: 0}   # -efficiency: as great as possible

One objective is looked for by TPE, several by NSGA-II, over the steps of all axes. No point is measured twice: one that
the sampler names again is answered with what is known. A search that goes on begins with all that is known.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from typing import Any

from lathe.sweeps.errors import SweepError
from lathe.sweeps.execution import Running, available_cores, measured_points
from lathe.sweeps.measurement import OK, Options, Row
from lathe.sweeps.specification import Point, Search, Sweep

ASKED = 200
"""So many answers in a row that are known already: the sampler has nothing new to say, and what is left is taken."""


def optuna() -> Any:
    """The package. Raises SweepError that says what to install."""
    try:
        return import_module("optuna")
    except ImportError as error:
        raise SweepError(
            f"package 'optuna' must be there to search a sweep, and cannot be imported: {error}. Install it with: pip "
            "install 'lathe-npu[sweep]'."
        ) from None


class Study:
    """A study of a sweep's grid, by places."""

    def __init__(self, sweep: Sweep, search: Search, known: Mapping[int, Mapping[str, float] | None]) -> None:
        package = optuna()
        package.logging.set_verbosity(package.logging.ERROR)
        self.sweep, self.search, self.package = sweep, search, package
        several = len(search.objectives) > 1
        # The count of what is known is part of the seed: a search that goes on does not begin with the same guesses.
        seed = search.seed + len(known)
        sampler = package.samplers.NSGAIISampler if several else package.samplers.TPESampler
        self.study = package.create_study(
            directions=["maximize" if name.startswith("-") else "minimize" for name in search.objectives],
            sampler=sampler(seed=seed),
        )
        self.known: dict[int, tuple[float, ...] | None] = {}
        self.waiting: dict[int, list[Any]] = {}
        for place, numbers in known.items():
            self.known[place] = self._values(numbers)
            self._add(place)

    def ask(self) -> int | None:
        """The place of another point to measure; None where there is none left."""
        for _ in range(ASKED):
            trial = self.study.ask()
            place = self._place(trial)
            if place in self.known:
                self._tell(trial, self.known[place])
            elif place in self.waiting:
                self.waiting[place].append(trial)
            elif self.sweep.broken(self.sweep.point(place)) is not None:
                self.known[place] = None
                self._tell(trial, None)
            else:
                self.waiting[place] = [trial]
                return place
        taken = {*self.known, *self.waiting}
        left = next((each for each in self.sweep.places() if each not in taken), None)
        if left is not None:
            self.waiting[left] = []
        return left

    def tell(self, place: int, numbers: Mapping[str, float] | None) -> None:
        """What has come of a point; None where there are no numbers."""
        self.known[place] = self._values(numbers)
        trials = self.waiting.pop(place)
        for trial in trials:
            self._tell(trial, self.known[place])
        if not trials:
            self._add(place)

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
        """The axes of the whole grid with their steps: which workload, its parameters, the base, the machine."""
        _, grid = self.sweep.workloads[workload]
        return {
            **{f"workload {workload} {','.join(axis.keys)}": len(axis.steps) for axis in grid.axes},
            "base": len(self.sweep.bases),
            **{f"machine {','.join(axis.keys)}": len(axis.steps) for axis in self.sweep.machine.axes},
        }

    def _place(self, trial: Any) -> int:
        """Where the steps that a trial suggests lie in the grid."""
        workload = trial.suggest_int("workload", 0, len(self.sweep.workloads) - 1)
        place = 0
        for name, size in self._sizes(workload).items():
            place = place * size + int(trial.suggest_int(name, 0, size - 1))
        return place + self._before(workload)

    def _before(self, workload: int) -> int:
        machines = len(self.sweep.bases) * self.sweep.machine.count
        return sum(grid.count * machines for _, grid in self.sweep.workloads[:workload])

    def _add(self, place: int) -> None:
        """A trial of what is known."""
        values = self.known[place]
        if values is None:
            return
        workload = max(at for at in range(len(self.sweep.workloads)) if self._before(at) <= place)
        sizes = self._sizes(workload)
        steps, left = {}, place - self._before(workload)
        for name, size in reversed(sizes.items()):
            left, steps[name] = divmod(left, size)
        distributions = self.package.distributions
        ranges = {"workload": distributions.IntDistribution(0, len(self.sweep.workloads) - 1)}
        ranges |= {name: distributions.IntDistribution(0, size - 1) for name, size in sizes.items()}
        self.study.add_trial(
            self.package.trial.create_trial(params={"workload": workload, **steps}, distributions=ranges, values=values)
        )


def run_search(
    sweep: Sweep, options: Options, running: Running, known: Mapping[int, Mapping[str, float] | None]
) -> Generator[tuple[int, Row], None, None]:
    """Measure what Optuna asks for, until with all that is ``known`` there are as many points as the search has."""
    search = sweep.search
    assert search is not None, "who searches has something to look for"
    study = Study(sweep, search, known)
    left = search.points - len(known)

    def asked() -> Iterator[tuple[int, Point]]:
        for _ in range(left):
            place = study.ask()
            if place is None:
                return
            yield place, sweep.point(place)

    if left <= 0:
        return
    jobs = running.jobs or available_cores()
    with closing(measured_points(asked(), left, options, running, ahead=jobs)) as results:
        for place, row in results:
            study.tell(place, row.numbers if row.status == OK else None)
            yield place, row


def needed(sweep: Sweep) -> None:
    """Raise SweepError where a sweep needs a package that is not there."""
    if sweep.search is not None:
        optuna()
