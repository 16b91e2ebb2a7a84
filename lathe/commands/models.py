"""What commands have in common for models and compiled networks: shapes and inputs, and the table of layers."""

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
"""Random whole numbers are below this."""
RANDOM = frozenset(
    {"bool", *(f"float{n}" for n in (16, 32, 64)), *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64))}
)
"""Dtypes of which there are random numbers."""
MOST_RANDOM = 1 << 28
"""Random elements of one input: 2 GiB while they are made."""


def shapes_of(words: tuple[str, ...]) -> dict[str, list[int]]:
    """The shapes that `--shape x=1,3,48,192` gives. Raises ModelError for any other word."""
    found = {}
    for word in words:
        name, _, sizes = word.partition("=")
        try:
            found[name] = [int(size) for size in sizes.split(",")]
        except ValueError:
            found[name] = []
        if not name or not found[name]:
            raise ModelError(f"--shape must be like x=1,3,48,192, not {word!r}.")
    return found


def check_seed(seed: int) -> None:
    """Raise ModelError for a seed that NumPy does not take."""
    if seed < 0:
        raise ModelError(f"--random must be a seed of at least 0, not {seed}.")


def random_arrays(types: Mapping[str, TensorType | None], seed: int) -> dict[str, NDArray[Any]]:
    """An array for each input: numbers of a normal distribution, or whole ones from 0 on.

    Raises ModelError for an input that is no tensor of numbers.
    """
    generator = np.random.default_rng(seed)
    made = {}
    for name, each in types.items():
        if each is None or each.dtype not in RANDOM:
            told = "something else" if each is None else each.dtype
            raise ModelError(
                f"input {name!r} must be a tensor of numbers to be random, not {told}. Give INPUTS.npz, or run the "
                "model from Python."
            )
        if prod(each.shape) > MOST_RANDOM:
            raise ModelError(
                f"input {name!r} must have at most {MOST_RANDOM:,} elements to be random, not {prod(each.shape):,}. "
                "Give INPUTS.npz, or a smaller --shape."
            )
        if each.dtype.startswith("float"):
            made[name] = generator.standard_normal(each.shape).astype(each.dtype)
        else:
            made[name] = generator.integers(0, LARGEST_INTEGER, each.shape).astype(each.dtype)
    return made


def arrays_of(path: Path, what: str = "inputs") -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Raises ModelError, in which the file is called ``what``."""
    try:
        return read_arrays(path)
    except UnreadableArchiveError as error:
        raise ModelError(
            f"{what} {str(path)!r} must be an .npz archive of arrays by name, and cannot be read: {error}."
        ) from None


def load_network(path: Path, config_name: str | None) -> NetworkProgram:
    """The network of a file. Raises ArchiveError for a machine that is not the network's, and ProgramError."""
    machine = load_config(config_name) if config_name is not None else None
    program = NetworkProgram.load(path)
    if machine is not None and machine != program.config:
        raise ArchiveError(
            f"The machine of the network {str(path)!r} must be the one that it was compiled for, "
            f"{program.config.name!r}, not {config_name!r}. Leave out -c, or compile the network again."
        )
    return program


def note_float(path: Path, model: Model) -> None:
    """Say on standard error that nothing of a model is of 8 bits, and what helps."""
    if is_float(model):
        notes().print(
            f"No layer of {path.name} is of 8 bits, so that all of it runs on the host. `lathe quantize` brings it to "
            "8 bits.",
            soft_wrap=True,
            markup=False,
        )


def layers_table(path: Path, machine: HardwareConfig, result: NetworkResult) -> Table:
    """A row for each layer: where it ran and what it cost."""
    columns = ["layer", "where", "cycles", "bound", "of peak", "macs", "bytes", "why on the host"]
    rows = []
    for row in result.layers:
        share = percent(row.macs / (row.cycles * machine.multipliers)) if row.macs and row.cycles else ""
        numbers = [grouped(each) if row.where == "npu" else "" for each in (row.cycles, row.bound)]
        more = [grouped(each) if each else "" for each in (row.macs, row.bytes)]
        rows.append([row.name, row.where, *numbers, share, *more, row.why])
    return table(f"{path.name} on {machine.name}", columns, rows, left=2)


def told_cycles(machine: HardwareConfig, result: NetworkResult) -> list[tuple[str, str]]:
    """Cycles and efficiency of all layers of the NPU together."""
    macs = sum(row.macs for row in result.layers if row.where == "npu")
    share = percent(macs / (result.cycles * machine.multipliers)) if result.cycles else "nothing on the NPU"
    return [("cycles", grouped(result.cycles)), ("efficiency", share)]
