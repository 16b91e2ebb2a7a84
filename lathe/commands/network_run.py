"""`lathe run MODEL.onnx`: run a network on a machine, and compare its outputs with onnxruntime's."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lathe.commands.models import arrays_of, check_seed, cycle_rows, layers_table, random_arrays, shapes_of
from lathe.commands.quantize import print_quantiser_notes, random_samples, warn, warn_of_random
from lathe.commands.terminal import console, notes, percent, print_json, table
from lathe.configs import HardwareConfig
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.reading import Model, read_model
from lathe.networks.comparison import Compared, compared_with_onnxruntime
from lathe.networks.network import Network
from lathe.networks.overloads import simulate
from lathe.networks.quantize import inputs_of, is_float, quantised, samples_of
from lathe.networks.run import NetworkResult, checked
from lathe.reports.result_file import write_result


def run_model(
    path: Path,
    inputs: Path | None,
    seed: int,
    shapes: tuple[str, ...],
    machine: HardwareConfig,
    engine: str,
    result_path: Path | None,
    as_json: bool,
) -> None:
    """Compile and run a model, and print its table of layers."""
    check_seed(seed)
    model = read_model(path, shapes_of(shapes))
    types = inputs_of(model)
    arrays = random_arrays(types, seed) if inputs is None else arrays_of(inputs)
    calibration = ""
    if is_float(model):
        arrays = checked(arrays, types)
        model, calibration = _quantised(path, model, inputs, arrays, seed)
    network = Network(model)
    start = time.perf_counter()
    program = network.build(machine)
    built = time.perf_counter() - start
    if inputs is None and not as_json:
        notes().print(f"Inputs are random numbers with seed {seed}.")
    start = time.perf_counter()
    result = simulate(program, arrays, engine=engine)
    took = time.perf_counter() - start
    if result_path is not None:
        write_result(result_path, program, result.results)
    found = compared_with_onnxruntime(network.model, arrays, result.outputs)
    if as_json:
        quantised_with = {"calibration": calibration} if calibration else {}
        print_json({**quantised_with, **_dict(path, machine, engine, result, found, built, took)})
    else:
        _print(path, machine, result, found, built, took)


def _quantised(
    path: Path, model: Model, inputs: Path | None, arrays: Mapping[str, NDArray[Any]], seed: int
) -> tuple[Model, str]:
    """A float model, quantised to 8 bits, and the source of its calibration samples: "inputs" or "random".

    Warns on standard error. If onnxruntime's quantiser fails, returns the float model and "none".
    """
    samples = random_samples(model, seed) if inputs is None else samples_of(arrays, inputs_of(model))
    try:
        made = quantised(model, samples)
        found = read_model(made.proto)
    except ModelError as error:
        warn(f"{path.name} is a float model and remains so, because it cannot be quantised: {error}")
        return model, "none"
    found = replace(found, name=model.name)
    if inputs is None:
        warn_of_random(path, seed)
    else:
        warn(
            f"{path.name} is a float model, and is quantised for this run with the arrays of {inputs.name} as samples. "
            "`lathe quantize` writes a quantised model to a file."
        )
    print_quantiser_notes(made)
    return found, "random" if inputs is None else "inputs"


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
    rows = [*cycle_rows(machine, result), ("built in", f"{built:.2f} s"), ("simulated in", f"{took:.2f} s")]
    rows += [
        (
            f"{each.name} against onnxruntime",
            f"cosine {each.cosine:.6f}, {percent(each.equal)} equal, largest difference {each.largest:.6g}",
        )
        for each in found
    ]
    out.print()
    out.print(table("", ["", ""], rows, left=2))
