"""Shifted reuse buffers: cells that stay in a window move to the front of its buffer, by ALU instructions in acc.

A cell's position counts from the window's first cell, so when the window advances, cells that stay move the other way.
They move in blocks as long as the advance, in an order in which no block is overwritten before it has moved.
"""

from dataclasses import dataclass

from lathe.frontend.expr.nodes import AxisRef, Read
from lathe.scheduler.codegen.address_resolver import AddressResolver
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.chunk import BufferView, Chunk, ChunkLoop, Index, Operand
from lathe.scheduler.isel.select_rule import rule_for
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.schedule_state import StageView

MovedBox = tuple[tuple[int, int], ...]
"""Per dimension, the first cell and the one after the last."""


@dataclass(frozen=True)
class WindowContents:
    """The cells in the window of a reuse buffer, and the buffer."""

    box: MovedBox
    place: BufferView


def check_shifted(stage: StageView, emitter: AddressResolver, dimension: int) -> None:
    """Raises EmitError where the machine cannot move the cells of a reuse buffer."""
    scope = stage.state.scope
    if scope != ACC:
        raise EmitError(
            f"form of reuse buffer {stage.name} must be 'ring' in {scope}, not 'shift': only the ALU can move vectors, "
            f"within acc. Call reuse_at with form='ring'.",
            kind="machine",
        )
    if emitter.physical[stage].block(dimension) > 1:
        name = stage.state.computation.axes[dimension].name
        raise EmitError(
            f"form of reuse buffer {stage.name} must be 'ring' along {name}, whose values are lanes of vectors, not "
            "'shift': instructions move whole vectors. Call reuse_at with form='ring'.",
            kind="machine",
        )


def moves(
    stage: StageView, emitter: AddressResolver, dimension: int, before: WindowContents, now: WindowContents
) -> list[Chunk]:
    """The chunks, in order, that move the cells common to two windows to their positions in the second."""
    common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(before.box, now.box, strict=True)]
    advance = now.box[dimension][0] - before.box[dimension][0]
    if not advance or any(first >= end for first, end in common):
        return []
    first, end = common[dimension]
    length = abs(advance)
    starts = range(first, end, length) if advance > 0 else range(end - length, first - length, -length)
    chunks = []
    for start in starts:
        block = list(common)
        block[dimension] = (max(start, first), min(start + length, end))
        chunks.append(_move(stage, emitter, tuple(block), before.place, now.place))
    return chunks


def _move(stage: StageView, emitter: AddressResolver, box: MovedBox, before: BufferView, now: BufferView) -> Chunk:
    tensor, axes = stage.tensor, stage.state.computation.axes
    rank = len(axes)
    index = tuple(Index(first, tuple(int(n == d) for n in range(rank))) for d, (first, _) in enumerate(box))
    read = Read(tensor, tuple(AxisRef(axis) for axis in axes))
    return Chunk(
        stage.name,
        rule_for(Statement("map", read, stage.state.scope, {tensor: stage.state.scope})),
        "map",
        tuple(ChunkLoop(axis.name, end - first, "data") for axis, (first, end) in zip(axes, box, strict=True)),
        dict(zip(axes, index, strict=True)),
        read,
        None,
        Operand(tensor, index, now),
        (Operand(tensor, index, before, read),),
        {},
        emitter.config,
        emitter,
    )
