"""`lathe run MODEL.onnx`: a network on a machine, layer by layer, beside onnxruntime."""

import time
from pathlib import Path
from typing import Any

from lathe.commands.models import arrays_of, check_seed, layers_table, random_arrays, shapes_of, told_cycles
from lathe.commands.terminal import console, notes, percent, print_json, table
from lathe.configs import HardwareConfig
from lathe.networks.comparison import Compared, compared_with_onnxruntime
from lathe.networks.dispatch import simulate
from lathe.networks.network import from_onnx
from lathe.networks.running import NetworkResult


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
    check_seed(seed)
    network = from_onnx(path, shapes_of(shapes))
    start = time.perf_counter()
    program = network.build(machine)
    built = time.perf_counter() - start
    arrays = random_arrays(program.inputs, seed) if inputs is None else arrays_of(inputs)
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
    out.print(layers_table(path, machine, result))
    told = [*told_cycles(machine, result), ("built in", f"{built:.2f} s"), ("simulated in", f"{took:.2f} s")]
    told += [
        (
            f"{each.name} against onnxruntime",
            f"cosine {each.cosine:.6f}, {percent(each.equal)} equal, largest difference {each.largest:.6g}",
        )
        for each in found
    ]
    out.print()
    out.print(table("", ["", ""], told, left=2))
