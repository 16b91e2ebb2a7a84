"""Scheduling of the prologue: loads are sorted by first use, and nothing else changes."""

from collections import Counter

import numpy as np
import pytest
from small_machine import VTA, run

import lathe as lt
from lathe.isa import Instruction, Load, MemoryType
from lathe.isa.table import MEMORIES
from lathe.scheduler import create_schedule
from lathe.scheduler.codegen import driver


def convolution(channels: int = 64) -> tuple[lt.Tensor, dict[str, np.ndarray]]:
    generator = np.random.default_rng(5)
    inputs = {
        "data": generator.integers(-128, 128, (1, 14, 14, channels), np.int8),
        "weights": generator.integers(-128, 128, (64, 3, 3, channels), np.int8),
    }
    data, weights = (lt.placeholder(each.shape, "int8", name=name) for name, each in inputs.items())
    return lt.requantise(lt.conv2d(data, weights, padding=1, name="conv"), 8, name="output"), inputs


@pytest.fixture
def sliced() -> tuple[lt.Schedule, dict[str, np.ndarray]]:
    """A schedule that loads all weights before the loop over four slices of the input channels that uses them."""
    output, inputs = convolution()
    conv = output.computation.reads[0].tensor
    s = create_schedule(output)
    made = s.cache_write(output, "acc")
    s.cache_read(conv.computation.reads[1].tensor, "wgt", [conv])
    s[conv].set_scope("acc")
    outer, _ = s[output].split(s[output].axis[1], factor=7)
    for tensor in (made, conv):
        s[tensor].compute_at(s[output], outer)
    part, inner = s[conv].split("rc", factor=16)
    s[conv].reorder(part, *s[conv].axis, "ry", "rx", inner)
    padded = conv.computation.reads[0].tensor
    s[padded].set_scope("inp")
    s[padded].compute_at(s[conv], part)
    return s, inputs


def vector_copies(instructions: list[Instruction], memory: MemoryType) -> Counter[tuple[int, int]]:
    """Pairs of addresses in scratchpad and DRAM that LOADs of a memory copy, without padding."""
    found: Counter[tuple[int, int]] = Counter()
    for each in instructions:
        if isinstance(each, Load) and each.memory_type == memory:
            rows = each.x_pad_0 + each.x_size + each.x_pad_1
            for y, x in np.ndindex(each.y_size, each.x_size):
                sram = each.sram_base + (each.y_pad_0 + y) * rows + each.x_pad_0 + x
                found[sram, each.dram_base + y * each.x_stride + x] += 1
    return found


def test_weights_of_later_slices_come_after_the_data_of_the_first(sliced):
    s, inputs = sliced
    program = run(s, VTA, inputs)
    unit = [
        each.memory_type
        for each in program.instructions
        if isinstance(each, Load) and MEMORIES[each.memory_type].scratchpad in ("inp", "wgt")
    ]
    first_data = unit.index(MemoryType.INP)
    later = [number for number, each in enumerate(unit) if each is MemoryType.WGT and number > first_data]
    assert first_data == 8, "the two taps that the first GEMM reads, for each of four blocks of output channels"
    slices = "the other taps of the first slice of input channels, and all taps of three more slices"
    assert len(later) == 4 * 4 + 4 * 3 * 2, slices
    assert later[0] == first_data + 1


def test_the_same_vectors_are_loaded_in_fewer_cycles(sliced, monkeypatch):
    s, inputs = sliced
    ordered = run(s, VTA, inputs)
    with monkeypatch.context() as patched:
        patched.setattr(driver, "schedule_prologue", lambda entries, _: entries)
        plain = run(s, VTA, inputs)
    for memory in (MemoryType.INP, MemoryType.WGT):
        assert vector_copies(ordered.instructions, memory) == vector_copies(plain.instructions, memory)
    cycles = [lt.simulate(each, timing_only=True).cycles for each in (ordered, plain)]
    assert cycles[0] < cycles[1]


def test_a_load_is_not_split_if_its_slices_would_wait_longer_for_the_memory(sliced):
    s, inputs = sliced
    slow = VTA.with_(name="slow", **{"memory.latency": 2000})
    loads, whole = (
        [each for each in run(s, config, inputs).instructions if _of_weights(each)] for config in (VTA, slow)
    )
    assert len(whole) < len(loads)
    assert vector_copies(whole, MemoryType.WGT) == vector_copies(loads, MemoryType.WGT)


def _of_weights(each: Instruction) -> bool:
    return isinstance(each, Load) and each.memory_type is MemoryType.WGT


def test_a_stream_with_manual_synchronisation_is_unchanged(sliced, monkeypatch):
    s, inputs = sliced
    s.barrier_at(s[s.outputs[0]], s[s.outputs[0]].leaf_axis[0])
    program = run(s, VTA, inputs)
    with monkeypatch.context() as patched:
        patched.setattr(driver, "schedule_prologue", lambda entries, _: entries)
        assert run(s, VTA, inputs).instructions == program.instructions


def test_operands_of_one_tile_share_no_addresses_if_the_scratchpad_is_large_enough():
    """So a load of one need not wait until the other has been read."""
    generator = np.random.default_rng(6)
    names = {"A": (64, 64), "B": (64, 64), "V": (64, 64), "W": (64, 64)}
    inputs = {name: generator.integers(-128, 128, shape, np.int8) for name, shape in names.items()}
    A, B, V, W = (lt.placeholder(shape, "int8", name=name) for name, shape in names.items())
    one, other = lt.matmul(A, V, name="one"), lt.matmul(B, W, name="other")
    total = lt.add(one, other, name="total")
    s = create_schedule(total)
    made = s.cache_write(total, "acc")
    outer, _ = s[total].split(s[total].axis[0], factor=16)
    for tensor in (made, one, other):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[total], outer)
    for tensor, reader in ((A, one), (B, other)):
        cached = s.cache_read(tensor, "inp", [reader])
        s[cached].compute_at(s[total], outer)
    program = run(s, VTA, inputs)
    cells = [set(), set()]
    segments = {segment.tensor: segment for segment in program.segments}
    for each in program.instructions:
        if isinstance(each, Load) and each.memory_type == MemoryType.INP:
            address = each.dram_base * VTA.inp_element_bytes
            which = 0 if segments["A"].address <= address < segments["A"].end else 1
            cells[which] |= set(range(each.sram_base, each.sram_base + each.y_size * each.x_size))
    assert cells[0]
    assert cells[1]
    assert not cells[0] & cells[1]
