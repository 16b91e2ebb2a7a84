"""Delinearise axes: split an axis that indices divide (f // 64, f // 8 % 8) into several, so that indices are linear.

A flattened image ``flat[n, f] = image[n, f // 64, f // 8 % 8, f % 8]``, or a grouped convolution that reads channel
``o // 4 * 2 + r``, has indices that no instruction can form. Splitting ``f`` into three axes, in the computation, in
the tensor that it computes and in all consumers, leaves linear indices. Inputs and outputs keep their shape for the
user; in DRAM they are stored in the finer shape, which is the same row-major order. Stages that have become plain
copies are bypassed.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from lathe.frontend import Axis, Computation, Tensor, as_affine, walk
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Const, Read, Reduce
from lathe.scheduler.passes.fold_reshapes import is_unscheduled, merge_output_copies
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.rewrite import redirect_reads, rewrite, rewrite_indices, rewrite_reads, transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.scheduler.target.target import Target


def delinearize_axes(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Split, in place, axes that indices of unscheduled stages divide; then bypass plain copies."""
    splitter = _AxisSplitter(schedule)
    splitter.simplify()
    while splitter.split_next():
        pass
    splitter.skip_copies()
    merge_output_copies(schedule)
    schedule.update(views=splitter.views)


def has_linear_indices(stage: StageView) -> bool:
    """Whether no index divides an axis of the stage that could be split."""
    computation = stage.state.computation
    axes = (*computation.axes, *computation.reduce_axes)
    return not any(radices_of(computation.bodies, axis) and _can_split(stage, axis) for axis in axes)


def radices_of(expressions: Sequence[Expr], axis: Axis) -> list[int]:
    """The extents of the axes that floor divisions and remainders split an axis into, the outermost first; or []."""
    strides = {1}
    for expr in expressions:
        for node in walk(expr):
            if not isinstance(node, Binary) or not isinstance(node.rhs, Const) or node.rhs.value < 2:
                continue
            if as_bare_axis(node.lhs) is axis and node.op in ("floordiv", "mod"):
                strides.add(node.rhs.value)
            inner = node.lhs
            match inner:
                case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if node.op == "mod":
                    if as_bare_axis(lhs) is axis:
                        strides |= {value, value * node.rhs.value}
    ordered = [*sorted(stride for stride in strides if stride < axis.extent), axis.extent]
    if len(ordered) < 3 or axis.start or any(b % a for a, b in pairwise(ordered)):
        return []
    return [b // a for a, b in pairwise(ordered)][::-1]


class _AxisSplitter:
    def __init__(self, schedule: Edit) -> None:
        self.schedule = schedule
        self.views = dict(schedule.state.views)
        self.split_axes: set[Axis] = set()

    def simplify(self) -> None:
        """Simplify every index."""
        for stage in self.schedule.stages:
            if is_unscheduled(stage):
                old = stage.state.computation
                bodies = tuple(_with_unit_axes(_simplified(body), old.axes) for body in old.bodies)
                new = Computation(old.name, old.axes, old.reduce_axes, bodies, old.attrs)
                stage.put(with_computation(new, stage.state.tensors))

    def split_next(self) -> bool:
        """Split one axis or one dimension; False if there is none left to split."""
        for stage in self.schedule.stages:
            computation = stage.state.computation
            for axis in (*computation.axes, *computation.reduce_axes):
                radices = radices_of(computation.bodies, axis)
                if radices and _can_split(stage, axis):
                    self._split_axis(stage, axis, radices)
                    return True
            for read in computation.reads:
                for dim, index in enumerate(read.indices):
                    radices = self._mixed(index, read.tensor.shape[dim])
                    if radices and _can_split_dimension(self.schedule, read.tensor):
                        self._split_dimension(read.tensor, dim, radices)
                        return True
        return False

    def _mixed(self, index: Expr, size: int) -> list[int]:
        """The radices of an index that is a mixed-radix number of axes, at least one of which was split; or []."""
        affine = as_affine(index)
        if affine is None or affine.const or len(affine.coefficients) < 2:
            return []
        if not any(axis in self.split_axes for axis in affine.coefficients):
            return []
        stride, radices = 1, []
        for axis, coefficient in sorted(affine.coefficients.items(), key=lambda item: item[1]):
            if coefficient != stride or axis.start:
                return []
            radices.append(axis.extent)
            stride *= axis.extent
        return radices[::-1] if stride == size else []

    def _split_axis(self, stage: EditedStage, axis: Axis, radices: list[int]) -> None:
        computation = stage.state.computation
        digits = tuple(Axis(f"{axis.name}{n}", extent, 0, axis.kind) for n, extent in enumerate(radices))
        self.split_axes |= set(digits)
        whole = _linearized([AxisRef(digit) for digit in digits], radices)
        bodies = tuple(_simplified(rewrite(body, axes={axis: whole})) for body in computation.bodies)
        if axis.kind == "reduce":
            position = computation.reduce_axes.index(axis)
            reduce_axes = (*computation.reduce_axes[:position], *digits, *computation.reduce_axes[position + 1 :])
            bodies = tuple(
                Reduce(body.kind, body.body, reduce_axes) if isinstance(body, Reduce) else body for body in bodies
            )
            new = Computation(computation.name, computation.axes, reduce_axes, bodies, computation.attrs)
            stage.put(_with_loop_order(stage.state, new, stage.state.tensors, axis, digits))
            return
        dim = computation.axes.index(axis)
        axes = (*computation.axes[:dim], *digits, *computation.axes[dim + 1 :])
        new = Computation(computation.name, axes, computation.reduce_axes, bodies, computation.attrs)
        tensors = tuple(self._split_tensor(tensor, dim, radices) for tensor in stage.state.tensors)
        old = stage.state.tensors
        stage.put(_with_loop_order(stage.state, new, tensors, axis, digits))
        for before, after in zip(old, tensors, strict=True):
            self._redirect(before, after, dim, radices)

    def _split_dimension(self, tensor: Tensor, dim: int, radices: list[int]) -> None:
        for stage in self.schedule.stages:
            if tensor in stage.state.tensors:
                self._split_axis(stage, stage.state.computation.axes[dim], radices)
                return
        self._redirect(tensor, self._split_tensor(tensor, dim, radices), dim, radices)

    def _split_tensor(self, tensor: Tensor, dim: int, radices: list[int]) -> Tensor:
        shape = (*tensor.shape[:dim], *radices, *tensor.shape[dim + 1 :])
        split = Tensor(tensor.name, shape, tensor.dtype, tensor.computation, tensor.output_index)
        self.views[split] = self.views.get(tensor, tensor)
        self.schedule.update(outputs=tuple(split if each is tensor else each for each in self.schedule.outputs))
        return split

    def _redirect(self, tensor: Tensor, split: Tensor, dim: int, radices: list[int]) -> None:
        for consumer in self.schedule.consumers(tensor):
            computation = consumer.state.computation
            bodies = tuple(_simplified(_with_digits(body, tensor, split, dim, radices)) for body in computation.bodies)
            new = Computation(computation.name, computation.axes, computation.reduce_axes, bodies, computation.attrs)
            consumer.put(_with_loop_order(consumer.state, new, consumer.state.tensors))

    def skip_copies(self) -> None:
        """Redirect consumers of plain copies to the original, and remove the copies."""
        for stage in list(self.schedule.stages):
            body = stage.state.computation.bodies[0]
            if not is_unscheduled(stage) or not isinstance(body, Read) or len(stage.state.tensors) > 1:
                continue
            axes = stage.state.computation.axes
            tensor = stage.tensor
            identity = len(body.indices) == len(axes) and all(
                as_bare_axis(index) is axis for index, axis in zip(body.indices, axes, strict=True)
            )
            if not identity or body.tensor.shape != tensor.shape or tensor in self.schedule.outputs:
                continue
            consumers = self.schedule.consumers(tensor)
            if not all(is_unscheduled(consumer) for consumer in consumers):
                continue
            for consumer in consumers:
                new = redirect_reads(consumer.state.computation, {tensor: body.tensor})
                consumer.put(with_computation(new, consumer.state.tensors))
            self.schedule.remove(stage)


def _can_split(stage: StageView, axis: Axis) -> bool:
    if not _is_splittable(stage):
        return False
    return axis.kind == "reduce" or all(_can_split_dimension(stage.schedule, each) for each in stage.state.tensors)


def _can_split_dimension(schedule: ScheduleView, tensor: Tensor) -> bool:
    return all(_is_splittable(consumer) for consumer in schedule.consumers(tensor)) and all(
        _is_splittable(stage) for stage in schedule.stages if tensor in stage.state.tensors
    )


def _is_splittable(stage: StageView) -> bool:
    """Whether axes of a stage may be split in its loop nest: it is unscheduled, except perhaps for the loop order.

    Loops may be reordered in a schedule with transformed layouts: programs reorder the loops that ``transform_layout``
    returns, and its indices that join axes become linear only when these are split.
    """
    state = stage.state
    if not any(layout.maps for layout in stage.schedule.layouts.values()):
        return is_unscheduled(stage)
    if state.storage is not None or state.threads or state.sync_ops:
        return False
    unscheduled = state.scope == DRAM and not state.relations and state.pragma is None and state.attachment is None
    return unscheduled and state.vector_layout is None and not stage.schedule.attached(stage) and not state.copy_of


def _with_loop_order(
    state: StageState,
    computation: Computation,
    tensors: tuple[Tensor, ...],
    whole: Axis | None = None,
    digits: tuple[Axis, ...] = (),
) -> StageState:
    """The initial state of ``computation`` in the loop order of ``state``, with ``digits`` for axis ``whole``."""
    fresh = with_computation(computation, tensors)
    loops = {root.source: root for root in fresh.roots}
    of = {leaf: [loops[axis] for axis in (digits if leaf.source is whole else (leaf.source,))] for leaf in state.leaves}
    leaves = tuple(loop for leaf in state.leaves for loop in of[leaf])
    return replace(fresh, leaves=leaves, unrolled=frozenset(loop for leaf in state.unrolled for loop in of[leaf]))


def _linearized(digits: Sequence[Expr], radices: Sequence[int]) -> Expr:
    total: Expr | None = None
    for position, digit in enumerate(digits):
        weight = prod(radices[position + 1 :])
        term = digit if weight == 1 else Binary("mul", digit, Const(weight, "index"))
        total = term if total is None else Binary("add", total, term)
    assert total is not None
    return total


def _with_digits(expr: Expr, tensor: Tensor, split: Tensor, dim: int, radices: Sequence[int]) -> Expr:
    """The expression with reads of a tensor redirected to the split one, whose indices are digits of the old index."""

    def read(node: Read) -> Read:
        index = node.indices[dim]
        digits: list[Expr] = []
        for position, radix in enumerate(radices):
            weight = prod(radices[position + 1 :])
            digit = index if weight == 1 else Binary("floordiv", index, Const(weight, "index"))
            digits.append(Binary("mod", digit, Const(radix, "index")) if position else digit)
        return Read(split, (*node.indices[:dim], *digits, *node.indices[dim + 1 :]))

    return rewrite_reads(expr, tensor, read)


def _with_unit_axes(expr: Expr, axes: Sequence[Axis]) -> Expr:
    """The expression with constant indices of unit dimensions replaced by the unit axes at the same positions."""

    def index(old: Expr, extent: int, axis: Axis) -> Expr:
        is_unit = extent == axis.extent == 1 and isinstance(old, Const)
        return AxisRef(axis) if is_unit else old

    def read(node: Read) -> Read:
        if len(node.indices) != len(axes):
            return node
        return Read(node.tensor, tuple(map(index, node.indices, node.tensor.shape, axes)))

    return transform(expr, lambda _: None, read)


def _simplified(expr: Expr) -> Expr:
    """The expression with the indices of all reads simplified."""
    return rewrite_indices(expr, simplified_index)
