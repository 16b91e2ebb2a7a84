"""Work per core if each iteration of loops marked ``parallelize`` or ``distribute`` ran on a core of its own.

The machine has one core, which runs these iterations in sequence. The counts predict several cores without a
simulation: the instances that each executes and the bytes that it moves, with the halos that several cores load.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.frontend.arith.linear import LoopVariable
from lathe.isa import Instruction, Load, MemoryType
from lathe.scheduler.compile import lower_and_compile
from lathe.scheduler.errors import BuildError, CapacityError, EmitError
from lathe.scheduler.inspect.redundant_compute import Coverage
from lathe.scheduler.inspect.traffic import OF_PROGRAM, traffic_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.nodes import ChunkNode, Loop, Node
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import ACROSS_CORES

Core = tuple[int, ...]
Ranges = list[tuple[LoopVariable, int, int]]


@dataclass(frozen=True)
class CoreCount:
    """Counts of one core; ``core``: its iterations of the marked loops, outermost first; () outside of such loops.

    ``instances`` by stage. With a machine, ``loaded`` and ``stored`` bytes and the numbers of transfers, ``loads`` and
    ``stores``, by memory type, without micro-ops and instructions, which every core would load.
    """

    core: Core
    instances: Mapping[str, int]
    loaded: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)
    loads: Mapping[str, int] = field(default_factory=dict)
    stores: Mapping[str, int] = field(default_factory=dict)

    @property
    def dram_bytes(self) -> int:
        """Bytes of data transferred from and to DRAM."""
        return sum(self.loaded.values()) + sum(self.stored.values())


def core_counts(schedule: ScheduleView, config: HardwareConfig | None) -> tuple[CoreCount, ...]:
    """The counts of all cores in order, and of stages outside of marked loops; () if no loop is marked.

    Marked loops are kept outside of instructions for this count. If the machine cannot do that, transfers are left out.
    """
    if not any(mark in ACROSS_CORES for stage in schedule.stages for mark in stage.state.annotations.values()):
        return ()
    outside = _with_loops_outside(schedule)
    instances = _instances(outside)
    traffic: Mapping[Core, tuple[dict[str, int], ...]] = {}
    if config is not None:
        try:
            traffic = _traffic(outside, config)
        except (EmitError, CapacityError, BuildError):
            traffic = {}
    return tuple(
        CoreCount(core, instances.get(core, {}), *traffic.get(core, ())) for core in sorted({*instances, *traffic})
    )


def _with_loops_outside(schedule: ScheduleView) -> ScheduleView:
    """A copy of a schedule whose marked loops are kept outside of instructions, as virtual threads of one iteration."""
    copy = Edit(schedule.state)
    for stage in copy.stages:
        marked = {loop: 1 for loop, mark in stage.state.annotations.items() if mark in ACROSS_CORES}
        stage.change(threads=MappingProxyType({**marked, **stage.state.threads}))
    return copy


def _instances(schedule: ScheduleView) -> dict[Core, dict[str, int]]:
    counts: dict[Core, dict[StageView, Coverage]] = {}
    for core, node, around in _chunks(partition(build_nest(schedule, largest_blocks=True)), [], []):
        coverage = counts.setdefault(core, {})
        stage = node.placement.stage
        if stage not in coverage:
            coverage[stage] = Coverage(stage)
        coverage[stage].add(node, around)
    return {
        core: {stage.name: coverage[stage].executed for stage in schedule.stages if stage in coverage}
        for core, coverage in counts.items()
    }


def _chunks(nodes: Sequence[Node], around: Ranges, marked: list[int]) -> Iterator[tuple[Core, ChunkNode, Ranges]]:
    """Each chunk of a nest with its enclosing loops, once per core."""
    for node in nodes:
        if isinstance(node, Loop):
            own_mark = [len(around)] if node.across_cores else []
            yield from _chunks(node.body, [*around, (node.variable, node.first, node.last)], [*marked, *own_mark])
        elif isinstance(node, ChunkNode):
            for core in product(*(range(around[n][1], around[n][2] + 1) for n in marked)):
                own = list(around)
                for n, value in zip(marked, core, strict=True):
                    own[n] = (around[n][0], value, value)
                yield core, node, own


def _traffic(schedule: ScheduleView, config: HardwareConfig) -> dict[Core, tuple[dict[str, int], ...]]:
    lowered = lower_and_compile(schedule, config, {})
    of_core: dict[Core, list[Instruction]] = {}
    for each, origin in zip(lowered.program.instructions, lowered.origins, strict=True):
        if not isinstance(each, Load) or each.memory_type != MemoryType.UOP:
            of_core.setdefault(origin.core, []).append(each)
    counted: dict[Core, tuple[dict[str, int], ...]] = {}
    for core, instructions in of_core.items():
        loaded, stored, loads, stores = traffic_of(config, instructions)
        if sum(loads.values()) + sum(stores.values()):
            own = ({name: count for name, count in each.items() if name not in OF_PROGRAM} for each in (loaded, loads))
            loaded, loads = own
            counted[core] = (loaded, stored, loads, stores)
    return counted
