"""`lathe rtl`: the accelerator's hardware, as Verilog, in numbers, and on an FPGA."""

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
    """Export the accelerator's hardware, count what it is made of, or fit it on an FPGA.

    docs/rtl.md describes the hardware and how to attach it to a SoC, docs/rtl-registers.md its registers.
    """


@rtl.command()
@config_option
@click.option("-o", "--output", type=FILE, required=True, help="The .v file to write.")
def verilog(config_name: str, output: Path) -> None:
    """Write a machine as one Verilog file, with the top module "lathe".

    Machines that cannot be built are refused with the reason.
    """
    from lathe.rtl.verilog import TOP
    from lathe.rtl.verilog import verilog as text_of

    machine = load_config(config_name)
    check_writable(output)
    Geometry(machine)  # refuses machines that cannot be built, before modules are made
    text = text_of(machine)
    write_text(output, text)
    lines, modules = len(text.splitlines()), text.count("\nendmodule")
    click.echo(f"{output}: module {TOP} for {machine.name}, {grouped(modules)} modules in {grouped(lines)} lines")


@rtl.command()
@config_option
@json_option
def stats(config_name: str, as_json: bool) -> None:
    """Count cells, flip-flops, memory bits and multipliers of each module, with Yosys.

    Cells are those of words, before they are mapped to a technology: an adder of any width is one. Flip-flops and
    memory are in bits. A line of the table counts all that is inside its module; --json tells also what each module
    has of its own.
    """
    from lathe.rtl.statistics import statistics

    machine = load_config(config_name)
    entries = statistics(machine)
    if as_json:
        print_json(stats_dict(machine, entries))
    else:
        print_stats(machine, entries)


def stats_dict(machine: HardwareConfig, entries: list["ModuleStatistics"]) -> dict[str, Any]:
    """The counts as plain values: of the whole machine, and of each module on its own and with all inside it."""
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
    """A line for each module that stands in the machine or one level below, and one for all."""
    from lathe.rtl.statistics import within

    top = entries[0].path
    rows = []
    for entry in entries:
        depth = entry.path.count(".")
        if depth > 2:
            continue
        all_of_it = within(entries, entry.path)
        widths = ", ".join(f"{count} of {a}×{b}" for (a, b), count in all_of_it.multipliers.items())
        name = "  " * (depth - 1) + entry.path.rpartition(".")[2] if depth else top
        rows.append((name, widths, *map(grouped, numbers(all_of_it))))
    columns = ["module", "factors", "cells", "flip-flops", "memory bits", "multipliers"]
    console().print(table(f"Hardware of {machine.name}", columns, rows, left=2))


def numbers(entry: "ModuleStatistics") -> tuple[int, int, int, int]:
    """The columns of the table."""
    return entry.cells, entry.flip_flops, entry.memory_bits, entry.multiplier_count


@rtl.command()
@required_config_option
@click.option("--device", default="ecp5-45k", show_default=True, help="ecp5-25k, ecp5-45k or ecp5-85k.")
@click.option("--speed", type=int, default=6, show_default=True, help="The speed grade: 6, 7 or 8.")
@click.option("--seed", type=int, default=1, show_default=True, help="Where placement begins.")
@json_option
def fit(config_name: str, device: str, speed: int, seed: int, as_json: bool) -> None:
    """Place and route a machine on a Lattice ECP5: resources, clock, and the path that limits it.

    Out of context: ports are not placed, and the clock is that of paths between registers. Takes minutes the first
    time, or hours where the device is nearly full; results are kept by content. A machine whose memories are larger
    than the device's block RAMs, as those of `vta` are, is refused at once. Needs the extra "fit".
    """
    from lathe.rtl.fit import fit as fitted

    machine = load_config(config_name)

    def announce() -> None:
        click.echo(
            f"Placing {machine.name} on {device}: this takes minutes, and hours where the device is nearly full.",
            err=True,
        )

    found = fitted(machine, device, speed, seed, on_begin=announce)
    if as_json:
        print_json(asdict(found))
    else:
        print_fit(found)


def print_fit(found: "Fit") -> None:
    """The clock, a table of resources, and one of the longest path."""
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
    console().print(table("The longest path, in nanoseconds", ["module", "delay"], path, left=1))
