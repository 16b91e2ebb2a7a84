"""Reading sweep files, with the line of every mistake."""

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lathe import configs
from lathe.configs import LatheError, load_config, shipped_configs
from lathe.configs.errors import Fault, shown
from lathe.configs.validation import all_keys, unknown
from lathe.configs.yaml_file import NotYamlError, YamlFile, line_of, text_of, value_of
from lathe.sweeps.errors import SweepError
from lathe.sweeps.specification import Axis, Grid, Parameter, Sweep

ROOT_KEYS = ("base", "machine", "workloads")
FIXED_KEYS = ("name", "memory", "timing", "extensions")  # of a machine; not numbers to sweep over

Maker = Callable[[str, Mapping[str, Any]], object]
"""Makes the workload of a name and parameters, or raises LatheError."""

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
    make: Maker = lambda *_: None,
) -> Sweep:
    """The sweep of a YAML file, or of a shipped one by its name.

    `workloads` are the known workloads with their parameters; `make` makes one. A machine or a combination of shapes
    that is impossible becomes a row of the result; but a number or a word that no workload takes, a workload none of
    whose combinations can be made, and a grid none of whose machines exists are mistakes.

    Raises :class:`SweepError` with file, line, key and the nearest known key.
    """
    return SweepFile(sweep_path(path), workloads, make).sweep()


class SweepFile(YamlFile):
    """One sweep file."""

    def __init__(self, path: Path, workloads: Mapping[str, Mapping[str, Parameter]], make: Maker) -> None:
        remedy = f"Correct the path, or give the name of a shipped one: {', '.join(shipped_sweeps())}."
        super().__init__(path, text_of(path, "sweep file", remedy, SweepError), SweepError)
        self.known_workloads = workloads
        self.make = make
        self.machine_keys = tuple(key for key in all_keys() if key not in FIXED_KEYS)

    def sweep(self) -> Sweep:
        """The whole file."""
        if self.root is None:
            message = f"The content of {self.path} must be keys with values such as 'base: vta', not empty."
            raise SweepError(f"{message} See configs/sweeps for examples.", file=self.path)
        entries = self.entries(self.root, ROOT_KEYS, "The content", "A key")
        if "workloads" not in entries:
            message = f"The keys of {self.path} must include workloads, and do not. Name at least one operator there."
            raise SweepError(message, file=self.path)
        bases = self.bases(entries["base"]) if "base" in entries else ["vta"]
        grid = self.machine(entries["machine"], bases) if "machine" in entries else Grid(())
        return Sweep(bases=bases, machine=grid, workloads=self.workloads(entries["workloads"]))

    def bases(self, node: yaml.Node) -> list[str]:
        """The base machines; files are looked for beside the sweep file."""
        names = []
        for item in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            name = self.value(item)
            if not isinstance(name, str):
                self.refuse_at(item, "base", "base", f"a machine's name or file, not {name!r}", "See `lathe configs`.")
            beside = self.path.parent / name
            names.append(str(beside) if name not in shipped_configs() and os.path.exists(beside) else name)
            load_config(names[-1])  # changes of a machine may be impossible; that there is none is a mistake
        if not names:
            self.refuse_at(node, "base", "base", "at least one machine, not an empty list", "See `lathe configs`.")
        return names

    def machine(self, node: yaml.Node, bases: Sequence[str]) -> Grid:
        """The machine's parameters that change; some machine of them exists."""
        axes = []
        seen: set[str] = set()
        for text, key_node, value_node in self.pairs_of(node, "machine"):
            keys = tuple(key.strip() for key in text.split(","))
            for key in keys:
                self.check_known(key_node, key, self.machine_keys, "A machine's parameter")
                self.check_new(key_node, key, seen, "Parameter")
                seen.add(key)
            axes.append(self.axis(keys, value_node))
        grid = Grid(tuple(axes))
        reasons = refusals(
            lambda base, changes: load_config(base).with_(**changes), itertools.product(bases, grid.points())
        )
        if reasons:
            contract = "a grid with at least one machine that exists, and has none"
            self.refuse_at(node, "machine", "machine", contract, reasons[0])
        return grid

    def workloads(self, node: yaml.Node) -> list[tuple[str, Grid]]:
        """The operators and their shapes."""
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            found = "an empty list" if isinstance(node, yaml.SequenceNode) else f"{self.shown(node)}"
            remedy = "Begin each line with a dash: '- matmul: {m: 64, n: 64, k: 64}'."
            self.refuse_at(node, "workloads", "workloads", f"a list of operators, not {found}", remedy)
        found_workloads = []
        for item in node.value:
            for name, name_node, grid_node in self.pairs_of(item, "A workload"):
                self.check_known(name_node, name, tuple(self.known_workloads), "A workload")
                found_workloads.append((name, self.shapes(name, name_node, grid_node)))
        return found_workloads

    def shapes(self, workload: str, name_node: yaml.Node, node: yaml.Node) -> Grid:
        """The grid of one workload's parameters; nothing after the colon is a grid of its defaults.

        Some of its combinations make the workload.
        """
        known, title = self.known_workloads[workload], f"Workload {workload}"
        empty = isinstance(node, yaml.ScalarNode) and self.value(node) is None
        entries = {} if empty else self.entries(node, tuple(known), title, f"A parameter of {workload}")
        for parameter, expected in known.items():
            if expected.required and parameter not in entries:
                needed = ", ".join(name for name, each in known.items() if each.required)
                self.refuse_at(name_node, parameter, title, f"complete, not without {parameter}", f"It needs {needed}.")
        axes = []
        for parameter, value_node in entries.items():
            axis = self.axis((parameter,), value_node)
            for (value,) in axis.steps:
                if not known[parameter].takes(value):
                    thing, contract = f"Parameter {parameter} of {workload}", known[parameter].contract
                    self.refuse_at(value_node, parameter, thing, f"{contract}, not {shown(value)}", "Correct it.")
            axes.append(axis)
        grid = Grid(tuple(axes))
        reasons = refusals(self.make, ((workload, parameters) for parameters in grid.points()))
        if reasons:
            contract = f"possible with one of its {len(reasons)} combinations, and is with none"
            self.refuse_at(name_node, workload, title, contract, reasons[0])
        return grid

    def axis(self, keys: tuple[str, ...], node: yaml.Node) -> Axis:
        """A value or a list of values; with several keys a value may be a list of one for each."""
        values = self.value(node)
        steps = []
        for value in values if isinstance(values, list) else [values]:
            if len(keys) > 1 and isinstance(value, list) and len(value) == len(keys):
                steps.append(tuple(value))
            elif isinstance(value, list | dict):
                each = f"a list of {len(keys)}" if len(keys) > 1 else "a plain value"
                self.refuse_at(node, keys[0], f"A value of {', '.join(keys)}", f"{each}, not {value!r}", "Correct it.")
            else:
                steps.append((value,) * len(keys))
        if not steps:
            self.refuse_at(node, keys[0], ", ".join(keys), "at least one value, not an empty list", "Add a value.")
        return Axis(keys, tuple(steps))

    def entries(self, node: yaml.Node, known: Sequence[str], what: str, thing: str) -> dict[str, yaml.Node]:
        """Known keys to their values' nodes."""
        found: dict[str, yaml.Node] = {}
        for key, key_node, value_node in self.pairs_of(node, what):
            self.check_known(key_node, key, known, thing)
            self.check_new(key_node, key, found, "Key")
            found[key] = value_node
        return found

    def pairs_of(self, node: yaml.Node, what: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """The pairs of what must be a mapping."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse_at(node, "", what, f"keys with values, not {self.shown(node)}", "Write 'key: value'.")
        return self.pairs(node)

    def value(self, node: yaml.Node) -> Any:
        """A node as plain Python."""
        try:
            return value_of(node)
        except NotYamlError as error:
            self.refuse_at(node, "", "The value", f"plain YAML, and is not: {error}", "Correct it.")

    def check_known(self, node: yaml.Node, key: str, known: Sequence[str], thing: str) -> None:
        """Refuse a key that is not known."""
        if key not in known:
            self.refuse(line_of(node), unknown(key, known, thing))

    def check_new(self, node: yaml.Node, key: str, seen: Collection[str], kind: str) -> None:
        """Refuse a key that has been seen."""
        if key in seen:
            self.refuse_at(node, key, f"{kind} {key}", "given once, not twice", "Remove one of the two.")

    def refuse_at(self, node: yaml.Node, key: str, thing: str, contract: str, remedy: str) -> NoReturn:
        """Raise the error for what stands at `node`."""
        self.refuse(line_of(node), Fault(key, thing, contract, remedy))


def refusals(attempt: Callable[..., object], cases: Iterable[tuple[Any, ...]]) -> list[str]:
    """Why each of the cases is refused; nothing as soon as one is not."""
    reasons = []
    for case in cases:
        try:
            attempt(*case)
        except LatheError as error:
            reasons.append(str(error))
        else:
            return []
    return reasons
