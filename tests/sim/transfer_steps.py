"""The chains, bursts and data-side busy cycles of a LOAD or STORE, as defined in docs/timing-model.md."""

from lathe.isa.table import MEMORIES


def cut(chains, bus, limit):
    """Bursts (beats each) of chains given as (first byte, one past the last byte)."""
    bursts = []
    for begin, stop in chains:
        while begin < stop:
            end = min(stop, (begin // 4096 + 1) * 4096, (begin // bus + limit) * bus)
            bursts.append(-(-end // bus) - begin // bus)
            begin = end
    return bursts


def chains_of(cfg, instruction):
    """The chains of a LOAD or STORE, in order, and whether contiguous rows were merged."""
    size = MEMORIES[instruction.memory_type].element_bytes(cfg)
    y, x, stride = instruction.y_size, instruction.x_size, instruction.x_stride
    if x == 0 or y == 0:
        return [], False
    base = instruction.dram_base
    padded = instruction.x_pad_0 or instruction.x_pad_1
    if y == 1 or (stride == x and not padded):
        return [(base * size, (base + y * x) * size)], True
    return [((base + r * stride) * size, (base + r * stride + x) * size) for r in range(y)], False


def steps_of(cfg, instruction, bus, limit):
    """The data side's busy cycles: "zero" (padding), "beat", "last beat" of a burst, or "nothing"."""
    top, bottom = instruction.y_pad_0, instruction.y_pad_1
    left, right, x = instruction.x_pad_0, instruction.x_pad_1, instruction.x_size
    if x == 0:
        return ["nothing"]
    chains, _ = chains_of(cfg, instruction)
    steps = ["zero"] * (top * (left + x + right))
    for chain in chains:
        steps += ["zero"] * left
        for beats in cut([chain], bus, limit):
            steps += ["beat"] * (beats - 1) + ["last beat"]
        steps += ["zero"] * right
    steps += ["zero"] * (bottom * (left + x + right))
    return steps or ["nothing"]
