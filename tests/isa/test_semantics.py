"""The executable semantics of each instruction, and their faults."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from error_checks import check_mentions, raises

from lathe.configs import load_config
from lathe.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MachineFault,
    MemoryType,
    PagedMemory,
    Store,
    encode_uops,
)
from lathe.isa.semantics import MachineState, execute, run
from lathe.isa.table import MEMORIES

TINY = load_config("tiny")


def blank() -> MachineState:
    """A machine whose DRAM holds the bytes 1, 2, 3, … from address 0x1000."""
    memory = PagedMemory()
    memory.write(0x1000, (np.arange(1, 2001) % 251).astype(np.uint8))
    return MachineState(TINY, memory)


def numbers(first: int, count: int) -> list[int]:
    return [(value % 251 + 128) % 256 - 128 for value in range(first, first + count)]


def test_load_writes_a_dense_block_of_rows_with_zeros_around() -> None:
    state = blank()
    state.inp[:] = 99
    execute(state, Load(MemoryType.INP, 10, 0x1000 // 4, 2, 2, 5, y_pad_0=1, y_pad_1=2, x_pad_0=1, x_pad_1=1))
    block = state.inp[10 : 10 + 5 * 4].reshape(5, 4, 4)
    expected = np.zeros((5, 4, 4), np.int8)
    expected[1, 1:3] = np.reshape(numbers(1, 8), (2, 4))
    expected[2, 1:3] = np.reshape(numbers(21, 8), (2, 4))
    assert block.tolist() == expected.tolist()
    assert (state.inp[:10] == 99).all()
    assert (state.inp[30:] == 99).all()


@pytest.mark.parametrize(
    ("memory", "fields", "padding"),
    [
        (MemoryType.INP, {"pad_value": -128}, -128),
        (MemoryType.INP, {"pad_value": 5, "pad_limit": True}, 5),
        (MemoryType.WGT, {"pad_value": 127}, 127),
        (MemoryType.ACC, {"pad_value": -3}, -3),
        (MemoryType.ACC, {"pad_value": -1, "pad_limit": True}, -(1 << 31)),
        (MemoryType.ACC, {"pad_value": 0, "pad_limit": True}, (1 << 31) - 1),
        (MemoryType.ACC8, {"pad_value": -128}, -128),
        (MemoryType.ACC8, {"pad_value": -128, "pad_limit": True}, -(1 << 31)),
        (MemoryType.UOP, {"pad_value": 7}, 0),
        (MemoryType.UOP, {"pad_value": 7, "pad_limit": True}, 0),
    ],
)
def test_padding_has_the_value_of_the_loads_fields(memory: MemoryType, fields: dict[str, Any], padding: int) -> None:
    cfg = TINY.with_(extensions=("pad_value",))
    state = MachineState(cfg, blank().dram)
    scratchpad = getattr(state, MEMORIES[memory].scratchpad)
    load = Load(memory, 1, 0x1000 // MEMORIES[memory].element_bytes(cfg), 1, 2, 2, 1, 0, 1, 0, **fields)
    plain = MachineState(cfg, blank().dram)
    execute(plain, replace(load, pad_value=0, pad_limit=False))
    execute(state, load)
    expected = getattr(plain, MEMORIES[memory].scratchpad).copy()
    expected[1:5] = padding  # a padding row above, and a padding vector before the two that are read
    assert scratchpad.tolist() == expected.tolist()
    assert scratchpad[5:7].any()


def test_load_of_empty_rows_does_nothing_whatever_the_pads() -> None:
    state = blank()
    state.acc[:] = 7
    execute(state, Load(MemoryType.ACC, 0, 0, 3, 0, 1, y_pad_0=2, x_pad_0=2))
    execute(state, Load(MemoryType.OUT, 65535, 0, 3, 0, 1))
    assert (state.acc == 7).all()


def test_load_of_no_rows_still_writes_its_pads() -> None:
    state = blank()
    state.acc[:] = 7
    execute(state, Load(MemoryType.ACC, 4, 0, 0, 2, 1, y_pad_0=1, y_pad_1=1, x_pad_1=1))
    assert (state.acc[4:10] == 0).all()
    assert (state.acc[:4] == 7).all()
    assert (state.acc[10:] == 7).all()


def test_loads_of_each_memory_read_their_vectors() -> None:
    state = blank()
    execute(state, Load(MemoryType.WGT, 1, 0x1000 // 16, 1, 1, 1))
    execute(state, Load(MemoryType.ACC, 2, 0x1000 // 16, 1, 1, 1))
    execute(state, Load(MemoryType.ACC8, 3, 0x1000 // 4 + 40, 1, 1, 1))
    execute(state, Load(MemoryType.UOP, 4, 0x1000 // 4, 1, 1, 1))
    assert state.wgt[1].tolist() == np.reshape(numbers(1, 16), (4, 4)).tolist()
    assert state.acc[2].tolist() == [[0x04030201, 0x08070605, 0x0C0B0A09, 0x100F0E0D]]
    assert state.acc[3].tolist() == [numbers(161, 4)]
    assert min(state.acc[3, 0]) < 0, "8-bit accumulators are sign-extended"
    assert state.uop[4] == 0x04030201


def test_store_writes_the_low_bits_of_accumulators_into_rows() -> None:
    state = blank()
    state.acc[5:9] = np.arange(16).reshape(4, 1, 4) * 100
    execute(state, Store(sram_base=5, dram_base=0x2000 // 4, y_size=2, x_size=2, x_stride=3))
    low = (np.arange(16) * 100 % 256).astype(np.uint8)
    assert state.dram.read(0x2000, 20).tolist() == [*low[:8].tolist(), 0, 0, 0, 0, *low[8:].tolist()]
    assert state.out[5].reshape(-1).tolist() == low[:4].astype(np.int8).tolist()


def with_uops(state: MachineState, dst: Any, src: Any, wgt: Any) -> MachineState:
    words = encode_uops(TINY, dst, src, wgt)
    state.uop[: len(words)] = words
    return state


def test_gemm_multiplies_by_transposed_weights_accumulates_and_wraps() -> None:
    state = with_uops(blank(), [1, 1], [2, 3], [0, 1])
    random = np.random.default_rng(1)
    state.inp[:] = random.integers(-128, 128, state.inp.shape)
    state.wgt[:] = random.integers(-128, 128, state.wgt.shape)
    state.acc[1:5] = (1 << 31) - 5
    before = state.acc.astype(object)
    execute(state, Gemm(0, 2, 2, 2, 2, 1, 3, 1, 1, 2))
    expected = before.copy()
    for o in range(2):
        for i in range(2):
            for src, wgt in ((2, 0), (3, 1)):
                x = state.inp[src + 3 * o + i, 0].astype(object)
                w = state.wgt[wgt + o + 2 * i].astype(object)
                expected[1 + 2 * o + i, 0] += [sum(w[n] * x) for n in range(4)]
    assert state.acc.tolist() == ((expected + (1 << 31)) % (1 << 32) - (1 << 31)).tolist()


def test_reset_writes_zeros_and_reads_no_operand() -> None:
    state = with_uops(blank(), [3], [255], [127])
    state.acc[:] = 7
    execute(state, Gemm(0, 1, 1, 2, 0, 1, 0, 200, 0, 100, reset=True))
    assert (state.acc[3:5] == 0).all()
    assert (state.acc[:3] == 7).all()
    assert (state.acc[5:] == 7).all()


def test_begin_overwrites_accumulators() -> None:
    state = with_uops(MachineState(TINY.with_(extensions=("gemm_begin",)), blank().dram), [3, 3], [0, 1], [0, 1])
    rng = np.random.default_rng(0)
    state.inp[:], state.wgt[:] = rng.integers(-128, 128, state.inp.shape), rng.integers(-128, 128, state.wgt.shape)
    state.acc[:] = 7
    begun = Gemm(0, 2, 1, 2, 0, 2, 0, 3, 0, 5, begin=True)
    execute(state, begun)
    for dst, src, wgt in ((3, 1, 1), (5, 4, 6)):  # the last micro-op of each destination determines it
        expected = state.inp[src, 0].astype(int) @ state.wgt[wgt].astype(int).T
        assert state.acc[dst, 0].tolist() == expected.tolist()
    others = np.delete(state.acc, [3, 5], axis=0)
    assert (others == 7).all()
    execute(state, replace(begun, reset=True))
    assert (state.acc[[3, 5]] == 0).all()


def test_micro_ops_of_one_instruction_see_each_others_results() -> None:
    state = with_uops(blank(), [1, 2], [0, 1], [0, 0])
    state.acc[0] = 3
    execute(state, Alu(AluOp.ADD, 0, 2, 2, 1, 1, 0, 1, 0))
    # acc1 += acc0; acc2 += acc1; then shifted by one: acc2 += acc1; acc3 += acc2.
    assert state.acc[:4, 0, 0].tolist() == [3, 3, 6, 6]


@pytest.mark.parametrize(
    ("operation", "operand", "result"),
    [
        (AluOp.MIN, -5, -5),
        (AluOp.MAX, -5, 100),
        (AluOp.ADD, -300, -200),
        (AluOp.SHR, 3, 12),
        (AluOp.SHR, -3, 800),
        (AluOp.MUL, -7, -700),
    ],
)
def test_alu_combines_accumulators_with_immediates_and_with_accumulators(
    operation: AluOp, operand: int, result: int
) -> None:
    state = with_uops(blank(), [0], [9], [0])
    state.acc[0] = 100
    state.acc[9] = operand
    execute(state, Alu(operation, 0, 1, 1, 1, 0, 0, 0, 0))
    assert (state.acc[0] == result).all()
    state.acc[0] = 100
    execute(state, Alu(operation, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=True, imm=operand))
    assert (state.acc[0] == result).all()


def test_shift_amounts_from_registers_may_be_anything() -> None:
    state = with_uops(blank(), [0], [1], [0])
    state.acc[0] = -9
    state.acc[1] = [[32, 1000, -32, -(1 << 31)]]
    execute(state, Alu(AluOp.SHR, 0, 1, 1, 1, 0, 0, 0, 0))
    assert state.acc[0].tolist() == [[-1, -1, 0, 0]]


@pytest.mark.parametrize(
    ("instruction", "mentions"),
    [
        (Load(MemoryType.OUT, 0, 0, 1, 1, 1), ("memory_type", "uop, wgt, inp, acc or acc8", "not out")),
        (Load(MemoryType.WGT, 127, 0, 1, 2, 1), ("sram_base", "2 vectors", "below 128", "not up to 128")),
        (Store(memory_type=MemoryType.ACC, sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1),
            ("memory_type", "must be out", "not acc", "STORE")),
        (Store(sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1, y_pad_1=2),
            ("y_pad_1", 0, "not 2", "STORE", "padding")),
        (Store(sram_base=255, dram_base=0, y_size=2, x_size=1, x_stride=1),
            ("sram_base", "2 vectors", "below 256", "not up to 256")),
        (Gemm(0, 1, 2, 1, 255, 0, 0, 0, 0, 0), ("acc", "dst", "below 256", "not 257")),
        (Gemm(0, 1, 1, 2, 0, 0, 0, 255, 0, 0), ("inp", "src", "below 256", "not 257")),
        (Gemm(0, 1, 1, 2, 0, 0, 0, 0, 0, 126), ("wgt", "below 128", "not 128")),
        (Alu(AluOp.ADD, 0, 1, 1, 2, 0, 0, 0, 254), ("acc", "src", "below 256", "not 256")),
        (Alu(AluOp.ADD, 256, 257, 1, 1, 0, 0, 0, 0), ("uop_end", "at most 256", "not 257")),
    ],
)  # fmt: skip
def test_what_the_machine_does_not_execute_is_a_fault(instruction: Instruction, mentions: tuple[object, ...]) -> None:
    state = with_uops(blank(), [2], [2], [2])
    raises(MachineFault, execute, state, instruction, mentions=("the instruction", *mentions))


def test_token_of_no_neighbour_is_a_fault() -> None:
    stream = [Load(MemoryType.INP, 0, 0, 1, 1, 1, pop_prev=True), Finish()]
    mentions = ("pop_prev of instruction 0 (LOAD in load)", "not 1", "load has no prev neighbour")
    raises(MachineFault, run, blank(), stream, mentions=mentions)


def test_deadlock_names_each_units_instruction_and_the_token_it_waits_for() -> None:
    stream: list[Instruction] = [
        Load(MemoryType.INP, 0, 0, 1, 1, 1, pop_next=True, push_next=True),
        Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True, pop_next=True, push_prev=True),
        Store(sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1, pop_prev=True),
        Finish(),
    ]
    error = raises(MachineFault, run, blank(), stream, mentions=("deadlocked",))
    load, compute, store = str(error).split(";")
    check_mentions(load, "load waits", "instruction 0 (LOAD)", "compute->load")
    check_mentions(compute, "compute waits", "instruction 1 (GEMM)", "load->compute and store->compute")
    check_mentions(store, "store waits", "instruction 2 (STORE)", "compute->store")


def test_stream_without_finish_does_not_end() -> None:
    raises(MachineFault, run, blank(), [Load(MemoryType.INP, 0, 0, 1, 1, 1)], mentions=("FINISH", "never ends"))


def test_units_also_execute_what_follows_finish() -> None:
    state = blank()
    run(state, [Finish(), Load(MemoryType.INP, 0, 0x1000 // 4, 1, 1, 1, push_next=True)])
    assert state.inp[0].tolist() == [numbers(1, 4)]
    assert state.tokens == [1, 0, 0, 0]


def test_paged_memory_crosses_pages_and_is_zero_elsewhere() -> None:
    memory = PagedMemory()
    memory.write(4090, np.arange(1, 13, dtype=np.uint8))
    assert sorted(memory.pages) == [0, 4096]
    assert memory.read(4088, 16).tolist() == [0, 0, *range(1, 13), 0, 0]
    assert memory.read(1 << 40, 3).tolist() == [0, 0, 0]
    copy = PagedMemory.of([4096], [memory.pages[4096]])
    copy.write(4096, np.array([77], np.uint8))
    assert memory.read(4096, 1).tolist() == [7]
