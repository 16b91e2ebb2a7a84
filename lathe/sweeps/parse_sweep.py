"""Reading sweep files, with the line of every mistake."""

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
from lathe.configs.yaml_file import text_of
from lathe.sweeps.constraints import NAMES, Constraint, NoConstraintError, first_broken
from lathe.sweeps.dram import DRAM_KEYS, presets
from lathe.sweeps.errors import SweepError
from lathe.sweeps.feasibility import MOST_POINTS, forbidding, refusal
from lathe.sweeps.machines import DRAM, OWN_KEYS, changed, machine_of
from lathe.sweeps.measurement import NUMBERS
from lathe.sweeps.options_yaml import AskedYaml
from lathe.sweeps.scalesim import layers_of
from lathe.sweeps.specification import Axis, Grid, Parameter, Point, Sweep
from lathe.sweeps.workloads import ANY

ROOT_KEYS = (
    "base", "machine", "workloads", "constraints", "sample", "search", "schedules", "budget", "metrics", "energy",
    "hardware",
)  # fmt: skip
FIXED_KEYS = ("name", "memory", "timing", "extensions")  # of a machine; not numbers to sweep over
SCHEDULES = ("each", "shared")
LOOKED_AT = 4096
"""Points that constraints are looked at for, whether they have a truth there."""

Maker = Callable[[str, Mapping[str, Any]], object]
"""Makes the workload of a name and parameters, or raises LatheError."""

SHIPPED = Path(lathe.configs.__file__).parent / "sweeps"


def shipped_sweeps() -> tuple[str, ...]:
    """The names of the sweep files that come with Lathe."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def sweep_path(source: str | os.PathLike[str]) -> Path:
    """Where a sweep file is: the path itself, or a shipped file's when its name is given and no such file is here."""
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
    """The sweep of a YAML file, or of a shipped one by its name.

    `workloads` are the known workloads with their parameters; `make` makes one. A machine or a combination of shapes
    that is impossible becomes a row of the result; but a number or a word that no workload takes, a workload none of
    whose combinations can be made, a grid none of whose machines exists, and one of more than 100,000 points that are
    all measured are mistakes, the last one unless ``any_size`` is set.

    Raises :class:`SweepError` with file, line, key and the nearest known key.
    """
    found = sweep_path(path)
    remedy = f"Correct the path, or give the name of a shipped one: {', '.join(shipped_sweeps())}."
    text = text_of(found, "sweep file", remedy, SweepError)
    return SweepFile(found, text, workloads, make, any_size).sweep()


class SweepFile(AskedYaml):
    """One sweep file."""

    def __init__(
        self, path: Path, text: str, workloads: Mapping[str, Mapping[str, Parameter]], make: Maker, any_size: bool
    ) -> None:
        super().__init__(path, text, SweepError)
        self.known_workloads = workloads
        self.make = make
        self.any_size = any_size
        self.machine_keys = (*(key for key in all_keys() if key not in FIXED_KEYS), *OWN_KEYS)

    def sweep(self) -> Sweep:
        """The whole file."""
        if self.root is None:
            message = f"The content of {self.path} must be keys with values such as 'base: vta', not empty."
            raise SweepError(f"{message} See configs/sweeps for examples.", file=self.path)
        entries = self.entries(self.root, ROOT_KEYS, "The content", "A key")
        if "workloads" not in entries:
            message = f"The keys of {self.path} must include workloads, and do not. Name at least one operator there."
            raise SweepError(message, file=self.path)
        if "sample" in entries and "search" in entries:
            self.refuse_at(
                entries["search"], "search", "search", "left out beside sample, not given too", "Remove one."
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
                self.refuse_at(entries[key], "points", f"points of {key}", contract, "Take fewer, or say --yes.")
        if "machine" in entries:
            self.check_machines(entries["machine"], bases, grid)
        for (name, shapes), (node, entries_of_it) in zip(workloads, self.nodes_of_workloads, strict=True):
            self.check_shapes(name, shapes, node)
            self.check_texts(name, shapes, entries_of_it)
        constraints = self.constraints(entries["constraints"]) if "constraints" in entries else ()
        hardware = self.hardware(entries["hardware"]) if "hardware" in entries else None
        metrics = tuple(self.words(entries["metrics"], "metrics", NUMBERS)) if "metrics" in entries else ()
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
        """The base machines; files are looked for beside the sweep file."""
        names = []
        for item in self.items(node):
            name = self.value(item)
            if not isinstance(name, str):
                self.refuse_at(item, "base", "base", f"a machine's name or file, not {name!r}", "See `lathe configs`.")
            beside = self.path.parent / name
            names.append(str(beside) if name not in shipped_configs() and os.path.exists(beside) else name)
            if names[-1] in names[:-1]:
                self.refuse_at(item, "base", f"Machine {name!r} of base", "given once, not twice", "Remove one.")
            try:
                load_config(names[-1])  # changes of a machine may be impossible; that there is none is a mistake
            except ConfigError as error:
                self.refuse_at(item, "base", "base", "a machine that can be read, and is not", str(error))
        if not names:
            self.refuse_at(node, "base", "base", "at least one machine, not an empty list", "See `lathe configs`.")
        return names

    def machine(self, node: yaml.Node) -> Grid:
        """The machine's parameters that change."""
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
                    seen[key], key, f"Parameter {key}", "left out beside dram, which decides it", "Remove one."
                )
        return Grid(tuple(axes))

    def check_machines(self, node: yaml.Node, bases: Sequence[str], grid: Grid) -> None:
        """Refuse a grid none of whose machines exists."""
        count = grid.count
        reason = refusal(lambda at: changed(bases[at // count], grid.at(at % count)), len(bases) * count)
        if reason is not None:
            contract = "a grid with at least one machine that exists, and has none"
            self.refuse_at(node, "machine", "machine", contract, reason)

    def check_size(self, entries: Mapping[str, yaml.Node], machines: int, workloads: int) -> None:
        """Refuse a grid of so many points that it is hardly meant."""
        if machines * workloads <= MOST_POINTS or self.any_size:
            return
        key = "machine" if machines > workloads and "machine" in entries else "workloads"
        contract = f"a grid of at most {MOST_POINTS} points in all without --yes, not of {machines * workloads}"
        self.refuse_at(entries[key], key, key, contract, "Give fewer values, take a sample, or say --yes.")

    def workloads(self, node: yaml.Node) -> list[tuple[str, Grid]]:
        """The operators and their shapes."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            found = "an empty list" if isinstance(node, yaml.SequenceNode) else f"{self.shown(node)}"
            remedy = "Begin each line with a dash: '- matmul: {m: 64, n: 64, k: 64}'."
            self.refuse_at(node, "workloads", "workloads", f"a list of operators, not {found}", remedy)
        found_workloads = []
        self.nodes_of_workloads: list[tuple[yaml.Node, Mapping[str, yaml.Node]]] = []
        for item in node.value:
            for name, name_node, grid_node in self.pairs_of(item, "A workload"):
                self.check_known(name_node, name, tuple(self.known_workloads), "A workload")
                shapes, entries = self.shapes(name, name_node, grid_node)
                found_workloads.append((name, shapes))
                self.nodes_of_workloads.append((name_node, entries))
                if found_workloads[-1] in found_workloads[:-1]:
                    self.refuse_at(name_node, name, f"Workload {name}", "given once, not twice", "Remove one.")
        if not found_workloads:
            self.refuse_at(node, "workloads", "workloads", "a list of operators, not of nothing", "Name one.")
        return found_workloads

    def shapes(self, workload: str, name_node: yaml.Node, node: yaml.Node) -> tuple[Grid, Mapping[str, yaml.Node]]:
        """The grid of one workload's parameters, and where they stand; nothing is a grid of its defaults."""
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
                needed = ", ".join(name for name, each in known.items() if each.required)
                self.refuse_at(name_node, parameter, title, f"complete, not without {parameter}", f"It needs {needed}.")
        return grid, entries

    def checked(self, workload: str, parameter: str, axis: Axis, node: yaml.Node) -> Axis:
        """The axis of a parameter, each of whose values it takes; files are looked for beside the sweep file."""
        form = self.known_workloads[workload][parameter]
        ends = axis.steps if isinstance(axis.steps, tuple) else (axis.steps[0], axis.steps[-1])
        for (value,) in ends:
            if not form.takes(value):
                thing, contract = f"Parameter {parameter} of {workload}", form.contract
                self.refuse_at(node, parameter, thing, f"{contract}, not {shown(value)}", "Correct it.")
        if form.path:
            return Axis(axis.keys, tuple((str(self.path.parent / value),) for (value,) in axis.steps))
        return axis

    def layers(self, axes: Sequence[Axis], node: yaml.Node) -> Axis:
        """Every layer of a topology."""
        paths = next(axis.steps for axis in axes if axis.keys == ("path",))
        if len(paths) > 1:
            self.refuse_at(
                node, "path", "path of topology", "one file where no layer is named, not several", "Split it."
            )
        try:
            return Axis(("layer",), tuple((name,) for name in layers_of(paths[0][0])))
        except SweepError as error:
            self.refuse_at(node, "path", "Workload topology", "one that can be read, and is not", str(error))

    def check_shapes(self, workload: str, grid: Grid, name_node: yaml.Node) -> None:
        """Refuse a workload none of whose combinations makes one."""
        reason = refusal(partial(self._made, workload, grid), grid.count)
        if reason is not None:
            contract = f"possible with one of its {grid.count} combinations, and is with none"
            self.refuse_at(name_node, workload, f"Workload {workload}", contract, reason)

    def _made(self, workload: str, grid: Grid, place: int) -> object:
        return self.make(workload, grid.at(place))

    def check_texts(self, workload: str, grid: Grid, nodes: Mapping[str, yaml.Node]) -> None:
        """Refuse a file, or another text, with which no values of the other parameters make the workload.

        Sizes that fit no others are rows with the reason; a name that nothing has is a mistake in the file.
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
                    self.refuse_at(item, parameter, thing, f"one that makes a workload, not {value}", reason)

    def constraints(self, node: yaml.Node) -> tuple[Constraint, ...]:
        """Expressions that are true or false of a machine."""
        found = []
        for item in self.items(node):
            try:
                found.append(Constraint.of(self.value(item)))
            except NoConstraintError as error:
                if error.name is not None:
                    self.check_known(item, error.name, NAMES, "A name in a constraint")
                contract = f"an expression like 'block_in <= 32', and is not: {error}"
                self.refuse_at(item, "constraints", "A constraint", contract, "Correct it.")
        if not found:
            self.refuse_at(node, "constraints", "constraints", "at least one expression, not an empty list", "Add one.")
        return tuple(found)

    def check_constraints(self, node: yaml.Node, constraints: tuple[Constraint, ...], sweep: Sweep) -> None:
        """Refuse constraints that have no truth, or that forbid every point."""
        try:
            for place in range(min(sweep.count, LOOKED_AT)):
                sweep.broken(sweep.point(place))
            first = forbidding(constraints, sweep)
        except SweepError as error:
            self.refuse_at(
                node, "constraints", "constraints", "true or false of every machine, and are not", str(error)
            )
        if first is not None:
            contract = f"such that one of the {sweep.count} points is left, and leave none"
            self.refuse_at(node, "constraints", "constraints", contract, f"The first breaks {first!r}.")


def _broken(constraints: tuple[Constraint, ...]) -> Callable[[Point], str | None]:
    def broken(point: Point) -> str | None:
        try:
            machine = machine_of(point)
        except LatheError:
            return None  # a row, with the reason
        return first_broken(constraints, machine)

    return broken if constraints else lambda _: None
