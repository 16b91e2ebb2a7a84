"""Programs that points of one sweep share: machines that differ only in the memory behind their bus.

Bus and latency change no instruction's meaning, so that a program of one machine runs as it is on another. Under
``schedules: shared`` a workload is compiled once for each rest of a machine, for the slowest and for the quickest
memory of the sweep; each point runs both, and takes the quicker. Under ``schedules: each`` it is compiled for every
point, as ``lt.build`` does.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import replace

from lathe.configs import HardwareConfig, LatheError, MemoryConfig
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import NpuStep
from lathe.sweeps.machines import Machine, changed
from lathe.sweeps.specification import Axis, Grid, Sweep
from lathe.sweeps.workload_types import Compiled, Measurable

MOST_LOOKED_AT = 4096
"""Combinations of a sweep's memories that are looked at for the slowest and the quickest."""
KEPT = 4
"""Families whose programs a process holds."""


def retimed(program: Compiled, machine: HardwareConfig) -> Compiled:
    """The same instructions on a machine that differs from the program's in its memory alone."""
    assert replace(program.config, memory=machine.memory) == machine, "instructions fit one machine but for its memory"
    if not isinstance(program, NetworkProgram):
        return replace(program, config=machine)
    steps = tuple(
        replace(step, program=replace(step.program, config=machine)) if isinstance(step, NpuStep) else step
        for step in program.steps
    )
    return replace(program, config=machine, steps=steps)


def memories_of(sweep: Sweep) -> tuple[MemoryConfig, ...]:
    """The slowest and the quickest memory of a sweep, or its only one; none where no machine of it exists."""
    keys = ("memory.", "dram", "clock_mhz")
    axes = [axis if any(key.startswith(keys) for key in axis.keys) else _first(axis) for axis in sweep.machine.axes]
    grid = Grid(tuple(axes))
    found = set()
    for place in range(min(grid.count, MOST_LOOKED_AT)):
        for base in sweep.bases:
            try:
                found.add(_memory_alone(base, grid.at(place)))
            except LatheError:
                continue
    ordered = sorted(found, key=_speed)
    return tuple(dict.fromkeys((ordered[0], ordered[-1]))) if ordered else ()


def _first(axis: Axis) -> Axis:
    return Axis(axis.keys, axis.steps[:1])


def _memory_alone(base: str, changes: dict[str, object]) -> MemoryConfig:
    """The memory of a point, also where the rest makes no machine."""
    keys = ("memory.", "dram", "clock_mhz")
    return changed(base, {key: value for key, value in changes.items() if key.startswith(keys)}).config.memory


def _speed(memory: MemoryConfig) -> tuple[float, ...]:
    return (memory.bus_bits / memory.cycles_per_beat, -memory.latency, memory.outstanding_reads, memory.burst_beats)


class Shared:
    """Programs by family, those used last: what a process holds between points."""

    def __init__(self) -> None:
        self.held: OrderedDict[Hashable, list[Compiled]] = OrderedDict()

    def programs(
        self, key: Hashable, work: Measurable, machine: Machine, memories: Iterable[MemoryConfig], budget: int = 1
    ) -> list[Compiled]:
        """The programs of a family, on the point's machine. Raises LatheError where none can be made."""
        if key not in self.held:
            self.held[key] = _compiled(work, machine, memories, budget)
            while len(self.held) > KEPT:
                self.held.popitem(last=False)
        self.held.move_to_end(key)
        return [retimed(program, machine.config) for program in self.held[key]]


def _compiled(work: Measurable, machine: Machine, memories: Iterable[MemoryConfig], budget: int) -> list[Compiled]:
    found: list[Compiled] = []
    refused: LatheError | None = None
    for memory in memories:
        try:
            found.append(work.compiled(machine.with_memory(memory), budget))
        except LatheError as error:
            refused = refused or error
    if not found:
        assert refused is not None, "a sweep has memories"
        raise refused
    return found
