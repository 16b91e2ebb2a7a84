"""Loops of a scheduled stage after a transformation of its layout.

Unchanged loops of axes that the layout divides are replaced by those of the new axes, at the position of the outermost
of them. Other loops stay, if the layout keeps their axis as an index of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from lathe.frontend.expr.nodes import AxisRef, axes_of
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.rewriting.index_maps import IndexMap
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AffineMap, Fuse, LoopAxis, Split, replaced_loops, with_loops
from lathe.scheduler.schedule_ir.stage import StageState

T = TypeVar("T")


def with_loops_of(stage: EditedStage, new: IndexMap, fresh: StageState) -> tuple[StageState, dict[LoopAxis, LoopAxis]]:
    """``fresh``, the stage over the new axes, with the loops that it had; and the replacements of loops.

    Raises ScheduleError if the layout divides an axis with a loop that a primitive has changed.
    """
    state = stage.state
    count = len(new.axes)
    data, reduce = state.roots[:count], state.roots[count:]
    own = list(fresh.roots[: len(new.indices)])
    renamed: dict[LoopAxis, LoopAxis] = {}
    divided: list[LoopAxis] = []
    for position, root in enumerate(data):
        index = _bare_index(new, position)
        if index is not None:
            own[index] = renamed[root] = LoopAxis(root.name, root.kind, own[index].source)
            continue
        why = _change_of(stage, root)
        if why:
            raise ScheduleError(
                f"axis {root.name} of transform_layout of {stage.name} must be one whole index, not divided or merged "
                f"in [{', '.join(map(str, new.indices))}], since {why}, and the loops cannot be adapted. Call "
                f"transform_layout before the primitives on {root.name}, or return {root.name} itself as an index.",
                kind="limit",
            )
        divided.append(root)
    inserted = [root for root in own if root not in renamed.values()]
    leaves: list[LoopAxis] = []
    first = min((state.leaves.index(root) for root in divided), default=None)
    for number, leaf in enumerate(state.leaves):
        if number == first:
            leaves += inserted
        if leaf not in divided:
            leaves.append(renamed.get(leaf, leaf))
    if first is None:  # only axes of extent 1 can be new
        leaves = [*inserted, *leaves]

    def loop(old: LoopAxis) -> LoopAxis:
        return renamed.get(old, old)

    def renamed_keys(values: Mapping[LoopAxis, T]) -> Mapping[LoopAxis, T]:
        return MappingProxyType({loop(old): value for old, value in values.items()})

    moved = replace(
        fresh,
        roots=(*own, *reduce),
        leaves=tuple(leaves),
        relations=tuple(with_loops(each, loop) for each in state.relations),
        unrolled=frozenset(map(loop, state.unrolled)),
        annotations=renamed_keys(state.annotations),
        pragma=state.pragma,
        pragma_axis=None if state.pragma_axis is None else loop(state.pragma_axis),
        warmup=renamed_keys(state.warmup),
        threads=renamed_keys(state.threads),
        sync_ops=tuple(replace(each, axis=None if each.axis is None else loop(each.axis)) for each in state.sync_ops),
        buffer_count=state.buffer_count,
    )
    return moved, renamed


def _bare_index(new: IndexMap, position: int) -> int | None:
    """The index of the new layout that is the old axis itself; None if there is none, or others use the axis."""
    axis = new.axes[position]
    having = [n for n, index in enumerate(new.indices) if axis in axes_of(index)]
    if len(having) != 1:
        return None
    index = new.indices[having[0]]
    whole = isinstance(index, AxisRef) and index.axis is axis and new.shape[having[0]] == axis.extent
    return having[0] if whole else None


def _change_of(stage: EditedStage, root: LoopAxis) -> str:
    """What a primitive has done to the loop of an axis; "" for nothing."""
    state = stage.state
    for relation in state.relations:
        if root in replaced_loops(relation):
            match relation:
                case Split():
                    return f"{root.name} has been split"
                case Fuse(outer=outer, inner=inner):
                    return f"{outer.name} and {inner.name} have been fused"
                case AffineMap(command=command):
                    return f"{command} has changed {root.name}"
            return f"set_schedule has changed {root.name}"
    attached = [each.name for each in stage.schedule.attached(stage) if _loop_of(each) is root]
    if attached:
        return f"{attached[0]} is computed at loop {root.name}"
    if root in state.unrolled:
        return f"{root.name} is unrolled"
    if root in state.annotations:
        return f"{root.name} is annotated by {state.annotations[root]}"
    if root is state.pragma_axis:
        return f"emit_insn is on loop {root.name}"
    if root in state.threads:
        return f"{root.name} has virtual threads"
    if any(each.axis is root for each in state.sync_ops):
        return f"loop {root.name} has a {next(each.kind for each in state.sync_ops if each.axis is root)}"
    if root in state.warmup or (state.attachment is not None and root in state.attachment.loops):
        return f"loop {root.name} is shared with another stage"
    return ""


def _loop_of(attached: EditedStage) -> LoopAxis | None:
    attachment = attached.state.attachment
    return None if attachment is None else attachment.axis
