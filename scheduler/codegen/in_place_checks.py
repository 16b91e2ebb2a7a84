"""Chunks whose statement writes into a buffer of the user's: instructions work on whole chunks, not on instances.

Within a chunk, the values written must have cells of their own, and a cell that is read must not be written by another
instance: what the loop nest does in order, instructions do in any.
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
    """The operand whose cells the result takes over, where both are in one buffer of the given shape.

    ``target`` and the indices of the accesses are those of cells. Raises EmitError for a chunk that writes a cell
    twice, or cells that other instances of it read.
    """
    stage = node.placement.stage
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} has no cells of its own"
    data = [(variable, extent) for variable, extent in node.loops if variable.kind == "data"]
    made = _cells(target, data, environment, shape)
    instances = np.arange(len(made))
    if written_cell_of_two(made, instances, np.ones(len(made), np.bool_), prod(shape)) is not None:
        raise EmitError(
            f"values that a chunk of stage {stage.name} makes must have cells of their own in {storage}, not share "
            "them, since instructions make them in any order. Split its loops so that a chunk makes what is live.",
            kind="machine",
        )
    beside: list[ReadAccess] = []  # at the very cells that are written
    for access, index in accesses:
        maker = stage.schedule.maker(access.tensor)
        kept = None if maker is None else maker.state.storage
        if kept is None or kept.buffer is not storage.buffer:
            continue
        if index == list(target):
            beside.append(access)
        elif _read_elsewhere(made, _cells(index, node.loops, environment, shape), prod(shape)):
            raise EmitError(
                f"cells of buffer {storage.buffer.name} that a chunk of stage {stage.name} writes must not be read as "
                f"{access.tensor.name} by other instances of the chunk, since instructions take these in any order. "
                "Split its loops, or store it in another buffer.",
                kind="machine",
            )
    for access in beside:
        chain = may_take_over(stage.state.computation, config, access.tensor)
        chain = chain and RULES[rule_of(stage)].in_place
        if not chain or stage.state.scope != ACC or access.guards or len(beside) > 1:
            raise EmitError(
                f"result of stage {stage.name} must take the cells of {access.tensor.name} in buffer "
                f"{storage.buffer.name} as the first operand of a chain of operations in acc, read once and without a "
                "condition, not otherwise: the first instruction overwrites it. Store it in another buffer.",
                kind="limit",
            )
    return beside[0].tensor if beside else None


def _read_elsewhere(made: Ints, read: Ints, count: int) -> bool:
    """Whether cells that instances write are read at another index, and so by others of the chunk."""
    cells, written = np.concatenate([made, read]), np.arange(len(made) + len(read)) < len(made)
    return written_cell_of_two(cells, np.where(written, 1, 0), written, count) is not None


def _cells(
    index: Sequence[Linear],
    loops: Sequence[tuple[LoopVariable, int]],
    environment: Mapping[LoopVariable, int],
    shape: Sequence[int],
) -> Ints:
    """The row-major numbers of the cells at an index."""
    grids: dict[LoopVariable, Ints] = {v: np.asarray(value) for v, value in environment.items()}
    for n, (variable, extent) in enumerate(loops):
        grids[variable] = np.arange(extent, dtype=np.int64).reshape([-1 if d == n else 1 for d in range(len(loops))])
    flat: Ints = np.zeros((), np.int64)
    for extent, each in zip(shape, index, strict=True):
        flat = flat * extent + values_on(each, grids)
    return np.broadcast_to(flat, [extent for _, extent in loops]).reshape(-1)
