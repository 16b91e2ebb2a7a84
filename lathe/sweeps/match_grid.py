"""Finds the grid points that a stored row may belong to, from its columns, without enumerating the grid.

The grid of a search may have 10⁸ points, and editing the sweep file changes their indices. A match is only a candidate:
the point's key decides.
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


def matching_indices(sweep: Sweep, columns: Mapping[str, Any]) -> Iterator[int]:
    """The indices of the grid points that match a row's columns.

    Paths are not compared, since files count by content: every path of a workload's file matches.
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
                yield from (before + grid.index_of(chosen) * size + machine for machine in machines)
        before += grid.count * size


def _machines_like(sweep: Sweep, columns: Mapping[str, Any]) -> Iterator[int]:
    """The numbers of the grid's machines that match a row; parameters that it does not name are those of its base."""
    keys = (*all_keys(), *OWN_KEYS)
    changes = {key: columns[key] for key in columns if key in keys}
    bases = [at for at, base in enumerate(sweep.bases) if base == columns.get(BASE)] or range(len(sweep.bases))
    for at in bases:
        try:
            described = _described(sweep.bases[at], changes, sweep.machine.keys)
        except LatheError:  # an invalid machine is compared by its changes
            described = changes
        steps = [_step(axis, [described.get(key) for key in axis.keys]) for axis in sweep.machine.axes]
        for chosen in itertools.product(*steps):
            yield at * sweep.machine.count + sweep.machine.index_of(chosen)


def _described(base: str, changes: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The values of some keys of a base machine with changes. Raises ConfigError for an invalid one."""
    machine = changed(base, changes)
    own = {CLOCK: machine.clock_mhz, DRAM: machine.dram and machine.dram.name}
    values = {}
    for key in keys:
        value: Any = own.get(key, machine.config)
        for name in () if key in own else key.split("."):
            value = getattr(value, name)
        values[key] = value
    return values


def _step(axis: Axis, values: list[Any]) -> list[int]:
    """The step of an axis that has these values, as a list; empty if there is none."""
    step = axis.step_of(tuple(values))
    return [] if step is None else [step]
