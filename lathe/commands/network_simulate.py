"""`lathe simulate` of a network: its layers, and an attribution of the cycles of its streams."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from lathe.commands.comparison import prepare
from lathe.commands.models import check_seed, cycle_rows, layers_table, note_float, random_arrays, shapes_of
from lathe.commands.summaries import bytes_table, counters_dict, counters_table, units_table
from lathe.commands.terminal import console, grouped, print_json, table
from lathe.configs import HardwareConfig
from lathe.configs.archives import write_arrays
from lathe.input_values import InputsFileError, read_inputs
from lathe.networks.cosimulation import NetworkCosimulation, cosimulate_network
from lathe.networks.network import from_onnx
from lathe.networks.program import NetworkProgram
from lathe.networks.run import NetworkResult, simulate_network
from lathe.reports.result_file import write_result


def network_of(path: Path, shapes: tuple[str, ...], machine: HardwareConfig) -> NetworkProgram:
    """Compile a model for a machine."""
    network = from_onnx(path, shapes_of(shapes))
    program = network.build(machine)
    note_float(path, network.model)
    return program


def network_inputs(program: NetworkProgram, inputs: Path | None, seed: int | None) -> dict[str, NDArray[Any]]:
    """The arrays of INPUTS or of --random. Raises InputsFileError if neither is given."""
    if inputs is not None:
        return read_inputs(inputs)
    check_seed(seed or 0)
    if seed is None and program.inputs:
        raise InputsFileError(
            f"The inputs of network {program.name!r} ({', '.join(program.inputs)}) are missing. Give INPUTS.npz, "
            "--random SEED or --timing-only."
        )
    return random_arrays(program.inputs, seed or 0)


def run_network_program(
    path: Path,
    program: NetworkProgram,
    inputs: Mapping[str, NDArray[Any]] | None,
    engines: tuple[str, ...],
    output: Path | None,
    trace_path: Path | None,
    result_path: Path | None,
    as_json: bool,
) -> bool:
    """Run a network on arrays, or timing-only if ``inputs`` is None, and print its table of layers.

    Returns whether the engines agree; True for a single engine.
    """
    prepare(engines, program.config, None)
    timing_only = inputs is None
    ran: NetworkCosimulation | None = None
    if len(engines) == 1:
        result = simulate_network(program, inputs, engine=engines[0], timing_only=timing_only)
    else:
        ran = cosimulate_network(program, inputs, engines, timing_only=timing_only)
        result = ran.result
    if output is not None:
        write_arrays(output, result.outputs)
    if trace_path is not None:
        result.write_chrome_trace(trace_path)
    if result_path is not None:
        write_result(result_path, program, result.results)
    if as_json:
        _print_json(path, program, result, ran)
    else:
        _print(path, program, result)
        if ran is not None:
            _print_agreement(ran)
    return ran is None or ran.agree


def _print_json(path: Path, program: NetworkProgram, result: NetworkResult, ran: NetworkCosimulation | None) -> None:
    compared: dict[str, Any] = {}
    if ran is not None:
        compared = {
            "engines": {name: {"cycles": cycles} for name, cycles in ran.cycles.items()},
            "agree": ran.agree,
            "differences": list(ran.differences),
        }
    print_json(
        {
            **compared,
            "network": str(path),
            "machine": program.config.name,
            "cycles": result.cycles,
            "layers": [vars(row) for row in result.layers],
            "streams": [counters_dict(program.config, each.counters) for each in result.results],
        }
    )


def _print(path: Path, program: NetworkProgram, result: NetworkResult) -> None:
    out = console()
    out.print(layers_table(path, program.config, result))
    out.print()
    rows = [*cycle_rows(program.config, result), ("streams", grouped(len(result.results)))]
    out.print(table("", ["", ""], rows, left=2))
    if not result.results:
        return
    counters = result.counters
    for each in (counters_table(counters), units_table(counters), bytes_table(counters)):
        out.print()
        out.print(each)


def _print_agreement(ran: NetworkCosimulation) -> None:
    """Print one line if the engines agree, and otherwise one for each difference."""
    if not ran.agree:
        click.echo("The engines DIFFER.")
        for difference in ran.differences:
            click.echo(difference)
        return
    *others, last = ran.engines
    traces = [each.first.trace for each in ran.streams]
    events = sum(len(trace) for trace in traces if trace is not None)
    streams = "one stream" if len(ran.streams) == 1 else f"{grouped(len(ran.streams))} streams"
    click.echo(
        f"{', '.join(others)} and {last} agree in {streams}: start and end of "
        f"{grouped(events)} events, {grouped(ran.result.cycles)} cycles, memory, tokens and counters."
    )
