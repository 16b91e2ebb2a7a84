"""Tables and plain values from the counters of a launch, shared by several commands."""

from collections import Counter
from typing import Any

from rich.table import Table

from lathe.commands.terminal import console, grouped, percent, table
from lathe.configs import HardwareConfig
from lathe.cycle_attribution import ACTIVITIES, UNITS, LabelCycles, cycles_by_label
from lathe.isa import Program
from lathe.sim import Counters, Result

MEMORY_NAMES = {
    "instructions": "instructions",
    "uop": "micro-ops",
    "wgt": "weights (wgt)",
    "inp": "inputs (inp)",
    "acc": "accumulators (acc)",
    "acc8": "accumulators from int8 (acc8)",
    "par": "parameters (par)",
    "lut": "tables (lut)",
    "out": "outputs (out)",
}


LEGEND = (
    "load, gemm, alu, transfer, store: cycles in which a unit was busy with the layer's instructions; transfer: the "
    "LOADs of the compute unit (micro-ops, accumulators, parameters, tables). compute waits: cycles in which that unit "
    "stalled before or in one of them; mostly for: the main cause, an instruction (empty), a token (load->compute, "
    "store->compute), the memory, or the end of running instructions (drain). share of compute: gemm + alu + transfer "
    "+ compute waits, of all cycles of the launch. See docs/timing-model.md."
)
"""The caption of the table of layers, which explains its columns."""

NO_MAP = "Cycles by layer require a trace: simulate with trace=True."


def efficiency_text(efficiency: float | None) -> str:
    """The efficiency of a launch as text."""
    if efficiency is None:
        return "unknown for this program"
    return f"{percent(efficiency)}  (MACs of the algorithm / peak MACs of the machine)"


def counters_dict(machine: HardwareConfig, counters: Counters) -> dict[str, Any]:
    """The counters as plain values, with the machine's name and the utilisation."""
    return {"machine": machine.name, "utilisation": counters.utilisation, **counters.to_dict()}


def result_dict(result: Result) -> dict[str, Any]:
    """The counters of a program, its efficiency, and its cycles by layer (None without a recorded trace)."""
    counters = counters_dict(result.program.config, result.counters)
    layers = None if result.trace is None else labels_dict(cycles_by_label(result))
    return {**counters, "efficiency": result.efficiency, "layers": layers}


def print_result(result: Result) -> None:
    """Print a launch of a program as tables; without a recorded trace a note replaces the cycles by layer."""
    out, counters = console(), result.counters
    out.print(counters_table(counters, result.program))
    out.print()
    if result.trace is None:
        out.print(NO_MAP, soft_wrap=True, markup=False)
    else:
        out.print(labels_table(cycles_by_label(result), result.cycles, 1))
    for each in (units_table(counters), bytes_table(counters)):
        out.print()
        out.print(each)


def counters_table(counters: Counters, program: Program | None = None) -> Table:
    """Cycles and operations of a launch; with ``program`` its efficiency, too."""
    operations = [(f"ALU {name}", count) for name, count in counters.alu_operations_of.items() if count]
    rows = [
        ("cycles", grouped(counters.cycles)),
        ("GEMM operations", f"{grouped(counters.gemm_operations)}  ({percent(counters.utilisation)} of the cycles)"),
        *([("efficiency", efficiency_text(program.efficiency(counters.cycles)))] if program is not None else []),
        ("GEMM resets", grouped(counters.reset_operations)),
        ("ALU operations", grouped(counters.alu_operations)),
        *((f"  {name}", grouped(count)) for name, count in operations),
    ]
    return table("Launch", ["", ""], rows, left=2)


def bytes_table(counters: Counters, launches: int = 1) -> Table:
    """Bytes moved for each memory and direction, and the bus beats for them."""
    rows = [(MEMORY_NAMES[name], "read", grouped(count * launches)) for name, count in counters.bytes_read.items()]
    rows += [
        (MEMORY_NAMES[name], "written", grouped(count * launches)) for name, count in counters.bytes_written.items()
    ]
    beats = counters.read_beats + counters.write_beats
    rows.append(("bus beats", "both", grouped(beats * launches)))
    return table("Bytes transferred between DRAM and the machine", ["memory", "direction", "bytes"], rows, left=2)


def units_table(counters: Counters) -> Table:
    """Busy cycles and stalls of each unit in a launch."""
    rows = []
    for name, unit in counters.units.items():
        waits = sorted(unit.stalls.items(), key=lambda item: -item[1])
        stalls = ", ".join(f"{cause} {percent(cycles / counters.cycles)}" for cause, cycles in waits if cycles)
        rows.append((name, stalls, grouped(unit.instructions), percent(unit.busy / counters.cycles)))
    return table("Units", ["unit", "waited for", "instructions", "busy"], rows, left=2)


def labels_table(costs: list[LabelCycles], cycles: int, images: int) -> Table:
    """Cycles by label and unit, per image if there are several."""
    columns = ["layer", "instructions", "load", "gemm", "alu", "transfer", "store", "compute waits", "mostly for"]
    columns.append("share of compute")
    per = f"per image, mean of {images}" if images > 1 else "per launch"
    made = table(f"The {grouped(cycles)} cycles of a launch by layer ({per})", columns, ())
    made.caption, made.caption_justify = LEGEND, "left"

    def row(name: str, parts: list[LabelCycles], style: str | None = None) -> None:
        busy = {activity: sum(part.busy[activity] for part in parts) for activity in ACTIVITIES}
        waits = sum(part.waiting["compute"] for part in parts)
        compute = busy["gemm"] + busy["alu"] + busy["transfer"] + waits
        made.add_row(
            name,
            grouped(sum(part.instructions for part in parts)),
            *(grouped(round(busy[activity] / images)) for activity in ACTIVITIES),
            grouped(round(waits / images)),
            _main_reason(parts, waits),
            percent(compute / cycles),
            style=style,
        )

    for cost in costs:
        row(cost.label, [cost])
    row("all", costs, style="bold")
    return made


def _main_reason(parts: list[LabelCycles], waits: int) -> str:
    """The main cause of the compute unit's stalls, and its share of them."""
    cycles: Counter[str] = Counter()
    for part in parts:
        cycles.update(part.reasons["compute"])
    return "".join(f"{cause} {percent(count / waits)}" for cause, count in cycles.most_common(1) if waits)


def labels_dict(costs: list[LabelCycles]) -> list[dict[str, Any]]:
    """Cycles by label and unit as plain values, for one launch."""
    return [
        {
            "label": cost.label,
            "instructions": cost.instructions,
            "busy": dict(cost.busy),
            "waiting": {unit: cost.waiting[unit] for unit in UNITS},
            "reasons": {unit: dict(cost.reasons[unit]) for unit in UNITS},
        }
        for cost in costs
    ]
