"""`lathe simulate`: a compiled program on its machine."""

import zipfile
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from lathe import engines
from lathe.attribution import cycles_by_label
from lathe.commands.options import FILE, engine_option, json_option, trace_option
from lathe.commands.summaries import bytes_table, counters_dict, counters_table, labels_dict, labels_table, units_table
from lathe.commands.terminal import console, print_json
from lathe.configs import LatheError
from lathe.configs.atomic import check_writable, writing
from lathe.isa import Program
from lathe.sim import Result


class InputsFileError(LatheError):
    """A file of inputs that cannot be read, or arguments that say twice where the inputs come from."""


@click.command()
@click.argument("program", type=FILE)
@click.argument("inputs", required=False, type=FILE)
@engine_option
@click.option("--random", "seed", type=int, metavar="SEED", help="Make inputs of random values instead of INPUTS.")
@click.option("--timing-only", is_flag=True, help="Count cycles without data; needs no inputs and has no outputs.")
@click.option("-o", "--output", type=FILE, help="Write the outputs to this .npz file, by name.")
@trace_option
@json_option
def simulate(
    program: Path,
    inputs: Path | None,
    engine: str,
    seed: int | None,
    timing_only: bool,
    output: Path | None,
    trace_path: Path | None,
    as_json: bool,
) -> None:
    """Run a compiled program and say where its cycles went.

    PROGRAM is what `lathe compile` wrote. INPUTS is an .npz file with an array for each input, by name, in its logical
    shape and dtype; `lathe disasm` lists the program's inputs.
    """
    for path in (output, trace_path):
        if path is not None:
            check_writable(path)
    sources = [inputs is not None, seed is not None, timing_only]
    if sum(sources) > 1 or (timing_only and output is not None):
        raise InputsFileError(
            "The inputs must come from INPUTS, from --random, or be left out with --timing-only, which has no outputs "
            "for -o, not several of these. Choose one."
        )
    loaded = Program.load(program)
    values = read_inputs(inputs) if inputs is not None else {} if seed is None else random_inputs(loaded, seed)
    result = engines.simulate(loaded, values, engine=engine, timing_only=timing_only)
    if output is not None:
        with writing(output) as file:
            arrays: dict[str, Any] = dict(result.outputs)
            np.savez_compressed(file, **arrays)
    if trace_path is not None:
        result.write_chrome_trace(trace_path)
    if as_json:
        layers = labels_dict(cycles_by_label(result))
        print_json({**counters_dict(loaded.config, result.counters), "layers": layers})
    else:
        print_result(result)


def read_inputs(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, AttributeError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no .npz archive"
        raise InputsFileError(
            f"The inputs {str(path)!r} must be an .npz file of arrays, and cannot be read: {reason}. "
            "Make it with numpy.savez."
        ) from None


def random_inputs(program: Program, seed: int) -> dict[str, NDArray[Any]]:
    """An array for each input, with values from the whole range of its dtype."""
    rng = np.random.default_rng(seed)
    values = {}
    for segment in program.inputs:
        shape, dtype = (
            ((segment.nbytes,), np.dtype(np.uint8))
            if segment.layout is None
            else (segment.layout.shape, np.dtype(segment.layout.dtype))
        )
        bounds = np.iinfo(dtype)
        values[segment.tensor] = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    return values


def print_result(result: Result) -> None:
    """The result as tables."""
    out = console()
    counters = result.counters
    costs = labels_table(cycles_by_label(result), result.cycles, 1)
    for each in (counters_table(counters), costs, units_table(counters), bytes_table(counters)):
        out.print(each)
        out.print()
