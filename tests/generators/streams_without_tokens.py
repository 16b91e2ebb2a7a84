"""Random streams before synchronisation, and the values that their instructions read: for passes that move LOADs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_programs import Choice

from lathe.configs import load_config
from lathe.isa import Gemm, Instruction, Load, MemoryType, Rescale, Store, Unit, encode_uops, unit_of
from lathe.isa.table import MEMORIES
from lathe.scheduler.schedule_ir.sync import Entry, Origin
from lathe.scheduler.stream.memory_effects import EffectsTracker

CONFIG = load_config("lathe16")
UOPS = 64
STORED = (4096, 8192)
"""The byte range in DRAM that programs store to."""

Entries = list[tuple[Entry, Origin]]


def footprints(seed: int) -> EffectsTracker:
    """Memory effects of a stream with micro-ops from a seed; base addresses are below 4."""
    generator = np.random.default_rng(seed)
    dst, src, wgt = (generator.integers(0, 4, UOPS) for _ in range(3))
    return EffectsTracker(CONFIG, encode_uops(CONFIG, dst, src, wgt), 16, STORED)


def stream(choice: Choice, length: int = 40) -> Entries:
    """Instructions that access few cells, so that many depend on each other."""
    return [(_instruction(choice), Origin(0, str(n), chunk=n // 4)) for n in range(length)]


def _instruction(choice: Choice) -> Instruction:
    first = choice.number(0, 30)
    own = {"uop_bgn": first, "uop_end": first + choice.number(1, 3), "iter_out": choice.number(1, 3), "iter_in": 1}
    factors = {"dst_factor_out": choice.number(0, 2), "dst_factor_in": 0, "src_factor_out": choice.number(0, 2),
               "src_factor_in": 0, "wgt_factor_out": choice.number(0, 2), "wgt_factor_in": 0}  # fmt: skip
    kind = choice.pick(["uop", "inp", "inp", "wgt", "wgt", "par", "acc", "gemm", "gemm", "gemm", "rescale", "store"])
    if kind == "gemm":
        return Gemm(**own, **factors)
    if kind == "rescale":
        return Rescale(**own, **{name: factor for name, factor in factors.items() if not name.startswith("src")})
    if kind == "store":
        return Store(sram_base=choice.number(0, 5), dram_base=256 + choice.number(0, 8), y_size=1, x_size=2, x_stride=2)
    cell, size = choice.number(0, 5), choice.number(1, 3)
    if kind == "uop":
        return Load(MemoryType.UOP, choice.number(0, 30), choice.number(0, 50), 1, choice.number(1, 8), 8)
    if kind == "inp":
        first = choice.pick([256, choice.number(0, 30)])  # a stored address, or another one
        rows, stride, padding = choice.number(1, 2), size + choice.number(0, 2), choice.number(0, 1)
        return Load(MemoryType.INP, cell, first, rows, size, stride, x_pad_0=padding)
    memory = {"wgt": MemoryType.WGT, "par": MemoryType.PAR, "acc": MemoryType.ACC8}[kind]
    return Load(memory, cell, choice.number(0, 10) * (1 if kind == "wgt" else 2), 1, size, size)


def reads(entries: Entries, found: EffectsTracker) -> list[tuple[Instruction, list[Any]]]:
    """All instructions but LOADs, in order by unit, each with the source of every cell that it reads."""
    held: dict[tuple[str, int], Any] = {}
    uops: dict[int, int] = {}
    result: dict[Unit, list[tuple[Instruction, list[Any]]]] = {unit: [] for unit in Unit}
    for each, origin in entries:
        footprint = found.of(each)
        if isinstance(each, Load):
            if each.memory_type is MemoryType.UOP:
                uops |= {each.sram_base + n: each.dram_base + n for n in range(each.x_size)}
            _load(each, held, footprint.writes)
            continue
        cells = [(memory, int(cell)) for memory, where in footprint.reads for cell in _every(where)]
        got = [(key, held.get(key)) for key in sorted(cells)]
        if isinstance(each, Gemm | Rescale):
            got += [("uop", n, uops.get(n)) for n in range(each.uop_bgn, each.uop_end)]
        for memory, where in footprint.writes:
            held |= {(memory, int(cell)): ("by", origin.stage) for cell in _every(where)}
        result[unit_of(each)].append((each, got))
    return [each for unit in Unit for each in result[unit]]


def _load(load: Load, held: dict[tuple[str, int], Any], writes: Any) -> None:
    memory = MEMORIES[load.memory_type]
    scale = memory.element_bytes(CONFIG) // 16
    row = load.x_pad_0 + load.x_size + load.x_pad_1
    for scratchpad, where in writes:
        for n, cell in enumerate(_every(where)):
            y, x = divmod(n, row)
            y, x = y - load.y_pad_0, x - load.x_pad_0
            if not (0 <= y < load.y_size and 0 <= x < load.x_size):
                held[scratchpad, int(cell)] = "padding"
                continue
            place = load.dram_base + y * load.x_stride + x
            stored = held.get(("dram", place * scale - STORED[0] // 16)) if scratchpad == "inp" else None
            held[scratchpad, int(cell)] = (scratchpad, place, stored)


def _every(cells: "NDArray[np.int64] | slice") -> Any:
    return range(cells.start, cells.stop) if isinstance(cells, slice) else cells
