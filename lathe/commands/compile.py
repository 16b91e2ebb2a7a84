"""`lathe compile`: compile a script's program, a model, or the digits network to a file."""

import sys
from collections import Counter
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

import lathe as lt
from lathe.builder import validate_builds
from lathe.commands.network_compile import compile_model
from lathe.commands.options import (
    FILE,
    check_of_models_only,
    check_of_network_only,
    config_option,
    given,
    is_model,
    json_option,
    shape_option,
)
from lathe.commands.terminal import console, grouped, print_json, table
from lathe.configs import HardwareConfig, load_config
from lathe.configs.atomic import check_writable
from lathe.isa import Program
from lathe.networks.digits.network import DEFAULT_BATCH, digits_network
from lathe.scripts import ScriptError, check_machine_of, run_script


@click.command()
@click.argument("script", metavar="[SCRIPT|MODEL.onnx]", required=False, type=FILE)
@config_option
@shape_option
@click.option("--batch", default=DEFAULT_BATCH, show_default=True, help="Images per launch (digits network).")
@click.option("--check", is_flag=True, help="Validate the instructions: see docs/translation-validation.md.")
@click.option("-o", "--output", type=FILE, required=True, help="The .npz file to write.")
@json_option
@click.pass_context
def compile(
    ctx: click.Context,
    script: Path | None,
    config_name: str,
    shapes: tuple[str, ...],
    batch: int,
    check: bool,
    output: Path,
    as_json: bool,
) -> None:
    """Compile a script's program, or an ONNX model, to a file.

    The file can be passed to `lathe simulate`, `lathe disasm` and `lathe verify`.

    SCRIPT is a Python file. If it defines build(cfg), that function is called with the machine of -c and must return
    the result of lt.build; otherwise the script runs like a Python program, with the machine's name as its first
    argument, and must leave the program in a variable "program". It is an error if the script builds for another
    machine than a given -c. Without SCRIPT the digits network is compiled.

    In MODEL.onnx, layers between QuantizeLinear and DequantizeLinear are compiled to instruction streams if the machine
    has the extensions that they require (lathe16 has); all other nodes run on the host CPU.
    """
    machine = load_config(config_name)
    check_of_network_only(ctx, script, "batch")
    check_writable(output)
    if script is not None and output.exists() and output.samefile(script):
        raise ScriptError(f"The output of `lathe compile` must not be its input file {str(script)!r}.")
    if script is not None and is_model(script):
        with validate_builds(check):
            compile_model(script, shapes, machine, output, as_json)
        return
    check_of_models_only(**{"--shape": shapes})
    # With --json, standard output is for the JSON alone.
    with redirect_stdout(sys.stderr) if as_json else nullcontext(), validate_builds(check):
        program = digits_program(machine, batch) if script is None else script_program(script, config_name)
    if script is not None and given(ctx, "config_name"):
        check_machine_of(script, machine, [program.config], "build")
    program.save(output)
    counts = Counter(instruction.opcode.name.lower() for instruction in program.instructions)
    if as_json:
        segments = [
            {"name": each.name, "role": each.role, "address": each.address, "bytes": each.nbytes}
            for each in program.segments
        ]
        print_json({"machine": program.config.name, "instructions": dict(counts), "segments": segments})
        return
    out = console()
    rows = [(each.name, each.role, f"{each.address:#x}", grouped(each.nbytes)) for each in program.segments]
    out.print(table(f"{output} for {program.config.name}", ["segment", "role", "address", "bytes"], rows, left=2))
    summary = ", ".join(f"{grouped(count)} {name}" for name, count in sorted(counts.items()))
    out.print(f"\n{grouped(len(program.instructions))} instructions: {summary}")


def digits_program(machine: HardwareConfig, batch: int) -> Program:
    """The digits network, compiled for a machine."""
    network = digits_network(batch)
    return lt.build(network.logits, network.tensors, machine, constants=network.constants)


def script_program(path: Path, config_name: str) -> Program:
    """The program that a script builds. Raises ScriptError if it has none."""
    program = run_script(path, ("build",), "program", config_name)
    if not isinstance(program, Program):
        raise ScriptError(
            f"The script {str(path)!r} must return a Program from build(cfg), or have it in its variable 'program', "
            f"not {program!r}. Use the result of lt.build."
        )
    return program
