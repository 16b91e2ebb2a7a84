"""Export: the accelerator as Verilog."""

import re

from amaranth import ClockDomain, Elaboratable, Module, Signal

from lathe.configs import HardwareConfig
from lathe.rtl.accelerator import Accelerator
from lathe.rtl.amaranth_netlist import rtlil_of
from lathe.rtl.yosys import yosys

TOP = "lathe"

# Warnings of Verilator that Yosys's way of writing Verilog causes everywhere, with the reason why each is harmless. All
# others are on: loops, latches, several drivers, undriven signals and unconnected ports among them.
WAIVED = {
    "WIDTHEXPAND": "operands of different widths are extended as Verilog defines it; Amaranth means that",
    "WIDTHTRUNC": "a vector in a condition stands for any bit being set",
    "CASEINCOMPLETE": "each case follows an assignment of the default",
    "UNUSEDSIGNAL": "fields of instructions and structures that a module does not need",
    "PROCASSINIT": "registers have their first value also without a reset",
    "CMPCONST": "a limit that a field of a small machine cannot exceed",
    "UNSIGNED": "a limit of zero",
    "SYMRSVDWORD": "names that are words of C++",
    "DECLFILENAME": "one file holds all modules",
}

# What Amaranth does, too: its own call fails with newer versions of Yosys up to Amaranth 0.5.3.
PASSES = "proc -nomux -norom; memory_collect; write_verilog -norename"

# How Yosys declares a memory.
MEMORY = re.compile(r"^( *)reg \[(\d+):0\] (\w+) \[(\d+):0\];$", re.MULTILINE)


class Top(Elaboratable):
    """The accelerator with its clock and its reset as ports.

    The reset passes a register before it fans out to the machine, which eases its timing, and spares Verilator from
    looking at every register's input whenever a port changes.
    """

    def __init__(self, config: HardwareConfig) -> None:
        self.machine = Accelerator(config)
        self.clk = Signal(name="clk")
        self.rst = Signal(name="rst")

    @property
    def ports(self) -> list[Signal]:
        """Everything that goes in or out."""
        return [self.clk, self.rst, *self.machine.ports]

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.domains.pin = pin = ClockDomain("pin", reset_less=True)
        m.domains.sync = sync = ClockDomain("sync")
        pin.clk = sync.clk = self.clk
        assert sync.rst is not None
        m.d.pin += sync.rst.eq(self.rst)
        m.submodules.machine = self.machine
        return m


def verilog(config: HardwareConfig) -> str:
    """The Verilog of a machine, with the top module `lathe`.

    Its ports are `clk`, `rst` (synchronous, active high, for two cycles at least), `m_axi_*` (AXI4 manager), `s_axi_*`
    (AXI4-Lite subordinate), `interrupt`, and `trace_*`, which may be left open. Raises
    :class:`~lathe.rtl.derived_widths.RtlError` for machines that cannot be built, and without Yosys.
    """
    found = yosys("The Verilog of a machine")  # before modules are made
    top = Top(config)
    waivers = "".join(f"/* verilator lint_off {name} */  // {why}\n" for name, why in WAIVED.items())
    text, memories = rtlil_of(top, top.ports, TOP)
    # Yosys warns that Verilog cannot have all processes; Amaranth's are such that it can.
    text = found.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil\n{PASSES}\n", ignore_warnings=True)
    text, cleared = MEMORY.subn(_cleared, text)
    assert cleared == memories, "a memory is not set to zero"
    return waivers + text


def _cleared(declaration: re.Match[str]) -> str:
    """The declaration of a memory, and its words set to zero."""
    indent, bits, name, last = declaration.groups()
    row = f"{name}_row"
    loop = f"for ({row} = 0; {row} <= {last}; {row} = {row} + 1) {name}[{row}] = {int(bits) + 1}'h0;"
    return f"{declaration.group()}\n{indent}integer {row};\n{indent}initial {loop}"
