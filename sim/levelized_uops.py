"""Vectorised execution of micro-ops: independent executions run together, dependent ones in order."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.instructions.row import Block
from lathe.isa.instructions import MicroOpInstruction
from lathe.isa.operands import cells_of, operands_of, usage_of
from lathe.isa.table import MEMORIES, Opcode
from lathe.isa.uop_semantics import UOP_SEMANTICS, Elements
from lathe.sim.micro_ops import Addresses, Ints, Nest, as_slice
from lathe.sim.scratchpads import Memories
from lathe.sim.uop_plan_cache import Plans, check_indices

# Maximum executions in one plan; larger nests are split into parts that run one after the other.
MOST_EXECUTIONS = 1 << 17


class Step(NamedTuple):
    """Executions that can run at once: distinct destinations, and no source that another of them writes.

    ``target``: index into the array of accumulators that they write, in all samples; ``sources``: what they read, each
    with the name of its index, the name of its scratchpad, and the index into that.
    """

    target: Any
    sources: tuple[tuple[str, str, Any], ...]


class Plan(NamedTuple):
    """Steps in order, the accumulators that each writes, and the memory blocks that all read."""

    steps: list[Step]
    written: list[Addresses]
    blocks: tuple[Block, ...]


class LevelizedExecutor:
    """Executor of instructions that run micro-ops, by their semantics, on accumulators."""

    def __init__(self, cfg: HardwareConfig, memories: Memories) -> None:
        self.cfg, self.acc = cfg, memories.acc
        self.shapes = {
            "acc": (cfg.batch, cfg.block_out),
            "inp": (cfg.batch, cfg.block_in),
            "wgt": (cfg.block_out, cfg.block_in),
            "par": (cfg.block_out, 2),
        }
        self.cells: dict[str, NDArray[Any]] = {name: getattr(memories, name) for name in self.shapes}
        # All vectors of a block, broadcast over micro-ops.
        self.blocks: dict[str, NDArray[Any]] = {"lut": memories.lut[..., None, :, :]}
        self.values = {
            opcode: meaning.value
            if meaning.lanewise and all(each.scratchpad == "acc" for each in operands_of(opcode))
            else self.in_lanes(opcode, meaning.value)
            for opcode, meaning in UOP_SEMANTICS.items()
        }
        self.plans: Plans[Plan] = Plans(cfg, memories.uop, self.plan, of_samples=self.acc.ndim > 2)

    def run(self, instruction: MicroOpInstruction, where: Callable[[], str]) -> Sequence[Addresses]:
        """Execute one instruction; returns the accumulators that it writes.

        `where` names it in an :class:`~lathe.sim.uop_plan_cache.IndexFault`.
        """
        plan = self.plans.of(instruction, where)
        if plan is None:
            return ()
        acc, scratchpads, value = self.acc, self.cells, self.values[instruction.opcode]
        for target, sources in plan.steps:
            elements = {}
            for name, scratchpad, places in sources:  # faster than a comprehension, which is a call
                elements[name] = scratchpads[scratchpad][places]
            for block in plan.blocks:
                cells = self.blocks[MEMORIES[block.memory].scratchpad]
                elements[block.name] = cells[..., cells_of(block, instruction), :]
            acc[target] = value(instruction, elements)
        return plan.written

    def in_lanes(self, opcode: Opcode, value: Callable[[Any, Elements], NDArray[Any]]) -> Callable[..., NDArray[Any]]:
        """The semantics function of an instruction, adapted to vectors whose lanes are one dimension."""
        operands = operands_of(opcode)
        shapes = {name: self.shapes[each.scratchpad] for each in operands for name in (each.index, each.odd)}
        shape = self.shapes["acc"]

        def of_lanes(instruction: MicroOpInstruction, cells: Elements) -> NDArray[Any]:
            elements = {
                name: each.reshape(*each.shape[:-1], *shapes[name]).astype(np.int32, copy=False)
                if name in shapes
                else each
                for name, each in cells.items()
            }
            written = value(instruction, elements)
            written = np.broadcast_to(written, (*written.shape[:-2], *shape))
            return written.reshape(*written.shape[:-2], prod(shape))

        return of_lanes

    def at(self, places: Addresses) -> Any:
        """The index of vectors in the array of a scratchpad, for all samples."""
        return places if self.acc.ndim == 2 else (slice(None), places)

    def plan(self, instruction: MicroOpInstruction, nest: Nest, where: Callable[[], str]) -> tuple[Plan, int]:
        """The steps of a nest, and the number of indices that they hold."""
        usage = usage_of(instruction)
        check_indices(self.cfg, instruction, nest, where)
        plan = Plan([], [], usage.blocks)
        for part in parts(nest):
            grids = {each: part.of(each.index).grid(part.iter_out, part.iter_in).reshape(-1) for each in usage.used}
            dst = grids[usage.written]
            others = [each for each in usage.read if each is not usage.written]
            same_memory = [grids[each] for each in others if each.scratchpad == usage.written.scratchpad]
            for chosen in levels(dst, same_memory, usage.written.depth(self.cfg)):
                places = {each: as_slice(grids[each][chosen]) for each in usage.used}
                sources = [(each.index, each.scratchpad, self.at(places[each])) for each in usage.read]
                for each in usage.odd:
                    odd = as_slice(grids[each][chosen] | 1)
                    sources.append((each.odd, each.scratchpad, self.at(odd)))
                plan.written.append(places[usage.written])
                plan.steps.append(Step(self.at(places[usage.written]), tuple(sources)))
        return plan, (len(usage.used) + len(usage.odd)) * nest.executions


def levels(dst: Ints, sources: Sequence[Ints], depth: int) -> list[slice | Ints]:
    """The executions grouped into levels, in order, each of which can run at once; ``sources`` are in dst's memory."""
    written = np.zeros(depth, bool)
    written[dst] = True
    if all(not written[source].any() or (source == dst).all() for source in sources):
        return rounds(dst)
    return dependence_levels(dst, sources, depth)


def parts(nest: Nest) -> list[Nest]:
    """The nest split into parts of bounded size, in the order of execution."""
    if nest.executions <= MOST_EXECUTIONS:
        return [nest]
    first, second = nest.halves()
    return parts(first) + parts(second)


def rounds(dst: Ints) -> list[slice | Ints]:
    """Executions by how often their destination was written before: round r has each destination's r-th write."""
    if np.bincount(dst).max() == 1:
        return [slice(None)]
    order = np.argsort(dst, kind="stable")
    ordered = dst[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.append(starts, len(dst)))
    rank = np.empty(len(dst), np.int64)
    rank[order] = np.arange(len(dst)) - np.repeat(starts, counts)
    return split_by(rank)


def dependence_levels(dst: Ints, sources: Sequence[Ints], depth: int) -> list[slice | Ints]:
    """Executions by level: each comes after the writers of its cells, and not before readers of what it writes.

    Within a level all sources are read before anything is written.
    """
    after_write = [0] * depth  # the first level that may access a cell after its latest write
    reads = [0] * depth  # the latest level that reads a cell as a source
    level = np.empty(len(dst), np.int64)
    for number, (target, *read) in enumerate(zip(*(each.tolist() for each in (dst, *sources)), strict=True)):
        earliest = max(after_write[target], reads[target])
        for source in read:
            earliest = max(earliest, after_write[source])
        level[number] = earliest
        after_write[target] = earliest + 1
        for source in read:
            reads[source] = max(reads[source], earliest)
    return split_by(level)


def split_by(key: Ints) -> list[slice | Ints]:
    """The positions of each key, keys ascending, positions ascending."""
    order = np.argsort(key, kind="stable")
    counts = np.bincount(key)
    return np.split(order, np.cumsum(counts)[:-1])  # type: ignore[return-value]
