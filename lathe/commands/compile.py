"""`lathe compile`: a script's program, or the digits network, to a file."""

from collections import Counter
from pathlib import Path

import click

import lathe as lt
from lathe.commands.options import FILE, config_option, json_option
from lathe.commands.terminal import console, grouped, print_json, table
from lathe.configs import HardwareConfig, load_config
from lathe.configs.atomic import check_writable
from lathe.isa import Program
from lathe.networks.digits.job import DEFAULT_BATCH
from lathe.networks.digits.network import digits_network
from lathe.scripts import ScriptError, call_script


@click.command()
@click.argument("script", required=False, type=FILE)
@config_option
@click.option("--batch", default=DEFAULT_BATCH, show_default=True, help="Images of one launch (digits network).")
@click.option("-o", "--output", type=FILE, required=True, help="The .npz file to write.")
@json_option
def compile(script: Path | None, config_name: str, batch: int, output: Path, as_json: bool) -> None:
    """Compile a script's program to a file.

    The file is for `lathe simulate`, `lathe disasm` and `lathe verify`.

    SCRIPT is a Python file that defines build(cfg), which is called with the machine that -c names and returns what
    lt.build returned. Without SCRIPT it is the digits network.
    """
    machine = load_config(config_name)
    check_writable(output)
    program = digits_program(machine, batch) if script is None else script_program(script, machine)
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
    told = ", ".join(f"{grouped(count)} {name}" for name, count in sorted(counts.items()))
    out.print(f"\n{grouped(len(program.instructions))} instructions: {told}")


def digits_program(machine: HardwareConfig, batch: int) -> Program:
    """The digits network for a machine."""
    network = digits_network(batch)
    return lt.build(network.logits, network.tensors, machine, constants=network.constants)


def script_program(path: Path, machine: HardwareConfig) -> Program:
    """What the script's build returns."""
    program = call_script(path, "build", machine)
    if not isinstance(program, Program):
        raise ScriptError(
            f"build of the script {str(path)!r} must return a Program, not {program!r}. Return what lt.build returned."
        )
    return program
