"""Simplify the selects of recurrences (h[t - 1] or zeros): fold constant conditions, outline GEMM operands."""

from dataclasses import replace

from lathe.frontend import Axis, Computation, interval
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Compare, Read, Reduce, Select, axes_of
from lathe.scheduler.loop_ir.recurrences import loops_outside_blocks, recurrence_groups
from lathe.scheduler.rewriting.matchers import is_loadable
from lathe.scheduler.rewriting.rewrite import rewrite, transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, initial_state
from lathe.scheduler.target.target import Target


def simplify_selects(schedule: Edit) -> None:
    """Fold, in place, selects in recurrences whose condition has the same value at every point."""
    for stage in [each for group in recurrence_groups(schedule) for each in group]:
        old = stage.state.computation
        bodies = tuple(transform(body, _simplified) for body in old.bodies)
        if any(new is not body for new, body in zip(bodies, old.bodies, strict=True)):
            schedule.own(stage).change(computation=replace(old, bodies=bodies))


def _simplified(node: Expr) -> Expr | None:
    chosen = node
    while isinstance(chosen, Select) and (holds := _always(chosen.condition)) is not None:
        chosen = chosen.then if holds else chosen.otherwise
    return None if chosen is node else transform(chosen, _simplified)


def _always(condition: Expr) -> bool | None:
    """Whether a condition is true at every point (True) or at none (False); None if neither is known."""
    match condition:
        case Binary(op="and", lhs=lhs, rhs=rhs):
            sides = _always(lhs), _always(rhs)
            return False if False in sides else True if sides == (True, True) else None
        case Compare(op="ge" | "lt" as op, lhs=lhs, rhs=rhs):
            (low, high), (least, most) = interval(lhs), interval(rhs)
            if low >= most:
                return op == "ge"
            return op != "ge" if high < least else None
    return None


def outline_operand_selects(schedule: Edit, target: Target) -> None:
    """Outline, in place, each GEMM operand that a recurrence selects (h[t - 1] or zeros) as a stage for LOAD."""
    for stage in [each for group in recurrence_groups(schedule) for each in group]:
        computation = stage.state.computation
        body = computation.bodies[0]
        if (
            stage.state.scope not in (DRAM, target.acc.name)
            or not isinstance(body, Reduce)
            or body.kind != "sum"
            or body.dtype != "int32"
        ):
            continue
        product = skip_value_preserving_casts(body.body)
        if (body.kind, body.dtype) != ("sum", "int32") or not isinstance(product, Binary) or product.op != "mul":
            continue
        for factor in (skip_value_preserving_casts(product.lhs), skip_value_preserving_casts(product.rhs)):
            if isinstance(factor, Select) and factor.dtype == "int8" and is_loadable(factor):
                _outline(schedule.own(stage), factor, target.data.name)


def _outline(stage: EditedStage, choice: Select, scope: str) -> None:
    schedule, computation = stage.schedule, stage.state.computation
    used = set(axes_of(choice))
    old = [axis for axis in (*computation.axes, *computation.reduce_axes) if axis in used]
    axes = tuple(Axis(axis.name, axis.stop) for axis in old)
    inside = rewrite(choice, axes={axis: AxisRef(own) for axis, own in zip(old, axes, strict=True)})
    loaded = Computation(fresh_name(schedule, f"{stage.name}.choice"), axes, (), (inside,))
    state = stage.state
    location = replace(state.attachment, loops=()) if state.attachment is not None else None
    if location is None:
        location = ComputeAt(stage.id, state.leaves[max(loops_outside_blocks(stage), 1) - 1])
    new = schedule.new(replace(initial_state(loaded, scope), attachment=location))
    read = Read(new.tensor, tuple(AxisRef(axis) for axis in old))
    bodies = tuple(transform(body, lambda node: read if node is choice else None) for body in computation.bodies)
    rewritten = Computation(computation.name, computation.axes, computation.reduce_axes, bodies, computation.attrs)
    stage.put(replace(state, computation=rewritten))
    schedule.insert(new, before=stage)
