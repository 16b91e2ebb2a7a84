"""Random streams, many of them illegal, with extreme field values and random tokens, on a very small machine."""

from dataclasses import replace

import numpy as np
from streams import NEIGHBOURS, Stream, begun

from lathe.configs import load_config
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, PagedMemory, Store, encode, encode_uops, unit_of
from lathe.isa.table import MEMORIES, MOST_TOKENS, alu_operations, memories_of, placements

UOPS = 0x1000  # byte addresses; the page of the micro-ops and the next one have random bytes
STREAM = 0x8000
# Illegal STORE targets: micro-ops, the stream, and what is stored before it.
NOWHERE = (UOPS, STREAM - 64, STREAM - 8, STREAM)


def small_machine(queue_depth=3):
    """16 vectors of inp and acc, 4 of wgt, 8 micro-ops, and short command queues."""
    return load_config("tiny").with_(
        inp_buffer_bytes=64,
        wgt_buffer_bytes=64,
        acc_buffer_bytes=256,
        uop_buffer_bytes=32,
        **{"timing.command_queue_depth": queue_depth},
    )


def any_stream(rng, cfg, *, most=12, long_loops=False):
    """A stream on random data; about half of them run without a fault."""
    instructions = [Load(MemoryType.UOP, 0, UOPS // 4, 1, cfg.uop_depth, cfg.uop_depth)] if rng.random() < 0.9 else []
    for memory in (MemoryType.INP, MemoryType.WGT, MemoryType.ACC):
        if rng.random() < 0.8:
            depth = MEMORIES[memory].depth(cfg)
            base = 2 * UOPS // MEMORIES[memory].element_bytes(cfg)
            instructions.append(Load(memory, 0, base, 1, depth, depth))
    careless = rng.choice([0, 0, 0.05, 0.3])
    instructions += [any_instruction(rng, cfg, careless, long_loops) for _ in range(rng.randint(0, most))]
    if rng.random() < 0.95:
        instructions.append(Finish())
    if rng.random() < 0.05:
        rng.shuffle(instructions)
    if rng.random() < 0.02:
        instructions = []
    tokens = tuple(rng.choice([0, 0, 0, 1, 2]) for _ in range(4))
    if rng.random() < 0.05:
        tokens = tuple(rng.choice([count, MOST_TOKENS, MOST_TOKENS - 1]) for count in tokens)
    instructions = with_any_tokens(rng, instructions, tokens, rng.choice([0, 0, 0, 0.1]))
    stream = Stream(instructions, *content(rng, cfg), tokens=tokens, insn_addr=STREAM)
    if instructions and rng.random() < 0.05:
        stream = replace(stream, insns=with_an_unused_bit(rng, cfg, instructions))
    return stream


def with_an_unused_bit(rng, cfg, instructions):
    """The stream's bytes, with a bit set that belongs to no field of an instruction, if it has such a bit."""
    encoded = encode(cfg, instructions)
    index = rng.randrange(len(instructions))
    used = [range(each.lsb, each.lsb + each.width) for each in placements(cfg, instructions[index].opcode).values()]
    if free := [bit for bit in range(8 * INSTRUCTION_BYTES) if not any(bit in bits for bits in used)]:
        bit = rng.choice(free)
        encoded[index, bit // 8] |= 1 << bit % 8
    return encoded


def content(rng, cfg):
    """Micro-ops, mostly with indices in range, and random data: (page addresses, pages)."""
    wild = rng.random() < 0.2
    words = encode_uops(
        cfg,
        *(
            np.array([rng.randrange(limit if wild else max(1, limit // 4)) for _ in range(cfg.uop_depth)])
            for limit in (cfg.acc_depth, min(cfg.inp_depth, cfg.acc_depth), cfg.wgt_depth)
        ),
    )
    memory = PagedMemory()
    memory.write(UOPS, np.random.default_rng(rng.randrange(1000)).integers(0, 256, 0x2000).astype(np.uint8))
    memory.write(UOPS, words.view(np.uint8))
    return np.array(list(memory.pages), np.uint64), np.array(list(memory.pages.values()))


def any_instruction(rng, cfg, careless, long_loops):
    """One instruction; with probability ``careless`` it has extreme field values."""
    kind = rng.choice([*"LLLLSSGGGAAAF"] if rng.random() < 0.3 else [*"LLLLSSGGGAAA"])
    make = {"L": any_load, "S": any_store, "G": any_gemm, "A": any_alu, "F": lambda *_: Finish()}[kind]
    instruction = make(rng, cfg)
    if rng.random() < careless:
        for name, place in rng.sample(list(placements(cfg, instruction.opcode).items()), 2):
            if name == "opcode" or name in NEIGHBOURS or (name.startswith("iter") and not long_loops):
                continue
            value = rng.choice([place.lowest, place.lowest + (place.highest > 0), place.highest, place.highest // 2])
            if name in ("memory_type", "alu_opcode"):
                value = rng.choice(list(MemoryType if name == "memory_type" else AluOp))  # of all machines
            flags = ("pop_prev", "pop_next", "push_prev", "push_next")
            if name not in flags or rng.random() < 0.3:
                instruction = replace(instruction, **{name: value})
    return instruction


def block(rng, cfg, memory, *, pads):
    """Fields of a LOAD or STORE whose block often ends at or close to the scratchpad's end."""
    fields = {"y_size": rng.choice([0, 1, 1, 1, 2, 3]), "x_size": rng.choice([0, 1, 1, 2, 2, 3])}
    if pads and rng.random() < 0.4:
        fields |= {name: rng.choice([0, 0, 1]) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    rows = fields.get("y_pad_0", 0) + fields["y_size"] + fields.get("y_pad_1", 0)
    width = fields.get("x_pad_0", 0) + fields["x_size"] + fields.get("x_pad_1", 0)
    left = MEMORIES[memory].depth(cfg) - rows * width
    over = rng.choice([0] * 12 + [1])
    fields["sram_base"] = max(0, rng.choice([0, left + over, rng.randint(0, max(0, left))]))
    fields["x_stride"] = rng.choice([fields["x_size"], fields["x_size"], fields["x_size"] + 1, 7, 0])
    return fields


def any_load(rng, cfg):
    memory = rng.choice([each.type for each in memories_of(cfg) if each.type != MemoryType.OUT])
    size = MEMORIES[memory].element_bytes(cfg)
    base = UOPS if memory == MemoryType.UOP else rng.choice([2 * UOPS, 2 * UOPS, 3 * UOPS])
    return Load(memory, dram_base=base // size + rng.choice([0, 0, 1, 3]), **block(rng, cfg, memory, pads=True))


def any_store(rng, cfg):
    size = cfg.out_element_bytes
    base = rng.choice([3 * UOPS, 3 * UOPS, 3 * UOPS, 2 * UOPS, *NOWHERE])
    if base in NOWHERE and rng.random() < 0.7:
        base = 4 * UOPS
    return Store(dram_base=base // size + rng.choice([0, 1, 2, 5]), **block(rng, cfg, MemoryType.OUT, pads=False))


def loops(rng, cfg):
    """The loop fields of a GEMM or ALU."""
    begin = rng.randrange(cfg.uop_depth)
    return {
        "uop_bgn": begin,
        "uop_end": rng.choice([begin + 1, begin + 1, begin + 2, cfg.uop_depth, begin]),
        "iter_out": rng.choice([0, 1, 1, 2, 3]),
        "iter_in": rng.choice([0, 1, 1, 2, 3]),
    } | {f"{name}_factor_{which}": rng.choice([0, 1, 1, 2, 3]) for name in ("dst", "src") for which in ("out", "in")}


def any_gemm(rng, cfg):
    factors = {name: rng.choice([0, 0, 0, 1]) for name in ("wgt_factor_out", "wgt_factor_in")}
    return begun(rng, cfg, Gemm(**loops(rng, cfg), **factors, reset=rng.random() < 0.3))


def any_alu(rng, cfg):
    imm = rng.choice([0, 1, -1, 31, -31, 32, -32768, 32767])
    return Alu(rng.choice(alu_operations(cfg)), **loops(rng, cfg), use_imm=rng.random() < 0.5, imm=imm)


def with_any_tokens(rng, instructions, tokens, careless):
    """The stream with random tokens, most of which are pushed before they are popped.

    A pop may be earlier in the stream than its push, so that short queues deadlock. ``careless``: the probability of a
    pop without a push.
    """
    found = list(instructions)
    dense, late = rng.choice([0.1, 0.3, 0.6, 0.9]), rng.choice([0, 0, 4])
    free = {queue: [-1] * min(count, 4) for queue, count in enumerate(tokens)}
    order = sorted(range(len(found)), key=lambda place: place + rng.uniform(0, late))
    for place in order:
        unit = unit_of(found[place]).name.lower()
        for name in ("pop_prev", "pop_next", "push_prev", "push_next"):
            queue = NEIGHBOURS.get((unit, name))
            if queue is None:
                continue
            if name.startswith("push"):
                if rng.random() < dense:
                    free[queue].append(place)
                    found[place] = replace(found[place], **{name: True})
            elif rng.random() < careless or (free[queue] and rng.random() < dense):
                if free[queue]:
                    free[queue].pop(0)
                found[place] = replace(found[place], **{name: True})
    return found
