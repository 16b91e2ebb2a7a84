"""`lathe rtl`: export the accelerator's RTL as Verilog, count its cells, and fit it on an FPGA."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lathe.commands.options import FILE, config_option, json_option, required_config_option
from lathe.commands.terminal import console, grouped, print_json, table
from lathe.configs import HardwareConfig, load_config
from lathe.configs.atomic import check_writable, write_text
from lathe.rtl.derived_widths import Geometry

if TYPE_CHECKING:
    from lathe.rtl.fit import Fit
    from lathe.rtl.statistics import ModuleStatistics

# Amaranth takes longer to import than the other commands take to run, so each command imports it on its own.


@click.group()
def rtl() -> None:
    """Export the accelerator's RTL as Verilog, count its cells, or fit it on an FPGA.

    docs/rtl.md describes the hardware and how to attach it to a SoC, docs/rtl-registers.md its registers.
    """


@rtl.command()
@config_option
@click.option("-o", "--output", type=FILE, required=True, help="The .v file to write.")
def verilog(config_name: str, output: Path) -> None:
    """Write a machine as one Verilog file, with the top module "lathe".

    It is an error if the machine cannot be built as RTL.
    """
    from lathe.rtl.verilog import TOP
    from lathe.rtl.verilog import verilog as text_of

    machine = load_config(config_name)
    check_writable(output)
    Geometry(machine)  # raises for machines that cannot be built, before elaboration
    text = text_of(machine)
    write_text(output, text)
    lines, modules = len(text.splitlines()), text.count("\nendmodule")
    click.echo(f"{output}: module {TOP} for {machine.name}, {grouped(modules)} modules in {grouped(lines)} lines")


@rtl.command()
@config_option
@json_option
def stats(config_name: str, as_json: bool) -> None:
    """Count cells, flip-flops, memory bits and multipliers of each module, with Yosys.

    Cells are word-level cells before technology mapping: an adder of any width is one cell. Flip-flops and memory are
    in bits. A line of the table includes all submodules of its module; --json also has the counts of each module
    without its submodules.
    """
    from lathe.rtl.statistics import statistics

    machine = load_config(config_name)
    entries = statistics(machine)
    if as_json:
        print_json(stats_dict(machine, entries))
    else:
        print_stats(machine, entries)


def stats_dict(machine: HardwareConfig, entries: list["ModuleStatistics"]) -> dict[str, Any]:
    """The counts as plain values: of the machine, and of each module with and without its submodules."""
    from lathe.rtl.statistics import within

    modules = [{"path": each.path, **counts(within(entries, each.path)), "own": counts(each)} for each in entries]
    return {"machine": machine.name, **counts(within(entries, entries[0].path)), "modules": modules}


def counts(entry: "ModuleStatistics") -> dict[str, Any]:
    """The counts of a module as plain values."""
    return {
        "cells": entry.cells,
        "flip_flops": entry.flip_flops,
        "memory_bits": entry.memory_bits,
        "multipliers": entry.multiplier_count,
        "multipliers_of": {f"{a}x{b}": count for (a, b), count in entry.multipliers.items()},
    }


def print_stats(machine: HardwareConfig, entries: list["ModuleStatistics"]) -> None:
    """Print a table with a line for the machine, and for each module of the two levels below it."""
    from lathe.rtl.statistics import within

    top = entries[0].path
    rows = []
    for entry in entries:
        depth = entry.path.count(".")
        if depth > 2:
            continue
        total = within(entries, entry.path)
        widths = ", ".join(f"{count} of {a}×{b}" for (a, b), count in total.multipliers.items())
        name = "  " * (depth - 1) + entry.path.rpartition(".")[2] if depth else top
        rows.append((name, widths, *map(grouped, numbers(total))))
    columns = ["module", "factors", "cells", "flip-flops", "memory bits", "multipliers"]
    console().print(table(f"Hardware of {machine.name}", columns, rows, left=2))


def numbers(entry: "ModuleStatistics") -> tuple[int, int, int, int]:
    """The numeric columns of the table."""
    return entry.cells, entry.flip_flops, entry.memory_bits, entry.multiplier_count


@rtl.command()
@required_config_option
@click.option("--device", default="ecp5-45k", show_default=True, help="ecp5-25k, ecp5-45k or ecp5-85k.")
@click.option("--speed", type=int, default=6, show_default=True, help="The speed grade: 6, 7 or 8.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the placement.")
@json_option
def fit(config_name: str, device: str, speed: int, seed: int, as_json: bool) -> None:
    """Place and route a machine on a Lattice ECP5: resources, clock, and the critical path.

    Out of context: ports are not placed, and the clock is that of paths between registers. Takes minutes the first
    time, or hours if the device is nearly full; results are cached by content. It is an error if the machine's memories
    are larger than the device's block RAMs, as those of `vta` are. Needs the extra "fit".
    """
    from lathe.rtl.fit import fit as fitted

    machine = load_config(config_name)

    def announce() -> None:
        click.echo(
            f"Placing {machine.name} on {device}: this takes minutes, or hours if the device is nearly full.", err=True
        )

    found = fitted(machine, device, speed, seed, on_begin=announce)
    if as_json:
        print_json(asdict(found))
    else:
        print_fit(found)


def print_fit(found: "Fit") -> None:
    """Print the clock, a table of resources, and one of the critical path."""
    path = [(part.module or "(top)", f"{part.nanoseconds:.2f}") for part in found.path]
    used = [
        (
            name.replace("_", " "),
            grouped(each.used),
            grouped(each.available),
            f"{100 * each.used / each.available:.0f} %",
        )
        for name, each in found.resources.items()
    ]
    where = f"{found.device}, speed grade {found.speed}, seed {found.seed}"
    click.echo(f"{found.machine} on {where}: {found.megahertz:.1f} MHz")
    console().print(table("Resources", ["resource", "used", "of", "share"], used, left=1))
    console().print(table("The critical path, in nanoseconds", ["module", "delay"], path, left=1))
