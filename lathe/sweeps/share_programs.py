"""Shares programs between points of a sweep whose machines differ only in their memory.

Bus width and latency do not change the meaning of instructions, so a program compiled for one such machine runs on the
others. With ``schedules: shared`` a workload is compiled for a machine with the slowest and with the fastest memory of
the sweep; each point simulates both programs and takes the faster one. With ``schedules: each`` it is compiled for
every point, as by ``lt.build``.
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

MOST_COMBINATIONS = 4096
"""The maximum number of memories of a sweep among which the slowest and the fastest are determined."""
MOST_FAMILIES = 4
"""The number of families whose programs a process caches."""


def retimed(program: Compiled, machine: HardwareConfig) -> Compiled:
    """The program for a machine that differs from its own only in the memory; instructions are unchanged."""
    assert replace(program.config, memory=machine.memory) == machine, "the machines differ in more than their memory"
    if not isinstance(program, NetworkProgram):
        return replace(program, config=machine)
    steps = tuple(
        replace(step, program=replace(step.program, config=machine)) if isinstance(step, NpuStep) else step
        for step in program.steps
    )
    return replace(program, config=machine, steps=steps)


def memories_of(sweep: Sweep) -> tuple[MemoryConfig, ...]:
    """The slowest and the fastest memory of a sweep, or its only one; () if no machine is valid."""
    keys = ("memory.", "dram", "clock_mhz")
    axes = [axis if any(key.startswith(keys) for key in axis.keys) else _first(axis) for axis in sweep.machine.axes]
    grid = Grid(tuple(axes))
    memories = set()
    for index in range(min(grid.count, MOST_COMBINATIONS)):
        for base in sweep.bases:
            try:
                memories.add(_memory_alone(base, grid.at(index)))
            except LatheError:
                continue
    ordered = sorted(memories, key=_speed)
    return tuple(dict.fromkeys((ordered[0], ordered[-1]))) if ordered else ()


def _first(axis: Axis) -> Axis:
    return Axis(axis.keys, axis.steps[:1])


def _memory_alone(base: str, changes: dict[str, object]) -> MemoryConfig:
    """The memory of a point, even if its other parameters are invalid."""
    keys = ("memory.", "dram", "clock_mhz")
    return changed(base, {key: value for key, value in changes.items() if key.startswith(keys)}).config.memory


def _speed(memory: MemoryConfig) -> tuple[float, ...]:
    return (memory.bus_bits / memory.cycles_per_beat, -memory.latency, memory.outstanding_reads, memory.burst_beats)


class SharedPrograms:
    """An LRU cache of compiled programs by family, which a process keeps between points."""

    def __init__(self) -> None:
        self.cached: OrderedDict[Hashable, list[Compiled]] = OrderedDict()

    def programs(
        self, key: Hashable, work: Measurable, machine: Machine, memories: Iterable[MemoryConfig], budget: int = 1
    ) -> list[Compiled]:
        """The programs of a family, for the point's machine. Raises LatheError if none can be compiled."""
        if key not in self.cached:
            self.cached[key] = _compiled(work, machine, memories, budget)
            while len(self.cached) > MOST_FAMILIES:
                self.cached.popitem(last=False)
        self.cached.move_to_end(key)
        return [retimed(program, machine.config) for program in self.cached[key]]


def _compiled(work: Measurable, machine: Machine, memories: Iterable[MemoryConfig], budget: int) -> list[Compiled]:
    programs: list[Compiled] = []
    refused: LatheError | None = None
    for memory in memories:
        try:
            programs.append(work.compiled(machine.with_memory(memory), budget))
        except LatheError as error:
            refused = refused or error
    if not programs:
        assert refused is not None, "a sweep must have memories"
        raise refused
    return programs
