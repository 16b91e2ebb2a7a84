"""Reshapes that cost nothing: the host sees an input or an output under another shape, the machine under its own.

A reshape of an input is the same input seen under another shape. A reshape that makes an output is the computation
before it, seen by the host under the output's shape. Element-wise computations behind a reshape are done before it.
What is left are reshapes between computations that are not element-wise; ``delinearize_axes`` splits axes for those.
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
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target


def is_unscheduled(stage: StageView) -> bool:
    """Whether no command has touched a stage, or said what fills its lanes."""
    state = stage.state
    untouched = not state.is_touched and not state.is_vectorized and not stage.schedule.attached(stage)
    return state.scope == DRAM and untouched and state.attachment is None and not state.copies and not state.storage


def source_of_reshape(stage: StageView) -> Tensor | None:
    """The tensor whose elements, in row-major order, are those of the stage's under another shape; or None."""
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
    assert own is not None, "axes are affine"
    if source is None:
        return None
    try:
        with limited_operations():
            return body.tensor if own.ne_set(source).intersect(points.box()).is_empty() else None
    except TooManyOperationsError:
        return None


def _row_major(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The place of an element among all of a tensor's."""
    flat: Expr = Const(0, INDEX)
    for index, extent in zip(indices, shape, strict=True):
        flat = Binary("add", Binary("mul", flat, Const(extent, INDEX)), index)
    return flat


def fold_reshapes(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Take out, in place, reshapes that the host can do: of inputs, and of what makes outputs."""
    found = _Reshapes(schedule)
    found.run()
    schedule.update(views=found.views)


class _Reshapes:
    """Takes the reshapes out of a schedule; ``views`` collects which tensor each tensor of another shape stands for."""

    def __init__(self, schedule: Edit) -> None:
        self.schedule = schedule
        self.views = dict(schedule.state.views)
        self._found: dict[Computation, Tensor | None] = {}

    def run(self) -> None:
        while any(self._step(stage) for stage in list(self.schedule.stages)):
            pass

    def _source(self, stage: EditedStage) -> Tensor | None:
        computation = stage.state.computation
        if not is_unscheduled(stage):
            return None
        if computation not in self._found:
            self._found[computation] = source_of_reshape(stage)
        return self._found[computation]

    def _step(self, stage: EditedStage) -> bool:
        source = self._source(stage)
        if source is None:
            return is_unscheduled(stage) and self._moved_before(stage)
        if not self.schedule.maker(source):
            return self._of_input(stage, source)
        if stage.tensor in self.schedule.outputs:
            return self._of_output(stage, source)
        return False

    def _seen_as(self, tensor: Tensor, shape: tuple[int, ...], computation: Computation | None = None) -> Tensor:
        seen = Tensor(tensor.name, shape, tensor.dtype, computation)
        self.views[seen] = self.views.get(tensor, tensor)
        return seen

    def _of_input(self, stage: EditedStage, source: Tensor) -> bool:
        seen = self._seen_as(source, stage.tensor.shape)
        for reader in self.schedule.readers(stage.tensor):
            computation = redirect_reads(reader.state.computation, {stage.tensor: seen})
            reader.change(computation=computation)
        if stage.tensor in self.schedule.outputs:
            copy = copy_of(seen, stage.name, stage.state.computation.axes, whole=True)
            stage.put(replace(initial_state(copy), tensors=stage.state.tensors))
        else:
            self.schedule.remove(stage)
        return True

    def _of_output(self, stage: EditedStage, source: Tensor) -> bool:
        """The output becomes a copy of what is reshaped; others that read it read a reshape of the copy."""
        tensor = stage.tensor
        axes = tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(source.shape))
        copy = copy_of(source, stage.name, axes, whole=True)
        seen = self._seen_as(tensor, source.shape, copy)
        readers = self.schedule.readers(tensor)
        if readers:
            body = redirect_reads(stage.state.computation, {source: seen})
            again = Computation(fresh_name(self.schedule, f"{stage.name}.reshaped"), body.axes, (), body.bodies)
            self.schedule.insert(initial_state(again), behind=stage)
            for reader in readers:
                computation = redirect_reads(reader.state.computation, {tensor: again.outputs[0]})
                reader.change(computation=computation)
        stage.put(replace(initial_state(copy), tensors=(seen,)))
        self.schedule.update(outputs=tuple(seen if each is tensor else each for each in self.schedule.outputs))
        return True

    def _moved_before(self, stage: EditedStage) -> bool:
        """An element-wise computation of reshaped tensors becomes the reshape of a computation of the tensors."""
        state = stage.state
        computation = state.computation
        if computation.reduce_axes or len(state.tensors) > 1:
            return False
        reshaped: dict[Tensor, tuple[EditedStage, Tensor]] = {}
        for read in computation.reads:
            maker = self.schedule.maker(read.tensor)
            source = self._source(maker) if maker is not None else None
            if maker is not None and source is not None and self.schedule.maker(source):
                reshaped[read.tensor] = (maker, source)
        shapes = {source.shape for _, source in reshaped.values()}
        if len(shapes) != 1 or not self._is_elementwise(computation, reshaped):
            return False
        (shape,) = shapes
        axes = tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(shape))
        indices = tuple(AxisRef(axis) for axis in axes)
        seen: dict[Tensor, Tensor] = {}

        def leaf(node: Expr) -> Expr | None:
            if not isinstance(node, Read) or not axes_of(*node.indices):
                return None
            if node.tensor in reshaped:
                return Read(reshaped[node.tensor][1], indices)
            if node.tensor not in seen:
                seen[node.tensor] = self._seen_as(node.tensor, shape)
            return Read(seen[node.tensor], indices)

        name = fresh_name(self.schedule, f"{stage.name}.unshaped")
        before = Computation(name, axes, (), (transform(computation.bodies[0], leaf),), computation.attrs)
        maker, source = next(iter(reshaped.values()))
        body = redirect_reads(maker.state.computation, {source: before.outputs[0]})
        after = Computation(stage.name, body.axes, (), body.bodies)
        self.schedule.insert(initial_state(before), before=stage)
        stage.put(replace(initial_state(after), tensors=state.tensors))
        for each, _ in set(reshaped.values()):
            if not self.schedule.readers(each.tensor) and each.tensor not in self.schedule.outputs:
                self.schedule.remove(each)
        return True

    def _is_elementwise(self, computation: Computation, reshaped: dict[Tensor, tuple[EditedStage, Tensor]]) -> bool:
        """Whether each read is of a reshaped tensor at the very point, or of an input there or at no axis at all."""
        own = computation.axes
        for read in computation.reads:
            if not axes_of(*read.indices):
                if read.tensor in reshaped:  # one element of it is repeated
                    return False
                continue
            named = [as_bare_axis(index) for index in read.indices]
            if len(named) != len(own) or any(a is not b for a, b in zip(named, own, strict=True)):
                return False
            if read.tensor.shape != computation.shape:
                return False
            if read.tensor not in reshaped and self.schedule.maker(read.tensor) is not None:
                return False
        free = transform(computation.bodies[0], lambda node: Const(0, node.dtype) if isinstance(node, Read) else None)
        return not any(isinstance(node, AxisRef) for node in walk(free))


def merge_output_copies(schedule: Edit) -> None:
    """Where an output is nothing but a copy of what a stage makes, the stage makes the output."""
    for stage in list(schedule.stages):
        body = stage.state.computation.bodies[0]
        tensor = stage.tensor
        if not is_unscheduled(stage) or not isinstance(body, Read) or tensor not in schedule.outputs:
            continue
        source = body.tensor
        maker = schedule.maker(source)
        axes = stage.state.computation.axes
        plain = len(body.indices) == len(axes) and all(
            as_bare_axis(index) is axis for index, axis in zip(body.indices, axes, strict=True)
        )
        if maker is None or not is_unscheduled(maker) or not plain or source.shape != tensor.shape:
            continue
        if source in schedule.outputs or len(maker.state.tensors) > 1:
            continue
        schedule.remove(stage)
        for reader in schedule.readers(source):
            computation = redirect_reads(reader.state.computation, {source: tensor})
            reader.change(computation=computation)
        maker.change(tensors=(tensor,))
        position = schedule.stages.index(maker)
        assert all(schedule.stages.index(reader) > position for reader in schedule.readers(tensor))
