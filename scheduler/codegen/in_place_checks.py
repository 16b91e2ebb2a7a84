"""Checks of chunks that write into a user buffer: the loop nest orders their instances, instructions do not.

So a chunk must not write two values to one cell, nor write a cell that another of its instances reads.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.allocation.in_place_aliasing import may_take_over
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.isel.select_rule import rule_of
from lathe.scheduler.legality.storage_folding import written_cell_of_two
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.loop_ir.timestamps import values_on
from lathe.scheduler.schedule_ir.memories import ACC

Ints = NDArray[np.int64]


def operand_in_place(
    node: ChunkNode,
    environment: Mapping[LoopVariable, int],
    target: Sequence[Linear],
    accesses: Sequence[tuple[ReadAccess, list[Linear]]],
    shape: Sequence[int],
    config: HardwareConfig,
) -> Tensor | None:
    """The operand that the result overwrites in place, where both are in one user buffer of the given shape.

    ``target`` and the indices of ``accesses`` are those of cells. Raises EmitError for a chunk that writes a cell
    twice, or cells that other instances of it read.
    """
    stage = node.placement.stage
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} is in no user buffer"
    data = [(variable, extent) for variable, extent in node.loops if variable.kind == "data"]
    written = _cells(target, data, environment, shape)
    instances = np.arange(len(written))
    if written_cell_of_two(written, instances, np.ones(len(written), np.bool_), prod(shape)) is not None:
        raise EmitError(
            f"Cannot emit a chunk of stage {stage.name}: several of its values have the same cell of {storage}, and "
            "instructions have no order within a chunk. Split its loops so that a chunk has one value per cell.",
            kind="machine",
        )
    in_place: list[ReadAccess] = []  # reads of the very cells that are written
    for access, index in accesses:
        producer = stage.schedule.producer(access.tensor)
        stored = None if producer is None else producer.state.storage
        if stored is None or stored.buffer is not storage.buffer:
            continue
        if index == list(target):
            in_place.append(access)
        elif _read_elsewhere(written, _cells(index, node.loops, environment, shape), prod(shape)):
            raise EmitError(
                f"Cannot emit a chunk of stage {stage.name}: it writes cells of buffer {storage.buffer.name} that "
                f"other instances of it read as {access.tensor.name}, and instructions have no order within a chunk. "
                "Split its loops, or store it in another buffer.",
                kind="machine",
            )
    for access in in_place:
        chain = may_take_over(stage.state.computation, config, access.tensor)
        chain = chain and RULES[rule_of(stage)].in_place
        if not chain or stage.state.scope != ACC or access.guards or len(in_place) > 1:
            raise EmitError(
                f"Cannot compute stage {stage.name} in place of {access.tensor.name} in buffer {storage.buffer.name}: "
                f"the first instruction overwrites {access.tensor.name}, which must be the first operand of a chain of "
                "operations in acc, read once and without a condition. Store it in another buffer.",
                kind="limit",
            )
    return in_place[0].tensor if in_place else None


def _read_elsewhere(written: Ints, read: Ints, count: int) -> bool:
    """Whether cells that instances write are read at another index, and so by other instances of the chunk."""
    cells, is_write = np.concatenate([written, read]), np.arange(len(written) + len(read)) < len(written)
    return written_cell_of_two(cells, np.where(is_write, 1, 0), is_write, count) is not None


def _cells(
    index: Sequence[Linear],
    loops: Sequence[tuple[LoopVariable, int]],
    environment: Mapping[LoopVariable, int],
    shape: Sequence[int],
) -> Ints:
    """The row-major positions of the cells at an index, over all instances of the loops."""
    grids: dict[LoopVariable, Ints] = {v: np.asarray(value) for v, value in environment.items()}
    for n, (variable, extent) in enumerate(loops):
        grids[variable] = np.arange(extent, dtype=np.int64).reshape([-1 if d == n else 1 for d in range(len(loops))])
    flat: Ints = np.zeros((), np.int64)
    for extent, each in zip(shape, index, strict=True):
        flat = flat * extent + values_on(each, grids)
    return np.broadcast_to(flat, [extent for _, extent in loops]).reshape(-1)
