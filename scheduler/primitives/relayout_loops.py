"""The loops of a stage whose layout is transformed after commands have changed them.

Loops that commands have not changed give way to those of the new axes, in the place of the outermost of them. The
others stay as they are, as long as the layout keeps the axis they belong to as an index of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from lathe.frontend.expr.nodes import AxisRef, axes_of
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.rewriting.index_maps import IndexMap
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AffineMap, Fuse, LoopAxis, Split, replaced_by, with_loops
from lathe.scheduler.schedule_ir.stage import StageState

T = TypeVar("T")


def with_loops_of(stage: EditedStage, new: IndexMap, fresh: StageState) -> tuple[StageState, dict[LoopAxis, LoopAxis]]:
    """``fresh``, the stage over the new axes, in the loops that it had; and which loops stand for which.

    Raises ScheduleError where a loop that a command has changed belongs to an axis that the layout takes apart.
    """
    state = stage.state
    count = len(new.axes)
    data, reduce = state.roots[:count], state.roots[count:]
    own = list(fresh.roots[: len(new.indices)])
    renamed: dict[LoopAxis, LoopAxis] = {}
    cut: list[LoopAxis] = []
    for position, root in enumerate(data):
        index = _alone(new, position)
        if index is not None:
            own[index] = renamed[root] = LoopAxis(root.name, root.kind, own[index].source)
            continue
        why = _changed(stage, root)
        if why:
            raise ScheduleError(
                f"axis {root.name} of transform_layout of {stage.name} must be an index of its own in "
                f"[{', '.join(map(str, new.indices))}], since {why}: its loops cannot follow. Call transform_layout "
                f"before that command, or leave {root.name} whole.",
                kind="limit",
            )
        cut.append(root)
    inserted = [root for root in own if root not in renamed.values()]
    leaves: list[LoopAxis] = []
    first = min((state.leaves.index(root) for root in cut), default=None)
    for number, leaf in enumerate(state.leaves):
        if number == first:
            leaves += inserted
        if leaf not in cut:
            leaves.append(renamed.get(leaf, leaf))
    if first is None:  # nothing but axes of extent 1 can be new
        leaves = [*inserted, *leaves]

    def loop(old: LoopAxis) -> LoopAxis:
        return renamed.get(old, old)

    def kept(values: Mapping[LoopAxis, T]) -> Mapping[LoopAxis, T]:
        return MappingProxyType({loop(old): value for old, value in values.items()})

    moved = replace(
        fresh,
        roots=(*own, *reduce),
        leaves=tuple(leaves),
        relations=tuple(with_loops(each, loop) for each in state.relations),
        unrolled=frozenset(map(loop, state.unrolled)),
        annotations=kept(state.annotations),
        pragma=state.pragma,
        pragma_axis=None if state.pragma_axis is None else loop(state.pragma_axis),
        warmup=kept(state.warmup),
        threads=kept(state.threads),
        signals=tuple(replace(each, axis=None if each.axis is None else loop(each.axis)) for each in state.signals),
        slots=state.slots,
    )
    return moved, renamed


def _alone(new: IndexMap, position: int) -> int | None:
    """Which index of the new layout is an old axis as it is; None if there is none, or others have a part of it."""
    axis = new.axes[position]
    having = [n for n, index in enumerate(new.indices) if axis in axes_of(index)]
    if len(having) != 1:
        return None
    index = new.indices[having[0]]
    whole = isinstance(index, AxisRef) and index.axis is axis and new.shape[having[0]] == axis.extent
    return having[0] if whole else None


def _changed(stage: EditedStage, root: LoopAxis) -> str:
    """What a command has done to the loop of an axis, or nothing."""
    state = stage.state
    for relation in state.relations:
        if root in replaced_by(relation):
            match relation:
                case Split():
                    return f"{root.name} has been split"
                case Fuse(outer=outer, inner=inner):
                    return f"{outer.name} and {inner.name} have been fused"
                case AffineMap(command=command):
                    return f"{command} has changed {root.name}"
            return f"set_schedule has changed {root.name}"
    guests = [each.name for each in stage.schedule.attached(stage) if _place_of(each) is root]
    if guests:
        return f"{guests[0]} is computed at loop {root.name}"
    if root in state.unrolled:
        return f"{root.name} is unrolled"
    if root in state.annotations:
        return f"{root.name} is marked by {state.annotations[root]}"
    if root is state.pragma_axis:
        return f"emit_insn is on loop {root.name}"
    if root in state.threads:
        return f"{root.name} has virtual threads"
    if any(each.axis is root for each in state.signals):
        return f"loop {root.name} has a {next(each.kind for each in state.signals if each.axis is root)}"
    if root in state.warmup or (state.attachment is not None and root in state.attachment.loops):
        return f"loop {root.name} runs together with another stage's"
    return ""


def _place_of(guest: EditedStage) -> LoopAxis | None:
    attachment = guest.state.attachment
    return None if attachment is None else attachment.axis
