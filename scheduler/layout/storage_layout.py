"""How folded values fill the elements of a memory: which dimension of a buffer the lanes of a tensor run along.

An element holds a block of neighbouring values along a dimension, and is written and read as a whole. So the map of a
storage must keep such blocks together: the index along the lanes is an index of the cell itself, or its remainder by
whole blocks; other indices of the cell may have it divided by whole blocks.
"""

from collections.abc import Sequence

from lathe.frontend import Tensor
from lathe.frontend.arith.linear import FloorDivision, Linear, LoopVariable
from lathe.scheduler.errors import BuildError
from lathe.scheduler.layout.vector_type import VectorType
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.schedule_ir.storage import Storage
from lathe.scheduler.schedule_ir.user_buffers import storages_of


def lanes_of_cells(storage: Storage, lanes: VectorLayout, element: VectorType) -> VectorLayout | None:
    """The dimensions of a buffer that fill rows and columns, from those of the tensor; None where blocks come apart."""
    variables = [LoopVariable(axis.name, axis.extent) for axis in storage.axes]
    cell = storage.in_loops([Linear.of(variable) for variable in variables])
    found: list[int | None] = []
    for dim, block in ((lanes.rows, element.rows), (lanes.cols, element.cols)):
        along = None if dim is None else _along(cell, variables[dim], block)
        if dim is not None and along is None and block > 1:
            return None
        found.append(along)
    rows, cols = found
    return None if rows is not None and rows == cols else VectorLayout(rows, cols)


def _along(cell: Sequence[Linear], variable: LoopVariable, block: int) -> int | None:
    """The dimension of the cell that runs along the blocks of a variable."""
    place: int | None = None
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
        if plain != 1 or index.constant % block or place is not None or any(each % block for each in others):
            return None
        place = dim
    return place


def shape_and_lanes(
    schedule: ScheduleView, stage: StageView, tensor: Tensor, lanes: VectorLayout, element: VectorType
) -> tuple[tuple[int, ...], VectorLayout]:
    """What lies in memory for a tensor of a stage: the shape of its cells, and which of their dimensions fill lanes.

    Raises BuildError where the map of the storage takes blocks of lanes apart.
    """
    storage = stage.state.storage
    if storage is None:
        return tensor.shape, lanes
    found = lanes_of_cells(storage, lanes, element)
    if found is None:
        axes = [stage.state.computation.axes[dim].name for dim in (lanes.rows, lanes.cols) if dim is not None]
        raise BuildError(
            f"cells of {stage.name} must keep blocks of {element.cols} neighbours along {' and '.join(axes)} together, "
            f"which fill the lanes of elements, not be {storage}. Leave that index as it is, or fold it by a multiple "
            f"of {element.cols}; or say with vectorize which other loop fills the lanes.",
            kind="machine",
        )

    return storages_of(schedule.stages)[storage.buffer].shape, found
