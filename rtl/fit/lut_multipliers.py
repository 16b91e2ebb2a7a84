"""Products made of LUTs, where a device has fewer multipliers than a machine multiplies.

ECP5's multipliers take 18 bits; the products of the matrix core have 8. Yosys puts every product of more than a few
bits into a multiplier; those that are marked here it makes of LUTs before (its pass ``booth``), the smallest first.
"""

import json
import re

MULTIPLIER = "MULT18X18D"
MARK = "lathe_of_luts"
TO_LUTS = f"proc; booth a:{MARK}=1"
"""The commands of Yosys that make marked products of LUTs; they come before all others."""

_PRODUCT = re.compile(r"^  cell \$mul \S+\n(?:    .*\n)*?  end$", re.MULTILINE)
_WIDTH = re.compile(r"parameter \\[AB]_WIDTH (\d+)")
# What the pass takes: less than this, Yosys makes of LUTs in any case.
_LEAST = 4


def multipliers_of(netlist: str) -> int:
    """The multipliers of a netlist, as Yosys writes it in JSON, whose one module holds all cells."""
    modules = json.loads(netlist)["modules"].values()
    return sum(cell["type"] == MULTIPLIER for module in modules for cell in module["cells"].values())


def with_products_of_luts(text: str, count: int) -> str:
    """A design in Yosys's language with ``count`` products marked, or as many as there are, the smallest first."""
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
