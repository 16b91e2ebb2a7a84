"""Reads a sweep file: one method for each key checks its values, and together they make the ``Sweep``."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import lathe.configs
from lathe.configs import ConfigError, LatheError, load_config, shipped_configs
from lathe.configs.errors import shown
from lathe.configs.validate_config import all_keys
from lathe.configs.yaml_file import read_text
from lathe.sweeps.constraints import NAMES, Constraint, NoConstraintError, first_broken
from lathe.sweeps.dram import DRAM_KEYS, presets
from lathe.sweeps.errors import SweepError
from lathe.sweeps.feasibility import MOST_POINTS, refusal, unsatisfiable_constraint
from lathe.sweeps.machines import DRAM, OWN_KEYS, changed, machine_of
from lathe.sweeps.measurement import METRICS
from lathe.sweeps.options_yaml import OptionsYaml
from lathe.sweeps.scalesim import layers_of
from lathe.sweeps.specification import Axis, Grid, Parameter, Point, Sweep
from lathe.sweeps.workloads import ANY

ROOT_KEYS = (
    "base", "machine", "workloads", "constraints", "sample", "search", "schedules", "budget", "metrics", "energy",
    "hardware",
)  # fmt: skip
FIXED_KEYS = ("name", "memory", "timing", "extensions")  # of a machine; not parameters that a sweep can change
SCHEDULES = ("each", "shared")
EVALUATED = 4096
"""The maximum number of points for which constraints are evaluated to check that they are Boolean."""

Maker = Callable[[str, Mapping[str, Any]], object]
"""Creates the workload of a name and parameters, or raises LatheError."""

SHIPPED = Path(lathe.configs.__file__).parent / "sweeps"


def shipped_sweeps() -> tuple[str, ...]:
    """The names of the sweep files that come with Lathe."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def sweep_path(source: str | os.PathLike[str]) -> Path:
    """The path of a sweep file: the given path or, if there is no such file, that of the shipped file of this name."""
    path = Path(source)
    if not os.path.exists(path) and str(source) in shipped_sweeps():
        return SHIPPED / f"{path.name}.yaml"
    return path


def read_sweep(
    path: str | os.PathLike[str],
    workloads: Mapping[str, Mapping[str, Parameter]],
    make: Maker = lambda *_: None,
    *,
    any_size: bool = False,
) -> Sweep:
    """Parse a sweep file, or a shipped one by its name.

    `workloads`: the known workloads with their parameters; `make` creates one. An invalid machine or combination of
    shapes becomes a row of the result. Errors of the file are: a value that a parameter does not accept, a workload
    without a valid combination, a grid without a valid machine and, unless ``any_size`` is set, more than 100,000
    points to measure.

    Raises :class:`SweepError` with file, line, key and the nearest known key.
    """
    file = sweep_path(path)
    remedy = f"Correct the path, or give the name of a shipped one: {', '.join(shipped_sweeps())}."
    text = read_text(file, "sweep file", remedy, SweepError)
    return SweepFile(file, text, workloads, make, any_size).sweep()


class SweepFile(OptionsYaml):
    """Parser of a sweep file."""

    def __init__(
        self, path: Path, text: str, workloads: Mapping[str, Mapping[str, Parameter]], make: Maker, any_size: bool
    ) -> None:
        super().__init__(path, text, SweepError)
        self.known_workloads = workloads
        self.make = make
        self.any_size = any_size
        self.machine_keys = (*(key for key in all_keys() if key not in FIXED_KEYS), *OWN_KEYS)

    def sweep(self) -> Sweep:
        """Parse the whole file."""
        if self.root is None:
            message = f"The content of {self.path} must be keys with values such as 'base: vta', not empty."
            raise SweepError(f"{message} See configs/sweeps for examples.", file=self.path)
        entries = self.entries(self.root, ROOT_KEYS, "The content", "A key")
        if "workloads" not in entries:
            message = f"The keys of {self.path} must include workloads. Name at least one operator there."
            raise SweepError(message, file=self.path)
        if "sample" in entries and "search" in entries:
            self.refuse_at(
                entries["search"], "search", "search", "omitted if there is a sample, not given as well", "Remove one."
            )
        bases = self.bases(entries["base"]) if "base" in entries else ["vta"]
        grid = self.machine(entries["machine"]) if "machine" in entries else Grid(())
        workloads = self.workloads(entries["workloads"])
        chosen = {key: getattr(self, key)(entries[key]) for key in ("sample", "search") if key in entries}
        if not chosen:
            self.check_size(entries, len(bases) * grid.count, sum(shapes.count for _, shapes in workloads))
        for key, each in chosen.items():
            if each.points > MOST_POINTS and not self.any_size:
                contract = f"at most {MOST_POINTS} without --yes, not {each.points}"
                self.refuse_at(entries[key], "points", f"points of {key}", contract, "Take fewer, or give --yes.")
        if "machine" in entries:
            self.check_machines(entries["machine"], bases, grid)
        for (name, shapes), (node, entries_of_it) in zip(workloads, self.nodes_of_workloads, strict=True):
            self.check_shapes(name, shapes, node)
            self.check_texts(name, shapes, entries_of_it)
        constraints = self.constraints(entries["constraints"]) if "constraints" in entries else ()
        hardware = self.hardware(entries["hardware"]) if "hardware" in entries else None
        metrics = tuple(self.words(entries["metrics"], "metrics", METRICS)) if "metrics" in entries else ()
        self.check_metrics(entries, metrics, chosen.get("search"), grid, hardware)
        sweep = Sweep(
            bases=bases,
            machine=grid,
            workloads=workloads,
            constraints=tuple(each.text for each in constraints),
            broken=_broken(constraints),
            shared="schedules" in entries and self.word(entries["schedules"], "schedules", SCHEDULES) == "shared",
            budget=self.number(entries["budget"], "budget", "the sweep", 1) if "budget" in entries else 1,
            metrics=metrics,
            energies=self.energy(entries["energy"]) if "energy" in entries else None,
            hardware=hardware,
            **chosen,
        )
        if constraints:
            self.check_constraints(entries["constraints"], constraints, sweep)
        return sweep

    def bases(self, node: yaml.Node) -> list[str]:
        """The base machines; paths are relative to the sweep file."""
        names = []
        for item in self.items(node):
            name = self.value(item)
            if not isinstance(name, str):
                self.refuse_at(item, "base", "base", f"a machine's name or file, not {name!r}", "See `lathe configs`.")
            relative = self.path.parent / name
            names.append(str(relative) if name not in shipped_configs() and os.path.exists(relative) else name)
            if names[-1] in names[:-1]:
                self.refuse_at(item, "base", f"Machine {name!r} of base", "given once, not twice", "Remove one.")
            try:
                load_config(names[-1])  # an invalid change of a machine becomes a row, an invalid base is an error
            except ConfigError as error:
                self.refuse_at(item, "base", "base", "a valid machine", str(error))
        if not names:
            self.refuse_at(node, "base", "base", "at least one machine, not an empty list", "See `lathe configs`.")
        return names

    def machine(self, node: yaml.Node) -> Grid:
        """The grid of changed machine parameters."""
        axes = []
        seen: dict[str, yaml.Node] = {}
        for text, key_node, value_node in self.pairs_of(node, "machine"):
            keys = tuple(key.strip() for key in text.split(","))
            for key in keys:
                self.check_known(key_node, key, self.machine_keys, "A machine's parameter")
                self.check_new(key_node, key, seen, "Parameter")
                seen[key] = key_node
            axes.append(self.axis(keys, value_node))
            for values in axes[-1].steps if DRAM in keys else ():
                if (value := values[keys.index(DRAM)]) not in presets():
                    self.refuse_at(
                        value_node, DRAM, "A value of dram", f"one of {', '.join(presets())}, not {shown(value)}",
                        "Correct it.",
                    )  # fmt: skip
        for key in DRAM_KEYS if DRAM in seen else ():
            if key in seen:
                self.refuse_at(
                    seen[key], key, f"Parameter {key}", "omitted if dram is given, which sets it", "Remove one."
                )
        return Grid(tuple(axes))

    def check_machines(self, node: yaml.Node, bases: Sequence[str], grid: Grid) -> None:
        """Refuse a grid without a valid machine."""
        count = grid.count
        reason = refusal(lambda at: changed(bases[at // count], grid.at(at % count)), len(bases) * count)
        if reason is not None:
            self.refuse_at(node, "machine", "machine", "a grid with at least one valid machine, and has none", reason)

    def check_size(self, entries: Mapping[str, yaml.Node], machines: int, workloads: int) -> None:
        """Refuse a grid of more points than are allowed without confirmation."""
        if machines * workloads <= MOST_POINTS or self.any_size:
            return
        key = "machine" if machines > workloads and "machine" in entries else "workloads"
        contract = f"a grid of at most {MOST_POINTS} points in all without --yes, not of {machines * workloads}"
        self.refuse_at(entries[key], key, key, contract, "Give fewer values, take a sample, or give --yes.")

    def workloads(self, node: yaml.Node) -> list[tuple[str, Grid]]:
        """The operators and their shapes."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            actual = "an empty list" if isinstance(node, yaml.SequenceNode) else f"{self.shown(node)}"
            remedy = "Begin each line with a dash: '- matmul: {m: 64, n: 64, k: 64}'."
            self.refuse_at(node, "workloads", "workloads", f"a list of operators, not {actual}", remedy)
        workloads = []
        self.nodes_of_workloads: list[tuple[yaml.Node, Mapping[str, yaml.Node]]] = []
        for item in node.value:
            for name, name_node, grid_node in self.pairs_of(item, "A workload"):
                self.check_known(name_node, name, tuple(self.known_workloads), "A workload")
                shapes, entries = self.shapes(name, name_node, grid_node)
                workloads.append((name, shapes))
                self.nodes_of_workloads.append((name_node, entries))
                if workloads[-1] in workloads[:-1]:
                    self.refuse_at(name_node, name, f"Workload {name}", "given once, not twice", "Remove one.")
        if not workloads:
            self.refuse_at(node, "workloads", "workloads", "a list of operators, not an empty one", "Name one.")
        return workloads

    def shapes(self, workload: str, name_node: yaml.Node, node: yaml.Node) -> tuple[Grid, Mapping[str, yaml.Node]]:
        """The grid of one workload's parameters, and their nodes; an empty node means all defaults."""
        known, title = self.known_workloads[workload], f"Workload {workload}"
        empty = isinstance(node, yaml.ScalarNode) and self.value(node) is None
        names = () if ANY in known else tuple(known)
        entries = {} if empty else self.entries(node, names, title, f"A parameter of {workload}")
        axes = []
        for parameter, value_node in entries.items():
            axis = self.axis((parameter,), value_node)
            if parameter in known:
                axis = self.checked(workload, parameter, axis, value_node)
            axes.append(axis)
        if workload == "topology" and "path" in entries and "layer" not in entries:
            axes.append(self.layers(axes, name_node))
        grid = Grid(tuple(axes))
        for parameter, expected in known.items():
            if expected.required and parameter not in grid.keys:
                required = ", ".join(name for name, each in known.items() if each.required)
                self.refuse_at(
                    name_node, parameter, title, f"complete, not without {parameter}", f"{workload} needs {required}."
                )
        return grid, entries

    def checked(self, workload: str, parameter: str, axis: Axis, node: yaml.Node) -> Axis:
        """The axis of a parameter after its values are checked; paths are made relative to the sweep file."""
        declared = self.known_workloads[workload][parameter]
        ends = axis.steps if isinstance(axis.steps, tuple) else (axis.steps[0], axis.steps[-1])
        for (value,) in ends:
            if not declared.takes(value):
                thing, contract = f"Parameter {parameter} of {workload}", declared.contract
                self.refuse_at(node, parameter, thing, f"{contract}, not {shown(value)}", "Correct it.")
        if declared.path:
            return Axis(axis.keys, tuple((str(self.path.parent / value),) for (value,) in axis.steps))
        return axis

    def layers(self, axes: Sequence[Axis], node: yaml.Node) -> Axis:
        """The axis of all layers of a topology."""
        paths = next(axis.steps for axis in axes if axis.keys == ("path",))
        if len(paths) > 1:
            self.refuse_at(
                node, "path", "path of topology", "one file if no layer is named, not several", "Split the workload."
            )
        try:
            return Axis(("layer",), tuple((name,) for name in layers_of(paths[0][0])))
        except SweepError as error:
            self.refuse_at(node, "path", "Workload topology", "a valid file of layers", str(error))

    def check_shapes(self, workload: str, grid: Grid, name_node: yaml.Node) -> None:
        """Refuse a workload without a valid combination of parameters."""
        reason = refusal(partial(self._made, workload, grid), grid.count)
        if reason is not None:
            contract = f"valid for at least one of its {grid.count} combinations of parameters, not for none"
            self.refuse_at(name_node, workload, f"Workload {workload}", contract, reason)

    def _made(self, workload: str, grid: Grid, index: int) -> object:
        return self.make(workload, grid.at(index))

    def check_texts(self, workload: str, grid: Grid, nodes: Mapping[str, yaml.Node]) -> None:
        """Refuse a path, or another text, that is invalid for all values of the other parameters.

        Sizes that fit no others become rows with the reason; a name that does not exist is an error of the file.
        """
        known = self.known_workloads[workload]
        for at, axis in enumerate(grid.axes):
            (parameter,) = axis.keys
            if parameter not in nodes or parameter not in known or not known[parameter].text or len(axis.steps) == 1:
                continue
            items = self.items(nodes[parameter])
            for step, item in zip(axis.steps, items, strict=True):
                alone = Grid((*grid.axes[:at], Axis(axis.keys, (step,)), *grid.axes[at + 1 :]))
                reason = refusal(partial(self._made, workload, alone), alone.count)
                if reason is not None:
                    thing, value = f"Parameter {parameter} of {workload}", shown(self.value(item))
                    contract = f"valid for some values of the other parameters, not {value}"
                    self.refuse_at(item, parameter, thing, contract, reason)

    def constraints(self, node: yaml.Node) -> tuple[Constraint, ...]:
        """Boolean expressions over machine parameters."""
        constraints = []
        for item in self.items(node):
            try:
                constraints.append(Constraint.of(self.value(item)))
            except NoConstraintError as error:
                if error.name is not None:
                    self.check_known(item, error.name, NAMES, "A name in a constraint")
                contract = f"an expression like 'block_in <= 32' (reason: {error})"
                self.refuse_at(item, "constraints", "A constraint", contract, "Correct it.")
        if not constraints:
            self.refuse_at(node, "constraints", "constraints", "at least one expression, not an empty list", "Add one.")
        return tuple(constraints)

    def check_constraints(self, node: yaml.Node, constraints: tuple[Constraint, ...], sweep: Sweep) -> None:
        """Refuse constraints that are not Boolean, or that no point satisfies."""
        try:
            for index in range(min(sweep.count, EVALUATED)):
                sweep.broken(sweep.point(index))
            first = unsatisfiable_constraint(constraints, sweep)
        except SweepError as error:
            self.refuse_at(node, "constraints", "constraints", "true or false for every machine", str(error))
        if first is not None:
            contract = f"satisfied by at least one of the {sweep.count} points, not by none"
            self.refuse_at(node, "constraints", "constraints", contract, f"The first point violates {first!r}.")


def _broken(constraints: tuple[Constraint, ...]) -> Callable[[Point], str | None]:
    def broken(point: Point) -> str | None:
        try:
            machine = machine_of(point)
        except LatheError:
            return None  # an invalid machine becomes a row with the reason
        return first_broken(constraints, machine)

    return broken if constraints else lambda _: None
