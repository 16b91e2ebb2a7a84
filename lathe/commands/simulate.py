"""`lathe simulate`: run a compiled program or network, or a model, on its machine."""

from pathlib import Path

import click

from lathe import engines
from lathe.commands.comparison import DIFFERENT, agreement_dict, engines_of, prepare, print_agreement
from lathe.commands.network_simulate import network_inputs, network_of, run_network_program
from lathe.commands.options import (
    DEFAULT_CONFIG,
    FILE,
    check_of_models_only,
    engine_option,
    is_model,
    json_option,
    result_option,
    shape_option,
    trace_option,
    wave_option,
)
from lathe.commands.summaries import print_result, result_dict
from lathe.commands.terminal import console, print_json
from lathe.configs import load_config
from lathe.configs.archives import write_arrays
from lathe.configs.atomic import check_writable
from lathe.cosimulation import cosimulate
from lathe.engines import EngineError
from lathe.input_values import InputsFileError, blank_inputs, random_inputs, read_inputs
from lathe.isa import Program
from lathe.networks.files import holds_network
from lathe.networks.program import NetworkProgram
from lathe.reports.result_file import write_result

MACHINE_HELP = f"The machine of a model; a program includes its own.  [default: {DEFAULT_CONFIG}]"


@click.command()
@click.argument("program", metavar="PROGRAM.npz|MODEL.onnx", type=FILE)
@click.argument("inputs", metavar="[INPUTS.npz]", required=False, type=FILE)
@click.option("-c", "--config", "config_name", metavar="CONFIG", help=MACHINE_HELP)
@shape_option
@engine_option
@click.option("--random", "seed", type=int, metavar="SEED", help="Generate random inputs instead of INPUTS.")
@click.option(
    "--timing-only", is_flag=True, help="Count cycles without computing data; requires no inputs and has no outputs."
)
@click.option("-o", "--output", type=FILE, help="Write the outputs to this .npz file, by name.")
@trace_option
@result_option
@wave_option
@json_option
@click.pass_context
def simulate(
    ctx: click.Context,
    program: Path,
    inputs: Path | None,
    config_name: str | None,
    shapes: tuple[str, ...],
    engine: str,
    seed: int | None,
    timing_only: bool,
    output: Path | None,
    trace_path: Path | None,
    result_path: Path | None,
    wave_path: Path | None,
    as_json: bool,
) -> None:
    """Run a compiled program, or a network, and attribute its cycles to layers and units.

    PROGRAM is the output of `lathe compile`; MODEL.onnx is compiled first. INPUTS is an .npz file with an array for
    each input, by name, in its logical shape and dtype; `lathe disasm` lists the inputs.

    With several engines, outputs, memory, counters, and start and end of each instruction in each unit are compared.
    The exit status is 1 if any differ; all other output is that of the first engine.
    """
    for path in (output, trace_path, result_path, wave_path):
        if path is not None:
            check_writable(path)
    sources = [inputs is not None, seed is not None, timing_only]
    if sum(sources) > 1 or (timing_only and output is not None):
        raise InputsFileError(
            "The inputs must be one of INPUTS, --random and --timing-only, not several; --timing-only has no outputs "
            "for -o. Choose one."
        )
    if not is_model(program):
        check_of_models_only(**{"-c": config_name, "--shape": shapes})
    if is_model(program) or holds_network(program):
        if wave_path is not None:
            raise EngineError(
                f"--wave must be left out for a network, which has several streams, not {str(wave_path)!r}. In Python, "
                "simulate one of program.parts."
            )
        machine = load_config(config_name or DEFAULT_CONFIG)
        network = network_of(program, shapes, machine) if is_model(program) else NetworkProgram.load(program)
        arrays = None if timing_only else network_inputs(network, inputs, seed)
        written = (output, trace_path, result_path)
        if not run_network_program(program, network, arrays, engines_of(engine), *written, as_json):
            ctx.exit(DIFFERENT)
        return
    loaded = Program.load(program)
    if seed is not None and seed < 0:
        raise InputsFileError(f"The seed of --random must be an integer of at least 0, not {seed}.")
    names = engines_of(engine)
    if not any(sources) and loaded.inputs:
        missing = ", ".join(dict.fromkeys(segment.tensor for segment in loaded.inputs))
        raise InputsFileError(
            f"The inputs of {str(program)!r} ({missing}) are missing. Give INPUTS, --random SEED or --timing-only."
        )
    values = read_inputs(inputs) if inputs is not None else {} if seed is None else random_inputs(loaded, seed)
    prepare(names, loaded.config, wave_path)
    if len(names) == 1:
        ran = None
        result = engines.simulate(loaded, values, engine=names[0], timing_only=timing_only, wave=wave_path)
    else:
        # The cycles of a program do not depend on its data, so --timing-only compares the engines on zeros.
        ran = cosimulate(loaded, blank_inputs(loaded) if timing_only else values, engines=names, wave=wave_path)
        result = ran.first
    if output is not None:
        write_arrays(output, result.outputs)
    if trace_path is not None:
        result.write_chrome_trace(trace_path)
    if result_path is not None:
        write_result(result_path, loaded, [result])
    if as_json:
        compared = {} if ran is None else agreement_dict(ran)
        print_json({**compared, **result_dict(result)})
    else:
        print_result(result)
        console().print()
        if ran is not None:
            print_agreement(ran)
    if ran is not None and not ran.agree:
        ctx.exit(DIFFERENT)
