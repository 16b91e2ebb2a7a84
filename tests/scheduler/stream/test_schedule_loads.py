"""List scheduling of LOADs: instructions still read the same data, and stall for fewer cycles."""

import pytest
from random_programs import Choice
from streams_without_tokens import CONFIG, Entries, footprints, reads, stream

from lathe.isa import Gemm, Load, MemoryType, Store, encode_uops
from lathe.scheduler.schedule_ir.sync import Origin
from lathe.scheduler.stream import schedule_loads
from lathe.scheduler.stream.memory_effects import EffectsTracker
from lathe.scheduler.stream.schedule_loads import schedule_loads as reorder_loads


@pytest.mark.seeds(12, slow=1548)
def test_instructions_read_the_same_data_after_loads_have_moved(seed, monkeypatch):
    monkeypatch.setattr(schedule_loads, "MIN_SAVING", -(10**9))  # reorder even if nothing is gained
    monkeypatch.setattr(schedule_loads, "MIN_BEATS", 16)
    entries = stream(Choice(seed))
    moved = reorder_loads(entries, footprints(seed))
    assert reads(moved, footprints(seed)) == reads(entries, footprints(seed)), f"seed {seed}"


def load(memory: MemoryType, sram: int, dram: int, count: int) -> Load:
    return Load(memory, sram, dram, 1, count, count)


def gemm(uop: int, steps: int = 4000) -> Gemm:
    return Gemm(uop, uop + 1, steps, 1, 0, 0, 0, 0, 0, 0)


def numbered(instructions: list[Load | Gemm | Store]) -> Entries:
    return [(each, Origin(0, str(n), chunk=n)) for n, each in enumerate(instructions)]


def of_uops(*operands: tuple[int, int]) -> EffectsTracker:
    """A tracker of micro-ops with these addresses in inp and wgt."""
    src, wgt = zip(*operands, strict=True)
    return EffectsTracker(CONFIG, encode_uops(CONFIG, 0, src, wgt), 16, (4096, 8192))


def test_weights_are_loaded_before_inputs_that_wait():
    """Double-buffered inputs; the weights of the third GEMM are loaded while the first is computed."""
    data = [load(MemoryType.INP, n % 2, n, 1) for n in range(3)]
    first, weights = load(MemoryType.WGT, 0, 0, 1), load(MemoryType.WGT, 100, 50, 200)
    instructions = [load(MemoryType.UOP, 0, 0, 3), first, data[0], gemm(0), data[1], gemm(1), data[2], weights, gemm(2)]
    found = [each for each, _ in reorder_loads(numbered(instructions), of_uops((0, 0), (1, 0), (0, 100)))]
    gemms = [found.index(gemm(n)) for n in range(3)]
    before = [each for each in found[: gemms[0]] if isinstance(each, Load) and each != instructions[0]]
    assert before[:3] == [first, data[0], data[1]]
    assert [(each.memory_type, each.sram_base) for each in before[3:]] == [(MemoryType.WGT, 100)]
    after = [each for each in found[gemms[0] : gemms[1]] if isinstance(each, Load)]
    assert after[0] == data[2]  # overwrites the vector that the first GEMM reads
    assert before[3].x_size + sum(each.x_size for each in after[1:]) == 200


def test_a_stream_that_no_order_improves_is_unchanged():
    instructions = [
        load(MemoryType.UOP, 0, 0, 1),
        load(MemoryType.WGT, 0, 0, 1),
        load(MemoryType.INP, 0, 0, 1),
        gemm(0),
    ]
    entries = numbered(instructions)
    assert reorder_loads(entries, of_uops((0, 0))) is entries
