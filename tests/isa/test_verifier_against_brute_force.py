"""Races and uninitialised reads of random streams, against explicit sets of cells and an explicit order graph."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.configs.memory import LOOKUP_STAGES, RESCALE_STAGES
from lathe.isa import (
    Alu,
    AluOp,
    Columns,
    FindingKind,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    PagedMemory,
    Rescale,
    Store,
    TokenQueue,
    Unit,
    decode_uops,
    encode_uops,
    unit_of,
    verify_stream,
)
from lathe.isa.happens_before import order_of
from lathe.isa.table import QUEUE_OF

CONFIG = load_config("tiny").with_(
    inp_buffer_bytes=64,
    wgt_buffer_bytes=64,
    acc_buffer_bytes=256,
    uop_buffer_bytes=32,
    par_buffer_bytes=128,
    lut_buffer_bytes=2048,
    extensions=("gemm_begin", "rescale", "rescale_add", "lookup"),
)  # 16 inp, 4 wgt, 16 acc, 8 uop, 4 par, 512 lut
UOPS = 0x1000
TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")

Access = tuple[str, int]  # memory and cell


def random_stream(random: np.random.Generator) -> list[Instruction]:
    """A stream that completes: an instruction pops only tokens that earlier instructions of the stream push."""
    tokens = dict.fromkeys(TokenQueue, 0)
    instructions: list[Instruction] = [Load(MemoryType.UOP, 0, UOPS // 4, 1, 8, 8)]
    for _ in range(random.integers(2, 14)):
        instruction = _random_instruction(random)
        unit = unit_of(instruction)
        fields = {}
        for name in TOKENS:
            queue = QUEUE_OF.get((unit, name))
            if queue is None or random.random() < 0.5:
                continue
            if name.startswith("push"):
                tokens[queue] += 1
            elif tokens[queue]:
                tokens[queue] -= 1
            else:
                continue
            fields[name] = True
        values = {name: getattr(instruction, name) for name in instruction.__slots__}
        instructions.append(type(instruction)(**values | fields))
    # Only the order within units matters; in half of the streams, sorted by unit, pops may precede their pushes.
    if random.random() < 0.5:
        instructions.sort(key=unit_of)
    return [*instructions, Finish()]


def _random_instruction(random: np.random.Generator) -> Instruction:
    def number(end: int) -> int:
        return int(random.integers(0, end))

    def loops() -> dict[str, int]:
        bgn = number(8)
        sizes = {"uop_bgn": bgn, "uop_end": bgn + 1 + number(8 - bgn), "iter_out": number(3), "iter_in": 1 + number(3)}
        factors = ("dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in")
        return sizes | {name: number(3) for name in factors}

    match number(9):
        case 0:
            base, size = number(12), 1 + number(4)
            return Load(MemoryType.INP, base, 0x800 + 4 * number(3), 1, size, size, x_pad_0=number(2))
        case 1:
            return Load(MemoryType.WGT, number(3), 0x400, 1, 1, 1)
        case 2:
            kind = MemoryType.ACC8 if number(2) else MemoryType.ACC
            base = 0x800 if kind == MemoryType.ACC8 else 0x200
            return Load(kind, number(12), base + number(4), 2, 1 + number(2), 1 + number(3))
        case 3:
            flags = {"reset": bool(number(2)), "begin": bool(number(2))}
            return Gemm(**loops(), wgt_factor_out=number(2), wgt_factor_in=number(2), **flags)
        case 4:
            return Alu(AluOp.ADD, **loops(), use_imm=bool(number(2)), imm=1)
        case 5:
            kept = {name: value for name, value in loops().items() if not name.startswith("src_")}
            factors = {"wgt_factor_out": number(2), "wgt_factor_in": number(2), "table": number(2)}
            return Rescale(**kept, **factors, add=bool(number(2)), lookup=bool(number(2)))
        case 6:
            base = number(4)
            return Load(MemoryType.PAR, base, 0x100 + number(2), 1, 4 - base, 4 - base)
        case 7:
            base, size = number(300), number(257)
            return Load(MemoryType.LUT, base, 0x800 + number(3), 1, min(size, 512 - base), 512)
        case _:
            return Store(
                sram_base=number(12),
                dram_base=0x800 + number(8),
                y_size=1 + number(2),
                x_size=1 + number(2),
                x_stride=3,
            )


def accesses(instruction: Instruction, words: np.ndarray) -> tuple[set[Access], set[Access]]:
    """The scratchpad vectors (cells) and bytes of DRAM that an instruction reads and writes, one by one."""
    reads: set[Access] = set()
    writes: set[Access] = set()
    depth = {"inp": 16, "wgt": 4, "acc": 16, "uop": 8, "par": 4, "lut": 512}
    size = {MemoryType.INP: 4, MemoryType.WGT: 16, MemoryType.ACC: 16, MemoryType.ACC8: 4, MemoryType.UOP: 4}
    size |= {MemoryType.PAR: 32, MemoryType.LUT: 4}
    match instruction:
        case Load():
            name = "acc" if instruction.memory_type == MemoryType.ACC8 else instruction.memory_type.name.lower()
            width = instruction.x_pad_0 + instruction.x_size + instruction.x_pad_1
            count = width * instruction.y_size if instruction.x_size else 0
            writes = {(name, instruction.sram_base + k) for k in range(count)}
            reads = set(_dram_bytes(instruction, size[instruction.memory_type]))
        case Store():
            block = instruction.y_size * instruction.x_size
            reads = {("acc", instruction.sram_base + k) for k in range(block)}
            writes = set(_dram_bytes(instruction, 4))
        case Gemm() | Alu() | Rescale():
            for dst, src, wgt in _indices(instruction, words):
                writes.add(("acc", dst))
                if isinstance(instruction, Gemm):
                    if not instruction.reset:
                        reads |= {("inp", src), ("wgt", wgt)} | (set() if instruction.begin else {("acc", dst)})
                elif isinstance(instruction, Rescale):
                    reads |= {("acc", dst), ("par", wgt)}
                    if instruction.add:
                        reads |= {("acc", src), ("par", wgt | 1)}
                    if instruction.lookup:
                        reads |= {("lut", instruction.table * 256 + value) for value in range(256)}
                else:
                    reads |= {("acc", dst)} | (set() if instruction.use_imm else {("acc", src)})

    def inside(cells: set[Access]) -> set[Access]:
        return {(name, cell) for name, cell in cells if name == "dram" or cell < depth[name]}

    return inside(reads), inside(writes)


def _dram_bytes(move: Load | Store, size: int) -> Iterator[Access]:
    for y in range(move.y_size):
        for x in range(move.x_size):
            for byte in range(size):
                yield "dram", (move.dram_base + y * move.x_stride + x) * size + byte


def _indices(loop: Gemm | Alu | Rescale, words: np.ndarray) -> Iterator[tuple[int, int, int]]:
    dst, src, wgt = decode_uops(CONFIG, words)
    for o in range(loop.iter_out):
        for i in range(loop.iter_in):
            for u in range(loop.uop_bgn, min(loop.uop_end, CONFIG.uop_depth)):
                weight = int(wgt[u])
                if not isinstance(loop, Alu):
                    weight += o * loop.wgt_factor_out + i * loop.wgt_factor_in
                moved = o * loop.dst_factor_out + i * loop.dst_factor_in
                other = moved
                if not isinstance(loop, Rescale):
                    other = o * loop.src_factor_out + i * loop.src_factor_in
                yield int(dst[u]) + moved, int(src[u]) + other, weight


def reused(loop: Rescale, words: np.ndarray) -> bool:
    """Whether an issue cycle reads an accumulator before the write of a preceding issue cycle is complete."""
    written: list[int | None] = []
    for dst, src, _ in _indices(loop, words):
        for read in (src, dst) if loop.add else (dst,):
            if read in written[-(RESCALE_STAGES + LOOKUP_STAGES) :]:
                return True
            written.append(None)
        written[-1] = dst
    return False


def before(stream: list[Instruction]) -> np.ndarray:
    """before[i, j]: i is done before j starts; the transitive closure of the orders within units and by tokens."""
    count = len(stream)
    edge = np.zeros((count, count), np.int64)
    for unit in Unit:
        queue = [index for index, each in enumerate(stream) if unit_of(each) is unit]
        for first, second in pairwise(queue):
            edge[first, second] = 1
    for queue in TokenQueue:
        pushes, pops = (
            [
                index
                for index, each in enumerate(stream)
                if any(
                    getattr(each, name) and QUEUE_OF.get((unit_of(each), name)) == queue
                    for name in TOKENS
                    if name.startswith(verb)
                )
            ]
            for verb in ("push", "pop")
        )
        for push, pop in zip(pushes, pops, strict=False):
            edge[push, pop] = 1
    closed = edge
    for _ in range(count):
        closed = ((closed + closed @ closed) > 0).astype(np.int64)
    return closed > 0


@pytest.mark.sample(62)
@pytest.mark.parametrize("seed", range(150))
def test_findings_are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    words = encode_uops(CONFIG, random.integers(0, 16, 8), random.integers(0, 16, 8), random.integers(0, 4, 8))
    memory = PagedMemory()
    memory.write(UOPS, words.view(np.uint8))
    stream = random_stream(random)
    order = order_of(Columns.of(stream))
    sequence = order.sequence.tolist()
    closed = before(stream)
    assert sorted(sequence) == list(range(len(stream)))
    assert not any(closed[second, first] for k, first in enumerate(sequence) for second in sequence[k + 1 :])
    units = np.array([unit_of(each) for each in stream])
    for first in range(len(stream)):
        others = units != units[first]
        done = order.position[first] < order.clock[others, order.unit[first]]
        assert done.tolist() == closed[first, others].tolist()

    touched = [accesses(each, words) for each in stream]
    races: dict[tuple[int, Unit, str], set[int]] = defaultdict(set)
    blank: dict[tuple[int, str], set[int]] = defaultdict(set)
    for k, late in enumerate(sequence):
        reads, writes = touched[late]
        written: set[Access] = set()
        for early in sequence[:k]:
            early_reads, early_writes = touched[early]
            written |= early_writes
            if unit_of(stream[early]) is unit_of(stream[late]) or closed[early, late]:
                continue
            for name, cell in (early_writes & (reads | writes)) | (early_reads & writes):
                races[late, unit_of(stream[early]), name].add(cell)
        for name, cell in reads - written:
            if name != "dram":
                blank[late, name].add(cell)

    findings = verify_stream(CONFIG, stream, memory)
    all_loaded = not any(each.kind is FindingKind.UOP_UNLOADED for each in findings)
    reuses = {n for n, each in enumerate(stream) if isinstance(each, Rescale) and reused(each, words)}
    assert not all_loaded or {each.instruction for each in findings if each.kind is FindingKind.RAW_HAZARD} == reuses
    found_races: dict[tuple[int, Unit, str], int] = defaultdict(int)
    found_blank: dict[tuple[int, str], set[str]] = defaultdict(set)
    for finding in findings:
        name = finding.cell.split("[")[0].split(" ")[0].lower()
        if finding.kind is FindingKind.RACE:
            assert finding.other is not None
            key = (finding.instruction, unit_of(stream[finding.other]), name)
            found_races[key] = max(found_races[key], finding.cells)
        elif finding.kind is FindingKind.UNINITIALISED:
            found_blank[finding.instruction, name].add(finding.cell)
    assert found_races.keys() == races.keys()
    # An instruction may race in two fields (a GEMM's dst is read and written); one of them has the most cells.
    assert all(0 < found_races[key] <= len(cells) for key, cells in races.items())
    assert all(found_races[key] == len(cells) for key, cells in races.items() if key[2] != "acc")
    assert found_blank.keys() == blank.keys()
    assert all(f"{name}[{min(cells)}]" in found_blank[key] for key, cells in blank.items() for name in [key[1]])
