"""User buffers as tensors of cells, for the interpreter."""

from collections.abc import Mapping, Sequence

import numpy as np

from lathe.frontend import Axis, Tensor, evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Read
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView
from lathe.scheduler.schedule_ir.storage import Ints, Storage, StorageBuffer
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of


class BufferTensors:
    """One tensor of cells for each user buffer, and expressions rewritten to read these cells."""

    def __init__(self, schedule: ScheduleView | None = None) -> None:
        self.tensors: dict[Tensor, Tensor] = {}
        self.storages: dict[Tensor, Storage] = {}
        self.shapes: dict[Tensor, tuple[int, ...]] = {}
        self.of_buffer: dict[StorageBuffer, Tensor] = {}
        self._rewritten: dict[int, tuple[Expr, Expr]] = {}
        for buffer, allocated in user_buffers_of(schedule.stages if schedule else ()).items():
            cells = Tensor(buffer.name, allocated.shape, allocated.users[0].tensor.dtype)
            self.of_buffer[buffer] = cells
            for stage in allocated.users:
                assert stage.state.storage is not None
                self.tensors[stage.tensor] = cells
                self.storages[stage.tensor] = stage.state.storage
                self.shapes[stage.tensor] = allocated.shape

    def reading(self, body: Expr) -> Expr:
        """The body with reads of tensors in user buffers replaced by reads of the buffers' cells."""
        if not self.tensors:
            return body
        cached = self._rewritten.get(id(body))
        if cached is None:

            def read(node: Read) -> Expr:
                storage = self.storages.get(node.tensor)
                return node if storage is None else Read(self.tensors[node.tensor], storage.at(node.indices))

            cached = self._rewritten[id(body)] = (body, transform(body, lambda _: None, read))
        return cached[1]

    def cells(self, tensor: Tensor, indices: Sequence[Ints]) -> tuple[Ints, ...]:
        """The cells, per dimension of the buffer, in which a tensor's values at arrays of indices are stored."""
        storage = self.storages[tensor]
        bound: Mapping[Axis, Ints] = dict(zip(storage.axes, indices, strict=True))
        shape = np.broadcast_shapes(*(each.shape for each in indices))
        return tuple(np.broadcast_to(np.asarray(evaluate(index, bound)), shape) for index in storage.indices)
