"""Reuse buffers that are shifted: what a window keeps moves to the front of its buffer, by ALU instructions in acc.

A cell's place counts from the window's first cell, so as the window moves on, what it keeps has to move the other way.
It goes in blocks as long as the step of the window, those first that the others would overwrite.
"""

from dataclasses import dataclass

from lathe.frontend.expr.nodes import AxisRef, Read
from lathe.scheduler.codegen.address_resolver import AddressResolver
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.chunk import BufferView, Chunk, ChunkLoop, Index, Operand
from lathe.scheduler.isel.select_rule import rule_for
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.schedule import StageView

MovedBox = tuple[tuple[int, int], ...]
"""Per dimension, the first cell and the one behind the last."""


@dataclass(frozen=True)
class WindowContents:
    """The window of a buffer: its cells, and where they lie."""

    box: MovedBox
    place: BufferView


def check_shifted(stage: StageView, emitter: AddressResolver, dimension: int) -> None:
    """Raises EmitError where the machine cannot move what a buffer keeps."""
    scope = stage.state.scope
    if scope != ACC:
        raise EmitError(
            f"form of reuse buffer {stage.name} must be 'ring' for the machine in {scope}, not 'shift': only the ALU "
            f"moves elements, within acc. Call reuse_at with form='ring'.",
            kind="machine",
        )
    if emitter.physical[stage].block(dimension) > 1:
        name = stage.state.computation.axes[dimension].name
        raise EmitError(
            f"form of reuse buffer {stage.name} must be 'ring' for the machine along {name}, which fills the lanes of "
            "elements, not 'shift': instructions move whole elements. Call reuse_at with form='ring'.",
            kind="machine",
        )


def moves(
    stage: StageView, emitter: AddressResolver, dimension: int, before: WindowContents, now: WindowContents
) -> list[Chunk]:
    """The chunks that move what two windows have in common to its places in the second, in order."""
    common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(before.box, now.box, strict=True)]
    step = now.box[dimension][0] - before.box[dimension][0]
    if not step or any(first >= end for first, end in common):
        return []
    first, end = common[dimension]
    length = abs(step)
    starts = range(first, end, length) if step > 0 else range(end - length, first - length, -length)
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
