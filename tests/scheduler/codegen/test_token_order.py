"""Manual synchronisation in random streams: required orders are enforced, and only deadlocks are refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from random_programs import Choice

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, Gemm, Instruction, Load, MemoryType, Store, Unit, unit_of
from lathe.scheduler import ScheduleError
from lathe.scheduler.schedule_ir.stage import SyncOp
from lathe.scheduler.schedule_ir.sync import QUEUES, Entry, Marker, Origin
from lathe.scheduler.stream.manual_sync import synchronised
from lathe.scheduler.stream.memory_effects import EffectsTracker, MemoryEffects
from lathe.scheduler.stream.tokens import TokenPass

CONFIG = load_config("tiny")


def footprints() -> EffectsTracker:
    return EffectsTracker(CONFIG, np.zeros(4, np.uint32), 4, (4096, 8192))


def instruction(choice: Choice) -> Instruction:
    cell = choice.number(0, 3)
    return choice.pick(
        [
            Load(MemoryType.INP, cell, choice.number(0, 9), 1, 1, 1),
            Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0),
            Gemm(0, 1, 1, choice.number(1, 3), 0, 1, 0, 0, 0, 0, reset=True),
            Alu(AluOp.ADD, 0, 1, 1, choice.number(1, 3), 0, 1, 0, 0, True, 1),
            Store(sram_base=cell, dram_base=1024 + choice.number(0, 3), y_size=1, x_size=1, x_stride=1),
        ]
    )


def marker(kind: str, queue: tuple[Unit, Unit]) -> Marker:
    giver, taker = queue
    if kind == "barrier":
        return Marker(SyncOp("barrier", None), giver, Origin(0))
    own, other = (giver, taker) if kind == "send" else (taker, giver)
    return Marker(SyncOp("send" if kind == "send" else "receive", None, other.name.lower()), own, Origin(0, kind))


def stream(choice: Choice) -> list[Entry]:
    entries: list[Entry] = [instruction(choice) for _ in range(choice.number(2, 9))]
    for _ in range(choice.number(1, 3)):
        queue = choice.pick(list(QUEUES))
        for kind in ("send", "receive") if choice.number(0, 4) else ("barrier",):
            entries.insert(choice.number(0, len(entries)), marker(kind, queue))
    return entries


def conflict(a: MemoryEffects, b: MemoryEffects) -> bool:
    def cells(side: tuple[tuple[str, object], ...]) -> set[tuple[str, int]]:
        return {(memory, int(n)) for memory, each in side for n in np.arange(8192)[each]}

    return bool(
        cells(a.writes) & cells(b.writes) or cells(a.writes) & cells(b.reads) or cells(a.reads) & cells(b.writes)
    )


def edges(entries: list[Entry]) -> set[tuple[int, int]]:
    """All pairs of instructions whose order manual synchronisation fixes."""
    numbered = [(place, each) for place, each in enumerate(entries) if not isinstance(each, Marker)]
    found = footprints()
    touched = [found.of(each) for _, each in numbered]
    result = set()
    for b, (place, later) in enumerate(numbered):
        for a, (earlier_place, earlier) in enumerate(numbered[:b]):
            apart = any(
                isinstance(each, Marker) and each.sync_op.kind == "barrier" for each in entries[earlier_place:place]
            )
            if unit_of(earlier) == unit_of(later) or conflict(touched[a], touched[b]) or apart:
                result.add((a, b))
    for giver, taker in QUEUES:
        sends, receives = (
            [
                place
                for place, each in enumerate(entries)
                if isinstance(each, Marker) and each.sync_op.kind == kind and each.queue == QUEUES[giver, taker]
            ]
            for kind in ("send", "receive")
        )
        for send, receive in zip(sends, receives, strict=True):
            before = [n for n, (place, each) in enumerate(numbered) if place < send and unit_of(each) == giver]
            behind = [n for n, (place, each) in enumerate(numbered) if place > receive and unit_of(each) == taker]
            result |= {(a, b) for a in before for b in behind}
    return result


def is_possible(count: int, needed: set[tuple[int, int]]) -> bool:
    left = set(range(count))
    while left:
        free = {n for n in left if not any(a in left for a, b in needed if b == n)}
        if not free:
            return False
        left -= free
    return True


@pytest.mark.seeds(20, slow=380)
def test_every_wait_is_kept_and_only_deadlocks_are_refused(seed):
    entries = stream(Choice(seed))
    plain = [each for each in entries if not isinstance(each, Marker)]
    needed = edges(entries)
    try:
        steps = synchronised([(each, Origin(0, str(n))) for n, each in enumerate(entries)], footprints)
    except ScheduleError:
        assert not is_possible(len(plain), needed)
        return
    assert is_possible(len(plain), needed)
    tokens = TokenPass[Origin](footprints())
    numbers: list[int] = []
    for step in steps:
        if step.barrier:
            tokens.barrier(step.origin)
        numbers.append(tokens.add(step.instruction, step.origin, [numbers[n] for n in step.waits]))
    names = [str(n) for n, each in enumerate(entries) if not isinstance(each, Marker)]
    place = {step.origin.stage: numbers[n] for n, step in enumerate(steps)}
    at = [place[name] for name in names]
    for a, b in needed:
        assert at[a] < at[b]
        unit, other = unit_of(plain[a]), unit_of(plain[b])
        assert unit == other or tokens.done[at[b]][unit] >= at[a], "no chain of tokens"
    for unit in Unit:
        own = [number for number in at if unit_of(tokens.output[number]) == unit]
        assert all(one < two for one, two in pairwise(own))


def test_a_load_of_what_is_stored_waits_with_what_it_waits_for_anyway():
    """A GEMM that uses the load's cells can also pop the token of the store: nothing waits longer."""
    tokens = TokenPass[str](footprints())
    product = Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    tokens.add(Store(sram_base=3, dram_base=1024, y_size=1, x_size=1, x_stride=1), "")
    for _ in range(3):
        tokens.add(product, "")
    stored = 1024 * CONFIG.out_element_bytes // CONFIG.inp_element_bytes
    tokens.add(Load(MemoryType.INP, 0, stored, 1, 1, 1), "")
    store, *products, load = tokens.output
    assert products == [product, product, replace(product, pop_next=True, push_prev=True)]
    assert store.push_prev
    assert load.pop_next


def test_tokens_of_a_queue_are_taken_in_the_order_in_which_they_are_given():
    """A later GEMM pops the token of an earlier store; the load already waits for an instruction before that GEMM."""
    tokens = TokenPass[str](footprints())

    def store(cell: int, place: int) -> Store:
        return Store(sram_base=cell, dram_base=place, y_size=1, x_size=1, x_stride=1)

    tokens.add(store(2, 1024), "")
    tokens.add(store(3, 1025), "")
    tokens.add(Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0), "")  # reads the cell that is loaded
    tokens.add(Gemm(0, 1, 3, 1, 1, 0, 0, 0, 0, 0, reset=True), "")  # writes what the first store reads
    stored = 1025 * CONFIG.out_element_bytes // CONFIG.inp_element_bytes
    tokens.add(Load(MemoryType.INP, 0, stored, 1, 1, 1), "")
    first, second, reads, resets, nothing, load = tokens.output
    assert [first.push_prev, second.push_prev] == [True, True]
    assert [reads.pop_next, resets.pop_next, nothing.pop_next] == [False, True, True]
    assert load.pop_next
