"""Generates docs/rtl-registers.md, the page of the register map and the fault codes."""

from lathe.rtl.fault import FAULT_DESCRIPTIONS
from lathe.rtl.registers import REGISTERS


def register_manual() -> str:
    """The page, in Markdown."""
    lines = [
        "# Registers",
        "",
        "The AXI4-Lite subordinate `s_axi` has these 32-bit registers. `lathe.rtl.manual` generates this page from",
        "`rtl/registers.py` and `isa/fault.py`. Reads of other addresses return 0, writes to them have no effect.",
        "Registers that describe a launch keep their values; the machine reads them when it starts a launch.",
        "",
        "| address | name | access | meaning |",
        "|---|---|---|---|",
        *(f"| `{each.address:#05x}` | `{each.name}` | {each.access} | {each.what} |" for each in REGISTERS),
        "",
        "## Fault codes",
        "",
        "A fault stops all units. Bursts that the bus has accepted are completed, then `STATUS` shows the fault and",
        "`interrupt` rises. The next launch starts in the reset state, except for the contents of the scratchpads.",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
        *(f"| {int(code)} | `{code.name}` | {what} |" for code, what in FAULT_DESCRIPTIONS.items()),
    ]
    return "\n".join(lines) + "\n"
