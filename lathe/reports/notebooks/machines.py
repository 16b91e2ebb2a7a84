"""Machines in notebooks: the matrix core, scratchpads and memory, with all parameters in collapsible tables."""

from dataclasses import asdict

from lathe.configs import HardwareConfig, MemoryConfig, TimingConfig
from lathe.configs.html_repr import html_of
from lathe.configs.parameter_listing import derived_names, derived_values, given_values
from lathe.reports.notebooks.fragments import facts, folded, hbox, panel, size, table, text_of

SCRATCHPADS = ("uop", "inp", "wgt", "acc", "par", "lut")


@html_of.register
def machine(value: HardwareConfig) -> str:
    """The summary of a machine, with its parameters."""
    memory = value.memory
    core = facts([
        ("matrix core", f"{value.batch} × {value.block_in} × {value.block_out}"),
        ("multipliers", value.multipliers),
        ("bus", f"{memory.bus_bits} bits"),
        ("DRAM latency", f"{text_of(memory.latency)} cycles"),
        ("extensions", ", ".join(value.extensions) or None),
    ])  # fmt: skip
    buffers = [
        (name, size(getattr(value, f"{name}_buffer_bytes")), getattr(value, f"{name}_depth"))
        for name in SCRATCHPADS
        if getattr(value, f"{name}_buffer_bytes")
    ]
    given = [(key, ", ".join(each) if isinstance(each, list) else each) for key, each in given_values(value).items()]
    meanings = derived_names()
    derived = [(name, number, meanings[name].splitlines()[0]) for name, number in derived_values(value).items()]
    return panel(
        f"Machine {value.name}",
        hbox(core, table(("scratchpad", "size", "vectors"), buffers)),
        folded("All parameters", facts(given)),
        folded("Derived values", table(("name", "value", "meaning"), derived, most=len(derived))),
    )


@html_of.register
def memory(value: MemoryConfig) -> str:
    """The parameters of a memory."""
    return panel("Memory", facts(asdict(value).items()))


@html_of.register
def timing(value: TimingConfig) -> str:
    """The parameters of the units' timing."""
    return panel("Timing of the units, in cycles", facts(asdict(value).items()))
