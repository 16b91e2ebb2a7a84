"""Locates Yosys, which writes Verilog and counts cells."""

from typing import Any

from lathe.rtl.amaranth_netlist import YosysError, find_yosys
from lathe.rtl.derived_widths import RtlError

# The version that Amaranth requires, too.
OLDEST = (0, 40)


def yosys(task: str) -> Any:
    """Amaranth's proxy of Yosys. Without Yosys raises :class:`RtlError`, which names the ``task`` that requires it."""
    try:
        return find_yosys(lambda version: version >= OLDEST)
    except YosysError:
        raise RtlError(
            f"Cannot {task}: Yosys is not installed. Install it with: pip install 'lathe-npu[rtl]'"
        ) from None
