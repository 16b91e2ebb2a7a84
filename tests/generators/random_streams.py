"""Random streams and machines that the RTL can be built for."""

from dataclasses import replace

import numpy as np
from comparison import fault_of
from streams import NO_PAGES, Stream, in_sequence, legal_machine, legal_stream, random_machine, random_stream

from lathe.configs.memory import PAGE_BYTES
from lathe.isa import (
    Alu,
    AluOp,
    BusError,
    Finish,
    Gemm,
    Load,
    MachineFault,
    MemoryType,
    Rescale,
    Store,
    encode,
    encode_uops,
)
from lathe.isa.operands import operands_of
from lathe.isa.table import MEMORIES
from lathe.sim import replay


def buildable(cfg):
    """The machine with at least the pipeline depth and response latency that the hardware needs."""
    timing = cfg.timing
    return cfg.with_(
        **{
            "timing.gemm_pipeline": max(3, timing.gemm_pipeline),
            "timing.response_latency": max(1, timing.response_latency),
        }
    )


def other_memory(rng, cfg):
    """A machine with the same hardware and another memory."""
    return cfg.with_(
        **{
            "memory.latency": rng.choice([0, 1, 8, 40]),
            "memory.cycles_per_beat": rng.choice([1, 1, 2]),
            "memory.shared_bandwidth": rng.random() < 0.7,
        }
    )


def stream_of_time(rng, cfg, length):
    """A stream for checks of timing; its tokens do not order all data, which are mostly zeros."""
    while True:
        instructions, tokens, _ = random_stream(rng, cfg, length)
        stream = Stream(instructions, *NO_PAGES, tokens=tokens, insn_addr=rng.choice([0x100000, 0x100010, 0x100FE0]))
        try:
            replay(cfg, stream.raw(cfg), trace=False)
        except MachineFault:  # a block exceeds a scratchpad of this machine
            continue
        return stream


def stream_of_data(rng, cfg, length):
    """A stream on random data, in which every instruction starts after the previous one has ended."""
    instructions, page_addrs, pages = legal_stream(rng, cfg, length)
    return Stream(in_sequence([*instructions, Finish()]), page_addrs, pages)


def stream_of_transfers(rng, cfg):
    """Many small and empty LOADs and STOREs without tokens, so that as many as possible are in flight."""
    instructions = []
    for _ in range(rng.randint(10, 25)):
        block = {"sram_base": 0, "y_size": rng.choice([0, 1, 1, 1, 2]), "x_size": rng.choice([0, 1, 1, 2, 5])}
        place = {"dram_base": rng.randrange(64), "x_stride": rng.choice([block["x_size"], 9])}
        if rng.random() < 0.5:
            instructions.append(Load(rng.choice([MemoryType.INP, MemoryType.WGT]), **block, **place))
        else:
            place["dram_base"] += 0x8000 // cfg.out_element_bytes
            instructions.append(Store(memory_type=MemoryType.OUT, **block, **place))
    page = np.random.default_rng(rng.randrange(1000)).integers(0, 256, (1, PAGE_BYTES)).astype(np.uint8)
    return Stream([*instructions, Finish()], np.array([0x8000], np.uint64), page)


def stream_of_shifts(rng, cfg):
    """The ALU shifts random accumulators by amounts close to their width, which are in accumulators."""
    amounts = np.arange(-40, 41)
    count, values = len(amounts), cfg.batch * cfg.block_out
    acc = np.random.default_rng(rng.randrange(1000)).integers(-(1 << 31), 1 << 31, (2 * count, values))
    acc[:count] = amounts[:, None]
    uops = encode_uops(cfg, np.arange(count) + count, np.arange(count), np.zeros(count, int))
    pages = np.zeros((64, PAGE_BYTES), np.uint8)
    for place, content in ((0, np.asarray(uops, "<u4")), (0x1000, acc.astype("<i4"))):
        encoded = content.reshape(-1).view(np.uint8)
        pages.reshape(-1)[place : place + len(encoded)] = encoded
    stored = 0x20000 // cfg.out_element_bytes
    instructions = [
        Load(MemoryType.UOP, 0, 0, 1, count, count),
        Load(MemoryType.ACC, 0, 0x1000 // cfg.acc_element_bytes, 1, 2 * count, 2 * count),
        Alu(AluOp.SHR, 0, count, 1, 1, 0, 0, 0, 0),
        Store(memory_type=MemoryType.OUT, sram_base=count, dram_base=stored, y_size=1, x_size=count, x_stride=count),
        Finish(),
    ]
    return Stream(in_sequence(instructions), np.arange(64, dtype=np.uint64) * PAGE_BYTES, pages)


def stream_of_beginnings(rng, cfg):
    """GEMMs that add to random accumulators, and such that overwrite them, some of them several times."""
    data = np.random.default_rng(rng.randrange(1 << 30))
    uops = encode_uops(cfg, data.integers(0, 6, 8), data.integers(0, 8, 8), data.integers(0, 8, 8))
    pages = data.integers(0, 256, (64, PAGE_BYTES)).astype(np.uint8)
    pages[0, : 4 * len(uops)] = np.asarray(uops, "<u4").view(np.uint8)
    at = {kind: place * PAGE_BYTES // MEMORIES[kind].element_bytes(cfg) for place, kind in enumerate(_BEGUN, 1)}
    loads = [Load(kind, 0, at[kind], 1, 32, 32) for kind in _BEGUN]
    gemms = []
    for begin in (True, False, True):
        first, loops = rng.randrange(8), [rng.choice([0, 1, 1, 2]) for _ in range(6)]
        gemms.append(
            Gemm(first, rng.randint(first + 1, 8), rng.choice([1, 2, 3]), rng.choice([1, 4]), *loops, begin=begin)
        )
    stored = 0x20000 // cfg.out_element_bytes
    instructions = [
        Load(MemoryType.UOP, 0, 0, 1, 8, 8),
        *loads,
        *gemms,
        Store(memory_type=MemoryType.OUT, sram_base=0, dram_base=stored, y_size=1, x_size=32, x_stride=32),
        Finish(),
    ]
    return Stream(in_sequence(instructions), np.arange(64, dtype=np.uint64) * PAGE_BYTES, pages)


_BEGUN = (MemoryType.ACC, MemoryType.INP, MemoryType.WGT)


def broken_stream(rng, cfg, stream):
    """The stream with one or several faults: in instructions, bytes or tokens."""
    instructions = list(stream.instructions)
    for _ in range(rng.choice([1, 1, 2, 3])):
        kind = rng.choice(["token", "pop", "pop", "block", "loops", "loops", "memory", "finish", "stream", "stream"])
        of = {"block": Load | Store, "loops": Gemm | Alu | Rescale, "memory": Load | Store, "stream": Store}.get(
            kind, object
        )
        places = [place for place, each in enumerate(instructions) if isinstance(each, of)]
        if not places:
            continue
        place = rng.choice(places)
        each = instructions[place]
        if kind == "token":
            each = replace(each, **{rng.choice(["pop_prev", "pop_next", "push_prev", "push_next"]): True})
        elif kind == "pop":
            each = replace(each, **{rng.choice(["pop_prev", "pop_next"]): True})
        elif kind == "block":
            each = replace(each, sram_base=rng.choice([120, 250, 255, 65535]))
        elif kind == "loops":
            factor = rng.choice([field for operand in operands_of(each.opcode) for field in operand.factor_fields])
            loops = {"iter_out": rng.choice([2, 5]), "iter_in": rng.choice([3, 9])}
            loops |= {} if isinstance(each, Rescale) else {"reset": False}
            micro_ops = {"uop_bgn": rng.choice([0, 250]), "uop_end": rng.choice([256, 257, 300])}
            each = replace(each, **(loops | {factor: rng.choice([30, 100, 127])} if rng.random() < 0.7 else micro_ops))
            if isinstance(each, Rescale) and rng.random() < 0.5:  # out of range in par before a hazard
                apart = {"iter_out": 5, "iter_in": 1, "dst_factor_out": 30, "wgt_factor_out": cfg.par_depth // 2}
                each = replace(each, **apart)
        elif kind == "memory":
            field = {"memory_type": rng.choice(list(MemoryType))} if rng.random() < 0.7 else {"x_pad_0": 1}
            each = replace(each, **field)
        elif kind == "stream":
            # Overwrites the stream, or memory close to it.
            size = cfg.out_element_bytes
            each = replace(each, dram_base=stream.insn_addr // size + rng.choice([-40, -8, -1, 0, 3]))
        instructions[place] = each
        if kind == "finish":
            instructions = [each for each in instructions if not isinstance(each, Finish)] or [Finish()]
    insns = encode(cfg, instructions)
    if rng.random() < 0.15:
        insns[rng.randrange(len(insns))] = [rng.randrange(256) for _ in range(16)]
    tokens = stream.tokens
    if rng.random() < 0.15:
        tokens = tuple(rng.choice([count, 65535, 65534]) for count in tokens)
    return replace(stream, instructions=instructions, insns=insns, tokens=tokens)


def tied_stream(rng, cfg):
    """A stream in which fetch and a unit detect a fault in the same cycle; None if there is none."""
    unit = rng.choice(["load", "compute", "store"])
    rest = [Gemm(*[0] * 10) for _ in range(rng.randint(10, 14))]
    beyond = {
        "load": Load(MemoryType.INP, cfg.inp_depth, 0, 1, 1, 1, pop_next=True),
        "compute": Alu(AluOp.ADD, 0, cfg.uop_depth + 1, 1, 1, 0, 0, 0, 0),
        "store": Store(sram_base=cfg.acc_depth, dram_base=0, y_size=1, x_size=1, x_stride=1, pop_prev=True),
    }[unit]
    legal = replace(beyond, **({"uop_end": 0} if unit == "compute" else {"sram_base": 0}))
    pushes = {"load": {"push_prev": True}, "compute": {}, "store": {"push_next": True}}[unit]
    for steps in range(1, 200):
        waits = Gemm(0, 1, steps, 1, *[0] * 6, **pushes)

        def stream(second, last, waits=waits):
            return Stream([Load(MemoryType.UOP, 0, 0, 1, 1, 1), waits, second, *rest, last, Finish()], *NO_PAGES)

        if fault_of(cfg, stream(beyond, rest[0]))[1] == fault_of(cfg, stream(legal, NO_NEIGHBOUR))[1]:
            return stream(beyond, NO_NEIGHBOUR)
    return None


# An instruction that fetch refuses.
NO_NEIGHBOUR = Load(MemoryType.INP, 0, 0, 0, 0, 0, pop_prev=True)


def bad_memory(rng):
    """Bus errors for ``Launch``, mostly none."""
    found = {}
    if rng.random() < 0.3:
        number = rng.choice([0, 1, rng.randrange(20), rng.randrange(200)])
        found["error"] = BusError(rng.choice(["read", "write"]), number)
    if rng.random() < 0.1:
        # Within the stream, or before all transferred data.
        found["memory_end"] = rng.choice([0x100000, 0x100000 + rng.randrange(300), 0x101000])
    return found


__all__ = [
    "bad_memory",
    "broken_stream",
    "buildable",
    "legal_machine",
    "other_memory",
    "random_machine",
    "stream_of_data",
    "stream_of_shifts",
    "stream_of_time",
    "stream_of_transfers",
    "tied_stream",
]
