"""The vector layout of a user buffer (``store_in``), from the layout of the tensor that its storage map folds.

A vector holds a block of consecutive values of a dimension, and is written and read as a whole. So a storage map must
keep such blocks together: the index in the lanes is mapped to itself, or modulo a multiple of the block; other buffer
indices may contain it divided by a multiple of the block.
"""

from collections.abc import Sequence

from lathe.frontend import Tensor
from lathe.frontend.arith.linear import FloorDivision, Linear, LoopVariable
from lathe.scheduler.errors import BuildError
from lathe.scheduler.layout.vector_type import VectorType
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.schedule_ir.storage import Storage
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of


def buffer_layout(storage: Storage, lanes: VectorLayout, element: VectorType) -> VectorLayout | None:
    """The layout of a buffer, from the layout of the tensor; None if the storage map takes blocks apart."""
    variables = [LoopVariable(axis.name, axis.extent) for axis in storage.axes]
    cell = storage.in_loops([Linear.of(variable) for variable in variables])
    sides: list[int | None] = []
    for dim, block in ((lanes.rows, element.rows), (lanes.cols, element.cols)):
        along = None if dim is None else _along(cell, variables[dim], block)
        if dim is not None and along is None and block > 1:
            return None
        sides.append(along)
    rows, cols = sides
    return None if rows is not None and rows == cols else VectorLayout(rows, cols)


def _along(cell: Sequence[Linear], variable: LoopVariable, block: int) -> int | None:
    """The buffer dimension that runs through the blocks of a variable; None if blocks are taken apart."""
    position: int | None = None
    for dim, index in enumerate(cell):
        if variable not in index.variables():
            continue
        plain = index.terms.get(variable, 0)
        divisions = [
            atom for atom in index.terms if isinstance(atom, FloorDivision) and variable in atom.numerator.variables()
        ]
        if any(atom.numerator != Linear.of(variable) or atom.divisor % block for atom in divisions):
            return None
        if not plain:
            continue
        others = [coefficient for atom, coefficient in index.terms.items() if atom is not variable]
        if plain != 1 or index.constant % block or position is not None or any(each % block for each in others):
            return None
        position = dim
    return position


def stored_shape_and_layout(
    schedule: ScheduleView, stage: StageView, tensor: Tensor, lanes: VectorLayout, element: VectorType
) -> tuple[tuple[int, ...], VectorLayout]:
    """The shape and layout of a stage's tensor as it is stored: its own, or those of its user buffer.

    Raises BuildError if the storage map takes blocks of lanes apart.
    """
    storage = stage.state.storage
    if storage is None:
        return tensor.shape, lanes
    found = buffer_layout(storage, lanes, element)
    if found is None:
        axes = [stage.state.computation.axes[dim].name for dim in (lanes.rows, lanes.cols) if dim is not None]
        raise BuildError(
            f"storage map of {stage.name} must map blocks of {element.cols} consecutive values along "
            f"{' and '.join(axes)}, which fill a vector, to contiguous cells, not be {storage}. Leave that index as it "
            f"is, or fold it by a multiple of {element.cols}, or vectorize another loop.",
            kind="machine",
        )

    return user_buffers_of(schedule.stages)[storage.buffer].shape, found
