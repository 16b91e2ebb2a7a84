"""The kinds of workloads: tensor programs, ONNX models, and users' functions that return either.

Each compiles for a machine, and has a lower bound on its cycles there and reference outputs.
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
from lathe.scripts import SCRIPT_NAME, functions_of, installed, lines_of, read_source, script_imports
from lathe.sweeps.errors import SweepError
from lathe.sweeps.script_dependencies import named_files, newest_file, script_digest

Compiled: TypeAlias = Program | NetworkProgram
Arrays: TypeAlias = Mapping[str, Any]


class Measurable(Protocol):
    """Protocol of a workload."""

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> Compiled:
        """The program for a machine, from ``budget`` candidate schedules. Raises LatheError if it does not compile."""
        ...

    def bound(self, machine: HardwareConfig, program: Compiled) -> int | None:
        """The lower bound on the cycles of ``program`` on a machine; None if unknown."""
        ...

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:
        """Random inputs, determined by the seed."""
        ...

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays | None:
        """The reference outputs, by NumPy; None if unknown."""
        ...

    def content(self) -> str:
        """A text of all that its results depend on besides its parameters."""
        ...


@dataclass(frozen=True)
class TensorProgram:
    """A tensor program, its constant arrays, and a text of all that it depends on besides its parameters."""

    output: Tensor | Sequence[Tensor]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    follows_from: str = ""

    @property
    def outputs(self) -> list[Tensor]:
        """The output tensors."""
        return [self.output] if isinstance(self.output, Tensor) else list(self.output)

    @property
    def tensors(self) -> list[Tensor]:
        """All arguments of the program."""
        return [*placeholders(self.outputs), *self.outputs]

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> Program:
        """The program with the default schedule, or the autotuned one; not cached, since a sweep stores its rows."""
        return build(self.output, self.tensors, machine, constants=self.constants, budget=budget, cache=False)

    def bound(self, machine: HardwareConfig, program: Compiled) -> int:  # noqa: ARG002 - independent of the program
        """The lower bound for any schedule."""
        return int(bound(self.output, machine).cycles)

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:  # noqa: ARG002 - likewise
        """Random inputs: int8 of the full range, int32 (biases) of the range of int16."""
        rng = np.random.default_rng(seed)
        values = {}
        for tensor in placeholders(self.outputs):
            if tensor.name not in self.constants:
                bounds = np.iinfo(tensor.dtype if np.dtype(tensor.dtype).itemsize < 2 else np.int16)
                values[tensor.name] = rng.integers(bounds.min, bounds.max, tensor.shape, tensor.dtype, endpoint=True)
        return values

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays:  # noqa: ARG002 - likewise
        """The reference outputs of the tensors."""
        return reference(self.outputs, {**inputs, **self.constants})

    def content(self) -> str:
        """What it depends on besides its parameters."""
        return self.follows_from


@dataclass(frozen=True, eq=False)
class Model:
    """A network from an ONNX model."""

    network: Network

    @classmethod
    def read(cls, path: str, shapes: str = "") -> "Model":
        """Read a model. Raises ModelError for an invalid file, SweepError for invalid shapes."""
        try:
            changed = Path(path).stat().st_mtime_ns
        except (OSError, ValueError):
            changed = 0  # from_onnx raises an error
        return _model(path, shapes, changed)

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> NetworkProgram:  # noqa: ARG002 - not autotuned
        """The network with default schedules."""
        return self.network.build(machine)

    def bound(self, machine: HardwareConfig, program: Compiled) -> int:
        """The sum of the lower bounds of all layers on the NPU."""
        assert isinstance(program, NetworkProgram)
        names = [layer.name for step in program.steps if isinstance(step, NpuStep) for layer in step.layers]
        return sum(cycles for name, cycles in self._bounds(machine) if name in names)

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:
        """Normally distributed floats, or integers from 0 to at most 255."""
        assert isinstance(program, NetworkProgram)
        return {name: _random(np.random.default_rng((seed, at)), name, each)
                for at, (name, each) in enumerate(program.inputs.items())}  # fmt: skip

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays:  # noqa: ARG002 - independent of the program
        """The reference outputs of the network."""
        return network_reference(self.network, inputs)

    def content(self) -> str:
        """A hash of the model with its weights."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.network.model.proto.SerializeToString(deterministic=True)).hexdigest()

    def _bounds(self, machine: HardwareConfig) -> list[tuple[str, int]]:
        return _bounds_of(self.network, machine)


@lru_cache(maxsize=64)
def _bounds_of(network: Network, machine: HardwareConfig) -> list[tuple[str, int]]:
    """The lower bound of each layer on the NPU."""
    layers = [layer for part in network.parts(machine) for layer in getattr(part, "layers", ())]
    return [(layer.name, int(network.bound(layer, machine).cycles)) for layer in layers]


@lru_cache(maxsize=8)
def _model(path: str, shapes: str, changed: int) -> Model:  # noqa: ARG001 - part of the cache key, since files change
    return Model(from_onnx(path, _shapes(shapes)))


def _shapes(text: str) -> dict[str, list[int]]:
    """The shapes in a text like "x=1,3,48,192 y=1,8"."""
    shapes = {}
    for word in text.split():
        name, _, sizes = word.partition("=")
        numbers = sizes.split(",")
        if not name or not all(each.isascii() and each.isdigit() for each in numbers):
            raise SweepError(f"The shapes of a model must be like 'x=1,3,48,192', not {shown(word)}.")
        shapes[name] = [int(each) for each in numbers]
    return shapes


def _random(rng: np.random.Generator, name: str, of: TensorType | None) -> NDArray[Any]:
    if of is None or of.dtype == "str":
        raise SweepError(f"Cannot check a network with input {name!r}, which is not a numeric tensor.")
    dtype = np.dtype(of.dtype)
    if dtype.kind in "iu":
        return rng.integers(0, min(np.iinfo(dtype).max, 255), of.shape, dtype, endpoint=True)
    return rng.standard_normal(of.shape).astype(dtype)


@contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """Unload modules that are imported from a folder in the context: their files may change, or clash with others."""
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            paths = [file] if file is not None else list(getattr(sys.modules[name], "__path__", ()))
            if name.partition(".")[0] != "lathe" and any(_is_below(Path(path).resolve(), folder) for path in paths):
                del sys.modules[name]


def _is_below(path: Path, folder: Path) -> bool:
    """Whether a module's path is in a folder or below, except in packages installed there."""
    return path.is_relative_to(folder) and not installed(path)


def check_takes(function: ast.FunctionDef, path: str, parameters: Collection[str]) -> None:
    """Raise :class:`SweepError` if a function cannot be called with the machine and these keyword arguments.

    A decorated function is not checked, since its decorator may change the parameters.
    """
    signature = function.args
    positional = [*signature.posonlyargs, *signature.args]
    if function.decorator_list:
        return
    names = [each.arg for each in (*positional[1:], *signature.kwonlyargs) if each not in signature.posonlyargs]
    optional = {each.arg for each in positional[len(positional) - len(signature.defaults) :]}
    keyword_defaults = zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
    optional |= {each.arg for each, value in keyword_defaults if value is not None}
    what = f"{function.name} of script {path}"
    if not positional and signature.vararg is None:
        raise SweepError(f"{what} must take the machine as its first parameter, but takes none. Add it.")
    for name in parameters:
        if name not in names and signature.kwarg is None:
            accepted = f"only {', '.join(names)} besides the machine" if names else "only the machine"
            raise SweepError(f"Cannot pass parameter {name!r} to {what}: it takes {accepted}. Remove the parameter.")
    for name in names:
        if name not in optional and name not in parameters:
            raise SweepError(f"Cannot call {what} without parameter {name!r}, which has no default. Give it a value.")


@dataclass(frozen=True, eq=False)
class Scripted:
    """A user's function of a machine, which returns tensors, a network or a built program."""

    path: Path
    function: str
    parameters: Mapping[str, Any]
    files: str | None = None

    @classmethod
    def read(cls, path: str, function: str, parameters: Mapping[str, Any], files: str | None = None) -> "Scripted":
        """Read a script. Raises ScriptError if it is invalid, SweepError if the function or a named file is missing."""
        defined = functions_of(read_source(Path(path)), Path(path))
        if function not in defined:
            known = ", ".join(sorted(defined)) or "none"
            raise SweepError(f"The function of script {path} must be one that it defines ({known}), not {function!r}.")
        check_takes(defined[function], path, parameters)
        named_files(Path(path), (files or "").split())
        return cls(Path(path), function, parameters, files)

    def compiled(self, machine: HardwareConfig, budget: int = 1) -> Compiled:
        """The program that the function returned, or the compiled tensors or network."""
        work = self._result(machine)
        return work if isinstance(work, Program | NetworkProgram) else work.compiled(machine, budget)

    def bound(self, machine: HardwareConfig, program: Compiled) -> int | None:
        """The lower bound of the returned tensors or network; None for a built program."""
        work = self._result(machine)
        return None if isinstance(work, Program | NetworkProgram) else work.bound(machine, program)

    def inputs(self, program: Compiled, seed: int) -> dict[str, NDArray[Any]]:
        """Random inputs of the returned tensors or network; none for a built program."""
        work = self._result(program.config)
        return {} if isinstance(work, Program | NetworkProgram) else work.inputs(program, seed)

    def expected(self, program: Compiled, inputs: Arrays) -> Arrays | None:
        """The reference outputs of the returned tensors or network; None for a built program."""
        work = self._result(program.config)
        return None if isinstance(work, Program | NetworkProgram) else work.expected(program, inputs)

    def content(self) -> str:
        """A hash of the function's name and of the script's dependencies (``script_dependencies.py``)."""
        return hashlib.sha256(f"{self.function} {script_digest(self.path, self._named())}".encode()).hexdigest()

    def newest(self) -> str:
        """The dependency of the script that has changed last."""
        return newest_file(self.path, self._named())

    def _named(self) -> list[str] | None:
        return None if self.files is None else self.files.split()

    def _result(self, machine: HardwareConfig) -> "Compiled | TensorProgram | Model":
        with _modules_of(self.path.resolve().parent), script_imports(self.path), lines_of(self.path):
            work = runpy.run_path(str(self.path), run_name=SCRIPT_NAME)[self.function](machine, **self.parameters)
        if isinstance(work, Program | NetworkProgram | TensorProgram):
            return work
        if isinstance(work, Network):
            return Model(work)
        if isinstance(work, Tensor) or (isinstance(work, list | tuple) and all(isinstance(t, Tensor) for t in work)):
            return TensorProgram(work)
        raise SweepError(
            f"{self.function} of script {self.path} must return a tensor, a list of tensors, a network or a built "
            f"program, not {shown(work)}."
        )
