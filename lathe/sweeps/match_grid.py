"""Where in a sweep's grid a row of a store may lie, from what its columns say, without looking at all of the grid.

A grid that is searched may have 10⁸ points, and after an edit every one of them may lie elsewhere. What is found here
may be the row's point; that it is says its key.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lathe.configs import LatheError
from lathe.configs.validate_config import all_keys
from lathe.sweeps.machines import CLOCK, DRAM, OWN_KEYS, changed
from lathe.sweeps.specification import Axis, Sweep
from lathe.sweeps.tables import BASE, WORKLOAD, column_of
from lathe.sweeps.workloads import known_workloads


def places_like(sweep: Sweep, columns: Mapping[str, Any]) -> Iterator[int]:
    """The places of a grid whose points are described as a row's columns are.

    Files count by what is in them: any base, and any path of a workload's file, may be the row's.
    """
    machines = list(_machines_like(sweep, columns))
    size, before = len(sweep.bases) * sweep.machine.count, 0
    for workload, grid in sweep.workloads:
        if workload == columns.get(WORKLOAD):
            forms = known_workloads().get(workload, {})
            steps = [
                range(len(axis.steps))
                if any(key in forms and forms[key].path for key in axis.keys)
                else _step(axis, [columns.get(column_of(key)) for key in axis.keys])
                for axis in grid.axes
            ]
            for chosen in itertools.product(*steps):
                yield from (before + grid.place(chosen) * size + machine for machine in machines)
        before += grid.count * size


def _machines_like(sweep: Sweep, columns: Mapping[str, Any]) -> Iterator[int]:
    """The machines of the grid, by number, that a row may have. What it does not name, its base decides."""
    keys = (*all_keys(), *OWN_KEYS)
    changes = {key: columns[key] for key in columns if key in keys}
    bases = [at for at, base in enumerate(sweep.bases) if base == columns.get(BASE)] or range(len(sweep.bases))
    for at in bases:
        try:
            described = _described(sweep.bases[at], changes, sweep.machine.keys)
        except LatheError:  # a machine that does not exist counts by its description alone
            described = changes
        steps = [_step(axis, [described.get(key) for key in axis.keys]) for axis in sweep.machine.axes]
        for chosen in itertools.product(*steps):
            yield at * sweep.machine.count + sweep.machine.place(chosen)


def _described(base: str, changes: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """What keys are of a base with changes. Raises ConfigError for a machine that does not exist."""
    machine = changed(base, changes)
    own = {CLOCK: machine.clock_mhz, DRAM: machine.dram and machine.dram.name}
    found = {}
    for key in keys:
        value: Any = own.get(key, machine.config)
        for name in () if key in own else key.split("."):
            value = getattr(value, name)
        found[key] = value
    return found


def _step(axis: Axis, values: list[Any]) -> list[int]:
    """The step of an axis that has these values; none where no step has them."""
    found = axis.step_of(tuple(values))
    return [] if found is None else [found]
