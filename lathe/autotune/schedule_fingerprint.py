"""What a completed schedule looks like, as plain values: candidates that look alike are one program."""

from collections.abc import Hashable

from lathe.frontend.expr.text import format_computation
from lathe.scheduler.schedule_ir.loops import Fuse, LoopAxis, Split
from lathe.scheduler.schedule_ir.schedule import ScheduleView


def form_of(completed: ScheduleView) -> Hashable:
    """Stages in their order with what they compute, loops, splits and places, loops by numbers.

    Schedules are of one begun one, but passes may have computed one of them otherwise: what a command has touched, they
    leave as it is.
    """
    number: dict[LoopAxis, int] = {}
    place = {stage.id: n for n, stage in enumerate(completed.stages)}

    def numbered(loop: LoopAxis) -> int:
        return number.setdefault(loop, len(number))

    forms = []
    for stage in completed.stages:
        state = stage.state
        roots = [numbered(root) for root in state.roots]
        made = [
            (numbered(each.parent), numbered(each.outer), numbered(each.inner), each.factor, each.parts)
            if isinstance(each, Split)
            else (numbered(each.outer), numbered(each.inner), numbered(each.fused))
            if isinstance(each, Fuse)
            else type(each).__name__
            for each in state.relations
        ]
        forms.append((stage.name, state.scope, tuple(roots), tuple(made), state))
    return tuple(
        (
            name,
            scope,
            roots,
            made,
            tuple(numbered(leaf) for leaf in state.leaves),
            state.attachment and (place[state.attachment.host], numbered(state.attachment.axis)),
            state.contiguous,
            state.slots,
            state.reuse,
            state.rule,
            state.lanes,
            state.on_alu,
            format_computation(state.computation),
            tuple(read.tensor.shape for read in state.computation.reads),
        )
        for name, scope, roots, made, state in forms
    )


__all__ = ["form_of"]
