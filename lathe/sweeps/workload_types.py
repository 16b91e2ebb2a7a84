"""What can be measured on a machine: tensor programs, models, and functions of users that make either.

Each is compiled for a machine, has a least number of cycles there, and says what its outputs should be.
"""

import ast
import hashlib
import runpy
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.builder import build
from lathe.configs import HardwareConfig
from lathe.configs.errors import shown
from lathe.frontend import Tensor, placeholders, reference
from lathe.frontend.onnx.value_types import TensorType
from lathe.isa import Program
from lathe.networks.network import Network, from_onnx
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import NpuStep
from lathe.networks.run import network_reference
from lathe.scheduler import bound
from lathe.scripts import SCRIPT_NAME, beside, functions_of, installed, lines_of, read_source
from lathe.sweeps.errors import SweepError
from lathe.sweeps.script_dependencies import named_files, newest_file, script_digest

Compiled: TypeAlias = Program | NetworkProgram
Arrays: TypeAlias = Mapping[str, Any]


class Measurable(Protocol):
    """What a workload is to those who measure it."""

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> Compiled:
        """The program for a machine, by so many schedules tried. Raises LatheError for what does not map."""
        ...

    def bound(self, machine: HardwareConfig, program: Compiled) -> int | None:
        """The cycles that it takes at least on a machine, those of ``program`` there; None where nobody knows."""
        ...

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:
        """Random inputs, the same for one seed."""
        ...

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays | None:
        """What the outputs should be, by NumPy; None where nobody knows."""
        ...

    def content(self) -> str:
        """All that its results depend on beside parameters, as a text."""
        ...


@dataclass(frozen=True)
class TensorProgram:
    """A tensor program, the arrays that are part of it, and what else than parameters it follows from."""

    output: Tensor | Sequence[Tensor]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    follows_from: str = ""

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors that are computed for their values."""
        return [self.output] if isinstance(self.output, Tensor) else list(self.output)

    @property
    def tensors(self) -> list[Tensor]:
        """All arguments of the program."""
        return [*placeholders(self.outputs), *self.outputs]

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> Program:
        """The program by the default schedule, or by the quickest of several; the rows of a sweep are what is kept."""
        return build(self.output, self.tensors, machine, constants=self.constants, budget=budget, cache=False)

    def bound(self, machine: HardwareConfig, program: Compiled) -> int:  # noqa: ARG002 - it is the same for all
        """The bound of the program."""
        return int(bound(self.output, machine).cycles)

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:  # noqa: ARG002 - likewise
        """int8 takes its whole range, int32 (biases) as much as 16 bits hold."""
        rng = np.random.default_rng(seed)
        values = {}
        for tensor in placeholders(self.outputs):
            if tensor.name not in self.constants:
                bounds = np.iinfo(tensor.dtype if np.dtype(tensor.dtype).itemsize < 2 else np.int16)
                values[tensor.name] = rng.integers(bounds.min, bounds.max, tensor.shape, tensor.dtype, endpoint=True)
        return values

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays:  # noqa: ARG002 - likewise
        """The meaning of the program."""
        return reference(self.outputs, {**inputs, **self.constants})

    def content(self) -> str:
        """What it follows from."""
        return self.follows_from


@dataclass(frozen=True, eq=False)
class Model:
    """A network of ONNX."""

    network: Network

    @classmethod
    def read(cls, path: str, shapes: str = "") -> "Model":
        """The model of a file. Raises ModelError for one that cannot be read, SweepError for shapes that are none."""
        try:
            changed = Path(path).stat().st_mtime_ns
        except (OSError, ValueError):
            changed = 0  # from_onnx says what is wrong with it
        return _model(path, shapes, changed)

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> NetworkProgram:  # noqa: ARG002 - as networks are
        """The network by the default schedules."""
        return self.network.build(machine)

    def bound(self, machine: HardwareConfig, program: Compiled) -> int:
        """The bounds of all layers on the NPU, each alone."""
        assert isinstance(program, NetworkProgram)
        names = [layer.name for step in program.steps if isinstance(step, NpuStep) for layer in step.layers]
        return sum(cycles for name, cycles in self._bounds(machine) if name in names)

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:
        """Numbers of a normal distribution, or whole ones from 0 on."""
        assert isinstance(program, NetworkProgram)
        return {name: _random(np.random.default_rng((seed, at)), name, each)
                for at, (name, each) in enumerate(program.inputs.items())}  # fmt: skip

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays:  # noqa: ARG002 - it is the same for all
        """The meaning of the network."""
        return network_reference(self.network, inputs)

    def content(self) -> str:
        """The digest of the model, its weights in it."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.network.model.proto.SerializeToString(deterministic=True)).hexdigest()

    def _bounds(self, machine: HardwareConfig) -> list[tuple[str, int]]:
        return _bounds_of(self.network, machine)


@lru_cache(maxsize=64)
def _bounds_of(network: Network, machine: HardwareConfig) -> list[tuple[str, int]]:
    """The bound of each layer that a machine takes."""
    taken = [layer for part in network.parts(machine) for layer in getattr(part, "layers", ())]
    return [(layer.name, int(network.bound(layer, machine).cycles)) for layer in taken]


@lru_cache(maxsize=8)
def _model(path: str, shapes: str, changed: int) -> Model:  # noqa: ARG001 - a file that has changed is another one
    return Model(from_onnx(path, _shapes(shapes)))


def _shapes(text: str) -> dict[str, list[int]]:
    """The shapes in a text like "x=1,3,48,192 y=1,8"."""
    found = {}
    for word in text.split():
        name, _, sizes = word.partition("=")
        numbers = sizes.split(",")
        if not name or not all(each.isascii() and each.isdigit() for each in numbers):
            raise SweepError(f"The shapes of a model must be like 'x=1,3,48,192', not {shown(word)}.")
        found[name] = [int(each) for each in numbers]
    return found


def _random(rng: np.random.Generator, name: str, of: TensorType | None) -> NDArray[Any]:
    if of is None or of.dtype == "str":
        raise SweepError(f"input {name!r} of a network that is checked must be a tensor of numbers, and is none.")
    dtype = np.dtype(of.dtype)
    if dtype.kind in "iu":
        return rng.integers(0, min(np.iinfo(dtype).max, 255), of.shape, dtype, endpoint=True)
    return rng.standard_normal(of.shape).astype(dtype)


@contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """Forget what is imported inside from a folder and below: its files may change, and another script's folder may
    have others of the same names.
    """
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            places = [file] if file is not None else list(getattr(sys.modules[name], "__path__", ()))
            if name.partition(".")[0] != "lathe" and any(_is_below(Path(place).resolve(), folder) for place in places):
                del sys.modules[name]


def _is_below(place: Path, folder: Path) -> bool:
    """Whether a module lies in a folder or below; packages that are installed there are none of its own."""
    return place.is_relative_to(folder) and not installed(place)


def check_takes(function: ast.FunctionDef, path: str, parameters: Collection[str]) -> None:
    """Raise :class:`SweepError` if a function cannot be called with the machine and these parameters, by their names.

    What a decorator makes of a function is not known.
    """
    taken = function.args
    by_place = [*taken.posonlyargs, *taken.args]
    if function.decorator_list:
        return
    names = [each.arg for each in (*by_place[1:], *taken.kwonlyargs) if each not in taken.posonlyargs]
    optional = {each.arg for each in by_place[len(by_place) - len(taken.defaults) :]}
    optional |= {each.arg for each, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value is not None}
    where = f"of {function.name} of script {path}"
    if not by_place and taken.vararg is None:
        raise SweepError(f"The first parameter {where} must be the machine, and there is none. Add it.")
    for name in parameters:
        if name not in names and taken.kwarg is None:
            told = f"be one of {', '.join(names)}" if names else "be left out, as it takes the machine alone"
            raise SweepError(f"The parameter {where} must {told}, not {name!r}. Remove it.")
    for name in names:
        if name not in optional and name not in parameters:
            raise SweepError(f"The parameters {where} must include {name!r}, which has no default. Give it a value.")


@dataclass(frozen=True, eq=False)
class Scripted:
    """A user's function of a machine, which makes or builds what is measured."""

    path: Path
    function: str
    parameters: Mapping[str, Any]
    files: str | None = None

    @classmethod
    def read(cls, path: str, function: str, parameters: Mapping[str, Any], files: str | None = None) -> "Scripted":
        """Raises ScriptError for a file that is no script, SweepError for one without the function or a named file."""
        defined = functions_of(read_source(Path(path)), Path(path))
        if function not in defined:
            raise SweepError(
                f"The function of script {path} must be one that it defines ({', '.join(sorted(defined)) or 'none'}), "
                f"not {function!r}."
            )
        check_takes(defined[function], path, parameters)
        named_files(Path(path), (files or "").split())
        return cls(Path(path), function, parameters, files)

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> Compiled:
        """What the function built, or what it made, built."""
        made = self._made(machine)
        return made if isinstance(made, Program | NetworkProgram) else made.compiled(machine, budget)

    def bound(self, machine: HardwareConfig, program: Compiled) -> int | None:
        """That of what the function made, if it was not built."""
        made = self._made(machine)
        return None if isinstance(made, Program | NetworkProgram) else made.bound(machine, program)

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:
        """Those of what the function made; none for what it built."""
        made = self._made(program.config)
        return {} if isinstance(made, Program | NetworkProgram) else made.inputs(program, seed)

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays | None:
        """The meaning of what the function made; None for what it built, whose meaning nobody knows."""
        made = self._made(program.config)
        return None if isinstance(made, Program | NetworkProgram) else made.expected(program, inputs)

    def content(self) -> str:
        """The digest of the function's name and of what the script follows from (``script_dependencies.py``)."""
        return hashlib.sha256(f"{self.function} {script_digest(self.path, self._named())}".encode()).hexdigest()

    def newest(self) -> str:
        """Which of the files that the script follows from has changed last."""
        return newest_file(self.path, self._named())

    def _named(self) -> list[str] | None:
        return None if self.files is None else self.files.split()

    def _made(self, machine: HardwareConfig) -> "Compiled | TensorProgram | Model":
        with _modules_of(self.path.resolve().parent), beside(self.path), lines_of(self.path):
            made = runpy.run_path(str(self.path), run_name=SCRIPT_NAME)[self.function](machine, **self.parameters)
        if isinstance(made, Program | NetworkProgram | TensorProgram):
            return made
        if isinstance(made, Network):
            return Model(made)
        if isinstance(made, Tensor) or (isinstance(made, list | tuple) and all(isinstance(t, Tensor) for t in made)):
            return TensorProgram(made)
        raise SweepError(
            f"{self.function} of script {self.path} must return a tensor, a list of tensors, a network or what was "
            f"built of one, not {shown(made)}."
        )
