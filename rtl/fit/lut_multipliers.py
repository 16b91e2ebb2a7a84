"""Multipliers made of LUTs, for devices with fewer multipliers than a machine requires.

ECP5's multipliers have 18-bit factors, those of the matrix core 8-bit ones. Yosys maps every multiplication of more
than a few bits to a multiplier, except that its pass ``booth`` first maps those that are marked here to LUTs.
"""

import json
import re

MULTIPLIER = "MULT18X18D"
MARK = "lathe_of_luts"
TO_LUTS = f"proc; booth a:{MARK}=1"
"""The commands of Yosys that map marked multiplications to LUTs; they come before all others."""

_PRODUCT = re.compile(r"^  cell \$mul \S+\n(?:    .*\n)*?  end$", re.MULTILINE)
_WIDTH = re.compile(r"parameter \\[AB]_WIDTH (\d+)")
# The least width that the pass accepts; Yosys maps narrower multiplications to LUTs anyway.
_LEAST = 4


def multipliers_of(netlist: str) -> int:
    """The number of multipliers in a flat netlist, as Yosys writes it in JSON."""
    modules = json.loads(netlist)["modules"].values()
    return sum(cell["type"] == MULTIPLIER for module in modules for cell in module["cells"].values())


def with_lut_multipliers(text: str, count: int) -> str:
    """A design in RTLIL with up to ``count`` multiplications marked, the smallest first."""
    products = []
    for match in _PRODUCT.finditer(text):
        left, right = map(int, _WIDTH.findall(match[0]))
        if min(left, right) >= _LEAST:
            products.append((left * right, match.start()))
    chosen = sorted(start for _, start in sorted(products)[:count])
    marked = []
    done = 0
    for start in chosen:
        marked += [text[done:start], f"  attribute \\{MARK} 1\n"]
        done = start
    return "".join([*marked, text[done:]])
