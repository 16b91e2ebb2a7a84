"""Random double- and triple-buffered streams: load, compute and store work concurrently, and tokens order all data.

A stream has a number of steps. Each loads blocks into a buffer of inp and wgt, computes in a buffer of acc, and stores
from it. One token per buffer goes back and forth between its two units, so that a unit can run ahead by as many steps
as there are buffers. A stream reads only what it has written before, so launches can follow each other on one
machine.
"""

from collections import Counter, deque
from dataclasses import dataclass, field, replace

import numpy as np
from streams import NEIGHBOURS, Stream, begun, random_block

from lathe.configs.encoding import PAD_VALUE
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, Store, encode_uops, unit_of
from lathe.isa.table import MEMORIES, alu_operations

QUEUES = ("load->compute", "compute->load", "compute->store", "store->compute")
UOPS = 0  # byte addresses: micro-ops, random data, and an area for the stores of each step
DATA, DATA_PAGES = 4 * PAGE_BYTES, 6
AREAS, AREA_BYTES = DATA + DATA_PAGES * PAGE_BYTES, 768
MOST_STEPS = 24


@dataclass(frozen=True)
class Buffer:
    """A buffer in a scratchpad."""

    base: int
    size: int


@dataclass
class Pipeline:
    """What the steps share: the machine, the buffers, and the micro-ops in DRAM."""

    rng: object
    cfg: object
    loads: dict  # the buffers in inp and wgt, by memory type
    accs: list
    content: str  # of DRAM: see memory_of
    uops: list = field(default_factory=list)  # (dst, src, wgt)

    @property
    def ahead(self):
        """The number of steps that load may be ahead of compute."""
        return len(self.loads[MemoryType.INP])


def buffers(rng, cfg, memory, count):
    """`count` disjoint buffers of one size, anywhere in a scratchpad, not larger than the data."""
    place = min(128, MEMORIES[memory].depth(cfg)) // count
    place = min(place, DATA_PAGES * PAGE_BYTES // MEMORIES[memory].element_bytes(cfg) - 1)
    size = rng.randint(max(1, place // 6), place)
    return [Buffer(number * place + rng.randint(0, place - size), size) for number in range(count)]


def overlapping_stream(rng, cfg, steps, before=None, content=None):
    """A stream of some steps. `before`: tokens left by the previous launch; `content`: of DRAM. Default: random."""
    ahead, results = rng.choice([2, 2, 3]), rng.choice([2, 2, 3])
    if before is not None:  # no more buffers are free at first than exist
        ahead, results = max(ahead, before[1]), max(results, before[3])
    inputs = {memory: buffers(rng, cfg, memory, ahead) for memory in (MemoryType.INP, MemoryType.WGT)}
    content = content or rng.choices(["random", "greatest", "wrapping", "shifts"], [6, 1, 1, 2])[0]
    line = Pipeline(rng, cfg, inputs, buffers(rng, cfg, MemoryType.ACC, results), content)
    tokens = before or (0, rng.choice([0, rng.randint(0, ahead), ahead]), 0, rng.choice([0, rng.randint(0, results)]))
    lists = {"load": [], "compute": [], "store": []}
    balanced = rng.random() < 0.5
    for step in range(steps):
        # Buffers without a token are free at first, and their tokens remain at the end, unless ...
        frees = {
            "load": not balanced or step + ahead < steps + tokens[1],
            "acc": not balanced or step + results < steps + tokens[3],
        }
        waits = {"load": step >= ahead - tokens[1], "acc": step >= results - tokens[3]}
        lists["load"] += loading(line, step, waits["load"])
        lists["compute"] += computing(line, step, waits["acc"], frees["load"])
        lists["store"] += storing(line, step, frees["acc"])
    lists["compute"].append(Finish())
    early = rng.random() < 0.3
    instructions = merged(rng, lists, tokens, cfg.timing.command_queue_depth if early else 0)
    addresses, pages = memory_of(line)
    return Stream(instructions, addresses, pages, tokens=tuple(tokens), insn_addr=rng.choice([0x100000, 0x100FE0]))


def loading(line, step, waits):
    """The LOADs of a step into its buffers of inp and wgt."""
    rng = line.rng
    found = []
    for memory, rooms in line.loads.items():
        room = rooms[step % line.ahead]
        if step < line.ahead:  # fill the buffer, since it is empty
            found.append(whole_load(line, memory, room))
        found += [block_load(line, memory, room, step - line.ahead - len(line.accs)) for _ in range(rng.randint(0, 2))]
    if step >= line.ahead:
        rng.shuffle(found)
    found = found or [Load(MemoryType.INP, 0, 0, 0, 0, 0)]
    if waits:
        found[0] = replace(found[0], pop_next=True)
    found[-1] = replace(found[-1], push_next=True)
    return found


def computing(line, step, waits, frees):
    """The compute instructions of a step: load or reset accumulators, multiply and add, ALU operations on the sums."""
    rng = line.rng
    own, number = line.accs[step % len(line.accs)], len(line.accs)
    first = []
    if step < number:
        first.append(whole_load(line, rng.choice([MemoryType.ACC, MemoryType.ACC8]), own))
    if rng.random() < 0.5:
        first.append(block_load(line, rng.choice([MemoryType.ACC, MemoryType.ACC8]), own, step - number))
    operands = [line.loads[memory][step % line.ahead] for memory in (MemoryType.INP, MemoryType.WGT)]
    products = [gemm(line, own, *operands) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.2:
        products.append(similar(own, *products[0]))
    known = line.accs[: step + 1]
    alus = [alu(line, own, rng.choice([own, rng.choice(known)])) for _ in range(rng.randint(0, 2))]
    # Micro-ops are loaded before their consumers, and need no token themselves.
    resident = line.cfg.uop_depth // 2
    rows = [row for part in (products, alus) for _, table in part for row in table]
    base = step % 2 * resident
    assert len(rows) <= resident, "too many micro-ops in a step"
    micro_ops = Load(MemoryType.UOP, base, UOPS // 4 + len(line.uops), 1, len(rows), len(rows))
    line.uops += rows
    body = []
    for each, table in products + alus:
        body.append(replace(each, uop_bgn=base, uop_end=base + len(table)))
        base += len(table)
    middle, last = body[: len(products)], body[len(products) :]
    middle[0] = replace(middle[0], pop_prev=True)
    if frees:
        middle[-1] = replace(middle[-1], push_prev=True)
    touching = [*first, *middle, *last]  # those that access the acc buffer
    if waits:
        touching[0] = replace(touching[0], pop_next=True)
    touching[-1] = replace(touching[-1], push_next=True)
    if rng.random() < 0.2:  # a GEMM of no iterations carries the token
        touching.append(Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, push_next=True))
        touching[-2] = replace(touching[-2], push_next=False)
    return [micro_ops, *touching]


def storing(line, step, frees):
    """The STOREs of a step from its acc buffer into its area of DRAM."""
    rng, room = line.rng, line.accs[step % len(line.accs)]
    size = line.cfg.out_element_bytes
    found = []
    for _ in range(rng.randint(1, 2)):
        block = random_block(rng, pads=False, most=4)
        while block["y_size"] * block["x_size"] > room.size or reach(block) > AREA_BYTES // size:
            block = random_block(rng, pads=False, most=4)
        block["sram_base"] = room.base + rng.randint(0, room.size - block["y_size"] * block["x_size"])
        area = AREAS + step % MOST_STEPS * AREA_BYTES
        block["dram_base"] = -(-area // size) + rng.randint(0, AREA_BYTES // size - reach(block))
        found.append(Store(memory_type=MemoryType.OUT, **block))
    found[0] = replace(found[0], pop_prev=True)
    if frees:
        found[-1] = replace(found[-1], push_prev=True)
    return found


def reach(block):
    """The number of DRAM vectors from a block's first to its last."""
    return (block["y_size"] - 1) * block["x_stride"] + block["x_size"] if block["x_size"] and block["y_size"] else 1


def whole_load(line, memory, room):
    """A LOAD that fills a buffer."""
    return padded(line, Load(memory, room.base, source(line, memory, room.size), 1, room.size, room.size))


def block_load(line, memory, room, stored):
    """A LOAD of a block to somewhere in a buffer, sometimes of what step `stored` or an earlier one has stored."""
    rng = line.rng
    most = DATA_PAGES * PAGE_BYTES // MEMORIES[memory].element_bytes(line.cfg)
    for _ in range(20):
        block = random_block(rng, pads=True, most=5)
        rows = block.get("y_pad_0", 0) + block["y_size"] + block.get("y_pad_1", 0)
        width = block.get("x_pad_0", 0) + block["x_size"] + block.get("x_pad_1", 0)
        if rows * width <= room.size and reach(block) <= most:
            break
    else:
        block, rows, width = {"y_size": 1, "x_size": 1, "x_stride": 1}, 1, 1
    block["sram_base"] = room.base + rng.randint(0, room.size - rows * width)
    block["dram_base"] = source(line, memory, reach(block), stored if rng.random() < 0.5 else -1)
    return padded(line, Load(memory, **block))


def source(line, memory, elements, stored=-1):
    """A DRAM address, in vectors, of so much readable data: random data, or the stores of a step."""
    rng, size = line.rng, MEMORIES[memory].element_bytes(line.cfg)
    start, room = DATA, DATA_PAGES * PAGE_BYTES
    if stored >= 0:
        first = rng.randint(0, stored)
        start, room = AREAS + first * AREA_BYTES, (stored - first + 1) * AREA_BYTES
        if -(-start // size) * size + elements * size > start + room:
            start, room = DATA, DATA_PAGES * PAGE_BYTES
    first, last = -(-start // size), (start + room) // size - elements
    near = (start + PAGE_BYTES * rng.randint(1, DATA_PAGES - 1)) // size - rng.randint(0, elements)
    return near if rng.random() < 0.3 and first <= near <= last else rng.randint(first, last)


def padded(line, load):
    """The LOAD with random padding, on machines with that extension."""
    if PAD_VALUE not in line.cfg.extensions or load.memory_type == MemoryType.UOP:
        return load
    rng = line.rng
    return replace(load, pad_value=rng.choice([0, 1, -1, 127, -128]), pad_limit=rng.random() < 0.3)


def loops(rng, *rooms):
    """Loop counts, factors for each buffer, and a table with as many columns, such that no index leaves its buffer."""
    outer, inner = rng.choice([1, 1, 2, 3, 5]), rng.choice([1, 1, 2, 4])
    factors, columns = [], []
    rows, crowded = rng.randint(1, 8), rng.random() < 0.5
    for place, room in enumerate(rooms):
        out, into = rng.choice([0, 1, 1, 3]), rng.choice([0, 0, 1, 2])
        if (outer - 1) * out + (inner - 1) * into >= room.size:
            out = into = 0
        last = room.size - 1 - (outer - 1) * out - (inner - 1) * into
        # Few destinations: accumulators that are written again soon.
        choices = [rng.randint(0, last) for _ in range(2)] if crowded and place == 0 else range(last + 1)
        factors.append((out, into))
        columns.append([room.base + rng.choice(choices) for _ in range(rows)])
    return outer, inner, factors, list(zip(*columns, strict=True))


def gemm(line, own, inputs, weights):
    """A GEMM, and its micro-ops."""
    outer, inner, (dst, src, wgt), table = loops(line.rng, own, inputs, weights)
    if line.content == "greatest" and not line.uops:
        # In the first step, a sum of so many equal odd products that float32 cannot hold it: both counts are odd.
        count = (min(inputs.size, weights.size, 8) - 1) | 1
        table = [(own.base, inputs.base + place, weights.base + place) for place in range(count)]
        return Gemm(0, 0, 1057 // count | 1, 1, *[0] * 6), table
    made = Gemm(0, 0, outer, inner, *dst, *src, *wgt, reset=line.rng.random() < 0.1)
    return begun(line.rng, line.cfg, made), table


def similar(own, instruction, table):
    """A GEMM with the same micro-ops as an earlier one, but another factor."""
    factor = 0 if instruction.dst_factor_in else 1
    last = max(dst for dst, _, _ in table) + (instruction.iter_out - 1) * instruction.dst_factor_out
    fits = last + (instruction.iter_in - 1) * factor < own.base + own.size
    return replace(instruction, dst_factor_in=factor if fits else instruction.dst_factor_in), table


def alu(line, own, other):
    """An ALU instruction on a buffer of acc, whose operand is in this buffer or another, and its micro-ops."""
    rng = line.rng
    outer, inner, (dst, src), table = loops(rng, own, other)
    operation, use_imm = rng.choice(alu_operations(line.cfg)), rng.random() < 0.5
    if line.content == "shifts" and rng.random() < 0.6:
        operation, use_imm = AluOp.SHR, False
    imm = rng.choice([0, 1, -1, 4, -3, 31, -31, *([] if operation is AluOp.SHR else [100, -32768, 32767])])
    made = Alu(operation, 0, 0, outer, inner, *dst, *src, use_imm=use_imm, imm=imm)
    return made, [(*row, 0) for row in table]


def merged(rng, lists, tokens, early):
    """The units' instructions as one stream, in which tokens are pushed before they are popped.

    Up to `early` instructions of each unit, its queue depth, precede the instructions whose tokens they pop.
    """
    counts = list(tokens)
    waiting = {unit: deque(each) for unit, each in lists.items()}
    queued = {unit: deque() for unit in waiting}  # in the stream, still waiting for tokens
    eager = {unit: rng.choice([1, 1, 5]) for unit in waiting}
    found = []

    def runs(instruction):
        return all(counts[queue] for queue in queues(instruction, "pop"))

    while any(waiting.values()):
        able = [
            unit
            for unit, each in waiting.items()
            if each and (len(queued[unit]) < early or (not queued[unit] and runs(each[0])))
        ]
        unit = rng.choices(able, [eager[each] for each in able])[0]
        found.append(waiting[unit].popleft())
        queued[unit].append(found[-1])
        while ready := [each for each in queued.values() if each and runs(each[0])]:
            instruction = ready[0].popleft()
            for queue in queues(instruction, "pop"):
                counts[queue] -= 1
            for queue in queues(instruction, "push"):
                counts[queue] += 1
    return found


def queues(instruction, kind):
    """The indices of the token queues that an instruction pops or pushes."""
    unit = unit_of(instruction).name.lower()
    names = [f"{kind}_prev", f"{kind}_next"]
    return [NEIGHBOURS[unit, name] for name in names if getattr(instruction, name)]


def memory_of(line):
    """The pages of DRAM: micro-ops, and elsewhere the stream's kind of content, mostly random bytes."""
    rng, cfg = line.rng, line.cfg
    end = -(-(AREAS + MOST_STEPS * AREA_BYTES + PAGE_BYTES) // PAGE_BYTES)
    content = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, end * PAGE_BYTES).astype(np.uint8)
    words = content.view("<i4")
    drawn = np.random.default_rng(rng.randrange(1 << 30)).integers(-36, 37, len(words))
    match line.content:
        case "greatest":  # the largest products
            content[:] = rng.choice([127, 127, 128])
        case "wrapping":  # accumulators that nearly overflow
            words[drawn > 12] |= 0x7FFFF000
            words[drawn < -12] &= -0x7FFFF001
        case "shifts":  # shift amounts close to the width of an accumulator
            chosen = drawn % 2 == 0
            words[chosen] = drawn[chosen]
    micro_ops = encode_uops(cfg, *(np.array(column) for column in zip(*line.uops, strict=True)))
    table = np.asarray(micro_ops, "<u4").view(np.uint8)
    assert len(table) <= DATA - UOPS, "too many micro-ops"
    content[UOPS : UOPS + len(table)] = table
    return np.arange(end, dtype=np.uint64) * PAGE_BYTES, content.reshape(end, PAGE_BYTES)


# ---------------------------------------------------------------------- checks of their traces


def token_violations(stream, trace):
    """Pops before the push of their token, and instructions of a unit that start or end out of order.

    `trace` has the columns of the RTL's, by instruction. The result does not depend on memory timing.
    """
    found = []
    units = [unit_of(each).name.lower() for each in stream.instructions]
    for unit in ("load", "compute", "store"):
        own = [index for index, each in enumerate(units) if each == unit]
        for name in ("start", "end"):
            cycles = getattr(trace, name)[own]
            if (np.diff(cycles) <= 0).any():
                found.append(f"{name}s of {unit} are not in order: {cycles.tolist()}")
    for queue, name in enumerate(QUEUES):
        pushed = [index for index, each in enumerate(stream.instructions) if queue in queues(each, "push")]
        popped = [index for index, each in enumerate(stream.instructions) if queue in queues(each, "pop")]
        for pop, push in zip(popped[stream.tokens[queue] :], pushed, strict=False):
            if trace.start[pop] <= trace.end[push]:
                found.append(f"instruction {pop} pops {name} in {trace.start[pop]}, pushed in {trace.end[push]}")
    return found


def overlap(trace):
    """The share of busy cycles in which two units or more work."""
    busy = Counter()
    for start, end, unit in zip(trace.start.tolist(), trace.end.tolist(), trace.unit.tolist(), strict=True):
        busy.update({(unit, cycle): 1 for cycle in range(start, end + 1)})
    cycles = Counter(cycle for _, cycle in busy)
    return sum(number > 1 for number in cycles.values()) / len(cycles)
