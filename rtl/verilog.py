"""Export: the accelerator as Verilog."""

from amaranth.back import verilog as back

from lathe.configs import HardwareConfig
from lathe.rtl.accelerator import Accelerator

TOP = "lathe"


def verilog(config: HardwareConfig) -> str:
    """The Verilog of a machine, with the top module `lathe`.

    Its ports are `clk`, `rst` (synchronous, active high), `m_axi_*` (AXI4 manager), `s_axi_*` (AXI4-Lite subordinate),
    `interrupt`, and `trace_*`, which may be left open. Raises :class:`~lathe.rtl.geometry.RtlError` for machines that
    cannot be built.
    """
    machine = Accelerator(config)
    return str(back.convert(machine, name=TOP, ports=machine.ports, emit_src=False))
