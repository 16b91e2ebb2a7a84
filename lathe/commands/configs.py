"""`lathe configs`: list the shipped machines, or all parameters of one machine."""

import click

from lathe.commands.options import json_option
from lathe.commands.terminal import console, grouped, print_json, table
from lathe.configs import HardwareConfig, load_config, shipped_configs
from lathe.configs.extensions import EXTENSIONS
from lathe.configs.parameter_listing import derived_names, derived_values, given_values

SCRATCHPADS = ("uop", "inp", "wgt", "acc")


@click.command()
@click.argument("name", required=False)
@json_option
def configs(name: str | None, as_json: bool) -> None:
    """List the shipped machines, or show all parameters of one.

    NAME is a shipped configuration or a YAML file. "Given" parameters can be set in a YAML file; "derived" values are
    computed from them.
    """
    if name is None:
        machines = [load_config(shipped) for shipped in shipped_configs()]
        if as_json:
            print_json([{**machine.to_dict(), "derived": derived_values(machine)} for machine in machines])
        else:
            print_list(machines)
        return
    machine = load_config(name)
    if as_json:
        print_json({**machine.to_dict(), "derived": derived_values(machine)})
    else:
        print_machine(machine)


def extensions_of(machine: HardwareConfig) -> str:
    """The extensions of a machine to VTA, in short."""
    missing = [each for each in EXTENSIONS if each not in machine.extensions]
    if missing and len(missing) < len(machine.extensions):
        return f"all but {', '.join(missing)}"
    return (", ".join(machine.extensions) or "none") if missing else "all"


def print_list(machines: list[HardwareConfig]) -> None:
    """Print one line per machine, at most 80 columns wide, and a hint on further output."""
    columns = ["name", "batch", "in × out", "MACs", *SCRATCHPADS, "bus", "latency", "extensions"]
    rows = [
        [
            machine.name,
            machine.batch,
            f"{machine.block_in} × {machine.block_out}",
            grouped(machine.batch * machine.block_in * machine.block_out),
            *(f"{getattr(machine, f'{memory}_buffer_bytes') / 1024:g}" for memory in SCRATCHPADS),
            machine.memory.bus_bits,
            machine.memory.latency,
            extensions_of(machine),
        ]
        for machine in machines
    ]
    out = console()
    out.print(table("Shipped machines: scratchpads in KiB, the bus in bits, latency in cycles", columns, rows))
    out.print("\n`lathe configs NAME` shows all parameters of a machine.")


def print_machine(machine: HardwareConfig) -> None:
    """Print the given parameters and the derived values of a machine."""
    out = console()
    rows = [
        (key, ", ".join(value) if isinstance(value, list) else value) for key, value in given_values(machine).items()
    ]
    out.print(table(f"Machine {machine.name}: given", ["key", "value"], rows))
    values = derived_values(machine)
    meanings = derived_names()
    derived = table("\nDerived", ["name", "value"], ())
    derived.add_column("meaning")
    for name, value in values.items():
        derived.add_row(name, grouped(value), meanings[name].splitlines()[0])
    out.print(derived)
