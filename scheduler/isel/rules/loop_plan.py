"""Mapping of a loop nest over vectors to the two loops of an instruction and a sequence of micro-ops."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.configs.instructions.gemm import GEMM

MAX_ITERATIONS = GEMM.format.values("iter_in")[-1]


@dataclass(frozen=True)
class LoopPlan:
    """One instruction: two loops with a factor (stride) per operand, and the operands' addresses in each micro-op."""

    iter_out: int
    iter_in: int
    factor_out: tuple[int, ...]
    factor_in: tuple[int, ...]
    micro_ops: tuple[NDArray[np.int64], ...]


@dataclass
class _Loop:
    """A loop that can grow by merging."""

    extent: int
    strides: tuple[int, ...]
    fixed: bool  # unrolled by the user: neither merged nor an instruction loop


def plan_loops(
    extents: Sequence[int],
    strides: Sequence[Sequence[int]],
    bases: Sequence[int],
    factor_bits: Sequence[int],
    capacity: int,
    fixed: Sequence[bool] | None = None,
) -> Iterator[LoopPlan]:
    """Plans of instructions that together cover all iterations of a nest, in any order.

    ``strides[n]``: the stride of loop ``n`` in each operand, in vectors; ``bases``: the operands' first addresses;
    ``factor_bits``: the width of each operand's factor fields. Contiguous loops are merged; of those whose extents and
    strides fit the instruction's fields, the two longest (of equal ones the outermost) become ``iter_out`` and
    ``iter_in``, which minimises micro-ops. More than ``capacity`` micro-ops are split over several instructions.
    """
    start = list(bases)
    loops: list[_Loop] = []
    for number, (extent, steps) in enumerate(zip(extents, strides, strict=True)):
        if extent == 1:
            continue
        values = tuple(steps)
        if min(values) < 0 and max(values) <= 0:  # reverse the loop
            start = [base + step * (extent - 1) for base, step in zip(start, values, strict=True)]
            values = tuple(-step for step in values)
        loops.append(_Loop(extent, values, bool(fixed and fixed[number])))
    _merge(loops)

    def fits(loop: _Loop) -> bool:
        widths = zip(loop.strides, factor_bits, strict=True)
        return not loop.fixed and loop.extent <= MAX_ITERATIONS and all(0 <= s < 1 << bits for s, bits in widths)

    suitable = sorted((n for n, loop in enumerate(loops) if fits(loop)), key=lambda n: (-loops[n].extent, n))[:2]
    suitable.sort()
    instruction_loops = [loops[n] for n in suitable]
    rest = [loop for n, loop in enumerate(loops) if n not in suitable]
    none = _Loop(1, tuple(0 for _ in bases), False)
    while len(instruction_loops) < 2:
        instruction_loops.insert(0, none)
    outside: list[_Loop] = []
    while prod(loop.extent for loop in rest) > capacity:
        outside.append(rest.pop(0))
    offsets = [np.zeros(1, np.int64) for _ in bases]
    for loop in rest:
        along = [np.arange(loop.extent, dtype=np.int64) * step for step in loop.strides]
        offsets = [np.add.outer(offset, step).ravel() for offset, step in zip(offsets, along, strict=True)]
    outer, inner = instruction_loops
    for point in product(*(range(loop.extent) for loop in outside)):
        moved = [
            base + sum(value * loop.strides[operand] for value, loop in zip(point, outside, strict=True))
            for operand, base in enumerate(start)
        ]
        micro_ops = tuple(offset + base for offset, base in zip(offsets, moved, strict=True))
        yield LoopPlan(outer.extent, inner.extent, outer.strides, inner.strides, micro_ops)


def _merge(loops: list[_Loop]) -> None:
    """Merge pairs of loops that are contiguous in every operand."""
    merged = True
    while merged:
        merged = False
        for outer in loops:
            for inner in loops:
                continues = all(o == i * inner.extent for o, i in zip(outer.strides, inner.strides, strict=True))
                short = outer.extent * inner.extent <= MAX_ITERATIONS
                if outer is not inner and continues and short and not outer.fixed and not inner.fixed:
                    inner.extent *= outer.extent
                    loops.remove(outer)
                    merged = True
                    break
            if merged:
                break
