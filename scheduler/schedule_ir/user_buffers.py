"""User-declared buffers in a schedule: the stages stored in them, and their lifetime."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.storage import StorageBuffer


@dataclass(frozen=True)
class UserBuffer:
    """A buffer in a schedule: the ``users``, the stages stored in it, in order, and its shape in cells."""

    buffer: StorageBuffer
    users: tuple[StageView, ...]
    shape: tuple[int, ...]

    @property
    def scope(self) -> str:
        return self.users[0].state.scope

    @property
    def cells(self) -> int:
        return prod(self.shape)


def user_buffers_of(stages: Sequence[StageView]) -> dict[StorageBuffer, UserBuffer]:
    """The user-declared buffers of some stages, in order."""
    users: dict[StorageBuffer, list[StageView]] = {}
    for stage in stages:
        storage = stage.state.storage
        if storage is not None:
            users.setdefault(storage.buffer, []).append(stage)
    return {buffer: UserBuffer(buffer, tuple(own), _shape(buffer, own)) for buffer, own in users.items()}


def buffer_names(stages: Iterable[StageView]) -> set[str]:
    """The names of the buffers that stages are stored in."""
    return {stage.state.storage.buffer.name for stage in stages if stage.state.storage is not None}


def _shape(buffer: StorageBuffer, users: Sequence[StageView]) -> tuple[int, ...]:
    if buffer.shape is not None:
        return buffer.shape
    boxes = [stage.state.storage.box for stage in users if stage.state.storage is not None]
    return tuple(max(extents) for extents in zip(*boxes, strict=True))


def outlives_iteration(stage: StageView) -> bool:
    """Whether a stage's values outlive the iteration that computes them: in DRAM, or in a buffer outside the loop."""
    storage = stage.state.storage
    if storage is None:
        return stage.state.scope == "dram"
    return storage.buffer not in stage.schedule.allocations
