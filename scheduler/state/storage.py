"""Where the values of a stage lie: cells of a buffer, by a map from the stage's indices that may fold them.

Without a map, a value has a cell of its own in whatever its stage computes at a time. With one, the same cell may hold
many values, one after the other; ``liveness.py`` decides whether each is gone by the time the next one comes. A layer
of its own for data, and ``store_in``, are Tiramisu's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Axis, Tensor, evaluate
from lathe.frontend.expressions import Expr, Read
from lathe.frontend.indices.linear import Linear
from lathe.frontend.substitution import substitute
from lathe.frontend.text import format_expr
from lathe.scheduler.errors import EmitError, ScheduleError
from lathe.scheduler.target.index_in_loops import linear_index

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage

Ints = NDArray[np.int64]


class StorageBuffer:
    """A buffer that values are stored in: a name for people, and what is fixed of it; None leaves it to its stages.

    ``shape`` counts cells, each of one value of ``dtype``; ``scope`` is the memory. Two buffers are the same only if
    they are the same object.
    """

    __slots__ = ("dtype", "name", "scope", "shape")

    def __init__(self, name: str, shape: tuple[int, ...] | None, dtype: str | None, scope: str | None) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.scope = scope

    def __repr__(self) -> str:
        return f"StorageBuffer({self.name})"


@dataclass(frozen=True, eq=False)
class Storage:
    """The value at an index over ``axes`` is in cell ``indices`` of ``buffer``."""

    buffer: StorageBuffer
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    _known: dict[tuple[int, ...], Ints] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """How many values the map is for."""
        return prod(axis.extent for axis in self.axes)

    def coordinates(self) -> list[Ints]:
        """The index of the cell of each value along each dimension, broadcastable to the shape of the values."""
        rank = len(self.axes)
        grids = {
            axis: np.arange(axis.extent, dtype=np.int64).reshape([-1 if n == d else 1 for n in range(rank)])
            for d, axis in enumerate(self.axes)
        }
        return [np.asarray(evaluate(index, grids), np.int64) for index in self.indices]

    def cells(self, shape: Sequence[int]) -> Ints:
        """The row-major number of the cell of each value in a buffer of the given shape, values in row-major order."""
        key = tuple(shape)
        found = self._known.get(key)
        if found is None:
            flat: Ints = np.zeros((), np.int64)
            for extent, each in zip(key, self.coordinates(), strict=True):
                flat = flat * extent + each
            whole = np.broadcast_to(flat, [axis.extent for axis in self.axes])
            found = self._known[key] = np.ascontiguousarray(whole).reshape(-1)
        return found

    @cached_property
    def box(self) -> tuple[int, ...]:
        """The smallest shape that holds all cells."""
        return tuple(int(each.max()) + 1 for each in self.coordinates())

    def folds(self, shape: Sequence[int]) -> bool:
        """Whether two values share a cell."""
        key = (-1, *shape)
        found = self._known.get(key)
        if found is None:
            most = np.bincount(self.cells(shape)).max()
            found = self._known[key] = np.asarray(most > 1)
        return bool(found)

    def at(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The cell of the value at an index."""
        values = dict(zip(self.axes, indices, strict=True))
        return tuple(substitute(index, values) for index in self.indices)

    def in_loops(self, indices: Sequence[Linear]) -> list[Linear]:
        """The cell of the value at an index, in terms of loops. Raises EmitError where that is not linear."""
        values = dict(zip(self.axes, indices, strict=True))
        found: list[Linear] = []
        for index in self.indices:
            linear = linear_index(index, values)
            if linear is None:
                raise EmitError(
                    f"cell of a value in buffer {self.buffer.name} must be linear in the loops, but for divisions by "
                    f"constants, not {format_expr(index)} as in {self}: no instruction has such addresses.",
                    kind="machine",
                )
            found.append(linear)
        return found

    def __str__(self) -> str:
        """``buffer[cell]``, in terms of the axes."""
        return f"{self.buffer.name}[{', '.join(format_expr(index) for index in self.indices)}]"


@dataclass(frozen=True)
class Allocated:
    """A buffer as a schedule has it: the ``users`` whose values it holds, in order, and its shape in cells."""

    buffer: StorageBuffer
    users: "tuple[Stage, ...]"
    shape: tuple[int, ...]

    @property
    def scope(self) -> str:
        return self.users[0].state.scope

    @property
    def cells(self) -> int:
        return prod(self.shape)


def storages_of(stages: "Sequence[Stage]") -> dict[StorageBuffer, Allocated]:
    """The buffers that stages name, in order."""
    users: dict[StorageBuffer, list[Stage]] = {}
    for stage in stages:
        if stage.state.storage is not None:
            users.setdefault(stage.state.storage.buffer, []).append(stage)
    return {buffer: Allocated(buffer, tuple(own), _shape(buffer, own)) for buffer, own in users.items()}


def _shape(buffer: StorageBuffer, users: "Sequence[Stage]") -> tuple[int, ...]:
    if buffer.shape is not None:
        return buffer.shape
    boxes = [stage.state.storage.box for stage in users if stage.state.storage is not None]
    return tuple(max(extents) for extents in zip(*boxes, strict=True))


def check_buffers(schedule: "Schedule", command: str) -> None:
    """Raises ScheduleError where a buffer, or the loop that it is allocated in, has become impossible."""
    for buffer, allocated in storages_of(schedule.stages).items():
        scopes = {stage.state.scope: stage for stage in reversed(allocated.users)}
        wanted = {buffer.scope} if buffer.scope is not None else set()
        if len(wanted | set(scopes)) > 1:
            places = " and ".join(f"{stage.name} in {scope}" for scope, stage in reversed(scopes.items()))
            fixed = f" in {buffer.scope}" if buffer.scope is not None else ""
            raise ScheduleError(
                f"stages stored in buffer {buffer.name}{fixed} must live in its memory, not {places} ({command}). "
                "Store them in buffers of their own, or set the scope of all.",
                kind="argument",
            )
        dtypes = {stage.tensor.dtype: stage for stage in reversed(allocated.users)}
        if len(dtypes) > 1:
            kinds = " and ".join(f"{stage.name} of {dtype}" for dtype, stage in reversed(dtypes.items()))
            raise ScheduleError(
                f"stages stored in buffer {buffer.name} must have one dtype, not {kinds} ({command}).", kind="argument"
            )
        place = schedule.allocations.get(buffer)
        if place is not None and (place.stage not in schedule.stages or place.axis not in place.stage.state.leaves):
            raise ScheduleError(
                f"loop {place.axis.name} of stage {place.stage.name}, in which buffer {buffer.name} is allocated, must "
                f"stay a loop, not be replaced by {command}. Call allocate_at afterwards.",
                kind="limit",
            )


def values_stay(stage: "Stage") -> bool:
    """Whether values outlive the loop iteration in which the stage makes them: in DRAM, or in a buffer around it."""
    storage = stage.state.storage
    if storage is None:
        return stage.state.scope == "dram"
    return storage.buffer not in stage.schedule.allocations


class StandIns:
    """For execution: the cells of each buffer as a tensor, and expressions that read these cells."""

    def __init__(self, schedule: "Schedule | None" = None) -> None:
        self.tensors: dict[Tensor, Tensor] = {}
        self.storages: dict[Tensor, Storage] = {}
        self.shapes: dict[Tensor, tuple[int, ...]] = {}
        self.of_buffer: dict[StorageBuffer, Tensor] = {}
        self._rewritten: dict[int, tuple[Expr, Expr]] = {}
        for buffer, allocated in storages_of(schedule.stages if schedule else ()).items():
            cells = Tensor(buffer.name, allocated.shape, allocated.users[0].tensor.dtype)
            self.of_buffer[buffer] = cells
            for stage in allocated.users:
                assert stage.state.storage is not None
                self.tensors[stage.tensor] = cells
                self.storages[stage.tensor] = stage.state.storage
                self.shapes[stage.tensor] = allocated.shape

    def reading(self, body: Expr) -> Expr:
        """The body, reading cells of buffers instead of the tensors stored there."""
        if not self.tensors:
            return body
        known = self._rewritten.get(id(body))
        if known is None:
            from lathe.scheduler.algorithm.rewrite import transform

            def read(node: Read) -> Expr:
                storage = self.storages.get(node.tensor)
                return node if storage is None else Read(self.tensors[node.tensor], storage.at(node.indices))

            known = self._rewritten[id(body)] = (body, transform(body, lambda _: None, read))
        return known[1]

    def cells(self, tensor: Tensor, indices: Sequence[Ints]) -> tuple[Ints, ...]:
        """The cells, dimension by dimension, of the values at an array of indices."""
        storage = self.storages[tensor]
        bound: Mapping[Axis, Ints] = dict(zip(storage.axes, indices, strict=True))
        shape = np.broadcast_shapes(*(each.shape for each in indices))
        return tuple(np.broadcast_to(np.asarray(evaluate(index, bound)), shape) for index in storage.indices)
