"""Micro-ops that have a place of their own are loaded before anything else, in as few instructions as possible.

A LOAD of micro-ops is written when the compute unit is drained, and waits for the memory behind all that the load unit
has asked for. Where its cells hold nothing before, it may as well be the first instruction of the stream: nothing is
there to be drained, and the bus is free.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from lathe.isa import Load
from lathe.isa.instructions import loads_micro_ops
from lathe.scheduler.isel.rules.padding import MOST
from lathe.scheduler.schedule_ir.sync import Entry

Label = TypeVar("Label")


def preload_microops(instructions: Sequence[Entry], labels: Sequence[Label]) -> tuple[list[Entry], list[Label]]:
    """The stream with those LOADs of micro-ops first that overwrite none, neighbours merged; and its labels."""
    first = _first_loads(instructions)
    moved = [(instructions[n], labels[n]) for n in first]
    early = list(_merged(moved))
    gone = set(first)
    rest = ((each, label) for n, (each, label) in enumerate(zip(instructions, labels, strict=True)) if n not in gone)
    stream = list(chain(early, rest))
    return [each for each, _ in stream], [label for _, label in stream]


def _first_loads(instructions: Sequence[Entry]) -> list[int]:
    """The places of the LOADs of micro-ops before the first that overwrites others."""
    found: list[int] = []
    taken: list[range] = []
    for number, each in enumerate(instructions):
        if not loads_micro_ops(each):
            continue
        cells = range(each.sram_base, each.sram_base + each.x_size)
        if each.y_size != 1 or any(cells.start < other.stop and other.start < cells.stop for other in taken):
            break
        found.append(number)
        taken.append(cells)
    return found


def _merged(loads: Sequence[tuple[Entry, Label]]) -> Iterator[tuple[Entry, Label]]:
    """LOADs that continue each other in both memories made one, with the label of the first."""
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
