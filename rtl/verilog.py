"""Verilog export of the accelerator."""

import re

from amaranth import ClockDomain, Elaboratable, Module, Signal

from lathe.configs import HardwareConfig
from lathe.rtl.accelerator import Accelerator
from lathe.rtl.amaranth_netlist import rtlil_of
from lathe.rtl.yosys import yosys

TOP = "lathe"

# Warnings of Verilator that Yosys's Verilog causes everywhere, with the reason why each is harmless. All others are
# enabled, among them loops, latches, multiple drivers, undriven signals and unconnected ports.
WAIVED = {
    "WIDTHEXPAND": "Amaranth relies on Verilog's extension of narrow operands",
    "WIDTHTRUNC": "a vector as a condition means that any bit is set",
    "CASEINCOMPLETE": "each case statement follows an assignment of the default",
    "UNUSEDSIGNAL": "fields of instructions and structures that a module does not use",
    "PROCASSINIT": "registers have an initial value in addition to their reset",
    "CMPCONST": "comparison with a limit that a field of a small machine cannot exceed",
    "UNSIGNED": "comparison with a limit of zero",
    "SYMRSVDWORD": "names that are keywords of C++",
    "DECLFILENAME": "one file holds all modules",
}

# The passes of Amaranth's Verilog backend, which fails with newer versions of Yosys up to Amaranth 0.5.3.
PASSES = "proc -nomux -norom; memory_collect; write_verilog -norename"

# How Yosys declares a memory.
MEMORY = re.compile(r"^( *)reg \[(\d+):0\] (\w+) \[(\d+):0\];$", re.MULTILINE)


class Top(Elaboratable):
    """The accelerator with its clock and its reset as ports.

    The reset is registered before it fans out to the machine, which improves timing and saves Verilator from evaluating
    every register's input whenever a port changes.
    """

    def __init__(self, config: HardwareConfig) -> None:
        self.machine = Accelerator(config)
        self.clk = Signal(name="clk")
        self.rst = Signal(name="rst")

    @property
    def ports(self) -> list[Signal]:
        """All ports."""
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
    tool = yosys("export a machine as Verilog")  # before elaboration
    top = Top(config)
    waivers = "".join(f"/* verilator lint_off {name} */  // {why}\n" for name, why in WAIVED.items())
    text, memories = rtlil_of(top, top.ports, TOP)
    # Yosys warns that Verilog cannot express every process; it can express those of Amaranth.
    text = tool.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil\n{PASSES}\n", ignore_warnings=True)
    text, cleared = MEMORY.subn(_cleared, text)
    assert cleared == memories, "a memory is not initialised with zeros"
    return waivers + text


def _cleared(declaration: re.Match[str]) -> str:
    """The declaration of a memory, followed by its initialisation with zeros."""
    indent, bits, name, last = declaration.groups()
    row = f"{name}_row"
    loop = f"for ({row} = 0; {row} <= {last}; {row} = {row} + 1) {name}[{row}] = {int(bits) + 1}'h0;"
    return f"{declaration.group()}\n{indent}integer {row};\n{indent}initial {loop}"
