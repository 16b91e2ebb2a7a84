"""Makers of instruction streams for the tests: random ones that end, and machines to run them on."""

from dataclasses import replace

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, Store, unit_of

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


def with_tokens(rng, instructions, counts=(0, 0, 0, 0), push=0.4, pop=0.7):
    """Random tokens that the order of the stream satisfies, so that nothing deadlocks; returns also the counts left."""
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
    """A shipped machine with other numbers in its memory and timing."""
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
    """Fields of a random LOAD or STORE; DRAM addresses lie around page boundaries often."""
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


def random_instruction(rng):
    """One instruction with random sizes; its indices are not meant to be in range, only its time matters."""
    kind = rng.choice(
        ["inp", "inp", "wgt", "uop", "acc", "acc8", "gemm", "gemm", "alu", "alu", "store", "store", "finish"]
    )
    if kind in ("inp", "wgt", "uop", "acc", "acc8"):
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
        return Gemm(**loops, wgt_factor_out=0, wgt_factor_in=0, reset=rng.random() < 0.2)
    return Alu(alu_opcode=rng.choice(list(AluOp)), **loops, use_imm=rng.random() < 0.5, imm=1)


def random_stream(rng, length):
    """A stream of `length` instructions and a FINISH that ends, and the tokens it starts and ends with."""
    tokens = tuple(rng.choice([0, 0, 1, 3]) for _ in range(4))
    instructions = [random_instruction(rng) for _ in range(length)] + [Finish()]
    instructions, left = with_tokens(rng, instructions, tokens)
    return instructions, tokens, left
