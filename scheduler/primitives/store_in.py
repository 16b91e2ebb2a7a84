"""``store_in``, ``buffer`` and ``allocate_at``: storage maps, user-declared buffers and their lifetime."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from math import prod
from typing import Any

import islpy as isl
import numpy as np

from lathe.configs.integers import integer
from lathe.frontend import Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import shown
from lathe.frontend.expr.expr_base import Expr
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.index_functions import called, index_given
from lathe.scheduler.primitives.set_scope import checked_scope, scoped
from lathe.scheduler.primitives.storage_maps import mapped
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis
from lathe.scheduler.schedule_ir.stage import ComputeAt
from lathe.scheduler.schedule_ir.storage import Storage, StorageBuffer
from lathe.scheduler.schedule_ir.user_buffers import buffer_names

Map = Callable[..., Any] | str | isl.Map

LARGEST_BUFFER = 1 << 28  # cells: more than any machine's memory, less than would exhaust the host CPU's


def store_in(stage: EditedStage, *where: "StorageBuffer | Map", scope: str | None = None) -> StorageBuffer:
    """Store the values of this stage in a buffer by a storage map: ``s[C].store_in(buffer, map)``.

    ``map`` is a function from the indices to those of the cell, or an isl map such as
    ``"{ C[i, j] -> [j, i mod 2] }"``; by default a value's cell is its index. ``buffer`` was created by ``s.buffer``,
    and stages may share it; by default the stage has a buffer of its own, as large as the map needs. A map may fold
    many values into one cell, if each has had its last read when the next is written, in the present order of the
    schedule; every later primitive checks that. ``scope`` is that of ``set_scope``. Before::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    After ``s[B].store_in(lambda i: [0], scope="acc")``::

        buffer B in acc: [1]
        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2
        free B

    The buffer is allocated from the first write to the last read, outside all loops (see ``allocate_at``), so that a
    value may be read in another iteration. Indices are those of the tensor's present layout, so ``transform_layout``
    comes first. Outputs are read at the end, and the host CPU sees them in their usual form.

    Returns the buffer. Raises ScheduleError for an invalid map, one outside the buffer or negative, with the index, for
    a buffer of another schedule, dtype or number of dimensions, or a stage of several outputs; LegalityError with a
    witness: two values that share a cell, and the read that would find the wrong one. Tiramisu's store_in.
    """
    buffer, given = _arguments(stage, where)
    state = stage.state
    if len(state.tensors) > 1:
        raise ScheduleError(
            f"tensor of store_in must be the only output of its computation, not one of {len(state.tensors)} of "
            f"{stage.name}. Give each output a computation of its own.",
            kind="limit",
        )
    if buffer is None:
        buffer = StorageBuffer(_free_name(stage), None, None, None)
    storage = _storage(stage.tensor, buffer, given)
    _check_cells(stage, storage)
    if buffer.dtype not in (None, stage.tensor.dtype):
        raise ScheduleError(
            f"dtype of buffer {buffer.name} must be that of the stage stored in it, {stage.tensor.dtype} of "
            f"{stage.name}, not {buffer.dtype}.",
            kind="argument",
        )
    memory = scope if scope is not None else buffer.scope
    if memory is not None:
        state = scoped(stage, memory)
    commit(stage.schedule, {stage: replace(state, storage=storage)}, "store_in")
    return buffer


def buffer(
    schedule: Edit,
    name: str,
    shape: Sequence[int] | int | None = None,
    dtype: str | None = None,
    scope: str | None = None,
) -> StorageBuffer:
    """A buffer of the given shape (in cells), dtype and memory for ``s[C].store_in(buffer, map)``.

    Arguments left out are inferred from the stages stored in it. ``scope`` is a scratchpad or ``"dram"``. Raises
    ScheduleError for an invalid shape, an unknown dtype or scope. Tiramisu's buffer.
    """
    taken = buffer_names(schedule.stages)
    if not isinstance(name, str) or not name or name in taken:
        raise ScheduleError(
            f"name of buffer must be a string that no other has ({', '.join(taken)}), not {name!r}.", kind="argument"
        )
    extents = None
    if shape is not None:
        given = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        extents = tuple(n for each in given if (n := integer(each)) is not None and n > 0)
        if not given or len(extents) < len(given):
            raise ScheduleError(
                f"shape of buffer {name} must be a list of positive integers, not {shown(shape)}.", kind="argument"
            )
    if dtype is not None and (not isinstance(dtype, str) or dtype not in DTYPES or dtype == "index"):
        known = ", ".join(each for each in DTYPES if each != "index")
        raise ScheduleError(f"dtype of buffer {name} must be one of {known}, not {dtype!r}.", kind="argument")
    memory = None if scope is None else checked_scope(scope, f"buffer {name}")
    return StorageBuffer(name, extents, dtype, memory)


def allocate_at(schedule: Edit, buffer: StorageBuffer, stage: Tensor | EditedStage, axis: "AxisLike") -> None:
    """Allocate a buffer in each iteration of a loop of ``stage``: its contents are lost when the iteration ends.

    In between, the memory is free for other buffers. Before::

        buffer B in acc: [8]
        for io in 0..8:
          for i in 0..8:
            B[8*io + i] = A[8*io + i] + 1 while i < 8 and 8*io + i < 60
          for ii in 0..8:
            C[8*io + ii] = B[8*io + ii] * 2 while 8*io + ii < 60
        free B

    After ``s.allocate_at(b, s[C], io)``::

        for io in 0..8:
          buffer B in acc: [8]
          for i in 0..8:
            B[8*io + i] = A[8*io + i] + 1 while i < 8 and 8*io + i < 60
          for ii in 0..8:
            C[8*io + ii] = B[8*io + ii] * 2 while 8*io + ii < 60
          free B

    Raises ScheduleError for a buffer that no stage uses, or an axis that is no loop of the stage; LegalityError, with a
    witness, if a value is read in another iteration than it is written in. Tiramisu's allocate_at.
    """
    anchor = schedule[stage]
    _check_used(schedule, buffer)
    loop: LoopAxis = anchor.find(axis, "allocate_at")
    users = [each for each in schedule.stages if each.state.storage and each.state.storage.buffer is buffer]
    allocations = {**schedule.allocations, buffer: ComputeAt(anchor.id, loop)}
    commit(schedule, {each: each.state for each in users}, "allocate_at", allocations=allocations)


def _free_name(stage: EditedStage) -> str:
    """The name of the stage's tensor, with a number appended if another buffer has that name."""
    taken = buffer_names(each for each in stage.schedule.stages if each is not stage)
    name, count = stage.tensor.name, 1
    while name in taken:
        count += 1
        name = f"{stage.tensor.name}{count}"
    return name


def _check_used(schedule: Edit, buffer: object) -> None:
    known = {each.state.storage.buffer for each in schedule.stages if each.state.storage is not None}
    if not isinstance(buffer, StorageBuffer) or buffer not in known:
        names = ", ".join(sorted(each.name for each in known)) or "none yet"
        raise ScheduleError(
            f"buffer of allocate_at must be one that a stage of the schedule is stored in ({names}), not "
            f"{getattr(buffer, 'name', buffer)!r}. Call store_in first, which returns it.",
            kind="argument",
        )


def _arguments(stage: EditedStage, where: tuple[object, ...]) -> tuple[StorageBuffer | None, object]:
    rest = list(where)
    buffer = rest[0] if rest and isinstance(rest[0], StorageBuffer) else None
    if buffer is not None:
        rest.pop(0)
    given = rest.pop(0) if rest else None
    if rest or (buffer is None and given is None):
        raise ScheduleError(
            f"arguments of store_in of stage {stage.name} must be a buffer, a map, or both in this order, not "
            f"{', '.join(map(shown, where)) or 'none'}.",
            kind="argument",
        )
    return buffer, given


def _storage(tensor: Tensor, buffer: StorageBuffer, given: object) -> Storage:
    if given is None:
        axes, indices = called(tensor, lambda *own: list(own), "store_in")
    elif isinstance(given, str | isl.Map):
        return mapped(tensor, buffer, given)
    else:
        axes, indices = called(tensor, _listing(given), "store_in")
    return Storage(buffer, axes, tuple(index_given(tensor, axes, each, "store_in") for each in indices))


def _listing(function: Any) -> Any:
    """The same function, but a single index becomes a list of one."""
    if not callable(function):
        return function

    @wraps(function)
    def listed(*indices: Any) -> Any:
        result = function(*indices)
        return [result] if isinstance(result, Expr) or integer(result) is not None else result

    return listed


def _check_cells(stage: EditedStage, storage: Storage) -> None:
    """Raises ScheduleError, with an index, if a cell is outside the buffer."""
    buffer = storage.buffer
    rank = len(storage.indices)
    if buffer.shape is None:
        users = [s.state.storage for s in stage.schedule.stages if s is not stage and s.state.storage is not None]
        ranks = {len(each.indices) for each in users if each.buffer is buffer}
    else:
        ranks = {len(buffer.shape)}
    if ranks - {rank}:
        raise ScheduleError(
            f"map of store_in of {stage.name} must have {ranks.pop()} indices, as many as buffer {buffer.name} has "
            f"dimensions, not {rank}.",
            kind="argument",
        )
    shape = tuple(axis.extent for axis in storage.axes)
    cells = [np.broadcast_to(each, shape) for each in storage.coordinates()]
    outside = np.zeros(shape, np.bool_)
    for d, each in enumerate(cells):
        outside |= each < 0
        if buffer.shape is not None:
            outside |= each >= buffer.shape[d]
    if not outside.any():
        cell_count = prod(buffer.shape or storage.box)
        if cell_count > LARGEST_BUFFER:
            raise ScheduleError(
                f"buffer {buffer.name} of store_in of {stage.name} must have at most {LARGEST_BUFFER} cells, not "
                f"{cell_count} for {prod(shape)} values. Let the map use cells that are closer together.",
                kind="limit",
            )
        return
    first = np.unravel_index(int(outside.argmax()), shape)
    instance = ", ".join(f"{axis.name}={int(n)}" for axis, n in zip(storage.axes, first, strict=True))
    cell = tuple(int(each[first]) for each in cells)
    bounds = f"within {buffer.shape}" if buffer.shape is not None else "at least 0"
    raise ScheduleError(
        f"cell of {stage.name}({instance}) in buffer {buffer.name} must be {bounds}, not {cell} (store_in). Fold the "
        "index with %, or make the buffer larger.",
        kind="argument",
    )
