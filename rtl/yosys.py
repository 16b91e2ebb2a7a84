"""Yosys, which writes Verilog and counts cells: where it is, and what to do when it is nowhere."""

from typing import Any

from lathe.rtl.amaranth_netlist import YosysError, find_yosys
from lathe.rtl.derived_widths import RtlError

# Amaranth asks for the same version for its Verilog.
OLDEST = (0, 40)


def yosys(what: str) -> Any:
    """Amaranth's proxy of Yosys. Raises :class:`RtlError`, in which ``what`` must have it, when there is none."""
    try:
        return find_yosys(lambda version: version >= OLDEST)
    except YosysError:
        raise RtlError(
            f"{what} must have Yosys, and it is not installed. Install it with: pip install 'lathe-npu[rtl]'"
        ) from None
