"""ALU instructions in NumPy: executions that do not depend on each other run together, the others in order."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lathe.configs import HardwareConfig
from lathe.isa import Alu, Opcode
from lathe.isa.arithmetic import alu
from lathe.isa.legality import operands_of
from lathe.sim.micro_op_plans import Plans, require_in_range
from lathe.sim.micro_ops import Ints, Nest, run_of
from lathe.sim.scratchpads import Scratchpads

# Executions that are planned at a time; more are cut into parts that run one after the other.
MOST_EXECUTIONS = 1 << 17


class Step(NamedTuple):
    """Executions that may run at once: distinct destinations, and no source that another of them writes."""

    dst: slice | Ints
    src: slice | Ints


class Elementwise:
    """Carries out ALU instructions on the accumulators."""

    def __init__(self, cfg: HardwareConfig, pads: Scratchpads) -> None:
        self.cfg, self.acc = cfg, pads.acc
        self.with_immediate: Plans[list[Step]] = Plans(cfg, pads.uop, self.plan_immediate)
        self.with_tensor: Plans[list[Step]] = Plans(cfg, pads.uop, self.plan_tensor)

    def run(self, instruction: Alu, where: Callable[[], str]) -> None:
        """Carry out one instruction; `where` names it in an :class:`~lathe.sim.micro_op_plans.IndexFault`."""
        acc, operation = self.acc, instruction.alu_opcode
        if instruction.use_imm:
            for step in self.with_immediate.of(instruction, where) or ():
                acc[step.dst] = alu(operation, acc[step.dst], instruction.imm)
        else:
            for step in self.with_tensor.of(instruction, where) or ():
                acc[step.dst] = alu(operation, acc[step.dst], acc[step.src])

    def plan_immediate(self, nest: Nest, where: Callable[[], str]) -> tuple[list[Step], int]:
        """The steps of a nest whose second operand is the immediate."""
        require_in_range(self.cfg, nest, operands_of(Opcode.ALU, always=True), where)
        steps: list[Step] = []
        for part in parts(nest):
            dst = part.dst.grid(part.iter_out, part.iter_in).reshape(-1)
            steps += [Step(run_of(dst[chosen]), slice(0)) for chosen in rounds(dst)]
        return steps, nest.executions

    def plan_tensor(self, nest: Nest, where: Callable[[], str]) -> tuple[list[Step], int]:
        """The steps of a nest whose second operand is an accumulator."""
        depth = len(self.acc)
        require_in_range(self.cfg, nest, operands_of(Opcode.ALU), where, steps=2)
        steps: list[Step] = []
        for part in parts(nest):
            dst, src = (index.grid(part.iter_out, part.iter_in).reshape(-1) for index in (part.dst, part.src))
            written = np.zeros(depth, bool)
            written[dst] = True
            if not written[src].any() or (dst == src).all():
                levels = rounds(dst)
            else:
                levels = dependence_levels(dst, src, depth)
            steps += [Step(run_of(dst[chosen]), run_of(src[chosen])) for chosen in levels]
        return steps, 2 * nest.executions


def parts(nest: Nest) -> list[Nest]:
    """The nest cut into parts of bounded size, in the order of execution."""
    if nest.executions <= MOST_EXECUTIONS:
        return [nest]
    first, second = nest.halves()
    return parts(first) + parts(second)


def rounds(dst: Ints) -> list[slice | Ints]:
    """Executions by how often their destination was written before: round r has the r-th write of each destination."""
    if np.bincount(dst).max() == 1:
        return [slice(None)]
    order = np.argsort(dst, kind="stable")
    ordered = dst[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.append(starts, len(dst)))
    rank = np.empty(len(dst), np.int64)
    rank[order] = np.arange(len(dst)) - np.repeat(starts, counts)
    return split_by(rank)


def dependence_levels(dst: Ints, src: Ints, depth: int) -> list[slice | Ints]:
    """Executions by level: each comes after the writers of its cells, and not before readers of what it writes.

    Within a level all sources are read before anything is written.
    """
    after_write = [0] * depth  # the first level that may touch a cell after its latest write
    reads = [0] * depth  # the latest level that reads a cell as a source
    level = np.empty(len(dst), np.int64)
    for place, (target, source) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        found = max(after_write[target], after_write[source], reads[target])
        level[place] = found
        after_write[target] = found + 1
        reads[source] = max(reads[source], found)
    return split_by(level)


def split_by(key: Ints) -> list[slice | Ints]:
    """The places of each key, keys ascending, places ascending."""
    order = np.argsort(key, kind="stable")
    counts = np.bincount(key)
    return np.split(order, np.cumsum(counts)[:-1])  # type: ignore[return-value]
