"""GEMM instructions of a loop plan, which accumulate, or overwrite (``begin``) in the first MAC of each accumulator."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import GEMM_BEGIN
from lathe.isa import Gemm, Instruction
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.isel.rules.loop_plan import LoopPlan

Ints = NDArray[np.int64]


def gemm_instructions(chunk: Chunk, plan: LoopPlan) -> list[Instruction]:
    """The instructions of a plan over the offsets of dst, src and wgt.

    On machines with ``gemm_begin``, micro-ops are ordered by how many before them have the same accumulator. If the
    plan's accumulators hold zeros, its first micro-ops overwrite them, and the others, from the same LOAD, accumulate.
    An instruction loop that does not move the accumulator is split for that: its first iteration overwrites.
    """
    if GEMM_BEGIN not in chunk.config.extensions:
        return _gemm(chunk, plan, begun=0)
    plan = _first_uses_first(plan)
    cells = _accumulators(plan)
    if len(np.unique(cells)) < len(cells) or not chunk.emitter.begin(cells):
        return _gemm(chunk, plan, begun=0)
    first, *rest = _cut(plan)
    instructions = _gemm(chunk, first, begun=len(np.unique(first.micro_ops[0])))
    for part in rest:
        instructions += _gemm(chunk, part, begun=0)
    return instructions


def _gemm(chunk: Chunk, plan: LoopPlan, begun: int) -> list[Instruction]:
    """The instructions of a plan whose first ``begun`` micro-ops overwrite their accumulators."""
    first, end, loads = chunk.emitter.pool.place(*plan.micro_ops)
    (do, so, wo), (di, si, wi) = plan.factor_out, plan.factor_in
    gemm = Gemm(first, end, plan.iter_out, plan.iter_in, do, di, so, si, wo, wi)
    if not begun:
        return [*loads, gemm]
    adds = [replace(gemm, uop_bgn=first + begun)] if first + begun < end else []
    return [*loads, replace(gemm, uop_end=first + begun, begin=True), *adds]


def _first_uses_first(plan: LoopPlan) -> LoopPlan:
    """The plan with its micro-ops sorted stably by how many before them have the same accumulator."""
    dst = plan.micro_ops[0]
    by_dst = np.argsort(dst, kind="stable")
    ordered = dst[by_dst]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    before = np.empty(len(dst), np.int64)
    before[by_dst] = np.arange(len(dst)) - np.repeat(starts, np.diff(np.append(starts, len(dst))))
    order = np.argsort(before, kind="stable")
    return replace(plan, micro_ops=tuple(each[order] for each in plan.micro_ops))


def _accumulators(plan: LoopPlan) -> Ints:
    """The accumulators of a plan: one for each distinct dst and each iteration of the loops that move it."""
    cells: Ints = np.unique(plan.micro_ops[0])
    for count, factor in ((plan.iter_out, plan.factor_out[0]), (plan.iter_in, plan.factor_in[0])):
        if factor:
            cells = np.add.outer(np.arange(count, dtype=np.int64) * factor, cells).ravel()
    return cells


def _cut(plan: LoopPlan) -> Iterator[LoopPlan]:
    """Split off the first iterations of the loops that do not move the accumulator; the rest is up to two plans."""
    rest: list[LoopPlan] = []
    if plan.iter_out > 1 and not plan.factor_out[0]:
        moved = tuple(each + step for each, step in zip(plan.micro_ops, plan.factor_out, strict=True))
        rest.append(replace(plan, iter_out=plan.iter_out - 1, micro_ops=moved))
        plan = replace(plan, iter_out=1)
    if plan.iter_in > 1 and not plan.factor_in[0]:
        moved = tuple(each + step for each, step in zip(plan.micro_ops, plan.factor_in, strict=True))
        rest.append(replace(plan, iter_in=plan.iter_in - 1, micro_ops=moved))
        plan = replace(plan, iter_in=1)
    yield plan
    yield from rest
