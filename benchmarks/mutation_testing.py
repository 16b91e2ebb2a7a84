"""Mutation testing: faults, planted one at a time, and which of several kinds of checks ("nets") catch them.

    python benchmarks/mutation_testing.py [--json] [--kind KIND] [--only TEXT]

A fault changes a few characters of one function, like a programmer's mistake. A net catches it if its comparison
differs. Each fault must be caught by at least one net, or state why it is harmless. Rows have the keys of all
benchmarks and one for each net, with the case on which it caught the fault.

Faults of the simulator are compared with the correct RTL, and faults of the RTL with the correct simulator, on random
streams and compiled programs, on `tiny` with `gemm_begin`. The nets: memory, tokens, cycles, trace (start, end and
cause of each instruction), counters, fault (code and cycle of the machine's fault), bus (the RTL violates AXI4, or does
not terminate), crash (an exception), and values (the outputs of compiled programs against NumPy). The verifier is not a
net, because such faults do not change programs.

Faults of the compiler are tested on 49 programs. The nets are those of `build(..., check=True)`: legality (of the
lowered schedule), refused (an error or assertion of the compiler), verifier, validation (of the instructions, chunk by
chunk), and values (the outputs of three runs).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mutations.compiler import COMPILER
from mutations.fault import Fault, Kind, planted
from mutations.hardware import HARDWARE
from mutations.simulator import SIMULATOR

KINDS: Sequence[Kind] = (COMPILER, SIMULATOR, HARDWARE)
MINUTES = 15

Row = dict[str, Any]


def row(kind: Kind, fault: Fault) -> Row:
    """Plant one fault, and report the nets that catch it."""
    with planted(fault):
        caught = kind.verdicts()
    return {
        "name": f"{kind.name}: {fault.name}",
        "value": len(caught),
        "unit": "nets",
        "target": "" if fault.harmless else ">= 1",
        "met": None if fault.harmless and not caught else bool(caught) and not fault.harmless,
        "part": fault.unit,
        "harmless": fault.harmless,
        **{net: caught.get(net, "") for net in kind.nets},
    }


def rows(kinds: Sequence[Kind], only: str) -> Iterator[Row]:
    """The rows of all faults, with a summary of each kind."""
    for kind in kinds:
        start = process_time()
        without = kind.verdicts()  # also fills the caches that all verdicts share, before any fault is planted
        yield {
            "name": f"{kind.name}: no fault",
            "value": len(without),
            "unit": "nets",
            "target": "<= 0",
            "met": not without,
            **{net: without.get(net, "") for net in kind.nets},
        }
        found = []
        for fault in kind.faults:
            if only in fault.name:
                found.append(row(kind, fault))
                yield found[-1]
        harmful = [each for each in found if not each["harmless"]]
        missed = sum(not each["value"] for each in harmful)
        yield figure(f"{kind.name}: kinds of fault", len(harmful), "faults", "", None)
        for net in kind.nets:
            yield figure(f"{kind.name}: caught by {net}", sum(bool(each[net]) for each in found), "faults", "", None)
        yield figure(f"{kind.name}: caught by no net", missed, "faults", "<= 0", missed == 0)
        yield figure(f"{kind.name}: processor time", round(process_time() - start, 1), "s", "", None)


def figure(name: str, value: float, unit: str, target: str, met: bool | None) -> Row:
    """A row of the summary."""
    return {"name": name, "value": value, "unit": unit, "target": target, "met": met}


def line(row: Row, width: int) -> str:
    """A row as text."""
    verdict = {True: "met", False: "MISSED", None: ""}[row["met"]]
    nets = [f"{net} ({on})" for net, on in row.items() if net not in FIXED and on]
    if row.get("harmless"):
        nets.append(f"harmless: {row['harmless']}")
    return (
        f"{row['name']:{width}}  {row['value']:>6g} {row['unit']:<6} {row['target']:>6} {verdict:6}  {', '.join(nets)}"
    )


FIXED = ("name", "value", "unit", "target", "met", "part", "harmless")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a list of rows")
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS], help="only faults of this kind")
    parser.add_argument("--only", default="", help="only faults whose names have this text")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.kind in (None, kind.name)]
    width = max(len(kind.name) + len(fault.name) for kind in kinds for fault in kind.faults) + 2
    found = []
    for each in rows(kinds, options.only):
        found.append(each)
        if not options.json:
            print(line(each, width), flush=True)
    minutes = process_time() / 60
    found.append(figure("processor time of all", round(minutes, 2), "min", f"<= {MINUTES}", minutes <= MINUTES))
    print(json.dumps(found, indent=2) if options.json else line(found[-1], width))
    sys.exit(any(each["met"] is False for each in found))


if __name__ == "__main__":
    main()
