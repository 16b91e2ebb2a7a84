"""`lathe run MODEL.onnx`: a network on a machine, layer by layer, beside onnxruntime."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.commands.terminal import console, grouped, notes, percent, print_json, table
from lathe.configs import HardwareConfig
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.comparison import Compared, compared_with_onnxruntime
from lathe.networks.dispatch import simulate
from lathe.networks.network import from_onnx
from lathe.networks.running import NetworkResult

LARGEST_INTEGER = 128
"""Random whole numbers are below this."""
RANDOM = frozenset(
    {"bool", *(f"float{n}" for n in (16, 32, 64)), *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64))}
)
"""Dtypes of which there are random numbers."""


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


def run_model(
    path: Path,
    inputs: Path | None,
    seed: int,
    shapes: tuple[str, ...],
    machine: HardwareConfig,
    engine: str,
    as_json: bool,
) -> None:
    """Compile and run a model, and print its table."""
    if seed < 0:
        raise ModelError(f"--random must be a seed of at least 0, not {seed}.")
    network = from_onnx(path, shapes_of(shapes))
    start = time.perf_counter()
    program = network.build(machine)
    built = time.perf_counter() - start
    arrays = _random(program.inputs, seed) if inputs is None else _read(inputs)
    if inputs is None and not as_json:
        notes().print(f"Inputs are random numbers, of seed {seed}.")
    start = time.perf_counter()
    result = simulate(program, arrays, engine=engine)
    took = time.perf_counter() - start
    found = compared_with_onnxruntime(network.model, arrays, result.outputs)
    if as_json:
        print_json(_dict(path, machine, engine, result, found, built, took))
    else:
        _print(path, machine, result, found, built, took)


def _random(types: Mapping[str, TensorType | None], seed: int) -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(seed)
    made = {}
    for name, each in types.items():
        if each is None or each.dtype not in RANDOM:
            told = "something else" if each is None else each.dtype
            raise ModelError(
                f"input {name!r} must be a tensor of numbers to be random, not {told}. Give INPUTS.npz, or run the "
                "model from Python."
            )
        if each.dtype.startswith("float"):
            made[name] = generator.standard_normal(each.shape).astype(each.dtype)
        else:
            made[name] = generator.integers(0, LARGEST_INTEGER, each.shape).astype(each.dtype)
    return made


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return read_arrays(path)
    except UnreadableArchiveError as error:
        raise ModelError(
            f"inputs {str(path)!r} must be an .npz archive of arrays by name, and cannot be read: {error}."
        ) from None


def _dict(
    path: Path,
    machine: HardwareConfig,
    engine: str,
    result: NetworkResult,
    found: list[Compared],
    built: float,
    took: float,
) -> dict[str, Any]:
    return {
        "model": str(path),
        "machine": machine.name,
        "engine": engine,
        "cycles": result.cycles,
        "layers": [vars(row) for row in result.layers],
        "outputs": [vars(each) | {"shape": list(each.shape)} for each in found],
        "build_seconds": round(built, 3),
        "simulate_seconds": round(took, 3),
    }


def _print(
    path: Path, machine: HardwareConfig, result: NetworkResult, found: list[Compared], built: float, took: float
) -> None:
    out = console()
    columns = ["layer", "where", "cycles", "bound", "of peak", "macs", "bytes", "why on the host"]
    rows = []
    for row in result.layers:
        share = percent(row.macs / (row.cycles * machine.multipliers)) if row.macs and row.cycles else ""
        numbers = [grouped(each) if row.where == "npu" else "" for each in (row.cycles, row.bound)]
        more = [grouped(each) if each else "" for each in (row.macs, row.bytes)]
        rows.append([row.name, row.where, *numbers, share, *more, row.why])
    out.print(table(f"{path.name} on {machine.name}", columns, rows, left=2))
    macs = sum(row.macs for row in result.layers)
    told = [
        ("cycles", grouped(result.cycles)),
        (
            "efficiency",
            percent(macs / (result.cycles * machine.multipliers)) if result.cycles else "nothing on the NPU",
        ),
        ("built in", f"{built:.2f} s"),
        ("simulated in", f"{took:.2f} s"),
    ]
    told += [
        (
            f"{each.name} against onnxruntime",
            f"cosine {each.cosine:.6f}, {percent(each.equal)} equal, largest difference {each.largest:.6g}",
        )
        for each in found
    ]
    out.print()
    out.print(table("", ["", ""], told, left=2))
