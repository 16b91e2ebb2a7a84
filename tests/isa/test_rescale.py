"""The semantics of RESCALE against Python's integers, its hazards, and its refusals."""

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from error_checks import check_mentions, raises
from extended_machines import with_extensions

from lathe.configs import HardwareConfig, load_config
from lathe.configs.memory import LOOKUP_STAGES, RESCALE_STAGES
from lathe.isa import (
    EncodingError,
    FaultCode,
    Finding,
    Finish,
    Instruction,
    Load,
    MachineFault,
    MemoryType,
    PagedMemory,
    Rescale,
    Store,
    assemble,
    decode,
    disassemble,
    encode,
    encode_uops,
    instruction_text,
    verify_stream,
)
from lathe.isa.operands import extra_latency
from lathe.isa.semantics import MachineState, execute
from lathe.isa.table import Opcode, placements

TINY = load_config("tiny")
ALL = ("rescale", "rescale_add", "lookup")
CONFIG = with_extensions(TINY.with_(batch=2, name="rescaling"), ALL, parameters=32)
ENDS = [-(1 << 31), -(1 << 31) + 1, -1, 0, 1, (1 << 31) - 2, (1 << 31) - 1]


def wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def factor(mantissa: int, shift: int) -> int:
    """The 32-bit word of a factor."""
    return mantissa * 64 + shift


def expected(instruction: Rescale, dst: int, src: int, p: tuple[int, int], q: tuple[int, int], table: list[int]) -> int:
    """The result for one value: ``p`` and ``q`` are biases and factors, ``table`` the signed bytes of its lane."""
    total = wrapped(dst + p[0]) * (p[1] >> 6)
    if instruction.add:
        total += wrapped(src + q[0]) * (q[1] >> 6)
    value = round(Fraction(total, 1 << (p[1] & 63))) + instruction.zero_point
    low, high = (0, 255) if instruction.unsigned else (-128, 127)
    if instruction.relu:
        low = instruction.zero_point
    value = min(max(value, low), high)
    if not instruction.lookup:
        return value
    byte = table[instruction.table * 256 + value % 256]
    return byte % 256 if instruction.lookup_unsigned else byte


def state_of(cfg: HardwareConfig, seed: int, dst: list[int], src: list[int], wgt: list[int]) -> MachineState:
    """A machine with random scratchpad contents, including corner cases, and micro-ops from address 0 on."""
    rng, data = random.Random(seed), np.random.default_rng(seed)
    state = MachineState(cfg, PagedMemory())
    state.uop[: len(dst)] = encode_uops(cfg, dst, src, wgt)
    for cells in (state.acc, state.par[..., 0]):
        cells[:] = data.integers(-(1 << 31), 1 << 31, cells.shape)
        cells[data.random(cells.shape) < 0.3] = rng.choice(ENDS)
        small = data.random(cells.shape) < 0.4
        cells[small] = data.integers(-2000, 2000, int(small.sum()))
    mantissas = data.integers(-(1 << 25), 1 << 25, state.par.shape[:2])
    mantissas[data.random(mantissas.shape) < 0.3] = rng.choice([-(1 << 25), (1 << 25) - 1, 1 << 24, 0, 1, -1])
    state.par[..., 1] = mantissas * 64 + data.integers(0, 64, mantissas.shape)
    state.lut[:] = data.integers(-128, 128, state.lut.shape)
    return state


@pytest.mark.parametrize("seed", range(60))
def test_every_lane_has_its_parameters_and_its_table(seed: int) -> None:
    rng = random.Random(seed)
    instruction = Rescale(
        *(0, 3, 1, 1, 0, 0, 0, 0),
        add=rng.random() < 0.5,
        zero_point=rng.choice([0, 0, -128, 127, 255, -256, rng.randrange(-256, 256)]),
        unsigned=rng.random() < 0.5,
        relu=rng.random() < 0.5,
        lookup=rng.random() < 0.5,
        lookup_unsigned=rng.random() < 0.5,
        table=rng.randrange(2),
    )
    state = state_of(CONFIG, seed, [3, 9, 4], [20, 21, 20], [6, 6, 12])
    before, par, table = state.acc.copy(), state.par.tolist(), state.lut.tolist()
    execute(state, instruction)
    for dst, src, wgt in ((3, 20, 6), (9, 21, 6), (4, 20, 12)):
        for b in range(CONFIG.batch):
            for lane in range(CONFIG.block_out):
                p, q = tuple(par[wgt][lane]), tuple(par[wgt | 1][lane])
                bytes_of_lane = [row[lane] for row in table]
                result = expected(
                    instruction, int(before[dst, b, lane]), int(before[src, b, lane]), p, q, bytes_of_lane
                )
                assert state.acc[dst, b, lane] == result, (seed, instruction, dst, b, lane)
    others = np.setdiff1d(np.arange(CONFIG.acc_depth), [3, 9, 4])
    assert (state.acc[others] == before[others]).all()


@pytest.mark.parametrize(
    ("sums", "word", "flags", "result"),
    [
        ([1, 2, 3, 5], factor(1, 1), {}, [0, 1, 2, 2]),  # ties to even
        ([-1, -2, -3, -5], factor(1, 1), {}, [0, -1, -2, -2]),
        ([1000, -1000, 127, -128], factor(1, 0), {}, [127, -128, 127, -128]),
        ([1000, -1000, 127, -128], factor(1, 0), {"unsigned": True}, [255, 0, 127, 0]),
        ([1000, -1000, 3, 0], factor(1, 0), {"unsigned": True, "zero_point": 200}, [255, 0, 203, 200]),
        ([1000, -1000, 3, -3], factor(1, 0), {"zero_point": -20, "relu": True}, [127, -20, -17, -20]),
        ([100, -100, 3, -3], factor(1, 0), {"zero_point": 200, "relu": True}, [127, 127, 127, 127]),
        ([-(1 << 31), (1 << 31) - 1, 1 << 30, 64], factor(-(1 << 25), 50), {}, [64, -64, -32, 0]),
    ],
)
def test_rounding_and_clamping(sums: list[int], word: int, flags: dict[str, Any], result: list[int]) -> None:
    state = MachineState(CONFIG, PagedMemory())
    state.uop[0] = encode_uops(CONFIG, 5, 0, 2)[0]
    state.acc[5] = sums
    state.par[2, :, 1] = word
    execute(state, Rescale(0, 1, 1, 1, 0, 0, 0, 0, **flags))
    assert state.acc[5].tolist() == [result] * 2


def test_strides_of_dst_apply_to_src_too_and_those_of_wgt_to_the_parameters() -> None:
    state = state_of(CONFIG, 1, [0, 40], [80, 7], [2, 2])
    before, par = state.acc.copy(), state.par.copy()
    execute(state, Rescale(0, 2, 2, 3, 10, 1, 4, 2, add=True))
    for dst, src in ((0, 80), (40, 7)):
        for outer in range(2):
            for inner in range(3):
                at, wgt = outer * 10 + inner, 2 + outer * 4 + inner * 2
                for lane in range(4):
                    p, q = tuple(map(int, par[wgt, lane])), tuple(map(int, par[wgt | 1, lane]))
                    result = expected(
                        Rescale(0, 0, 0, 0, 0, 0, 0, 0, add=True),
                        *(int(before[dst + at, 1, lane]), int(before[src + at, 1, lane])),
                        *(p, q, []),
                    )
                    assert state.acc[dst + at, 1, lane] == result


def test_par_is_padded_with_zeros_and_lut_with_the_pad_value() -> None:
    cfg = with_extensions(TINY, (*ALL, "pad_value"))
    memory = PagedMemory()
    words = np.arange(1, 17, dtype="<i4") * -1000003
    memory.write(0x1000, words.view(np.uint8))
    state = MachineState(cfg, memory)
    state.par[:], state.lut[:] = 9, 9
    pads = {"x_pad_0": 1, "y_pad_1": 1, "pad_value": -7, "pad_limit": True}
    execute(state, Load(MemoryType.PAR, 2, 0x1000 // 32, 1, 2, 2, **pads))
    assert state.par[2:8].reshape(6, -1).tolist() == [[0] * 8, words[:8].tolist(), words[8:].tolist(), *[[0] * 8] * 3]
    assert (state.par[[0, 1, 8]] == 9).all()
    execute(state, Load(MemoryType.LUT, 3, 0x1000 // 4, 1, 2, 2, **pads))
    found = words.view(np.int8).tolist()
    assert state.lut[3:9].tolist() == [[-7] * 4, found[:4], found[4:8], *[[-7] * 4] * 3]


def test_results_have_the_extra_latency_of_the_machines_stages() -> None:
    assert extra_latency(CONFIG, Opcode.RESCALE) == RESCALE_STAGES + LOOKUP_STAGES
    assert extra_latency(with_extensions(TINY, ("rescale",)), Opcode.RESCALE) == RESCALE_STAGES
    assert extra_latency(CONFIG, Opcode.ALU) == extra_latency(CONFIG, Opcode.GEMM) == 0


STAGES = RESCALE_STAGES + LOOKUP_STAGES
FULL = 256 // 2 - 2
PAIRS = STAGES // 2  # micro-ops of two issue cycles within that latency
LAST = (STAGES + 1) // 2  # the last micro-op after the first whose first issue cycle is within the latency


@pytest.mark.parametrize(
    ("dst", "src", "instruction", "code", "mentions"),
    [
        # The accumulator that was written is read after STAGES other issue cycles, and one cycle too early.
        ([*range(STAGES + 1)], None, Rescale(0, STAGES + 1, 2, 1, 0, 0, 0, 0), None, ()),
        ([*range(STAGES)], None, Rescale(0, STAGES, 2, 1, 0, 0, 0, 0), FaultCode.ACC_REUSE, ("dst", STAGES, "not 0")),
        ([4, 3], None, Rescale(0, 2, 1, 2, 0, 1, 0, 0), FaultCode.ACC_REUSE, ("dst", STAGES, "not 4")),
        # With a second operand a micro-op has two issue cycles, and writes in the second.
        ([*range(PAIRS + 1)], [50] * (PAIRS + 1), Rescale(0, PAIRS + 1, 2, 1, 0, 0, 0, 0, add=True), None, ()),
        ([*range(PAIRS)], [50] * PAIRS, Rescale(0, PAIRS, 2, 1, 0, 0, 0, 0, add=True), FaultCode.ACC_REUSE,
            ("dst", STAGES, "not 0")),
        ([*range(LAST + 1)], [50] * LAST + [0], Rescale(0, LAST + 1, 1, 1, 0, 0, 0, 0, add=True), FaultCode.ACC_REUSE,
            ("src", STAGES, "not 0")),
        ([*range(LAST + 2)], [50] * (LAST + 1) + [0], Rescale(0, LAST + 2, 1, 1, 0, 0, 0, 0, add=True), None, ()),
        ([7], [7], Rescale(0, 1, 1, 1, 0, 0, 0, 0, add=True), None, ()),  # no earlier write
        # An index out of range has priority over a hazard in its own or a later issue cycle; src is read in the first.
        ([0, 1], None, Rescale(0, 1, 1, 2, 0, 0, 0, 31), FaultCode.ACC_REUSE, ("dst", STAGES, "not 0")),
        ([0, 0], None, Rescale(0, 1, 1, 2, 0, 0, 0, 32), FaultCode.PAR_RANGE, ("par", "wgt", "below 32", "not 32")),
        ([FULL], None, Rescale(0, 1, 1, 3, 0, 1, 0, 0), FaultCode.ACC_RANGE, ("acc", "dst", "below 128", "not 128")),
        ([0, 9], [0, FULL + 1], Rescale(0, 2, 1, 2, 0, 1, 0, 0, add=True), FaultCode.ACC_RANGE,
            ("acc", "src", "below 128", "not 128")),
    ],
)  # fmt: skip
def test_hazards_and_indices_out_of_range_are_faults(
    dst: list[int], src: list[int] | None, instruction: Rescale, code: FaultCode | None, mentions: tuple[object, ...]
) -> None:
    state = MachineState(CONFIG, PagedMemory())
    state.uop[: len(dst)] = encode_uops(CONFIG, dst, src or [CONFIG.acc_depth - 1] * len(dst), [0] * len(dst))
    if code is None:
        execute(state, instruction)
        return
    assert raises(MachineFault, execute, state, instruction, "it", mentions=("it", *mentions)).code == code


PLAIN = Rescale(0, 1, 1, 1, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("extensions", "instruction", "code", "mentions"),
    [
        ((), PLAIN, FaultCode.OPCODE, ("LOAD, STORE, GEMM, FINISH, ALU", "not RESCALE", "tiny", "extension 'rescale")),
        (("rescale",), replace(PLAIN, add=True), FaultCode.OPCODE,
            ("add of it", 0, "not 1", "tiny", "extension 'rescale_add'.")),
        ((), Load(MemoryType.PAR, 0, 0, 1, 1, 1), FaultCode.MEMORY_TYPE,
            ("memory_type of it", "uop, wgt, inp, acc, out, acc8", "not par", "tiny", "extension 'rescale'.")),
        (("rescale",), Load(MemoryType.LUT, 0, 0, 0, 0, 0), FaultCode.MEMORY_TYPE,
            ("memory_type of it", "uop, wgt, inp, acc, out, acc8, par", "not lut", "tiny", "extension 'lookup'.")),
        (("rescale",), Store(memory_type=MemoryType.LUT, sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1),
            FaultCode.MEMORY_TYPE,
            ("memory_type of it", "uop, wgt, inp, acc, out, acc8, par", "not lut", "tiny", "extension 'lookup'.")),
        (ALL, Store(memory_type=MemoryType.PAR, sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1),
            FaultCode.MEMORY_TYPE, ("memory_type of it", "must be out", "not par", "STORE")),
        (ALL, Load(MemoryType.OUT, 0, 0, 1, 1, 1), FaultCode.MEMORY_TYPE,
            ("memory_type of it", "uop, wgt, inp, acc, acc8, par or lut", "not out")),
        (ALL, Load(MemoryType.LUT, 511, 0, 1, 2, 2), FaultCode.SRAM_RANGE,
            ("sram_base of it", "2 vectors", "below 512", "not up to 512")),
    ],
)  # fmt: skip
def test_what_a_machine_lacks_is_refused(
    extensions: tuple[str, ...], instruction: Instruction, code: FaultCode, mentions: tuple[object, ...]
) -> None:
    state = MachineState(with_extensions(TINY, extensions), PagedMemory())
    assert raises(MachineFault, execute, state, instruction, "it", mentions=mentions).code == code


@pytest.mark.parametrize(
    ("extensions", "instruction", "message"),
    [
        (("rescale",), replace(PLAIN, lookup=True),
            "lookup of instruction 0 (RESCALE) must be 0, not 1. The extension 'lookup' is off on machine 'tiny'."),
        (("rescale",), replace(PLAIN, lookup_unsigned=True),
            "lookup_unsigned of instruction 0 (RESCALE) must be 0, not 1. The extension 'lookup' is off on machine "
            "'tiny'."),
        (("rescale",), replace(PLAIN, table=1),
            "table of instruction 0 (RESCALE) must be 0, not 1. The extension 'lookup' is off on machine 'tiny'."),
        (ALL, replace(PLAIN, table=2),
            "table of instruction 0 (RESCALE) must be from 0 to 1, not 2. Its field has 1 bits on machine 'tiny'."),
        ((), replace(PLAIN, wgt_factor_in=1),
            "wgt_factor_in of instruction 0 (RESCALE) must be 0, not 1. The extension 'rescale' is off on machine "
            "'tiny'."),
        (ALL, replace(PLAIN, zero_point=256),
            "zero_point of instruction 0 (RESCALE) must be from -256 to 255, not 256. Its field has 9 bits on machine "
            "'tiny'."),
    ],
)  # fmt: skip
def test_fields_that_a_machine_lacks_are_not_encoded(
    extensions: tuple[str, ...], instruction: Rescale, message: str
) -> None:
    with pytest.raises(EncodingError) as caught:
        encode(with_extensions(TINY, extensions), [instruction])
    assert str(caught.value) == message


def test_encoding_and_assembly_round_trip() -> None:
    random_numbers = np.random.default_rng(0)
    for cfg in (CONFIG, with_extensions(load_config("lathe16"), ALL)):
        found = placements(cfg, Opcode.RESCALE)
        # Same positions as in GEMM.
        gemm = placements(cfg, Opcode.GEMM)
        assert (found["add"].lsb, found["add"].width) == (gemm["reset"].lsb, 1)
        for name in ("uop_bgn", "uop_end", "iter_out", "iter_in", "dst_factor_out", "dst_factor_in"):
            assert (found[name].lsb, found[name].width) == (gemm[name].lsb, gemm[name].width)
        stream: list[Instruction] = []
        for _ in range(50):
            values: dict[str, Any] = {
                name: int(random_numbers.integers(each.lowest, each.highest, endpoint=True))
                for name, each in found.items()
                if name != "opcode"
            }
            stream.append(Rescale(**values))
        assert decode(cfg, encode(cfg, stream)) == stream
        assert assemble(cfg, disassemble(cfg, stream)).instructions == stream
    assert instruction_text(replace(PLAIN, zero_point=-3, relu=True, lookup=True, table=1)) == (
        "rescale uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 dst_factor_in=0 wgt_factor_out=0 "
        "wgt_factor_in=0 zero_point=-3 relu lookup table=1"
    )


def test_the_verifier_finds_hazards_and_uninitialised_reads() -> None:
    memory = PagedMemory()
    memory.write(0x1000, encode_uops(CONFIG, [0, 1, 2], [9, 9, 0], [0, 0, 0]).view(np.uint8))
    load = Load(MemoryType.UOP, 0, 0x1000 // 4, 1, 3, 3)
    accumulators = Load(MemoryType.ACC, 0, 0x2000 // 32, 1, 10, 10)
    parameters = Load(MemoryType.PAR, 0, 0x3000 // 32, 1, 2, 2)
    table = Load(MemoryType.LUT, 256, 0x4000 // 4, 1, 256, 256)
    stream = [load, accumulators, parameters, table]
    rescale = Rescale(0, 2, 1, 1, 0, 0, 0, 0, add=True, lookup=True, table=1)
    assert verify_stream(CONFIG, [*stream, rescale, Finish()], memory) == []

    def check_finding(each: Finding, kind: str, field: str, *mentions: object, code: FaultCode | None = None) -> None:
        assert (each.kind.name, each.field, each.code) == (kind, field, code)
        check_mentions(each, *mentions)

    def findings(*instructions: Instruction) -> list[Finding]:
        return verify_stream(CONFIG, [*instructions, Finish()], memory)

    (finding,) = findings(*stream, replace(rescale, uop_end=3))
    check_finding(finding, "RAW_HAZARD", "src", STAGES, "acc[0]", code=FaultCode.ACC_REUSE)
    (finding,) = findings(*stream, replace(rescale, wgt_factor_in=2, iter_in=2, dst_factor_in=3, add=False))
    check_finding(finding, "UNINITIALISED", "wgt", "par[2]")
    (finding,) = findings(load, accumulators, replace(parameters, x_size=1), table, rescale)
    check_finding(finding, "UNINITIALISED", "wgt", "par[1]")
    (finding,) = findings(*stream, replace(rescale, table=0))
    check_finding(finding, "UNINITIALISED", "table", "lut[0] and 255 more")
    beyond = replace(rescale, uop_bgn=1, wgt_factor_in=31, iter_in=3, add=False, dst_factor_in=3)
    first, second = findings(*stream, beyond)
    check_finding(first, "SRAM_RANGE", "wgt", "32 vectors of par", "not reach 62", "par[62]", code=FaultCode.PAR_RANGE)
    check_finding(second, "UNINITIALISED", "wgt", "par[31]")
    plain = with_extensions(CONFIG, ("rescale",))
    (finding,) = verify_stream(plain, [load, accumulators, parameters, replace(rescale, table=0), Finish()], memory)
    assert finding.instruction == 3
    check_finding(finding, "FIELD", "lookup", "0 on machine 'rescaling'", "extension 'lookup' is off", "not 1")


@pytest.mark.parametrize(
    ("instruction", "contract"),
    [
        (Rescale(0, 1, 1, 1, 0, 0, 0, 0), "must be one of LOAD, STORE, GEMM, FINISH, ALU, not RESCALE"),
        (Load(MemoryType.PAR, 0, 0, 1, 1, 1), "must be one of uop, wgt, inp, acc, out, acc8, not par"),
    ],
)
def test_the_verifier_names_machine_and_extension(instruction, contract):
    found = [str(each) for each in verify_stream(load_config("vta"), [instruction, Finish()], PagedMemory())]
    assert f"{contract}, on machine 'vta', where the extension 'rescale' is off." in found[0]
