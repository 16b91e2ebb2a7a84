"""The register map and the fault codes as a page: docs/rtl-registers.md is made here."""

from lathe.rtl.fault import MEANINGS
from lathe.rtl.registers import REGISTERS


def register_manual() -> str:
    """The page, in Markdown."""
    lines = [
        "# Registers",
        "",
        "The AXI4-Lite subordinate `s_axi` has these 32-bit registers. This page is made by `lathe.rtl.manual` from",
        "`rtl/registers.py` and `isa/fault.py`. Reads of other addresses give 0, writes to them do nothing. Registers",
        "that describe a launch keep their values; they are looked at when it starts.",
        "",
        "| address | name | access | what |",
        "|---|---|---|---|",
        *(f"| `{each.address:#05x}` | `{each.name}` | {each.access} | {each.what} |" for each in REGISTERS),
        "",
        "## Fault codes",
        "",
        "A fault stops all units. Bursts that the bus has accepted are carried to their end, then `STATUS` shows the",
        "fault and `interrupt` rises; the next start begins on a clean machine, scratchpads aside.",
        "",
        "| code | name | what |",
        "|---|---|---|",
        *(f"| {int(code)} | `{code.name}` | {what} |" for code, what in MEANINGS.items()),
    ]
    return "\n".join(lines) + "\n"
