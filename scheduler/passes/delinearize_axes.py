"""Programs without division in their indices: an axis that is taken apart becomes several axes.

A flattened image read as ``flat[n, f]`` with ``flat[n, f] = image[n, f // 64, f // 8 % 8, f % 8]``, or a grouped
convolution that reads channel ``o // 4 * 2 + r``, has indices that no instruction can form. Splitting ``f`` into the
three axes that it is made of, in the computation, in the tensor that it makes, and in everything that reads it, leaves
linear indices. Inputs and outputs keep their shape for the user; in DRAM they lie as the finer shape, which is the same
row-major order. A stage that has become a plain copy is read past.
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
from lathe.scheduler.rewriting.rewrite import (
    redirect_reads,
    rewrite,
    rewrite_indices,
    rewrite_reads,
    transform,
)
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.scheduler.target.target import Target


def delinearize_axes(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Take axes apart, in place, that indices of untouched stages divide; leave out what only copies."""
    canonical = _Canonical(schedule)
    canonical.simplify()
    while canonical.step():
        pass
    canonical.skip_copies()
    merge_output_copies(schedule)
    schedule.update(views=canonical.views)


def is_split(stage: StageView) -> bool:
    """Whether no index takes an axis of the stage apart that could be several axes."""
    computation = stage.state.computation
    axes = (*computation.axes, *computation.reduce_axes)
    return not any(radices_of(computation.bodies, axis) and _can_split(stage, axis) for axis in axes)


def radices_of(expressions: Sequence[Expr], axis: Axis) -> list[int]:
    """The extents of the digits that floor divisions and remainders take an axis apart into, or []."""
    steps = {1}
    for expr in expressions:
        for node in walk(expr):
            if not isinstance(node, Binary) or not isinstance(node.rhs, Const) or node.rhs.value < 2:
                continue
            if as_bare_axis(node.lhs) is axis and node.op in ("floordiv", "mod"):
                steps.add(node.rhs.value)
            inner = node.lhs
            match inner:
                case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if node.op == "mod":
                    if as_bare_axis(lhs) is axis:
                        steps |= {value, value * node.rhs.value}
    ordered = [*sorted(step for step in steps if step < axis.extent), axis.extent]
    if len(ordered) < 3 or axis.start or any(b % a for a, b in pairwise(ordered)):
        return []
    return [b // a for a, b in pairwise(ordered)][::-1]


class _Canonical:
    def __init__(self, schedule: Edit) -> None:
        self.schedule = schedule
        self.views = dict(schedule.state.views)
        self.made: set[Axis] = set()

    def simplify(self) -> None:
        """Every index in its simplest form."""
        for stage in self.schedule.stages:
            if is_unscheduled(stage):
                old = stage.state.computation
                bodies = tuple(_with_units(_simplified(body), old.axes) for body in old.bodies)
                new = Computation(old.name, old.axes, old.reduce_axes, bodies, old.attrs)
                stage.put(with_computation(new, stage.state.tensors))

    def step(self) -> bool:
        """Take one axis or one dimension apart; False when nothing is left to do."""
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
        """The radices of an index that is a mixed-radix number of axes, at least one of them made here."""
        affine = as_affine(index)
        if affine is None or affine.const or len(affine.coefficients) < 2:
            return []
        if not any(axis in self.made for axis in affine.coefficients):
            return []
        step, radices = 1, []
        for axis, coefficient in sorted(affine.coefficients.items(), key=lambda item: item[1]):
            if coefficient != step or axis.start:
                return []
            radices.append(axis.extent)
            step *= axis.extent
        return radices[::-1] if step == size else []

    def _split_axis(self, stage: EditedStage, axis: Axis, radices: list[int]) -> None:
        computation = stage.state.computation
        parts = tuple(Axis(f"{axis.name}{n}", extent, 0, axis.kind) for n, extent in enumerate(radices))
        self.made |= set(parts)
        whole = _joined([AxisRef(part) for part in parts], radices)
        bodies = tuple(_simplified(rewrite(body, axes={axis: whole})) for body in computation.bodies)
        if axis.kind == "reduce":
            place = computation.reduce_axes.index(axis)
            reduce_axes = (*computation.reduce_axes[:place], *parts, *computation.reduce_axes[place + 1 :])
            bodies = tuple(
                Reduce(body.kind, body.body, reduce_axes) if isinstance(body, Reduce) else body for body in bodies
            )
            new = Computation(computation.name, computation.axes, reduce_axes, bodies, computation.attrs)
            stage.put(_in_order(stage.state, new, stage.state.tensors, axis, parts))
            return
        dim = computation.axes.index(axis)
        axes = (*computation.axes[:dim], *parts, *computation.axes[dim + 1 :])
        new = Computation(computation.name, axes, computation.reduce_axes, bodies, computation.attrs)
        tensors = tuple(self._finer(tensor, dim, radices) for tensor in stage.state.tensors)
        old = stage.state.tensors
        stage.put(_in_order(stage.state, new, tensors, axis, parts))
        for before, after in zip(old, tensors, strict=True):
            self._redirect(before, after, dim, radices)

    def _split_dimension(self, tensor: Tensor, dim: int, radices: list[int]) -> None:
        for stage in self.schedule.stages:
            if tensor in stage.state.tensors:
                self._split_axis(stage, stage.state.computation.axes[dim], radices)
                return
        self._redirect(tensor, self._finer(tensor, dim, radices), dim, radices)

    def _finer(self, tensor: Tensor, dim: int, radices: list[int]) -> Tensor:
        shape = (*tensor.shape[:dim], *radices, *tensor.shape[dim + 1 :])
        finer = Tensor(tensor.name, shape, tensor.dtype, tensor.computation, tensor.output_index)
        self.views[finer] = self.views.get(tensor, tensor)
        self.schedule.update(outputs=tuple(finer if each is tensor else each for each in self.schedule.outputs))
        return finer

    def _redirect(self, tensor: Tensor, finer: Tensor, dim: int, radices: list[int]) -> None:
        for reader in self.schedule.readers(tensor):
            computation = reader.state.computation
            bodies = tuple(_simplified(_with_digits(body, tensor, finer, dim, radices)) for body in computation.bodies)
            new = Computation(computation.name, computation.axes, computation.reduce_axes, bodies, computation.attrs)
            reader.put(_in_order(reader.state, new, reader.state.tensors))

    def skip_copies(self) -> None:
        """Let readers of plain copies read the original, and drop the copies."""
        for stage in list(self.schedule.stages):
            body = stage.state.computation.bodies[0]
            if not is_unscheduled(stage) or not isinstance(body, Read) or len(stage.state.tensors) > 1:
                continue
            axes = stage.state.computation.axes
            tensor = stage.tensor
            same = len(body.indices) == len(axes) and all(
                as_bare_axis(index) is axis for index, axis in zip(body.indices, axes, strict=True)
            )
            if not same or body.tensor.shape != tensor.shape or tensor in self.schedule.outputs:
                continue
            readers = self.schedule.readers(tensor)
            if not all(is_unscheduled(reader) for reader in readers):
                continue
            for reader in readers:
                new = redirect_reads(reader.state.computation, {tensor: body.tensor})
                reader.put(with_computation(new, reader.state.tensors))
            self.schedule.remove(stage)


def _can_split(stage: StageView, axis: Axis) -> bool:
    if not _is_at_most_reordered(stage):
        return False
    return axis.kind == "reduce" or all(_can_split_dimension(stage.schedule, each) for each in stage.state.tensors)


def _can_split_dimension(schedule: ScheduleView, tensor: Tensor) -> bool:
    return all(_is_at_most_reordered(reader) for reader in schedule.readers(tensor)) and all(
        _is_at_most_reordered(stage) for stage in schedule.stages if tensor in stage.state.tensors
    )


def _is_at_most_reordered(stage: StageView) -> bool:
    """Whether the parts of each axis of a stage may stand where the axis stands: nobody has placed it or cut its loops.

    In a schedule with transformed layouts, loops may be in another order: layouts join axes that only their parts lead
    through, and programs reorder what ``transform_layout`` returns.
    """
    state = stage.state
    if not any(layout.maps for layout in stage.schedule.layouts.values()):
        return is_unscheduled(stage)
    if state.storage is not None or state.threads or state.signals:
        return False
    free = state.scope == DRAM and not state.relations and state.pragma is None and state.attachment is None
    return free and state.lanes is None and not stage.schedule.attached(stage) and not state.copies


def _in_order(
    state: StageState,
    computation: Computation,
    tensors: tuple[Tensor, ...],
    whole: Axis | None = None,
    parts: tuple[Axis, ...] = (),
) -> StageState:
    """A computation in loops that stand as those of ``state`` do, and the ``parts`` of an axis where the axis stood."""
    fresh = with_computation(computation, tensors)
    loops = {root.source: root for root in fresh.roots}
    of = {leaf: [loops[axis] for axis in (parts if leaf.source is whole else (leaf.source,))] for leaf in state.leaves}
    leaves = tuple(loop for leaf in state.leaves for loop in of[leaf])
    return replace(fresh, leaves=leaves, unrolled=frozenset(loop for leaf in state.unrolled for loop in of[leaf]))


def _joined(digits: Sequence[Expr], radices: Sequence[int]) -> Expr:
    total: Expr | None = None
    for position, digit in enumerate(digits):
        weight = prod(radices[position + 1 :])
        term = digit if weight == 1 else Binary("mul", digit, Const(weight, "index"))
        total = term if total is None else Binary("add", total, term)
    assert total is not None
    return total


def _with_digits(expr: Expr, tensor: Tensor, finer: Tensor, dim: int, radices: Sequence[int]) -> Expr:
    """The expression with reads of the tensor turned into reads of the finer one."""

    def read(node: Read) -> Read:
        index = node.indices[dim]
        digits: list[Expr] = []
        for position, radix in enumerate(radices):
            weight = prod(radices[position + 1 :])
            digit = index if weight == 1 else Binary("floordiv", index, Const(weight, "index"))
            digits.append(Binary("mod", digit, Const(radix, "index")) if position else digit)
        return Read(finer, (*node.indices[:dim], *digits, *node.indices[dim + 1 :]))

    return rewrite_reads(expr, tensor, read)


def _with_units(expr: Expr, axes: Sequence[Axis]) -> Expr:
    """The expression reading dimensions of one value at the axis of one value that is in their place, not at 0."""

    def index(given: Expr, extent: int, axis: Axis) -> Expr:
        one = extent == axis.extent == 1 and isinstance(given, Const)
        return AxisRef(axis) if one else given

    def read(node: Read) -> Read:
        if len(node.indices) != len(axes):
            return node
        return Read(node.tensor, tuple(map(index, node.indices, node.tensor.shape, axes)))

    return transform(expr, lambda _: None, read)


def _simplified(expr: Expr) -> Expr:
    """The expression with the index of every read as simple as possible."""
    return rewrite_indices(expr, simplified_index)
