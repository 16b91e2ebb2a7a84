"""Vectorised execution against lathe.isa.semantics, and cases that fast paths could get wrong."""

import numpy as np
import pytest
from error_checks import raises
from extended_machines import EVERY, with_extensions
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import legal_machine, legal_stream

from lathe.configs import load_config
from lathe.configs.extensions import EXTENSIONS
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MachineFault, MemoryType, Store, encode, encode_uops
from lathe.isa.semantics import MachineState
from lathe.isa.semantics import execute as execute_plainly
from lathe.isa.sparse_memory import PagedMemory
from lathe.sim import replay
from lathe.sim.dram import SparseMemory
from lathe.sim.executor import execute
from lathe.sim.scratchpads import Scratchpads


def compare(cfg, instructions, addresses, pages):
    """Run a stream in program order in both ways; assert equal scratchpads and DRAM."""
    plain = MachineState(cfg, PagedMemory.of(addresses, pages))
    for instruction in instructions:
        execute_plainly(plain, instruction)
    pads, dram = Scratchpads(cfg), SparseMemory(addresses, pages)
    execute(cfg, instructions, range(len(instructions)), pads, dram)
    for name in ("uop", "inp", "wgt", "acc", "par", "lut"):
        expected = getattr(plain, name)
        actual = getattr(pads, name).reshape(expected.shape)
        np.testing.assert_array_equal(actual, expected, err_msg=name)
    assert set(dram.pages) == set(plain.dram.pages)
    for address, page in plain.dram.pages.items():
        np.testing.assert_array_equal(dram.pages[address], page, err_msg=hex(address))


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_streams_equal_the_semantics(rng):
    cfg = legal_machine(rng, tuple(EXTENSIONS))
    instructions, addresses, pages = legal_stream(rng, cfg, rng.randint(1, 12))
    compare(cfg, instructions, addresses, pages)


def prepared(cfg, dst, src, wgt):
    """Loads of a micro-op table and of the first vectors of each scratchpad, and the pages that they read."""
    words = encode_uops(cfg, np.array(dst), np.array(src), np.array(wgt))
    content = np.random.default_rng(0).integers(0, 256, 8 * 4096).astype(np.uint8)
    content[: 4 * len(words)] = words.view(np.uint8)
    loads = [
        Load(MemoryType.UOP, 0, 0, 1, len(words), len(words)),
        Load(MemoryType.INP, 0, 4096 // cfg.inp_element_bytes, 1, 64, 64),
        Load(MemoryType.WGT, 0, 8192 // cfg.wgt_element_bytes, 1, 32, 32),
        Load(MemoryType.ACC, 0, 16384 // cfg.acc_element_bytes, 1, 64, 64),
    ]
    return loads, np.arange(8, dtype=np.uint64) * 4096, content.reshape(8, 4096)


def gemm(count, out=1, inner=1, begin=False, **factors):
    names = [f"{index}_factor_{loop}" for index in ("dst", "src", "wgt") for loop in ("out", "in")]
    return Gemm(0, count, out, inner, **{name: factors.get(name, 0) for name in names}, begin=begin)


def alu(operation, count, out=1, inner=1, use_imm=False, imm=0, **factors):
    names = [f"{index}_factor_{loop}" for index in ("dst", "src") for loop in ("out", "in")]
    return Alu(
        operation, 0, count, out, inner, **{name: factors.get(name, 0) for name in names}, use_imm=use_imm, imm=imm
    )


ROLES = {
    "rows": {"dst_factor_in": 1, "src_factor_in": 1},
    "columns": {"dst_factor_in": 1, "wgt_factor_in": 1},
    "sum": {"src_factor_in": 1, "wgt_factor_in": 1},
    "sum of inputs": {"src_factor_in": 1},
    "sum of weights": {"wgt_factor_in": 1},
    "repetition": {},
    "copies": {"dst_factor_in": 1},
    "batch": {"dst_factor_in": 1, "src_factor_in": 1, "wgt_factor_in": 1},
    "rows that overlap the table": {"dst_factor_in": 2, "src_factor_in": 1},
}


@pytest.mark.sample(46)
@pytest.mark.parametrize("machine", ["tiny", "batch4"])
@pytest.mark.parametrize("outer", ROLES)
@pytest.mark.parametrize("inner", ROLES)
def test_loops_of_every_role_combine_in_gemm(machine, outer, inner):
    cfg = load_config(machine)
    loads, addresses, pages = prepared(cfg, [0, 1, 0, 2, 4], [3, 3, 5, 7, 2], [1, 2, 1, 2, 0])
    factors = ROLES[inner] | {name.replace("_in", "_out"): 3 * value for name, value in ROLES[outer].items()}
    compare(cfg, [*loads, gemm(5, 3, 4, **factors)], addresses, pages)


def test_sums_beyond_float32_precision_are_exact():
    cfg = load_config("tiny")
    count = 40
    loads, addresses, pages = prepared(cfg, [0] * count, [0] * count, [0] * count)
    pages[1:3] = 128  # −128 · −128 in every MAC: 4 · 2^14 for each micro-op
    compare(cfg, [*loads, gemm(count, 9, 11)], addresses, pages)


def test_accumulators_wrap_around():
    cfg = load_config("tiny")
    loads, addresses, pages = prepared(cfg, [0], [0], [0])
    pages[1:3] = 128
    pages[4:] = np.array([0x7FFFFFFF], "<i4").view(np.uint8).tolist() * 1024
    compare(cfg, [*loads, gemm(1, 1, 2)], addresses, pages)


@pytest.mark.sample(49)
@pytest.mark.parametrize("operation", list(AluOp))
@pytest.mark.parametrize(
    ("dst", "src"),
    [
        ([0, 1, 2, 3], [10, 11, 12, 13]),
        ([1, 2, 3, 4], [0, 1, 2, 3]),  # each reads the result of the previous one
        ([0, 1, 2, 3], [1, 2, 3, 4]),  # each reads the accumulator that the next one writes
        ([0, 0, 0, 0], [4, 5, 6, 7]),  # a reduction
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 0, 1, 1], [0, 0, 1, 1]),
        ([5, 6, 5, 6], [6, 5, 6, 5]),
    ],
)
@pytest.mark.parametrize("factors", [{}, {"dst_factor_in": 1, "src_factor_in": 1}, {"dst_factor_out": 2}])
def test_alu_keeps_the_order_of_micro_ops_that_depend_on_each_other(operation, dst, src, factors):
    cfg = with_extensions(load_config("tiny"), EVERY)
    loads, addresses, pages = prepared(cfg, dst, src, [0] * len(dst))
    compare(cfg, [*loads, alu(operation, len(dst), 2, 3, **factors)], addresses, pages)


@pytest.mark.parametrize(
    ("dst", "src"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 0, 0, 0], [0, 1, 2, 3]),  # the last result remains
        ([0, 1, 0, 1], [3, 2, 1, 0]),
        ([0, 4, 8, 12], [1, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize(
    "factors",
    [
        {},
        {"dst_factor_in": 1, "src_factor_in": 1},
        {"dst_factor_out": 2, "wgt_factor_in": 1},
        {"dst_factor_out": 1, "dst_factor_in": 1, "src_factor_out": 2, "wgt_factor_out": 1},
        {"dst_factor_out": 4, "dst_factor_in": 1, "src_factor_in": 1},
    ],
)
def test_begin_keeps_the_last_result_of_each_accumulator(dst, src, factors):
    cfg = with_extensions(load_config("tiny"), EVERY)
    loads, addresses, pages = prepared(cfg, dst, src, [0, 1, 2, 3])
    compare(cfg, [*loads, gemm(len(dst), 3, 4, begin=True, **factors)], addresses, pages)


@pytest.mark.parametrize("operation", list(AluOp))
def test_alu_applies_an_immediate_once_for_each_execution(operation):
    cfg = with_extensions(load_config("tiny"), EVERY)
    loads, addresses, pages = prepared(cfg, [0, 1, 0, 2, 0], [0] * 5, [0] * 5)
    compare(cfg, [*loads, alu(operation, 5, 2, 2, use_imm=True, imm=-3, dst_factor_in=1)], addresses, pages)


def test_large_instructions_are_split_and_exact(monkeypatch):
    monkeypatch.setattr("lathe.sim.gemm_blocking.MOST_VALUES", 40)
    monkeypatch.setattr("lathe.sim.levelized_uops.MOST_EXECUTIONS", 7)
    cfg = load_config("tiny")
    loads, addresses, pages = prepared(cfg, [0, 1, 0, 2, 4], [3, 3, 5, 7, 2], [1, 2, 1, 2, 0])
    instructions = [
        *loads,
        gemm(5, 3, 4, dst_factor_out=5, src_factor_in=1, wgt_factor_in=1, src_factor_out=4),
        alu(AluOp.ADD, 5, 3, 4, dst_factor_in=1, src_factor_out=2),
        alu(AluOp.SHR, 5, 3, 4, use_imm=True, imm=1, dst_factor_in=1),
    ]
    compare(cfg, instructions, addresses, pages)


def test_plans_are_remade_when_the_table_in_the_scratchpad_changes():
    cfg = load_config("tiny")
    loads, addresses, pages = prepared(cfg, [0, 1, 2, 3], [3, 4, 5, 6], [1, 2, 3, 4])
    shift = Load(MemoryType.UOP, 0, 2, 1, 2, 2)
    compare(cfg, [*loads, gemm(2), shift, gemm(2)], addresses, pages)


def test_evicted_plans_are_made_again(monkeypatch):
    monkeypatch.setattr("lathe.sim.uop_plan_cache.MOST_STORED", 10)
    cfg = load_config("tiny")
    loads, addresses, pages = prepared(cfg, [0, 1, 2, 3], [3, 4, 5, 6], [1, 2, 3, 4])
    compare(cfg, [*loads, gemm(4), gemm(2), gemm(4), gemm(3), gemm(4)], addresses, pages)


def test_overlapping_rows_of_a_store_are_written_in_order():
    cfg = load_config("tiny")
    loads, addresses, pages = prepared(cfg, [0], [0], [0])
    for stride in (0, 1, 2):
        compare(cfg, [*loads, Store(sram_base=3, dram_base=100, y_size=5, x_size=3, x_stride=stride)], addresses, pages)


def test_transfers_reach_across_gaps_between_pages():
    cfg = load_config("tiny")
    loads, _, pages = prepared(cfg, [0], [0], [0])
    addresses = np.array([0, 1, 2, 3, 5, 6, 7, 2**27], np.uint64) * 4096
    element = cfg.out_element_bytes
    instructions = [
        *loads,
        Store(sram_base=0, dram_base=(4 * 4096 - 8) // element, y_size=3, x_size=10, x_stride=1030),
        Store(sram_base=4, dram_base=(2**39 - 4) // element, y_size=1, x_size=7, x_stride=7),
        Load(MemoryType.INP, 8, (4 * 4096 - 20) // 4, 3, 10, 1024),
        Load(MemoryType.ACC, 8, (2**39 - 64) // cfg.acc_element_bytes, 1, 8, 8),
    ]
    compare(cfg, instructions, addresses, pages)


GEMM_OUT_OF_RANGE = {
    "dst": (gemm(1, 2, 2, dst_factor_out=200, dst_factor_in=56), ("acc", "dst"), "below 256, not 256"),
    "src": (gemm(1, 2, 2, src_factor_out=200, src_factor_in=57), ("inp", "src"), "below 256, not 257"),
    "wgt": (gemm(1, 2, 2, wgt_factor_out=100, wgt_factor_in=28), ("wgt",), "below 128, not 128"),
    "uop": (Gemm(255, 257, 1, 1, 0, 0, 0, 0, 0, 0), ("uop_end",), "at most 256, not 257"),
}


@pytest.mark.parametrize("index", GEMM_OUT_OF_RANGE)
def test_an_index_out_of_range_faults_naming_instruction_and_index(index):
    instruction, what, contract = GEMM_OUT_OF_RANGE[index]
    cfg = load_config("tiny")
    stream = {
        "insns": encode(cfg, [instruction, Finish()]),
        "insn_addr": 0,
        "page_addrs": np.zeros(0, np.uint64),
        "pages": np.zeros((0, 4096), np.uint8),
        "tokens": np.zeros(4, np.int64),
    }
    fault = raises(MachineFault, replay, cfg, stream, mentions=(*what, "instruction 0 (GEMM in compute)", contract))
    assert fault.instruction == 0


def test_reset_reads_no_operand_and_so_faults_only_for_destinations():
    cfg = load_config("tiny")
    pads = Scratchpads(cfg)
    pads.acc[:] = 7
    reset = Gemm(0, 1, 2, 2, 4, 1, 255, 255, 127, 127, reset=True)
    execute(cfg, [reset], [0], pads, SparseMemory())
    assert np.flatnonzero((pads.acc == 0).all(axis=1)).tolist() == [0, 1, 4, 5]


def test_a_block_whose_single_matmul_exceeds_float32_is_exact():
    cfg = load_config("tiny").with_(
        block_in=2048, block_out=2, inp_buffer_bytes=1 << 17, wgt_buffer_bytes=1 << 18, acc_buffer_bytes=1 << 11
    )
    words = encode_uops(cfg, np.array([0, 1, 0]), np.array([3, 2, 5]), np.array([1, 0, 3]))
    content = np.full(32 * 4096, 128, np.uint8)
    content[: 4 * len(words)] = words.view(np.uint8)
    content[5 * 4096 : 5 * 4096 + 2048] = 127
    instructions = [
        Load(MemoryType.UOP, 0, 0, 1, 3, 3),
        Load(MemoryType.INP, 0, 2, 1, 8, 8),
        Load(MemoryType.WGT, 0, 2, 1, 4, 4),
        gemm(3),
    ]
    compare(cfg, instructions, np.arange(32, dtype=np.uint64) * 4096, content.reshape(32, 4096))
