"""The interpreter of a partitioned loop nest: executes chunks in order on NumPy arrays, vectorised over each chunk.

A buffer allocated in a loop holds garbage at the start of every iteration, so a schedule that reads a value before it
is computed, or outside the box that was computed, gives a wrong result and cannot be right by chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Computation, Tensor, evaluate, reads_data
from lathe.frontend.arith.conditions import instance_condition, residual_condition
from lathe.frontend.arith.linear import Linear, LoopVariable, bound_value
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.evaluation import REDUCTIONS
from lathe.frontend.expr.nodes import Reduce
from lathe.scheduler.loop_ir.buffer_tensors import BufferTensors
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.interleave_vthreads import Thread, iteration_groups
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, ChunkNode, DecidedChunk, Free, Loop, Node
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView

Array = NDArray[Any]


GARBAGE = 0x5A5A5A5A


@dataclass
class _Memory:
    """Values by tensor: whole tensors, so that indices stay those of the program, or the cells of user buffers."""

    values: dict[Tensor, Array] = field(default_factory=dict)
    reads: dict[str, int] | None = None
    instances: dict[str, int] | None = None
    stored: BufferTensors = field(default_factory=BufferTensors)

    def fork(self) -> "_Memory":
        """The memory of a new thread: the same arrays, except those that are allocated (and poisoned) later."""
        return _Memory(dict(self.values), self.reads, self.instances, self.stored)

    def poison(self, tensor: Tensor) -> None:
        """Fill a tensor with garbage, different in each cell, so that reads of cells not written again are wrong."""
        count = int(np.prod(tensor.shape))
        garbage = (np.arange(count, dtype=np.int64) * 2654435761 + GARBAGE).astype(tensor.dtype)
        self.values[tensor] = garbage.reshape(tensor.shape)

    def whole(self, tensor: Tensor) -> Array:
        """The values of a tensor, gathered from the cells of a user buffer if it is stored in one."""
        if tensor not in self.stored.tensors:
            return self.values[tensor]
        indices = np.indices(tensor.shape)
        return np.asarray(self.values[self.stored.tensors[tensor]][self.stored.cells(tensor, list(indices))])

    def poison_outside(self, tensor: Tensor, box: tuple[slice, ...]) -> None:
        """Fill a tensor with garbage outside a box."""
        inside = self.values[tensor][box].copy()
        self.poison(tensor)
        self.values[tensor][box] = inside


def interpret_nest(
    schedule: ScheduleView,
    nodes: Sequence[Node],
    inputs: Mapping[str, Array],
    reads: dict[str, int] | None = None,
    instances: dict[str, int] | None = None,
) -> dict[str, Array]:
    memory = _executed(schedule, nodes, inputs, reads, instances)
    return {tensor.name: schedule.layout(tensor).unpack(memory.whole(tensor)) for tensor in schedule.outputs}


def interpret_padded(schedule: ScheduleView, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Execute a schedule; returns all computed tensors by name, each in its layout and with its padding."""
    memory = _executed(schedule, partition(build_nest(schedule, largest_blocks=True)), inputs)
    return {tensor.name: memory.whole(tensor) for stage in schedule.stages for tensor in stage.state.tensors}


def _executed(
    schedule: ScheduleView,
    nodes: Sequence[Node],
    inputs: Mapping[str, Array],
    reads: dict[str, int] | None = None,
    instances: dict[str, int] | None = None,
) -> _Memory:
    memory = _Memory(reads=reads, instances=instances, stored=BufferTensors(schedule))
    for cells in memory.stored.of_buffer.values():
        memory.poison(cells)
    for tensor in schedule.outputs:
        if tensor in memory.stored.tensors and tensor.computation is not None:
            missing = np.argwhere(_outside_of(schedule[tensor].op, tensor.shape)).T
            memory.values[memory.stored.tensors[tensor]][memory.stored.cells(tensor, list(missing))] = 0
    for stage in schedule.stages:
        if stage.state.storage is None:
            for tensor in stage.state.tensors:
                memory.poison(tensor)
                if tensor in schedule.outputs:
                    memory.values[tensor][_outside_of(stage.state.computation, tensor.shape)] = 0
        for read in stage.state.computation.reads:
            if read.tensor.computation is None:
                layout, given = schedule.layout(read.tensor), np.asarray(inputs[read.tensor.name], read.tensor.dtype)
                memory.values[read.tensor] = layout.pack(given.reshape(layout.tensor.shape), GARBAGE)  # or a view of it
    _run(nodes, [Thread(0, {}, memory)])
    return memory


def _outside_of(computation: Computation, shape: tuple[int, ...]) -> Array:
    """Mask of the points outside a computation's domain, where an output holds zeros; all if that depends on data."""
    where = computation.where
    if where is None:
        return np.zeros(shape, np.bool_)
    if reads_data(where):
        return np.ones(shape, np.bool_)
    ranges = [np.arange(axis.start, axis.stop) for axis in computation.axes]
    points = dict(zip(computation.axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
    return ~np.broadcast_to(evaluate(where, points), shape)


def _run(nodes: Sequence[Node], threads: list[Thread[_Memory]]) -> None:
    for node in nodes:
        if isinstance(node, Loop):
            for inside in iteration_groups(threads, node, _Memory.fork):
                _run(node.body, inside)
            continue
        for thread in threads:
            _run_node(node, thread.environment, thread.own)


def _run_node(node: Node, environment: dict[LoopVariable, int], memory: _Memory) -> None:
    if isinstance(node, ChunkNode):
        _run_chunk(node, environment, memory)
    elif isinstance(node, Alloc | Free) and node.stored is not None:
        memory.poison(memory.stored.of_buffer[node.stored.buffer])
    elif isinstance(node, AdvanceWindow) and node.placement.state.storage is not None:
        pass  # cells that leave the window are overwritten by those that enter it
    elif isinstance(node, Alloc | Free):
        for tensor in node.placement.state.tensors:
            memory.poison(tensor)
    elif isinstance(node, AdvanceWindow):
        box = tuple(
            slice(first, first + max(bound_value(extent, environment), 0))
            for first, extent in zip((bound_value(low, environment) for low in node.low), node.extent, strict=True)
        )
        for tensor in node.placement.state.tensors:
            memory.poison_outside(tensor, box)


def _run_chunk(chunk: ChunkNode, environment: Mapping[LoopVariable, int], memory: _Memory) -> None:
    computation = chunk.placement.state.computation
    grids = {
        variable: np.arange(extent).reshape([-1 if d == position else 1 for d in range(len(chunk.loops))])
        for position, (variable, extent) in enumerate(chunk.loops)
    }
    axes = {axis: _grid(value, grids, environment, len(chunk.loops)) for axis, value in chunk.roots.items()}
    shape = tuple(extent for _, extent in chunk.loops)
    indices = tuple(np.broadcast_to(axes[axis], shape) for axis in computation.axes)
    bound: dict[Any, Array] = {**axes, **memory.values}
    if chunk.role != "init":
        _count(chunk, bound, shape, memory)
    domain = residual_condition(computation)
    where: tuple[Any, ...] = (...,)
    if domain is not None:
        where = (np.broadcast_to(evaluate(memory.stored.reading(domain), bound), shape),)
        indices = tuple(each[where] for each in indices)
    bodies = chunk.values if isinstance(chunk, DecidedChunk) else defined(computation).bodies
    for tensor, whole in zip(chunk.placement.state.tensors, bodies, strict=True):
        body = memory.stored.reading(whole)
        cells = indices
        if tensor in memory.stored.tensors:
            cells = memory.stored.cells(tensor, indices)
        cells = (np.zeros(shape, np.intp)[where], *cells)  # one cell per point, in a tensor without dimensions too
        values = memory.values[memory.stored.tensors.get(tensor, tensor)][np.newaxis]
        if chunk.role == "init":
            assert isinstance(body, Reduce)
            values[cells] = neutral_element(body.kind, tensor.dtype)
            continue
        if not isinstance(body, Reduce):
            values[cells] = np.broadcast_to(evaluate(body, bound), shape)[where]
            if isinstance(chunk, DecidedChunk):
                outside = _outside(chunk, grids, shape)[where]
                values[tuple(each[outside] for each in cells)] = chunk.padding
            continue
        result = np.broadcast_to(evaluate(body.body, bound), shape)[where]
        with np.errstate(over="ignore"):
            REDUCTIONS[body.kind].at(values, cells, result)


def _count(chunk: ChunkNode, bound: dict[Any, Array], shape: tuple[int, ...], memory: _Memory) -> None:
    """Count the reads of a chunk by tensor, and its instances by stage."""
    computation = chunk.placement.state.computation
    if memory.reads is not None:
        for access in computation.reads:
            executed = np.ones((), np.bool_)
            for guard, holds in access.guards:
                executed = executed & (evaluate(memory.stored.reading(guard), bound) == holds)
            count = int(np.broadcast_to(executed, shape).sum())
            memory.reads[access.tensor.name] = memory.reads.get(access.tensor.name, 0) + count
    if memory.instances is not None:
        condition, name = instance_condition(computation), chunk.placement.stage.name
        present = np.asarray(condition is None or evaluate(memory.stored.reading(condition), bound))
        memory.instances[name] = memory.instances.get(name, 0) + int(np.broadcast_to(present, shape).sum())


def _outside(chunk: DecidedChunk, grids: Mapping[LoopVariable, Array], shape: tuple[int, ...]) -> Array:
    """Mask of the points of a chunk that get its constant ``padding`` instead of a value that is read."""
    outside = np.zeros(shape, np.bool_)
    extents = dict(chunk.loops)
    for variable, before, after in chunk.around:
        outside |= (grids[variable] < before) | (grids[variable] >= extents[variable] - after)
    return outside


def _grid(
    value: Linear, grids: Mapping[LoopVariable, Array], environment: Mapping[LoopVariable, int], rank: int
) -> Array:
    result: Array = np.full([1] * rank, value.constant, np.int64)
    for atom, coefficient in value.terms.items():
        if isinstance(atom, LoopVariable):
            result = result + coefficient * (grids[atom] if atom in grids else environment[atom])
        else:
            result = result + coefficient * (_grid(atom.numerator, grids, environment, rank) // atom.divisor)
    return result
