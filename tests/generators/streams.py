"""Instruction streams for the tests: random ones that terminate, and machines to run them on."""

from dataclasses import dataclass, replace

import numpy as np
from extended_machines import EVERY, with_extensions
from rescaling import extended_kinds, legal_rescale, rescale_of_time

from lathe.configs import load_config
from lathe.configs.encoding import GEMM_BEGIN, PAD_VALUE
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import Alu, Finish, Gemm, Load, MemoryType, PagedMemory, Store, encode, encode_uops, unit_of
from lathe.isa.table import MEMORIES, alu_operations
from lathe.rtl.engines.launch import Launch

NEIGHBOURS = {
    ("load", "pop_next"): 1,
    ("load", "push_next"): 0,
    ("compute", "pop_prev"): 0,
    ("compute", "pop_next"): 3,
    ("compute", "push_prev"): 1,
    ("compute", "push_next"): 2,
    ("store", "pop_prev"): 2,
    ("store", "push_prev"): 3,
}


PLACE = {"load": 0, "compute": 1, "store": 2}
NO_PAGES = (np.zeros(0, np.uint64), np.zeros((0, PAGE_BYTES), np.uint8))


@dataclass
class Stream:
    """A launch, for simulator and RTL. ``insns``: bytes to run instead of the encoded instructions."""

    instructions: list
    page_addrs: np.ndarray
    pages: np.ndarray
    tokens: tuple = (0, 0, 0, 0)
    insn_addr: int = 0x100000
    insns: np.ndarray | None = None

    def encoded(self, cfg):
        """The stream's bytes."""
        return encode(cfg, self.instructions) if self.insns is None else self.insns

    def raw(self, cfg):
        """The stream as the simulator takes it."""
        return {
            "insns": self.encoded(cfg),
            "insn_addr": self.insn_addr,
            "page_addrs": self.page_addrs,
            "pages": self.pages,
            "tokens": np.array(self.tokens),
        }

    def launch(self, cfg, **options):
        """The stream as the RTL takes it."""
        memory = PagedMemory.of(self.page_addrs, self.pages)
        memory.write(self.insn_addr, self.encoded(cfg).reshape(-1))
        return Launch(self.insn_addr, len(self.instructions), memory, tuple(self.tokens), **options)


def in_sequence(instructions):
    """The stream with tokens, and GEMMs of no iterations that carry them, such that only one unit works at a time."""
    found = []
    for instruction in instructions:
        now = unit_of(instruction).name.lower()
        if found:
            before = unit_of(found[-1]).name.lower()
            forward = PLACE[before] < PLACE[now]
            push, pop = ("push_next", "pop_prev") if forward else ("push_prev", "pop_next")
            if {before, now} == {"load", "store"}:
                found[-1] = replace(found[-1], **{push: True})
                found.append(Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, **{pop: True, push: True}))
                instruction = replace(instruction, **{pop: True})
            elif before != now:
                found[-1] = replace(found[-1], **{push: True})
                instruction = replace(instruction, **{pop: True})
        found.append(instruction)
    return found


def with_tokens(rng, instructions, counts=(0, 0, 0, 0), push=0.4, pop=0.7):
    """Random tokens that never deadlock, since pushes come before pops; returns also the counts that remain."""
    counts = list(counts)
    found = []
    for instruction in instructions:
        unit = unit_of(instruction).name.lower()
        flags = {}
        for name in ("pop_prev", "pop_next"):
            queue = NEIGHBOURS.get((unit, name))
            if queue is not None and counts[queue] and rng.random() < pop:
                counts[queue] -= 1
                flags[name] = True
        for name in ("push_prev", "push_next"):
            queue = NEIGHBOURS.get((unit, name))
            if queue is not None and rng.random() < push:
                counts[queue] += 1
                flags[name] = True
        found.append(replace(instruction, **flags))
    return found, tuple(counts)


def random_machine(rng, name="tiny"):
    """A shipped machine with random memory and timing parameters."""
    burst = rng.choice([1, 2, 3, 8, 16])
    return load_config(name).with_(
        **{
            "memory.bus_bits": rng.choice([8, 32, 64, 64, 128, 256]),
            "memory.latency": rng.choice([0, 1, 2, 7, 30]),
            "memory.burst_beats": burst,
            "memory.outstanding_reads": rng.choice([1, 2, 3, 8]),
            "memory.cycles_per_beat": rng.choice([1, 1, 2, 3]),
            "memory.shared_bandwidth": rng.random() < 0.6,
            "timing.command_queue_depth": rng.choice([1, 2, 3, 8, 64]),
            "timing.gemm_pipeline": rng.choice([1, 3, 6]),
            "timing.alu_pipeline": rng.choice([1, 3, 7]),
            "timing.dma_fifo_beats": burst * rng.choice([1, 2, 3]) + rng.choice([0, 0, 5]),
            "timing.fetch_fifo_beats": burst * rng.choice([1, 2, 4]) + rng.choice([0, 0, 3]),
            "timing.write_latency": rng.choice([0, 1, 2]),
            "timing.response_latency": rng.choice([0, 1, 3]),
            "timing.dma_pending": rng.choice([1, 2, 4]),
        }
    )


def random_block(rng, *, pads, most=6):
    """Fields of a random LOAD or STORE; DRAM addresses are often close to page boundaries."""
    x_size = rng.choice([0, 1, 1, 2, 3, most, 3 * most])
    fields = {
        "sram_base": 0,
        "dram_base": rng.choice([0, 1, 5, 250, 1020, rng.randrange(4096)]),
        "y_size": rng.choice([0, 1, 1, 2, 3, 5]),
        "x_size": x_size,
        "x_stride": rng.choice([x_size, x_size, x_size + 1, x_size + 7, 0]),
    }
    if pads and rng.random() < 0.5:
        for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
            fields[name] = rng.choice([0, 0, 1, 2])
    return fields


def random_instruction(rng, cfg):
    """One instruction with random sizes; its indices may be out of range, since only its timing matters."""
    kinds = ["inp", "inp", "wgt", "uop", "acc", "acc8", "gemm", "gemm", "alu", "alu", "store", "store", "finish"]
    kind = rng.choice([*kinds, *extended_kinds(cfg)])
    if kind == "rescale":
        return rescale_of_time(rng, cfg)
    if kind in ("inp", "wgt", "uop", "acc", "acc8", "par", "lut"):
        return Load(MemoryType[kind.upper()], **random_block(rng, pads=True))
    if kind == "store":
        return Store(memory_type=MemoryType.OUT, **random_block(rng, pads=False))
    if kind == "finish":
        return Finish()
    loops = {
        "uop_bgn": 0,
        "uop_end": rng.choice([0, 1, 2, 3]),
        "iter_out": rng.choice([0, 1, 2, 5]),
        "iter_in": rng.choice([1, 1, 3, 4]),
        "dst_factor_out": 0,
        "dst_factor_in": 0,
        "src_factor_out": 0,
        "src_factor_in": 0,
    }
    if kind == "gemm":
        gemm = Gemm(**loops, wgt_factor_out=0, wgt_factor_in=0, reset=rng.random() < 0.2)
        return begun(rng, cfg, gemm)
    return Alu(rng.choice(alu_operations(cfg)), **loops, use_imm=rng.random() < 0.5, imm=1)


def begun(rng, cfg, gemm):
    """The GEMM, which sometimes overwrites its accumulators, on machines with ``gemm_begin``."""
    return replace(gemm, begin=rng.random() < 0.4) if GEMM_BEGIN in cfg.extensions else gemm


def random_stream(rng, cfg, length):
    """A stream of `length` instructions and a FINISH that terminates, and the tokens before and after it."""
    tokens = tuple(rng.choice([0, 0, 1, 3]) for _ in range(4))
    instructions = [random_instruction(rng, cfg) for _ in range(length)] + [Finish()]
    instructions, left = with_tokens(rng, instructions, tokens)
    return instructions, tokens, left


# ---------------------------------------------------------------------- streams whose data matter


def legal_machine(rng, extensions=EVERY):
    """A machine on which all indices of ``legal_table`` are in range, with ``extensions`` or none."""
    name = rng.choice(["tiny", "tiny", "batch4", "odd"])
    if name != "odd":
        cfg = load_config(name)
    else:
        cfg = load_config("tiny").with_(
            batch=2, block_in=8, block_out=4, inp_buffer_bytes=4096, wgt_buffer_bytes=4096, acc_buffer_bytes=8192
        )
    return with_extensions(cfg, rng.choice([(), extensions]))


def legal_table(rng):
    """Columns (dst, src, wgt) of a micro-op table: random, with few destinations, or those of a loop nest."""
    style = rng.choice(["random", "crowded", "nest", "single"])
    if style == "nest":
        m, n, k = (rng.choice([1, 2, 3]) for _ in range(3))
        order = [(a, b, c) for a in range(m) for b in range(n) for c in range(k)]
        if rng.random() < 0.3:
            rng.shuffle(order)
        rows = [(a * n + b, a * k + c, b * k + c) for a, b, c in order]
    else:
        size = {"random": rng.randint(1, 12), "crowded": rng.randint(1, 12), "single": 1}[style]
        destinations = 3 if style == "crowded" else 64
        rows = [(rng.randrange(destinations), rng.randrange(64), rng.randrange(32)) for _ in range(size)]
    return tuple(zip(*rows, strict=True))


def legal_loops(rng, tables):
    """The loop fields of a GEMM or ALU over one of the tables, given as (first micro-op, count)."""
    begin, count = rng.choice(tables)
    cut = rng.randint(0, 2) if rng.random() < 0.2 else 0
    return {
        "uop_bgn": begin,
        "uop_end": max(begin + count - cut, 0),
        "iter_out": rng.choice([0, 1, 1, 2, 3]),
        "iter_in": rng.choice([1, 1, 2, 4]),
    } | {
        name: rng.choice([0, 0, 1, 1, 2, 5])
        for name in ("dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in")
    }


def legal_load(rng, memory, depth, dram_elements):
    """A LOAD within its scratchpad and the first `dram_elements` vectors of DRAM."""
    block = random_block(rng, pads=True, most=4)
    rows = block.get("y_pad_0", 0) + block["y_size"] + block.get("y_pad_1", 0)
    width = block.get("x_pad_0", 0) + block["x_size"] + block.get("x_pad_1", 0)
    if rows * width > depth:
        return Load(MemoryType[memory.upper()], 0, 0, 1, 3, 3)
    block["sram_base"] = rng.randrange(max(1, min(96, depth - rows * width + 1)))
    block["dram_base"] = rng.randrange(dram_elements)
    return Load(MemoryType[memory.upper()], **block)


def legal_stream(rng, cfg, length):
    """Instructions whose indices are in range, and their DRAM pages: (instructions, page addresses, pages).

    Micro-op tables start at byte 0, everything else is random bytes.
    """
    tables, rows = [], []
    for _ in range(4):
        columns = legal_table(rng)
        tables.append((len(rows), len(columns[0])))
        rows += zip(*columns, strict=True)
    columns = tuple(zip(*rows, strict=True))
    words = encode_uops(cfg, *(np.array(column) for column in columns)).tolist()
    content = np.random.default_rng(rng.randrange(1000)).integers(0, 256, 4 * 4096).astype(np.uint8)
    if rng.random() < 0.3:
        content[:] = 128  # the most negative values everywhere, for the largest products
    table = np.array(words, "<u4").view(np.uint8)
    content[: len(table)] = table
    instructions = [
        Load(MemoryType.UOP, 0, 0, 1, len(words), len(words)),
        *(
            Load(MemoryType[name.upper()], 0, 4096 // size, 1, 96, 96)
            for name, size in (
                ("inp", cfg.inp_element_bytes),
                ("wgt", cfg.wgt_element_bytes),
                ("acc", cfg.acc_element_bytes),
            )
        ),
    ]
    if "rescale" in cfg.extensions:
        instructions.append(Load(MemoryType.PAR, 0, 4096 // cfg.par_element_bytes, 1, 96, 96))
    if "lookup" in cfg.extensions:
        instructions.append(Load(MemoryType.LUT, 0, 4096 // cfg.lut_element_bytes, 1, cfg.lut_depth, cfg.lut_depth))
    for _ in range(length):
        kinds = ["inp", "wgt", "acc", "acc8", "gemm", "gemm", "gemm", "alu", "alu", "alu", "store"]
        kind = rng.choice([*kinds, *extended_kinds(cfg)])
        if kind == "rescale":
            instructions.append(legal_rescale(rng, cfg, lambda: legal_loops(rng, tables), columns))
        elif kind == "gemm":
            loops = legal_loops(rng, tables)
            factors = {name: rng.choice([0, 0, 1, 3]) for name in ("wgt_factor_out", "wgt_factor_in")}
            instructions.append(begun(rng, cfg, Gemm(**loops, **factors, reset=rng.random() < 0.15)))
        elif kind == "alu":
            instructions.append(
                Alu(
                    alu_opcode=rng.choice(alu_operations(cfg)),
                    **legal_loops(rng, tables),
                    use_imm=rng.random() < 0.5,
                    imm=rng.choice([0, 1, -1, 4, -3, 31, 100, -32768, 32767]),
                )
            )
        elif kind == "store":
            block = random_block(rng, pads=False, most=4)
            block["sram_base"] = rng.randrange(96)
            block["dram_base"] = rng.choice([300, 301, 5000])
            instructions.append(Store(memory_type=MemoryType.OUT, **block))
        else:
            memory = MEMORIES[MemoryType[kind.upper()]]
            elements = 2 * 4096 // memory.element_bytes(cfg)
            load = legal_load(rng, kind, memory.depth(cfg), elements)
            if PAD_VALUE in cfg.extensions:
                value, limit = rng.choice([0, 1, -1, 127, -128, rng.randrange(-128, 128)]), rng.random() < 0.3
                load = replace(load, pad_value=value, pad_limit=limit)
            instructions.append(load)
    addresses = np.arange(4, dtype=np.uint64) * 4096
    return instructions, addresses, content.reshape(4, 4096)
