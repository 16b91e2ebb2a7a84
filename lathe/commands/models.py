"""Shapes, inputs, and the table of layers: shared by the commands for models and compiled networks."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from lathe.archives import ArchiveError
from lathe.commands.terminal import grouped, notes, percent, table
from lathe.configs import HardwareConfig, load_config
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.program import NetworkProgram
from lathe.networks.quantize import is_float
from lathe.networks.run import NetworkResult

LARGEST_INTEGER = 128
"""Random integers are below this."""
RANDOM = frozenset(
    {"bool", *(f"float{n}" for n in (16, 32, 64)), *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64))}
)
"""Dtypes for which random inputs can be generated."""
MOST_RANDOM = 1 << 28
"""Random elements of one input, at most: 2 GiB during generation."""


def shapes_of(words: tuple[str, ...]) -> dict[str, list[int]]:
    """The shapes that options like `--shape x=1,3,48,192` set. Raises ModelError for a malformed one."""
    shapes = {}
    for word in words:
        name, _, sizes = word.partition("=")
        try:
            shapes[name] = [int(size) for size in sizes.split(",")]
        except ValueError:
            shapes[name] = []
        if not name or not shapes[name]:
            raise ModelError(f"--shape must be like x=1,3,48,192, not {word!r}.")
    return shapes


def check_seed(seed: int) -> None:
    """Raise ModelError for a negative seed, which NumPy does not support."""
    if seed < 0:
        raise ModelError(f"--random must be a seed of at least 0, not {seed}.")


def random_arrays(types: Mapping[str, TensorType | None], seed: int) -> dict[str, NDArray[Any]]:
    """An array for each input: normally distributed floats, or non-negative integers.

    Raises ModelError for an input that is not a numeric tensor.
    """
    generator = np.random.default_rng(seed)
    arrays = {}
    for name, each in types.items():
        if each is None or each.dtype not in RANDOM:
            kind = "another type" if each is None else each.dtype
            raise ModelError(
                f"Input {name!r} must be a numeric tensor to be generated at random, not {kind}. Give INPUTS.npz, or "
                "run the model from Python."
            )
        if prod(each.shape) > MOST_RANDOM:
            raise ModelError(
                f"Input {name!r} must have at most {MOST_RANDOM:,} elements to be generated at random, not "
                f"{prod(each.shape):,}. Give INPUTS.npz, or a smaller --shape."
            )
        if each.dtype.startswith("float"):
            arrays[name] = generator.standard_normal(each.shape).astype(each.dtype)
        else:
            arrays[name] = generator.integers(0, LARGEST_INTEGER, each.shape).astype(each.dtype)
    return arrays


def arrays_of(path: Path, what: str = "inputs") -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Raises ModelError; ``what`` describes the file in its message."""
    try:
        return read_arrays(path)
    except UnreadableArchiveError as error:
        raise ModelError(
            f"Cannot read {what} {str(path)!r}, which must be an .npz archive of named arrays: {error}."
        ) from None


def load_network(path: Path, config_name: str | None) -> NetworkProgram:
    """The network of a file. Raises ArchiveError if a given machine is not the network's, and ProgramError."""
    machine = load_config(config_name) if config_name is not None else None
    program = NetworkProgram.load(path)
    if machine is not None and machine != program.config:
        raise ArchiveError(
            f"The machine of the network {str(path)!r} must be the one that it was compiled for, "
            f"{program.config.name!r}, not {config_name!r}. Leave out -c, or recompile the network."
        )
    return program


def note_float(path: Path, model: Model) -> None:
    """Note on standard error that a model has no quantised layer, and how to quantise it."""
    if is_float(model):
        notes().print(
            f"No layer of {path.name} is quantised to 8 bits, so all of it runs on the host CPU. Use `lathe quantize`.",
            soft_wrap=True,
            markup=False,
        )


def layers_table(path: Path, machine: HardwareConfig, result: NetworkResult) -> Table:
    """A row for each layer: where it ran, and its cycles, MACs and bytes."""
    columns = ["layer", "where", "cycles", "bound", "of peak", "macs", "bytes", "why on the host"]
    rows = []
    for row in result.layers:
        share = percent(row.macs / (row.cycles * machine.multipliers)) if row.macs and row.cycles else ""
        numbers = [grouped(each) if row.where == "npu" else "" for each in (row.cycles, row.bound)]
        more = [grouped(each) if each else "" for each in (row.macs, row.bytes)]
        rows.append([row.name, row.where, *numbers, share, *more, row.why])
    return table(f"{path.name} on {machine.name}", columns, rows, left=2)


def cycle_rows(machine: HardwareConfig, result: NetworkResult) -> list[tuple[str, str]]:
    """Total cycles and efficiency of all layers on the NPU."""
    macs = sum(row.macs for row in result.layers if row.where == "npu")
    share = percent(macs / (result.cycles * machine.multipliers)) if result.cycles else "nothing on the NPU"
    return [("cycles", grouped(result.cycles)), ("efficiency", share)]
