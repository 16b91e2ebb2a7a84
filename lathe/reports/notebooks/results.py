"""Results in notebooks: cycles by unit and by layer, bytes transferred, and outputs."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lathe.configs.html_repr import html_of
from lathe.cosimulation import Cosimulation
from lathe.cycle_attribution import ACTIVITIES, LabelCycles, cycles_by_label
from lathe.networks.run import LayerRow, NetworkResult
from lathe.reports.markup import Markup, element
from lathe.reports.notebooks.fragments import facts, folded, grouped, hbox, panel, percent, table
from lathe.reports.notebooks.pictures import shares_of, timeline_picture, units_picture
from lathe.sim import Counters, ReplayResult, Result


@html_of.register
def result(value: Result) -> str:
    """A launch: its cycles, and the activity of each unit."""
    parts = [hbox(_summary(value.counters, value.efficiency), _outputs(value.outputs)), *_units(value.counters)]
    if value.trace is not None:
        parts.append(timeline_picture(value.trace, value.cycles))
        parts.append(folded("Cycles for each layer", labels(cycles_by_label(value), value.cycles)))
    parts.append(folded("Bytes moved", _bytes(value.counters)))
    return panel(f"{grouped(value.cycles)} cycles on {value.program.config.name}", *parts)


@html_of.register
def network_result(value: NetworkResult) -> str:
    """A run of a network: its layers, slowest first."""
    on_machine = [each for each in value.layers if each.where == "npu"]
    on_host = [each for each in value.layers if each.where != "npu"]
    slowest = sorted(on_machine, key=lambda each: -each.cycles)
    head = facts([
        ("cycles", value.cycles),
        ("layers on the machine", len(on_machine)),
        ("nodes on the host CPU", len(on_host)),
        ("streams", len(value.results)),
    ])  # fmt: skip
    parts = [hbox(head, _outputs(value.outputs))]
    if value.results:
        parts += [*_units(value.counters), layers(slowest, value.cycles)]
    if on_host:
        parts.append(
            folded("Nodes on the host CPU", table(("node", "why"), [(each.name, each.why) for each in on_host]))
        )
    return panel(f"Network in {grouped(value.cycles)} cycles", *parts)


@html_of.register
def layer_row(value: LayerRow) -> str:
    """One layer of a run."""
    return panel(f"Layer {value.name}", layers([value], value.cycles))


@html_of.register
def label_cycles(value: LabelCycles) -> str:
    """The cycles of one layer."""
    return panel(f"Layer {value.label}", labels([value], None))


@html_of.register
def replay_result(value: ReplayResult) -> str:
    """A launch of a raw stream."""
    changed = f"{grouped(int(value.changed.sum()))} of {grouped(len(value.changed))} pages"
    head = facts([("changed in DRAM", changed), ("tokens afterwards", ", ".join(map(str, value.tokens)))])
    parts = [hbox(_summary(value.counters, None), head), *_units(value.counters)]
    if value.trace is not None:
        parts.append(timeline_picture(value.trace, value.cycles))
    return panel(f"Replay in {grouped(value.cycles)} cycles", *parts)


@html_of.register(Cosimulation)
def cosimulation(value: Cosimulation[Any]) -> str:
    """Whether engines agree, and their first differences."""
    rows = [(engine, each.cycles) for engine, each in value.results.items()]
    parts = [table(("engine", "cycles"), rows)]
    if value.differences:
        parts.append(table(("differences",), [(each,) for each in value.differences]))
    agree = "agree in every bit and every cycle" if value.agree else "differ"
    return panel(f"The engines {agree}", *parts)


def labels(costs: Iterable[LabelCycles], cycles: int | None) -> Markup:
    """A row for each label: busy cycles by activity, and stalls of the compute unit by cause."""
    rows = []
    for cost in costs:
        waits = cost.waiting["compute"]
        compute = cost.busy["gemm"] + cost.busy["alu"] + cost.busy["transfer"] + waits
        share = [percent(compute / cycles)] if cycles else []
        why = shares_of(cost.reasons["compute"], waits)
        rows.append((cost.label, cost.instructions, *(cost.busy[each] for each in ACTIVITIES), waits, *share, why))
    columns = ["layer", "instructions", *ACTIVITIES, "compute waits", *(["share"] if cycles else []), "for"]
    note = "Cycles in which a unit was busy with the layer's instructions; share: of the compute unit's cycles."
    return table(columns, rows, note=note)


def layers(rows: Iterable[LayerRow], cycles: int) -> Markup:
    """A row for each layer of a network on the machine."""
    cells = [
        (each.name, each.cycles, percent(each.cycles / cycles) if cycles else "", each.bound, each.macs, each.bytes)
        for each in rows
    ]
    columns = ("layer", "cycles", "share", "bound", "MACs", "bytes")
    return table(columns, cells, most=20)


def _summary(counters: Counters, efficiency: float | None) -> Markup:
    return facts([
        ("cycles", counters.cycles),
        ("GEMM operations", counters.gemm_operations),
        ("ALU operations", counters.alu_operations),
        ("utilisation", percent(counters.utilisation) if counters.cycles else None),
        ("efficiency", None if efficiency is None else percent(efficiency)),
        ("bytes read", sum(counters.bytes_read.values())),
        ("bytes written", sum(counters.bytes_written.values())),
    ])  # fmt: skip


def _units(counters: Counters) -> list[Markup]:
    rows = [
        (name, unit.instructions, unit.busy, percent(unit.busy / counters.cycles),
         shares_of(unit.stalls, counters.cycles))
        for name, unit in counters.units.items()
        if counters.cycles
    ]  # fmt: skip
    columns = ("unit", "instructions", "busy cycles", "share", "waited for")
    return [units_picture(counters), folded("Units in numbers", table(columns, rows))] if rows else []


def _bytes(counters: Counters) -> Markup:
    moved = [(name, "read", count) for name, count in counters.bytes_read.items() if count]
    moved += [(name, "written", count) for name, count in counters.bytes_written.items() if count]
    return table(("memory", "", "bytes"), moved, left=2)


def _outputs(outputs: Mapping[str, Any]) -> Markup:
    """Name, dtype, shape and value range of each output."""
    rows = []
    for name, each in outputs.items():
        array = np.asarray(each) if not isinstance(each, list) and each is not None else None
        if array is None:
            rows.append((name, type(each).__name__, "", ""))
            continue
        ends = f"{array.min()} to {array.max()}" if array.size and array.dtype.kind in "iufb" else ""
        rows.append((name, str(array.dtype), " × ".join(map(str, array.shape)) or "scalar", ends))
    return table(("output", "dtype", "shape", "values"), rows, left=4) if rows else element("div")
