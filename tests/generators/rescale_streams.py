"""Streams of RESCALEs on sums, parameters and tables of all magnitudes, with all bits of the results stored."""

import numpy as np
from rescaling import rescale_flags
from streams import Stream, in_sequence

from lathe.configs.memory import PAGE_BYTES
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, Rescale, Store, encode_uops

PARAMETERS, TABLES, SUMS = 4096, 16384, 65536  # DRAM addresses
CELLS = 64


def content(rng, cfg):
    """Sums of all magnitudes, parameters that scale some of them to a few bits, and tables."""
    values = np.random.default_rng(rng.randrange(1000))

    def numbers(bits, count):
        return values.integers(-(1 << bits), 1 << bits, count) >> values.integers(0, bits + 1, count)

    pages = np.zeros((32, PAGE_BYTES), np.uint8)
    flat = pages.reshape(-1)
    count = cfg.par_depth * cfg.block_out
    factors = numbers(25, count) << 6 | np.where(values.random(count) < 0.7, values.integers(16, 48, count), 63)
    biases = numbers(31, count)
    # Some parameters produce halves for small sums, and some overflow for sums close to the limits of int32.
    halving, wrapping = values.random((2, count)) < [[0.3], [0.15]]
    biases[halving], factors[halving] = 0, 1 << 6 | values.integers(1, 3, count)[halving]
    biases[wrapping], factors[wrapping] = rng.choice([-(1 << 31), (1 << 31) - 1]), 1 << 6 | 24
    parameters = np.stack([biases, factors], 1).astype("<i4")
    flat[PARAMETERS : PARAMETERS + parameters.nbytes] = parameters.reshape(-1).view(np.uint8)
    sums = numbers(31, CELLS * cfg.batch * cfg.block_out).astype("<i4")
    small, extreme = values.random((2, len(sums))) < [[0.3], [0.2]]
    sums[small] = values.integers(-100, 100, len(sums))[small]
    sums[extreme] = values.choice([-(1 << 31), (1 << 31) - 1], len(sums))[extreme]
    flat[SUMS : SUMS + sums.nbytes] = sums.view(np.uint8)
    flat[TABLES : TABLES + 8192] = values.integers(0, 256, 8192)
    return pages


def stream(rng, cfg, columns, instructions):
    """Load micro-ops, parameters, sums and tables, run the instructions, then store all bits of the sums."""
    pages = content(rng, cfg)
    every = np.arange(CELLS)
    table = encode_uops(cfg, *(np.concatenate([column, every]) for column in columns)).view(np.uint8)
    pages.reshape(-1)[: table.size] = table.reshape(-1)
    first = len(columns[0])

    def loaded(kind, address, size, count, base=0, **pads):
        return Load(kind, base, address // size, 1, count, count, **pads)

    given = [
        loaded(MemoryType.UOP, 0, cfg.uop_element_bytes, first + CELLS),
        loaded(MemoryType.PAR, PARAMETERS, cfg.par_element_bytes, cfg.par_depth - 3, 1, x_pad_1=1),
        loaded(MemoryType.ACC, SUMS, cfg.acc_element_bytes, CELLS),
    ]
    if cfg.lut_depth:
        given.append(loaded(MemoryType.LUT, TABLES, cfg.lut_element_bytes, cfg.lut_depth - 5, 2, x_pad_0=1))
    shown = []
    for number in range(4):
        address = (0x18000 + 0x1000 * number) // cfg.out_element_bytes
        shown += [
            Store(sram_base=0, dram_base=address, y_size=1, x_size=CELLS, x_stride=CELLS),
            Alu(AluOp.SHR, first, first + CELLS, 1, 1, 0, 0, 0, 0, use_imm=True, imm=8),
        ]
    whole = in_sequence([*given, *instructions, *shown, Finish()])
    return Stream(whole, np.arange(len(pages), dtype=np.uint64) * PAGE_BYTES, pages)


def followed(rng, cfg):
    """RESCALEs of all kinds, each directly followed by an instruction that reads its last result."""
    free = [*range(CELLS)]
    rng.shuffle(free)
    count = 6
    columns = free[:count], free[count : 2 * count], [rng.randrange(cfg.par_depth - 8) for _ in range(count)]
    next_ones = [
        Alu(AluOp.ADD, count - 1, count, 1, 1, 0, 0, 0, 0, use_imm=True, imm=100),
        Alu(AluOp.MUL, 0, count, 1, 1, 0, 0, 0, 0),
        Alu(AluOp.MAX, count - 2, count, 2, 1, 0, 0, 0, 0),
        Gemm(count - 1, count, 3, 1, 0, 0, 0, 0, 0, 0),
        Rescale(count - 1, count, 1, 1, 0, 0, 0, 0, **rescale_flags(rng, cfg)),
        Rescale(0, count, 0, 1, 0, 0, 0, 0, **rescale_flags(rng, cfg)),
    ]
    found = []
    for each in next_ones:
        first = rng.randrange(count)
        factors = rng.choice([0, 1, 2]), rng.choice([0, 1])
        found += [Rescale(first, count, 1, 1, 0, 0, *factors, **rescale_flags(rng, cfg)), each]
        if rng.random() < 0.3:
            found.append(Load(MemoryType.PAR, rng.randrange(8), 9, 2, 3, 5, y_pad_1=1, x_pad_0=2))
    return stream(rng, cfg, columns, found)


def at_once(rng, cfg):
    """One RESCALE of all sums, whose results are stored."""
    cells = [*range(CELLS)]
    rng.shuffle(cells)
    parameters = [rng.randrange(cfg.par_depth) for _ in cells]
    rescale = Rescale(0, CELLS, 1, 1, 0, 0, 0, 0, **rescale_flags(rng, cfg) | {"add": False})
    return stream(rng, cfg, (cells, cells, parameters), [rescale])
