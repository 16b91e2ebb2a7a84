"""``store_in`` checked against NumPy, and against buffers of the folded shape filled instance by instance."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from executions import Gone, Instance, cell_of, execution
from meanings import check_values
from random_programs import random_inputs

from lathe.frontend import Tensor, evaluate, reads_data
from lathe.scheduler import LegalityError, Schedule, Witness, interpret
from lathe.scheduler.errors import StorageWitness
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, user_buffers_of

Value = tuple[str, tuple[int, ...]]
"""A tensor's name and an index of it."""
HOST = "the host"


def lost_reads(s: Schedule) -> Iterator[tuple[str, dict[str, int], Value, Value | None]]:
    """Reads whose cell holds another value: consumer, its point, the required value, the value found."""
    storage = {stage.tensor: stage.state.storage for stage in s.stages if stage.state.storage is not None}
    buffers: dict[StorageBuffer, dict[tuple[int, ...], Value]] = {each.buffer: {} for each in storage.values()}
    there_is = {buffer: buffer not in s.allocations for buffer in buffers}

    def place(tensor: Tensor, index: tuple[int, ...]) -> tuple[int, ...]:
        kept = storage[tensor]
        return tuple(int(evaluate(each, dict(zip(kept.axes, index, strict=True)))) for each in kept.indices)

    def cells(tensor: Tensor) -> dict[tuple[int, ...], Value]:
        return buffers[storage[tensor].buffer]

    for event in execution(s):
        if isinstance(event, Gone):
            for tensor in event.tensors:
                if tensor in storage:
                    cells(tensor).clear()
                    if storage[tensor].buffer in s.allocations:
                        there_is[storage[tensor].buffer] = event.begins
            continue
        assert isinstance(event, Instance)
        state = event.node.placement.state
        point = {axis.name: value for axis, value in event.point.items()}
        target = tuple(event.point[axis] for axis in state.computation.axes)
        wanted = [] if event.node.role != "update" else [(state.tensor, target)]
        if event.node.role != "init":
            found = [(read.tensor, cell_of(read, event.point)) for read in state.computation.reads]
            wanted += [(tensor, cell) for tensor, cell in found if cell is not None]
        for tensor, index in wanted:
            if tensor in storage:
                there = cells(tensor).get(place(tensor, index))
                if there != (tensor.name, index):
                    yield state.computation.name, point, (tensor.name, index), there
        if state.tensor in storage and event.node.role != "update":  # an update accumulates into the cell
            if not there_is[storage[state.tensor].buffer]:
                continue
            cells(state.tensor)[place(state.tensor, target)] = (state.tensor.name, target)
    for tensor in s.outputs:
        if tensor in storage:
            for index in np.ndindex(*tensor.shape):
                there = cells(tensor).get(place(tensor, index))
                if there not in _found_by_the_host(s, tensor, index):
                    yield HOST, {}, (tensor.name, index), there


def _found_by_the_host(s: Schedule, tensor: Tensor, index: tuple[int, ...]) -> list[Value | None]:
    """What an element's cell may hold at the end: the element, or None (0) outside the domain."""
    where = s[tensor].op.where
    if where is None:
        return [(tensor.name, index)]
    if reads_data(where):
        return [(tensor.name, index), None]
    exists = bool(evaluate(where, dict(zip(s[tensor].op.axes, index, strict=True))))
    return [(tensor.name, index) if exists else None]


def check_stored(s: Schedule) -> None:
    """Fail if the schedule differs from NumPy, or a folded buffer has lost a value by the time it is read."""
    inputs = random_inputs(list(s.program), seed=1)
    check_values(interpret(s, inputs), list(s.program), inputs)
    for lost in lost_reads(s):
        raise AssertionError(f"{lost[0]} at {lost[1]} finds {lost[3]} instead of {lost[2]}")


def _names(stored: UserBuffer) -> list[str]:
    return [stage.name for stage in stored.users]


@contextmanager
def unchecked() -> Iterator[None]:
    """Disable the storage check, so that refused schedules can be executed."""
    with patch("lathe.scheduler.legality.verify_schedule.check_storage", lambda *_: None):
        yield


def check_lost(refused: Callable[[], Any], s: Schedule) -> LegalityError:
    """Fail unless a command is refused, and executing it confirms that the witness's read finds another value.

    Returns the error; the command has then been applied to the schedule.
    """
    try:
        refused()
    except LegalityError as error:
        caught = error
    else:
        raise AssertionError("the command is not refused")
    with unchecked():
        refused()
    confirm_lost(caught.witness, s)
    return caught


def confirm_lost(witness: Witness, s: Schedule) -> None:
    """Fail unless the witness's read finds another value when the schedule is executed."""
    reads = [
        (reader, point, wanted, there)
        for reader, point, wanted, there in lost_reads(s)
        if wanted == (witness.producer_stage, tuple(witness.producer.values()))
        and (reader == witness.consumer_stage or (reader == HOST and not witness.consumer_stage))
        and point == witness.consumer
    ]
    assert reads, f"the value is there: {witness}"
    if isinstance(witness, StorageWitness):
        assert reads[0][3] == (witness.overwriter_stage, tuple(witness.overwriter.values()))
    stored = next(each for each in user_buffers_of(s.stages).values() if witness.producer_stage in _names(each))
    assert stored.buffer.name == witness.tensor
    assert all(0 <= n < extent for n, extent in zip(witness.cell, stored.shape, strict=True))
