"""``reorder_to_buffer``: the loops of a stage follow the memory order of a tensor that it reads."""

from dataclasses import replace

import islpy as isl

from lathe.frontend import Axis, Tensor
from lathe.frontend.arith.conditions import conjunction
from lathe.frontend.arith.polyhedra import Points, points_of, range_of
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Compare, Const, Reduce, Select, axes_of
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.guard_removal import least_point
from lathe.scheduler.legality.padding_dataflow import Dataflow
from lathe.scheduler.primitives.shift import shift
from lathe.scheduler.primitives.split import split
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.padding import live_conditions
from lathe.scheduler.rewriting.rewrite import rewrite_indices
from lathe.scheduler.rewriting.undef import conjuncts
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.stage import StageState, initial_state

SET = isl.dim_type.set


def reorder_to_buffer(stage: EditedStage, tensor: Tensor) -> tuple[LoopAxis, ...]:
    """Let the loops of a stage traverse a tensor that it reads cell by cell, in the order of the tensor's layout.

    A data loop is shifted and split as the layout divides its axis; a reduction axis is replaced by one for each index
    of the layout. Conditions exclude padding, for ``overcompute`` to remove. Before, with ``A`` laid out by
    ``[i, j // 4, j % 4]``::

        for i in 0..16:
          B[i] = 0
          for j in 0..14:
            B[i] += A[i, j // 4, j % 4]

    After ``s[B].reorder_to_buffer(A)``::

        for i in 0..16:
          B[i] = 0
          for jo in 0..4:
            for ji in 0..4:
              B[i] += select(jo * 4 + ji < 14, A[i, jo, ji], 0)

    Returns the loops in the order of the tensor's indices, without constant ones. Raises ScheduleError for a tensor
    that the stage does not read, or reads at two different indices, a stage whose loops have been changed, an index
    that is not a loop plus a constant (as in a convolution: several sums would be in progress at once), or a layout
    that merges several axes. RFC 0077's sequential_buffer_access.
    """
    schedule = stage.schedule
    current = schedule.current(tensor)
    reads = [read for read in stage.state.computation.reads if read.tensor is current]
    if not isinstance(current, Tensor) or not reads:
        names = ", ".join(dict.fromkeys(read.tensor.name for read in stage.state.computation.reads))
        raise ScheduleError(
            f"tensor of reorder_to_buffer on stage {stage.name} must be one that it reads ({names}), not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    if len({tuple(map(str, read.indices)) for read in reads}) > 1:
        raise ScheduleError(
            f"tensor of reorder_to_buffer on stage {stage.name} must be read at one index, not {current.name} at "
            f"{' and '.join(str(read.node) for read in reads[:2])}.",
            kind="limit",
        )
    state = stage.state
    annotated = state.unrolled or state.annotations or state.synchronised_leaves
    if state.has_changed_loops or annotated or schedule.attached(stage):
        raise ScheduleError(
            f"Cannot apply reorder_to_buffer to {stage.name}: its loops have been changed or annotated, or stages are "
            "computed inside it. Call reorder_to_buffer before other primitives.",
            kind="limit",
        )
    return _Follower(stage, schedule.layout(current), reads[0].indices).run()


class _Follower:
    def __init__(self, stage: EditedStage, layout: TensorLayout, indices: tuple[Expr, ...]) -> None:
        self.stage = stage
        self.layout = layout
        self.indices = indices
        shape = layout.tensor.shape
        self.logical = [Axis(f"d{n}", extent) for n, extent in enumerate(shape)]
        self.places = [Axis(f"p{n}", extent) for n, extent in enumerate(layout.shape)]
        forward: list[Expr] = [AxisRef(axis) for axis in self.logical]
        for each in layout.maps:  # not simplified: an index that is constant after all depends on its axis, too
            onto: dict[Axis, Expr] = dict(zip(each.axes, forward, strict=True))
            forward = [substitute(index, onto) for index in each.indices]
        self.depends = [{self.logical.index(axis) for axis in axes_of(index)} for index in forward]
        back: list[Expr] = [AxisRef(axis) for axis in self.places]
        for each in reversed(layout.maps):
            new = [Axis(f"q{n}", extent) for n, extent in enumerate(each.shape)]
            inverse = each.inverse(new)
            onto = dict(zip(new, back, strict=True))
            back = [simplified_index(substitute(inverse[old], onto)) for old in each.axes]
        self.fixed = {self.places[n]: index for n, index in enumerate(indices) if not axes_of(index)}
        self.back = [simplified_index(substitute(index, self.fixed)) for index in back]

    def run(self) -> tuple[LoopAxis, ...]:
        loops: dict[int, LoopAxis] = {}
        for dim in range(len(self.logical)):
            where = [
                place
                for place, depends in enumerate(self.depends)
                if dim in depends and self.places[place] not in self.fixed
            ]
            if not where:
                continue
            named = [as_bare_axis(self.indices[place]) for place in where]
            if where and all(axis is not None for axis in named):
                loops.update(zip(where, (self._loop(axis) for axis in named if axis is not None), strict=True))
                continue
            found = self._moved_by(dim)
            if found is None:
                continue  # constant
            if any(self.depends[place] != {dim} for place in where):
                raise ScheduleError(
                    f"layout of {self.layout.tensor.name} must not merge axes for reorder_to_buffer on stage "
                    f"{self.stage.name}, as {self.layout} does. Fuse the loops explicitly.",
                    kind="limit",
                )
            axis, offset = found
            follow = self._reduction if axis.kind == "reduce" else self._data
            loops.update(zip(where, follow(dim, where, axis, offset), strict=True))
        ordered = [loops[place] for place in sorted(loops)]
        leaves = self.stage.state.leaves
        outer = [loop for loop in ordered if loop in leaves]
        rest = [loop for loop in leaves if loop not in outer]
        commit(
            self.stage.schedule, {self.stage: replace(self.stage.state, leaves=(*outer, *rest))}, "reorder_to_buffer"
        )
        return tuple(ordered)

    def _loop(self, axis: Axis) -> LoopAxis:
        return next(leaf for leaf in self.stage.state.leaves if leaf.source is axis)

    def _moved_by(self, dim: int) -> tuple[Axis, int] | None:
        """The axis and the offset that an index before the layout consists of; None for a constant index."""
        onto: dict[Axis, Expr] = dict(zip(self.places, self.indices, strict=True))
        index = simplified_index(substitute(self.back[dim], onto))
        axes = axes_of(index)
        if not axes:
            return None
        computation = self.stage.state.computation
        points = points_of(computation)
        value = points.value(index)
        assert value is not None, f"{index} is not quasi-affine"
        for axis in axes:
            own = points.value(AxisRef(axis))
            assert own is not None
            rest = value.sub(own).intersect_domain(points.box())
            low, high = range_of(rest)
            if low == high:
                return axis, low
        kinds = {axis.kind for axis in axes}
        reads_itself = any(read.tensor in self.stage.state.tensors for read in computation.reads)
        why = ""
        if len(kinds) == 2 and reads_itself:
            why = (
                f": {self.stage.name} reads elements of itself, and each would start before the one that it reads is "
                "complete"
            )
        elif len(kinds) == 2:
            why = ": several sums would be in progress at once"
        raise ScheduleError(
            f"index {dim} of {self.layout.tensor.name} in stage {self.stage.name} must be one loop plus a constant for "
            f"reorder_to_buffer, not an expression of {' and '.join(axis.name for axis in axes)}{why}.",
            kind="limit",
        )

    def _reduction(self, dim: int, where: list[int], axis: Axis, offset: int) -> list[LoopAxis]:
        """Replace a reduction axis by one for each index of the layout."""
        names = [axis.name] if len(where) == 1 else [f"{axis.name}o", f"{axis.name}i"]
        if len(where) > 2:
            names = [f"{axis.name}{n}" for n in range(len(where))]
        new = [Axis(name, self.layout.shape[place], 0, "reduce") for name, place in zip(names, where, strict=True)]
        onto: dict[Axis, Expr] = {self.places[place]: AxisRef(each) for place, each in zip(where, new, strict=True)}
        value = substitute(self.back[dim], onto)
        if offset:
            value = Binary("sub", value, Const(offset, "index"))
        value = simplified_index(value)
        conditions = [Compare("ge", value, Const(axis.start, "index")), Compare("lt", value, Const(axis.stop, "index"))]
        inside = set(onto)
        for live, _ in live_conditions(self.layout.padded_maps, self.places):
            terms = (substitute(term, self.fixed) for term in conjuncts(live))
            mine = [term for term in terms if set(axes_of(term)) <= inside]
            moved = (substitute(term, onto) for term in mine)
            conditions += [term for term in moved if isinstance(term, Compare)]
        self._check_covered(axis, new, value, conditions)
        condition = conjunction(_without_implied(new, conditions))
        computation = self.stage.state.computation
        position = computation.reduce_axes.index(axis)
        axes = (*computation.reduce_axes[:position], *new, *computation.reduce_axes[position + 1 :])
        bodies: list[Expr] = []
        for body in computation.bodies:
            assert isinstance(body, Reduce), f"{self.stage.name} has reduction axes and no reduction"
            inner = rewrite_indices(substitute(body.body, {axis: value}), simplified_index)
            if condition is not None:
                inner = Select(condition, inner, Const(neutral_element(body.kind, body.dtype), body.dtype))
            bodies.append(Reduce(body.kind, inner, axes))
        old = self.stage.state
        state = _over(old, axes, tuple(bodies))
        made = [next(root for root in state.roots if root.source is each) for each in new]
        commit(self.stage.schedule, {self.stage: state}, "reorder_to_buffer")
        return made

    def _check_covered(self, axis: Axis, new: list[Axis], value: Expr, conditions: list[Compare]) -> None:
        """Refuse values of a reduction axis outside all cells, unless only neutral values are reduced there."""
        cells = Points(new, "cells")
        function = cells.value(value)
        assert function is not None, f"{value} is not quasi-affine"
        elements = cells.box().intersect(cells.where([(condition, True) for condition in conditions]))
        covered_values = isl.Map.from_pw_aff(function).intersect_domain(elements).range()
        computation = self.stage.state.computation
        flow = Dataflow(self.stage.schedule, computation)
        position = flow.points.position[axis]
        rank = len(flow.points.axes)
        covered = covered_values.insert_dims(SET, 0, position).insert_dims(SET, position + 1, rank - position - 1)
        outside = flow.domain().subtract(covered.set_tuple_name(computation.name))
        for body in computation.bodies:
            assert isinstance(body, Reduce), f"{self.stage.name} has reduction axes and no reduction"
            unit = neutral_element(body.kind, body.dtype)
            for part, reduced in flow.parts(body.body, outside):
                if reduced != unit or not isinstance(reduced, int):
                    at = dict(zip((each.name for each in flow.points.axes), least_point(part), strict=True))
                    raise ScheduleError(
                        f"Cannot apply reorder_to_buffer to {self.stage.name}: at "
                        f"{', '.join(f'{name}={number}' for name, number in at.items())}, axis {axis.name} is outside "
                        f"{self.layout.tensor.name}, but a value is reduced there. Lay {self.layout.tensor.name} out "
                        "with more padding.",
                        kind="legality",
                    )

    def _data(self, dim: int, where: list[int], axis: Axis, offset: int) -> list[LoopAxis]:
        """Shift and split a data loop into one for each index of the layout."""
        loop = self._loop(axis)
        shift_by = offset - _constant(substitute(self.back[dim], dict.fromkeys(self.places, Const(0, "index"))))
        if shift_by > 0:
            loop = shift(self.stage, loop, shift_by)
        weights = [self._weight(dim, place) for place in where]
        ordered = sorted(zip(weights, where, strict=True), reverse=True)
        loops: dict[int, LoopAxis] = {}
        for weight, place in ordered[:-1]:
            loops[place], loop = split(self.stage, loop, weight)
        loops[ordered[-1][1]] = loop
        return [loops[place] for place in where]

    def _weight(self, dim: int, place: int) -> int:
        """The stride of an index of the layout in the index before the layout."""
        onto: dict[Axis, Expr] = {axis: Const(0, "index") for axis in self.places}
        steps = [substitute(self.back[dim], {**onto, self.places[place]: Const(n, "index")}) for n in (0, 1)]
        values = [int(_constant(each)) for each in steps]
        return values[1] - values[0]


def _constant(expr: Expr) -> int:
    simple = simplified_index(expr)
    assert isinstance(simple, Const), f"{expr} is not constant"
    return simple.value


def _over(state: StageState, axes: tuple[Axis, ...], bodies: tuple[Expr, ...]) -> StageState:
    """The stage with other reduction axes; its data loops stay, in order."""
    computation = replace(state.computation, reduce_axes=axes, bodies=bodies)
    fresh = initial_state(computation)
    kept = {root.source: root for root in (*state.roots, *state.leaves) if root.source is not None}
    roots = tuple(kept.get(root.source, root) if root.source is not None else root for root in fresh.roots)
    data = [leaf for leaf in state.leaves if leaf.kind == "data"]
    return replace(
        state, computation=computation, roots=roots, leaves=(*data, *(root for root in roots if root.kind == "reduce"))
    )


def _without_implied(axes: list[Axis], conditions: list[Compare]) -> list[Expr]:
    """The conditions without those that others imply; the first ones are dropped first."""
    points = Points(axes, "cells")
    remaining: list[Expr] = list(conditions)
    for each in conditions:
        others = [other for other in remaining if other is not each]
        if (
            points.box()
            .intersect(points.where([(other, True) for other in others]))
            .is_subset(points.where([(each, True)]))
        ):
            remaining = others
    return remaining
