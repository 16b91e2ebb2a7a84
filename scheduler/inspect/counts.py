"""Static counts of a schedule: instances that each stage executes, and transfers on a machine, without a simulation.

Partitioned loop nests consist of boxes, so the number of instances is a product of extents (``redundant_compute.py``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig
from lathe.configs.html_repr import repr_html
from lathe.frontend.arith.linear import LoopVariable
from lathe.isa import Program
from lathe.isa.table import QUEUE_OF
from lathe.scheduler.compile import lower_and_compile
from lathe.scheduler.inspect.cores import CoreCount, core_counts
from lathe.scheduler.inspect.redundant_compute import Coverage, StageCount
from lathe.scheduler.inspect.traffic import traffic_of
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.loop_ir.nodes import ChunkNode, Loop, Node, SyncNode
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_ir.sync import queue_of, unit_of_stage
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of
from lathe.scheduler.target.target import check_machine


@dataclass(frozen=True)
class BufferCount:
    """A buffer declared by ``store_in``: its memory, its shape in cells, and the number of values ever stored in it.

    ``elements``: vectors of the memory that it takes, with a machine; else 0.
    """

    scope: str
    shape: tuple[int, ...]
    values: int
    elements: int = 0

    @property
    def cells(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Counts:
    """``stages`` by name; ``marked``: iterations of the loops marked ``parallelize`` and ``distribute``.

    ``barriers``, and by queue the tokens ``sent`` and ``received``, are those of manual synchronisation. ``cores``:
    the work of each core, if the iterations of marked loops ran on cores of their own.

    With a machine, ``loaded`` and ``stored`` bytes and the numbers of transfers, ``loads`` and ``stores``, by memory
    type as in the counters of a simulation (``loaded`` includes the instruction stream); ``tokens``: all that are
    pushed, by queue.
    """

    stages: Mapping[str, StageCount]
    marked: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    loaded: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)
    loads: Mapping[str, int] = field(default_factory=dict)
    stores: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, BufferCount] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    barriers: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)
    cores: tuple[CoreCount, ...] = ()

    _repr_html_ = repr_html

    @property
    def executed(self) -> int:
        return sum(each.executed for each in self.stages.values())

    @property
    def redundant(self) -> int:
        return sum(each.redundant for each in self.stages.values())

    @property
    def dram_bytes(self) -> int:
        """Bytes transferred from and to DRAM, with the instruction stream."""
        return sum(self.loaded.values()) + sum(self.stored.values())

    def __str__(self) -> str:
        lines = []
        for name, each in self.stages.items():
            limit = "" if each.exact else "at most "
            counts = f"{each.distinct} distinct, {each.redundant} redundant"
            lines.append(f"{name}: {limit}{each.executed} instances ({counts})")
        for name, buffer in self.buffers.items():
            vectors = f", {buffer.elements} vectors" if buffer.elements else ""
            extents = "×".join(map(str, buffer.shape))
            lines.append(f"buffer {name}: {extents} cells in {buffer.scope}{vectors}, for {buffer.values} values")
        for name, loops in self.marked.items():
            lines += [f"{name}: {loop}, {extent} iterations" for loop, extent in loops.items()]
        lines += list(_lines_of(self.cores))
        for what, sizes, times in (("loaded", self.loaded, self.loads), ("stored", self.stored, self.stores)):
            for memory, size in sizes.items():
                if size:
                    transfers = f" in {times[memory]} transfers" if memory in times else ""
                    lines.append(f"{memory}: {size} bytes {what}{transfers}")
        lines += [f"{queue}: {number} tokens" for queue, number in self.tokens.items() if number]
        if self.barriers:
            lines.append(f"barriers: {self.barriers}")
        for queue in dict.fromkeys((*self.sent, *self.received)):
            sent, received = self.sent.get(queue, 0), self.received.get(queue, 0)
            lines.append(f"{queue}, manual tokens: {sent} sent, {received} received")
        return "\n".join(lines)


def _lines_of(cores: tuple[CoreCount, ...]) -> Iterator[str]:
    """The ranges of the counts over all cores, as text."""
    own = [each for each in cores if each.core]
    for name in dict.fromkeys(name for each in own for name in each.instances):
        counts = sorted(each.instances.get(name, 0) for each in own)
        yield f"each of {len(own)} cores: {name}: {_range(counts[0], counts[-1])} instances"
    moved = sorted(each.dram_bytes for each in own)
    if moved and moved[-1]:
        yield f"each of {len(own)} cores: {_range(moved[0], moved[-1])} bytes of data loaded and stored"


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def count(schedule: ScheduleView, config: HardwareConfig | None = None) -> Counts:
    """Exact counts of a schedule, without running it.

    Instances executed by each stage, how many of them are redundant, and iterations of marked loops are those of the
    user's schedule. With a machine, the schedule is lowered and compiled as ``build`` does, and bytes and transfers are
    those of its instructions, by memory type. A program with symbolic parameters is counted with their typical values;
    ``lathe.bind`` binds others. Raises what ``build`` raises.
    """
    coverage = {stage: Coverage(stage) for stage in schedule.stages}
    signals = _Signals()
    for node in partition(build_nest(schedule, largest_blocks=True)):
        _visit(node, [], coverage)
        signals.visit(node, 1, 1)
    stages = {stage.name: each.result() for stage, each in coverage.items()}
    marked = {mark: loops for mark in ("parallelize", "distribute") if (loops := _marked(schedule, mark))}
    if config is None:
        return Counts(
            stages, marked, buffers=_buffers(schedule, {}), cores=core_counts(schedule, None), **signals.counts
        )
    check_machine(config, "build")
    program = lower_and_compile(schedule, config, {}).program
    buffers, traffic = _buffers(schedule, _vectors(schedule, config)), traffic_of(config, program.instructions)
    cores = core_counts(schedule, config)
    return Counts(stages, marked, *traffic, buffers, _tokens(program), **signals.counts, cores=cores)


def _buffers(schedule: ScheduleView, elements: Mapping[StorageBuffer, int]) -> dict[str, BufferCount]:
    counts: dict[str, BufferCount] = {}
    for buffer, allocated in user_buffers_of(schedule.stages).items():
        values = sum(prod(stage.tensor.shape) for stage in allocated.users)
        counts[buffer.name] = BufferCount(allocated.scope, allocated.shape, values, elements.get(buffer, 0))
    return counts


def _vectors(schedule: ScheduleView, config: HardwareConfig) -> dict[StorageBuffer, int]:
    """Vectors that each user buffer takes in its memory."""
    lowered = run_pipeline(schedule, config)
    known = assign_layouts(lowered, config).layouts
    stored = user_buffers_of(lowered.stages)
    return {buffer: physical_of(each.users[0], known, config).count for buffer, each in stored.items()}


def _visit(node: Node, around: list[tuple[LoopVariable, int, int]], coverage: dict[StageView, Coverage]) -> None:
    if isinstance(node, Loop):
        for inner in node.body:
            _visit(inner, [*around, (node.variable, node.first, node.last)], coverage)
    elif isinstance(node, ChunkNode):
        coverage[node.placement.stage].add(node, around)


class _Signals:
    """Barriers and tokens of manual synchronisation, summed over a nest."""

    def __init__(self) -> None:
        self.barriers = 0
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}

    @property
    def counts(self) -> dict[str, Any]:
        return {"barriers": self.barriers, "sent": self.sent, "received": self.received}

    def visit(self, node: Node, times: int, turns: int) -> None:
        """Add a node; ``times``: how often it is executed; ``turns``: the same with virtual threads counted as one."""
        if isinstance(node, Loop):
            iterations = node.last - node.first + 1
            for inner in node.body:
                self.visit(inner, times * iterations, turns * -(-iterations // node.threads))
        elif isinstance(node, SyncNode):
            if node.signal.kind == "barrier":
                self.barriers += turns
                return
            queue = queue_of(node.signal, unit_of_stage(node.placement.stage)).arrow
            count = self.sent if node.signal.kind == "send" else self.received
            count[queue] = count.get(queue, 0) + times


def _marked(schedule: ScheduleView, mark: str) -> dict[str, int]:
    return {
        f"loop {loop.name} of {stage.name}": loop_extent(stage, loop)
        for stage in schedule.stages
        for loop, each in stage.state.annotations.items()
        if each == mark
    }


def _tokens(program: Program) -> dict[str, int]:
    """The number of tokens pushed, by queue."""
    units = program.columns.unit
    return {
        queue.arrow: int(np.count_nonzero((units == unit) & (program.columns[name] != 0)))
        for (unit, name), queue in QUEUE_OF.items()
        if name.startswith("push")
    }
