"""Hoisting of LOADs of micro-ops to the beginning of the stream, merged into as few instructions as possible.

A LOAD of micro-ops drains the compute unit, and its request queues after all those of the load unit. A LOAD that
overwrites no micro-ops may come first in the stream: nothing has to drain there, and the bus is idle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from lathe.isa import Load
from lathe.isa.instructions import loads_micro_ops
from lathe.scheduler.isel.rules.load_padding import MOST
from lathe.scheduler.schedule_ir.sync import Entry

Label = TypeVar("Label")


def hoist_uop_loads(instructions: Sequence[Entry], labels: Sequence[Label]) -> tuple[list[Entry], list[Label]]:
    """The stream with the LOADs of micro-ops before the first that overwrites others hoisted and merged; its labels."""
    hoisted = _first_loads(instructions)
    loads = list(_merged([(instructions[n], labels[n]) for n in hoisted]))
    moved = set(hoisted)
    rest = ((each, label) for n, (each, label) in enumerate(zip(instructions, labels, strict=True)) if n not in moved)
    stream = list(chain(loads, rest))
    return [each for each, _ in stream], [label for _, label in stream]


def _first_loads(instructions: Sequence[Entry]) -> list[int]:
    """The positions of the LOADs of micro-ops before the first that overwrites others."""
    positions: list[int] = []
    taken: list[range] = []
    for number, each in enumerate(instructions):
        if not loads_micro_ops(each):
            continue
        cells = range(each.sram_base, each.sram_base + each.x_size)
        if each.y_size != 1 or any(cells.start < other.stop and other.start < cells.stop for other in taken):
            break
        positions.append(number)
        taken.append(cells)
    return positions


def _merged(loads: Sequence[tuple[Entry, Label]]) -> Iterator[tuple[Entry, Label]]:
    """The loads, merged where one continues the one before in both memories, with the label of the first."""
    pending: tuple[Load, Label] | None = None
    for load, label in loads:
        assert isinstance(load, Load)
        if pending is not None:
            before = pending[0]
            size = before.x_size + load.x_size
            joins = load.sram_base - before.sram_base == load.dram_base - before.dram_base == before.x_size
            if joins and size <= MOST:
                pending = replace(before, x_size=size, x_stride=size), pending[1]
                continue
            yield pending
        pending = load, label
    if pending is not None:
        yield pending
