"""What a schedule executes, counted before anything runs: instances of each stage, and transfers of a machine.

Partitioned nests are boxes, so instances are products of extents (``coverage``).
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
from lathe.scheduler.compile import compiled
from lathe.scheduler.inspect.cores import CoreCount, core_counts
from lathe.scheduler.inspect.redundant_compute import Coverage, StageCount
from lathe.scheduler.inspect.traffic import traffic_of
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.loop_ir.nodes import ChunkNode, Loop, Node, SignalNode
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_ir.sync import queue_of, unit_of_stage
from lathe.scheduler.schedule_ir.user_buffers import storages_of
from lathe.scheduler.target.machine import check_machine


@dataclass(frozen=True)
class BufferCount:
    """A buffer that ``store_in`` names: its memory, its shape in cells, and how many values are ever stored in these.

    ``elements`` of the memory, with a machine; 0 without one.
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
    """``stages`` by name; ``marked``: how many iterations the loops marked ``parallelize`` and ``distribute`` have.

    ``barriers``, and by queue the tokens that are ``sent`` and ``received``, are those by hand. ``cores``: what each
    iteration of the marked loops has to do, on a core of its own.

    With a machine, ``loaded`` and ``stored`` bytes, and ``loads`` and ``stores``: how many transfers, each by memory
    type, as the counters of a simulation name them (``loaded`` has the instruction stream, too); ``tokens`` are all
    that are pushed, by queue.
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
        """Bytes that cross the border to DRAM, with the instruction stream."""
        return sum(self.loaded.values()) + sum(self.stored.values())

    def __str__(self) -> str:
        lines = []
        for name, each in self.stages.items():
            limit = "" if each.exact else "at most "
            lines.append(f"{name}: {limit}{each.executed} instances ({each.distinct} once, {each.redundant} again)")
        for name, buffer in self.buffers.items():
            elements = f", {buffer.elements} elements" if buffer.elements else ""
            extents = "×".join(map(str, buffer.shape))
            lines.append(f"buffer {name}: {extents} cells in {buffer.scope}{elements}, for {buffer.values} values")
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
            lines.append(f"{queue} by hand: {self.sent.get(queue, 0)} sent, {self.received.get(queue, 0)} received")
        return "\n".join(lines)


def _lines_of(cores: tuple[CoreCount, ...]) -> Iterator[str]:
    """How much the cores have to do, from the least to the most."""
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
    """Exact numbers of a schedule, before running it.

    Instances executed by each stage, how many of them are there again, and iterations of marked loops, all of the
    schedule as it was given. With a machine, the schedule is completed and compiled as ``build`` does, and bytes and
    transfers are those of its instructions, class by class. A program whose parameters are open is counted with typical
    values; ``lathe.bind`` gives it others. Raises what ``build`` raises.
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
    program = compiled(schedule, config, {}).program
    buffers, traffic = _buffers(schedule, _elements(schedule, config)), traffic_of(config, program.instructions)
    cores = core_counts(schedule, config)
    return Counts(stages, marked, *traffic, buffers, _tokens(program), **signals.counts, cores=cores)


def _buffers(schedule: ScheduleView, elements: Mapping[StorageBuffer, int]) -> dict[str, BufferCount]:
    found: dict[str, BufferCount] = {}
    for buffer, allocated in storages_of(schedule.stages).items():
        values = sum(prod(stage.tensor.shape) for stage in allocated.users)
        found[buffer.name] = BufferCount(allocated.scope, allocated.shape, values, elements.get(buffer, 0))
    return found


def _elements(schedule: ScheduleView, config: HardwareConfig) -> dict[StorageBuffer, int]:
    """Elements of each buffer that stages are stored in, as the machine allocates them."""
    whole = run_pipeline(schedule, config)
    known = assign_layouts(whole, config).known
    stored = storages_of(whole.stages)
    return {buffer: physical_of(each.users[0], known, config).count for buffer, each in stored.items()}


def _visit(node: Node, around: list[tuple[LoopVariable, int, int]], coverage: dict[StageView, Coverage]) -> None:
    if isinstance(node, Loop):
        for inner in node.body:
            _visit(inner, [*around, (node.variable, node.first, node.last)], coverage)
    elif isinstance(node, ChunkNode):
        coverage[node.placement.stage].add(node, around)


class _Signals:
    """Barriers and tokens by hand, summed over a nest."""

    def __init__(self) -> None:
        self.barriers = 0
        self.sent: dict[str, int] = {}
        self.received: dict[str, int] = {}

    @property
    def counts(self) -> dict[str, Any]:
        return {"barriers": self.barriers, "sent": self.sent, "received": self.received}

    def visit(self, node: Node, times: int, turns: int) -> None:
        """``times`` and ``turns``: how often a node is carried out, and how often if once for all threads."""
        if isinstance(node, Loop):
            iterations = node.last - node.first + 1
            for inner in node.body:
                self.visit(inner, times * iterations, turns * -(-iterations // node.threads))
        elif isinstance(node, SignalNode):
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
    """Tokens that are pushed, by queue."""
    units = program.columns.unit
    return {
        queue.arrow: int(np.count_nonzero((units == unit) & (program.columns[name] != 0)))
        for (unit, name), queue in QUEUE_OF.items()
        if name.startswith("push")
    }
