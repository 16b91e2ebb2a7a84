"""Fold reshapes into views of inputs and outputs, and sink them below element-wise operations.

A reshape of an input becomes a view: the same memory under another shape. A reshape that makes an output becomes a
view, too: the stage before it writes the output's memory under its own shape. Element-wise operations on a reshaped
tensor move before the reshape. Other reshapes between computations stay; ``delinearize_axes`` splits their axes.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from lathe.frontend import Axis, Computation, Tensor, evaluate, walk
from lathe.frontend.arith.polyhedra import TooManyOperationsError, limited_operations, points_of
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Const, Read, axes_of
from lathe.scheduler.rewriting.matchers import is_plain_read
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_reads, transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target


def is_unscheduled(stage: StageView) -> bool:
    """Whether the user has scheduled nothing of a stage, its vector layout included, nor computes others in it."""
    state = stage.state
    untouched = not state.has_changed_loops and not state.is_vectorized and not stage.schedule.attached(stage)
    return state.scope == DRAM and untouched and state.attachment is None and not state.copy_of and not state.storage


def source_of_reshape(stage: StageView) -> Tensor | None:
    """The tensor that a stage reshapes (the same elements in row-major order under another shape), or None."""
    state = stage.state
    body = state.computation.bodies[0]
    if len(state.tensors) > 1 or not is_plain_read(body) or state.computation.reduce_axes:
        return None
    shape = state.tensor.shape
    if body.tensor.shape == shape or prod(body.tensor.shape) != prod(shape):
        return None
    axes = state.computation.axes
    last = {axis: axis.extent - 1 for axis in axes}
    if any(int(evaluate(i, last)) != extent - 1 for i, extent in zip(body.indices, body.tensor.shape, strict=True)):
        return None
    points = points_of(state.computation)
    own = points.value(_row_major([AxisRef(axis) for axis in axes], shape))
    source = points.value(_row_major(body.indices, body.tensor.shape))
    assert own is not None, "axes must be affine"
    if source is None:
        return None
    try:
        with limited_operations():
            return body.tensor if own.ne_set(source).intersect(points.box()).is_empty() else None
    except TooManyOperationsError:
        return None


def _row_major(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major position of an element in a tensor."""
    flat: Expr = Const(0, INDEX)
    for index, extent in zip(indices, shape, strict=True):
        flat = Binary("add", Binary("mul", flat, Const(extent, INDEX)), index)
    return flat


def fold_reshapes(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Fold, in place, reshapes of inputs and reshapes that make outputs into views, which need no instructions."""
    folder = _ReshapeFolder(schedule)
    folder.run()
    schedule.update(views=folder.views)


class _ReshapeFolder:
    """Folds the reshapes of a schedule; ``views`` maps each tensor of another shape to the one whose memory it is."""

    def __init__(self, schedule: Edit) -> None:
        self.schedule = schedule
        self.views = dict(schedule.state.views)
        self._sources: dict[Computation, Tensor | None] = {}

    def run(self) -> None:
        while any(self._fold_next(stage) for stage in list(self.schedule.stages)):
            pass

    def _source(self, stage: EditedStage) -> Tensor | None:
        computation = stage.state.computation
        if not is_unscheduled(stage):
            return None
        if computation not in self._sources:
            self._sources[computation] = source_of_reshape(stage)
        return self._sources[computation]

    def _fold_next(self, stage: EditedStage) -> bool:
        source = self._source(stage)
        if source is None:
            return is_unscheduled(stage) and self._sink_reshape(stage)
        if not self.schedule.producer(source):
            return self._fold_input_reshape(stage, source)
        if stage.tensor in self.schedule.outputs:
            return self._fold_output_reshape(stage, source)
        return False

    def _view_of(self, tensor: Tensor, shape: tuple[int, ...], computation: Computation | None = None) -> Tensor:
        view = Tensor(tensor.name, shape, tensor.dtype, computation)
        self.views[view] = self.views.get(tensor, tensor)
        return view

    def _fold_input_reshape(self, stage: EditedStage, source: Tensor) -> bool:
        view = self._view_of(source, stage.tensor.shape)
        for consumer in self.schedule.consumers(stage.tensor):
            computation = redirect_reads(consumer.state.computation, {stage.tensor: view})
            consumer.change(computation=computation)
        if stage.tensor in self.schedule.outputs:
            copy = copy_of(view, stage.name, stage.state.computation.axes, whole=True)
            stage.put(replace(initial_state(copy), tensors=stage.state.tensors))
        else:
            self.schedule.remove(stage)
        return True

    def _fold_output_reshape(self, stage: EditedStage, source: Tensor) -> bool:
        """Make the output a copy of the reshape's operand; other consumers of it read a reshape of the copy."""
        tensor = stage.tensor
        axes = tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(source.shape))
        copy = copy_of(source, stage.name, axes, whole=True)
        view = self._view_of(tensor, source.shape, copy)
        readers = self.schedule.consumers(tensor)
        if readers:
            body = redirect_reads(stage.state.computation, {source: view})
            again = Computation(fresh_name(self.schedule, f"{stage.name}.reshaped"), body.axes, (), body.bodies)
            self.schedule.insert(initial_state(again), behind=stage)
            for consumer in readers:
                computation = redirect_reads(consumer.state.computation, {tensor: again.outputs[0]})
                consumer.change(computation=computation)
        stage.put(replace(initial_state(copy), tensors=(view,)))
        self.schedule.update(outputs=tuple(view if each is tensor else each for each in self.schedule.outputs))
        return True

    def _sink_reshape(self, stage: EditedStage) -> bool:
        """Compute an element-wise operation on reshaped tensors before the reshape, which then reshapes its result."""
        state = stage.state
        computation = state.computation
        if computation.reduce_axes or len(state.tensors) > 1:
            return False
        reshaped: dict[Tensor, tuple[EditedStage, Tensor]] = {}
        for read in computation.reads:
            producer = self.schedule.producer(read.tensor)
            source = self._source(producer) if producer is not None else None
            if producer is not None and source is not None and self.schedule.producer(source):
                reshaped[read.tensor] = (producer, source)
        shapes = {source.shape for _, source in reshaped.values()}
        if len(shapes) != 1 or not self._is_elementwise(computation, reshaped):
            return False
        (shape,) = shapes
        axes = tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(shape))
        indices = tuple(AxisRef(axis) for axis in axes)
        views: dict[Tensor, Tensor] = {}

        def leaf(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or not axes_of(*node.indices):
                return None
            if node.tensor in reshaped:
                return Read(reshaped[node.tensor][1], indices)
            if node.tensor not in views:
                views[node.tensor] = self._view_of(node.tensor, shape)
            return Read(views[node.tensor], indices)

        name = fresh_name(self.schedule, f"{stage.name}.unshaped")
        before = Computation(name, axes, (), (transform(computation.bodies[0], leaf),), computation.attrs)
        producer, source = next(iter(reshaped.values()))
        body = redirect_reads(producer.state.computation, {source: before.outputs[0]})
        after = Computation(stage.name, body.axes, (), body.bodies)
        self.schedule.insert(initial_state(before), before=stage)
        stage.put(replace(initial_state(after), tensors=state.tensors))
        for each, _ in set(reshaped.values()):
            if not self.schedule.consumers(each.tensor) and each.tensor not in self.schedule.outputs:
                self.schedule.remove(each)
        return True

    def _is_elementwise(self, computation: Computation, reshaped: dict[Tensor, tuple[EditedStage, Tensor]]) -> bool:
        """Whether every read is of a reshaped tensor or an input at the point itself, or of an input at constants."""
        own = computation.axes
        for read in computation.reads:
            if not axes_of(*read.indices):
                if read.tensor in reshaped:  # a single element is broadcast
                    return False
                continue
            bare = [as_bare_axis(index) for index in read.indices]
            if len(bare) != len(own) or any(a is not b for a, b in zip(bare, own, strict=True)):
                return False
            if read.tensor.shape != computation.shape:
                return False
            if read.tensor not in reshaped and self.schedule.producer(read.tensor) is not None:
                return False
        free = transform(computation.bodies[0], lambda node: Const(0, node.dtype) if isinstance(node, Read) else None)
        return not any(isinstance(node, AxisRef) for node in walk(free))


def merge_output_copies(schedule: Edit) -> None:
    """Let a stage compute an output directly where the output is only a copy of the stage's tensor."""
    for stage in list(schedule.stages):
        body = stage.state.computation.bodies[0]
        tensor = stage.tensor
        if not is_unscheduled(stage) or not isinstance(body, Read) or tensor not in schedule.outputs:
            continue
        source = body.tensor
        producer = schedule.producer(source)
        axes = stage.state.computation.axes
        plain = len(body.indices) == len(axes) and all(
            as_bare_axis(index) is axis for index, axis in zip(body.indices, axes, strict=True)
        )
        if producer is None or not is_unscheduled(producer) or not plain or source.shape != tensor.shape:
            continue
        if source in schedule.outputs or len(producer.state.tensors) > 1:
            continue
        schedule.remove(stage)
        for consumer in schedule.consumers(source):
            computation = redirect_reads(consumer.state.computation, {source: tensor})
            consumer.change(computation=computation)
        producer.change(tensors=(tensor,))
        position = schedule.stages.index(producer)
        assert all(schedule.stages.index(consumer) > position for consumer in schedule.consumers(tensor))
