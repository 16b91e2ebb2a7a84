"""Latency hiding for LOADs of the compute unit: merged and moved, while instructions read the same data."""

import numpy as np
import pytest
from random_programs import Choice
from streams_without_tokens import CONFIG, Entries, footprints, reads, stream

from lathe.isa import Gemm, Instruction, Load, MemoryType, Rescale, encode_uops
from lathe.scheduler.schedule_ir.sync import Origin
from lathe.scheduler.stream.hide_compute_loads import hide_compute_loads
from lathe.scheduler.stream.memory_effects import EffectsTracker


@pytest.mark.seeds(12, slow=1548)
def test_instructions_read_the_same_data_after_loads_have_moved(seed):
    entries = stream(Choice(seed))
    moved = hide_compute_loads(entries, footprints(seed))
    assert reads(moved, footprints(seed)) == reads(entries, footprints(seed)), f"seed {seed}"


def uops(sram: int, count: int, dram: int | None = None) -> Load:
    return Load(MemoryType.UOP, sram, sram if dram is None else dram, 1, count, count)


def parameters(sram: int, count: int) -> Load:
    return Load(MemoryType.PAR, sram, 100 + sram, 1, count, count)


def gemm(uop: int, steps: int) -> Gemm:
    return Gemm(uop, uop + 1, steps, 1, 0, 0, 0, 0, 0, 0)


def rescale(uop: int, steps: int = 10) -> Rescale:
    return Rescale(uop, uop + 1, steps, 1, 0, 0, 0, 0)


def rescheduled(*instructions: Instruction) -> list[Instruction]:
    entries: Entries = [(each, Origin(0, str(n))) for n, each in enumerate(instructions)]
    words = encode_uops(CONFIG, np.zeros(64, int), np.zeros(64, int), np.zeros(64, int))
    found = hide_compute_loads(entries, EffectsTracker(CONFIG, words, 16, (4096, 8192)))
    return [each for each, _ in found]  # type: ignore[misc] - no markers


def test_loads_of_contiguous_micro_ops_are_merged():
    assert rescheduled(uops(0, 1), gemm(0, 500), uops(1, 1), gemm(1, 500)) == [uops(0, 2), gemm(0, 500), gemm(1, 500)]


def test_micro_ops_that_are_in_use_are_not_overwritten():
    stream = [uops(0, 1), gemm(0, 500), uops(1, 1), gemm(1, 500), uops(1, 1, 5), gemm(1, 500)]
    assert rescheduled(*stream) == [uops(0, 2), gemm(0, 500), gemm(1, 500), uops(1, 1, 5), gemm(1, 500)]


def test_micro_ops_that_a_short_instruction_runs_are_not_overwritten():
    stream = [uops(0, 2), gemm(0, 500), rescale(1), uops(1, 1, 5), gemm(1, 500)]
    assert rescheduled(*stream) == stream


def test_a_load_moves_before_a_short_instruction_if_a_long_one_hides_it():
    stream = [uops(0, 2), gemm(0, 500), rescale(1), uops(7, 1), gemm(7, 500)]
    assert rescheduled(*stream) == [uops(0, 2), gemm(0, 500), uops(7, 1), rescale(1), gemm(7, 500)]


def test_parameters_that_are_read_later_come_later():
    stream = [uops(0, 3), gemm(2, 10), parameters(0, 2), gemm(0, 500), rescale(1)]
    assert rescheduled(*stream) == [uops(0, 3), gemm(2, 10), gemm(0, 500), parameters(0, 2), rescale(1)]


def test_a_load_that_no_single_instruction_hides_is_split():
    """64 vectors of 128 bytes occupy the bus for 1,024 cycles, and a burst of others may be under way for 256."""
    found = rescheduled(uops(0, 3), parameters(0, 64), gemm(0, 1000), gemm(0, 1000), gemm(0, 1000), rescale(1))
    assert [type(each) for each in found] == [Load, Gemm, Load, Gemm, Load, Gemm, Rescale]
    parts = [each for each in found[1:] if isinstance(each, Load)]
    assert [(each.sram_base, each.x_size) for each in parts] == [(0, 46), (46, 18)]


def test_a_load_whose_data_are_read_soon_is_not_split():
    stream = [uops(0, 3), parameters(0, 64), gemm(0, 1000), rescale(1)]
    assert rescheduled(*stream) == stream


def test_loads_of_tables_do_not_move():
    table = Load(MemoryType.LUT, 0, 0, 1, 256, 256)
    stream = [uops(0, 3), gemm(0, 4000), rescale(1), table, rescale(2)]
    assert rescheduled(*stream) == stream
