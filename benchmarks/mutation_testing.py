"""Faults, planted one at a time, and which of the nets catches them.

    python benchmarks/mutation_testing.py [--json] [--kind KIND] [--only TEXT]

A fault is a change of a few characters in one function, as a mistake of a programmer would be. While it is there, what
the tests look at is looked at: a net has caught it when something differs. Each fault must be caught by one net at
least, or say why it does no harm. Rows have the keys of every benchmark's and one for each net, with what it caught the
fault on.

Faults of the simulator meet the RTL as it should be, and faults of the RTL the simulator, on random streams and on
compiled programs, on `tiny` with sums that begin. The nets: memory, tokens, cycles, trace (start, end and cause of each
instruction), counters, fault (code and cycle of the machine's fault), bus (the RTL broke a rule of AXI4, or never
ends), crash (an exception), and values (the outputs of compiled programs against NumPy). The verifier looks at
programs, which such faults leave as they are.

Faults of the compiler meet 49 programs that it builds. The nets are those of `build(..., check=True)`: legality
(of the completed schedule), refused (an error or assertion of the compiler's own), verifier, validation (of the
instructions, chunk by chunk), and values (the outputs of three runs).
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
    """What becomes of one fault."""
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
    """The rows of all faults, and those that sum up each kind."""
    for kind in kinds:
        begun = process_time()
        without = kind.verdicts()  # also makes all that the faults' verdicts share, before anything is broken
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
        yield figure(f"{kind.name}: processor time", round(process_time() - begun, 1), "s", "", None)


def figure(name: str, value: float, unit: str, target: str, met: bool | None) -> Row:
    """A row of numbers."""
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
