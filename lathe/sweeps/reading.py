"""Reading sweep files, with the line of every mistake."""

import itertools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lathe import configs
from lathe.configs import ConfigError, LatheError, load_config, shipped_configs
from lathe.configs.errors import shown
from lathe.configs.validation import all_keys, nearest
from lathe.configs.yaml_text import NotYamlError, composed, value_of
from lathe.sweeps.errors import SweepError
from lathe.sweeps.specification import Axis, Grid, Parameter, Sweep

ROOT_KEYS = ("base", "machine", "workloads")
FIXED_KEYS = ("name", "memory", "timing", "extensions")  # of a machine; not numbers to sweep over


SHIPPED = Path(configs.__file__).parent / "sweeps"


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
    make: Callable[[str, Mapping[str, Any]], object] = lambda *_: None,
) -> Sweep:
    """The sweep of a YAML file, or of a shipped one by its name.

    `workloads` are the known workloads with their parameters; `make` makes one of a name and parameters, or raises
    LatheError. A machine or a combination of shapes that is impossible becomes a row of the result; but a number or a
    word that no workload takes, a workload none of whose combinations can be made, and a grid none of whose machines
    exists are mistakes.

    Raises :class:`SweepError` with file, line, key and the nearest known key.
    """
    return Reader(sweep_path(path), workloads, make).sweep()


class Reader:
    """One sweep file."""

    def __init__(
        self,
        path: Path,
        workloads: Mapping[str, Mapping[str, Parameter]],
        make: Callable[[str, Mapping[str, Any]], object],
    ) -> None:
        self.path = path
        self.known_workloads = workloads
        self.make = make
        self.machine_keys = tuple(key for key in all_keys() if key not in FIXED_KEYS)

    def sweep(self) -> Sweep:
        """The whole file."""
        entries = self.mapping(self.root(), ROOT_KEYS, "The content", "A key")
        if "workloads" not in entries:
            message = f"The keys of {self.path} must include workloads, and do not. Name at least one operator there."
            raise SweepError(message, file=self.path)
        machine = entries.get("machine")
        bases = self.bases(entries["base"]) if "base" in entries else ["vta"]
        grid = Grid(()) if machine is None else self.machine(machine)
        if machine is not None:
            self.check_some_exist(machine, bases, grid)
        return Sweep(bases=bases, machine=grid, workloads=self.workloads(entries["workloads"]))

    def check_some_exist(self, node: yaml.Node, bases: Sequence[str], grid: Grid) -> None:
        """Refuse a grid without any machine, with the reason of the first."""
        reasons = []
        for base, changes in itertools.product(bases, grid.points()):
            try:
                load_config(base).with_(**changes)
            except ConfigError as error:
                reasons.append(str(error))
            else:
                return
        self.refuse(
            node, "machine", "machine", "a grid with at least one machine that exists, and has none", reasons[0]
        )

    def root(self) -> yaml.Node:
        """The YAML document."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise SweepError(
                f"The sweep file {self.path} must be readable, and is not: {error.strerror}. "
                f"Correct the path, or give the name of a shipped one: {', '.join(shipped_sweeps())}.",
                file=self.path,
            ) from None
        except UnicodeDecodeError as error:
            raise SweepError(
                f"The sweep file {self.path} must be UTF-8 text, not {error.object[error.start]:#04x} at byte "
                f"{error.start}. Save it as UTF-8.",
                file=self.path,
            ) from None
        try:
            node = composed(text)
        except NotYamlError as error:
            place = f"{self.path}, line {error.line}," if error.line is not None else str(self.path)
            raise SweepError(
                f"The text of {place} must be YAML, and is not: {error}. Correct the line.",
                file=self.path,
                line=error.line,
            ) from None
        if node is None:
            raise SweepError(
                f"The content of {self.path} must be keys with values such as 'base: vta', not empty. "
                "See configs/sweeps for examples.",
                file=self.path,
            )
        return node

    def bases(self, node: yaml.Node) -> list[str]:
        """The base machines; files are looked for beside the sweep file."""
        names = []
        for item in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            name = self.value(item)
            if not isinstance(name, str):
                self.refuse(item, "base", "base", f"a machine's name or file, not {name!r}", "See `lathe configs`.")
            beside = self.path.parent / name
            names.append(str(beside) if name not in shipped_configs() and os.path.exists(beside) else name)
            load_config(names[-1])  # changes of a machine may be impossible; that there is none is a mistake
        if not names:
            self.refuse(node, "base", "base", "at least one machine, not an empty list", "See `lathe configs`.")
        return names

    def machine(self, node: yaml.Node) -> Grid:
        """The machine's parameters that change."""
        axes = []
        seen: set[str] = set()
        for key_node, value_node in self.pairs(node, "machine"):
            keys = tuple(key.strip() for key in str(self.value(key_node)).split(","))
            for key in keys:
                self.check_known(key_node, key, self.machine_keys, "A machine's parameter")
                if key in seen:
                    self.refuse(key_node, key, f"Parameter {key}", "given once, not twice", "Remove one of the two.")
                seen.add(key)
            axes.append(self.axis(keys, value_node))
        return Grid(tuple(axes))

    def workloads(self, node: yaml.Node) -> list[tuple[str, Grid]]:
        """The operators and their shapes."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            found = "an empty list" if isinstance(node, yaml.SequenceNode) else f"{self.shown(node)}"
            remedy = "Begin each line with a dash: '- matmul: {m: 64, n: 64, k: 64}'."
            self.refuse(node, "workloads", "workloads", f"a list of operators, not {found}", remedy)
        found_workloads = []
        for item in node.value:
            for name_node, grid_node in self.pairs(item, "a workload"):
                name = str(self.value(name_node))
                self.check_known(name_node, name, tuple(self.known_workloads), "A workload")
                found_workloads.append((name, self.shapes(name, name_node, grid_node)))
        return found_workloads

    def shapes(self, workload: str, name_node: yaml.Node, node: yaml.Node) -> Grid:
        """The grid of one workload's parameters; nothing after the colon is a grid of its defaults."""
        known = self.known_workloads[workload]
        empty = isinstance(node, yaml.ScalarNode) and self.value(node) is None
        entries = (
            {} if empty else self.mapping(node, tuple(known), f"Workload {workload}", f"A parameter of {workload}")
        )
        for parameter, expected in known.items():
            if expected.required and parameter not in entries:
                needed = ", ".join(name for name, each in known.items() if each.required)
                contract = f"complete, not without {parameter}"
                self.refuse(name_node, parameter, f"Workload {workload}", contract, f"It needs {needed}.")
        axes = []
        for parameter, value_node in entries.items():
            axis = self.axis((parameter,), value_node)
            for (value,) in axis.steps:
                if not known[parameter].takes(value):
                    contract = f"{known[parameter].contract}, not {shown(value)}"
                    self.refuse(value_node, parameter, f"Parameter {parameter} of {workload}", contract, "Correct it.")
            axes.append(axis)
        grid = Grid(tuple(axes))
        self.check_some_are_made(name_node, workload, grid)
        return grid

    def check_some_are_made(self, node: yaml.Node, workload: str, grid: Grid) -> None:
        """Refuse a workload that none of its combinations of parameters makes, with the reason of the first."""
        reasons = []
        for parameters in grid.points():
            try:
                self.make(workload, parameters)
            except LatheError as error:
                reasons.append(str(error))
            else:
                return
        contract = f"possible with one of its {len(reasons)} combinations, and is with none"
        self.refuse(node, workload, f"Workload {workload}", contract, reasons[0])

    def axis(self, keys: tuple[str, ...], node: yaml.Node) -> Axis:
        """A value or a list of values; with several keys a value may be a list of one for each."""
        values = self.value(node)
        steps = []
        for value in values if isinstance(values, list) else [values]:
            if len(keys) > 1 and isinstance(value, list) and len(value) == len(keys):
                steps.append(tuple(value))
            elif isinstance(value, list | dict):
                each = f"a list of {len(keys)}" if len(keys) > 1 else "a plain value"
                self.refuse(node, keys[0], f"A value of {', '.join(keys)}", f"{each}, not {value!r}", "Correct it.")
            else:
                steps.append((value,) * len(keys))
        if not steps:
            self.refuse(node, keys[0], ", ".join(keys), "at least one value, not an empty list", "Add a value.")
        return Axis(keys, tuple(steps))

    def mapping(self, node: yaml.Node, known: Collection[str], what: str, thing: str) -> dict[str, yaml.Node]:
        """Known keys to their values' nodes."""
        entries: dict[str, yaml.Node] = {}
        for key_node, value_node in self.pairs(node, what):
            key = str(self.value(key_node))
            self.check_known(key_node, key, known, thing)
            if key in entries:
                self.refuse(key_node, key, f"Key {key}", "given once, not twice", "Remove one of the two.")
            entries[key] = value_node
        return entries

    def pairs(self, node: yaml.Node, what: str) -> list[tuple[yaml.Node, yaml.Node]]:
        """The entries of a mapping."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, None, what, f"keys with values, not {self.shown(node)}", "Write 'key: value'.")
        found: list[tuple[yaml.Node, yaml.Node]] = node.value
        return found

    def value(self, node: yaml.Node) -> Any:
        """A node as plain Python."""
        try:
            return value_of(node)
        except NotYamlError as error:
            self.refuse(node, None, "The value", f"plain YAML, and is not: {error}", "Correct it.")

    def shown(self, node: yaml.Node) -> str:
        """What stands at a node, for messages."""
        return shown(self.value(node))

    def check_known(self, node: yaml.Node, key: str, known: Collection[str], thing: str) -> None:
        """Refuse a key that is not known, with the one that is most alike."""
        if key not in known:
            remedy = nearest(key, tuple(known)) or "Remove it."
            self.refuse(node, key, thing, f"one of {', '.join(known)}, not {key!r}", remedy)

    def refuse(self, node: yaml.Node, key: str | None, thing: str, contract: str, remedy: str) -> NoReturn:
        """Raise the error for what stands at `node`."""
        line = node.start_mark.line + 1
        thing = thing[0].upper() + thing[1:] if thing.startswith("a ") else thing
        message = f"{thing} of {self.path}, line {line}, must be {contract}. {remedy}"
        raise SweepError(message, file=self.path, line=line, key=key)
