"""Fingerprint of a lowered schedule: candidates with equal fingerprints compile to the same program."""

from collections.abc import Hashable

from lathe.frontend.expr.text import format_computation
from lathe.scheduler.schedule_ir.loops import Fuse, LoopAxis, Split
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView


def fingerprint(lowered: ScheduleView) -> Hashable:
    """The stages in order, each with its computation, loops, splits and compute location; loops as numbers.

    Computations are included: candidates start from one schedule, but passes may rewrite a stage in one candidate and
    leave it alone in another that has scheduled it.
    """
    number: dict[LoopAxis, int] = {}
    position = {stage.id: n for n, stage in enumerate(lowered.stages)}

    def numbered(loop: LoopAxis) -> int:
        return number.setdefault(loop, len(number))

    stages = []
    for stage in lowered.stages:
        state = stage.state
        roots = [numbered(root) for root in state.roots]
        relations = [
            (numbered(each.parent), numbered(each.outer), numbered(each.inner), each.factor, each.parts)
            if isinstance(each, Split)
            else (numbered(each.outer), numbered(each.inner), numbered(each.fused))
            if isinstance(each, Fuse)
            else type(each).__name__
            for each in state.relations
        ]
        stages.append((stage.name, state.scope, tuple(roots), tuple(relations), state))
    return tuple(
        (
            name,
            scope,
            roots,
            relations,
            tuple(numbered(leaf) for leaf in state.leaves),
            state.attachment and (position[state.attachment.enclosing], numbered(state.attachment.axis)),
            state.contiguous,
            state.buffer_count,
            state.reuse,
            state.rule,
            state.vector_layout,
            state.on_alu,
            format_computation(state.computation),
            tuple(read.tensor.shape for read in state.computation.reads),
        )
        for name, scope, roots, relations, state in stages
    )


__all__ = ["fingerprint"]
