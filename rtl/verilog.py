"""Export: the accelerator as Verilog."""

from amaranth import ClockDomain, Elaboratable, Module, Signal
from amaranth.back import verilog as back

from lathe.configs import HardwareConfig
from lathe.rtl.accelerator import Accelerator

TOP = "lathe"


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
    :class:`~lathe.rtl.geometry.RtlError` for machines that cannot be built.
    """
    top = Top(config)
    return str(back.convert(top, name=TOP, ports=top.ports, emit_src=False))
