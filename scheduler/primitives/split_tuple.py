"""Splits a computation of several outputs into one per output, as a stage on a machine computes one tensor.

Used for all such computations when a schedule is lowered, and by primitives on one output. Outputs do not read each
other, so each is computed completely before the next, in clones of the original loops. Stages computed inside these
loops, such as reuse buffers and their producers, are cloned for each output that reads them.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lathe.frontend import Computation, Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.recurrences import recurrence_of
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.rewrite import redirect_reads, with_new_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.loops import LoopAxis, created_loops, replaced_loops, with_loops
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, SyncOp, initial_state


def single_output(stage: EditedStage, tensor: object, command: str) -> EditedStage:
    """The stage, reduced to computing ``tensor`` only: its other outputs are split off.

    The stage keeps its loops, and the stages computed in them as far as the tensor needs them. Raises ScheduleError if
    a stage in its loops cannot be cloned, and if ``tensor`` is no tensor.
    """
    schedule = stage.schedule
    if len(stage.state.tensors) == 1:
        return stage
    if not isinstance(tensor, Tensor):
        names = ", ".join(each.name for each in stage.state.tensors)
        raise ScheduleError(
            f"tensor of {command} must be one output of {stage.name} ({names}), not all of them.", kind="argument"
        )
    if recurrence_of(schedule, stage):
        raise ScheduleError(
            f"tensor of {command} must be the only output of its computation, not {tensor.name!r}, one of "
            f"{len(stage.state.tensors)} of {stage.name}, in a recurrence of several stages. Give each output a "
            "computation of its own.",
            kind="limit",
        )
    tied = uncloneable_stage(schedule, stage)
    if tied:
        raise ScheduleError(
            f"tensor of {command} must be the only output of its computation, not {tensor.name!r}, one of "
            f"{len(stage.state.tensors)} of {stage.name}, in whose loops stage {tied} cannot be cloned for each "
            f"output. Call {command} before that stage is computed there.",
            kind="limit",
        )
    stages, changes = split_by_output(schedule, stage, stage.state.tensors.index(tensor))
    commit(schedule, changes, command, stages=stages)
    return stage


def uncloneable_stage(schedule: Edit, anchor: EditedStage) -> str:
    """The name of a stage in the loops of another that cannot be cloned; "" if there is none."""
    for stage in _inside(schedule, anchor):
        location = stage.state.attachment
        assert location is not None
        if location.loops or stage.state.storage is not None or len(stage.state.tensors) > 1:
            return stage.name
    return ""


def _inside(schedule: Edit, anchor: EditedStage) -> list[EditedStage]:
    """The stages computed in the loops of another, directly or not, in schedule order."""
    found: list[EditedStage] = [anchor]
    for stage in reversed(schedule.stages):
        location = stage.state.attachment
        if location is not None and schedule.at(location) in found:
            found.append(stage)
    return found[:0:-1]


def split_by_output(
    schedule: Edit, stage: EditedStage, kept: int
) -> tuple[list[EditedStage], dict[EditedStage, StageState]]:
    """The stages of a schedule with one stage for each output of a stage, and their states; it keeps output ``kept``.

    Stages in its loops stay with the first output that needs them, and are cloned for others.
    """
    state, old, inside = stage.state, stage.state.computation, _inside(schedule, stage)
    last = len(state.tensors) - 1
    changes: dict[EditedStage, StageState] = {}
    nests: dict[int, list[EditedStage]] = {}
    placed: set[EditedStage] = set()
    names: set[str] = set()
    for number in sorted(range(last + 1), key=lambda each: each != kept):
        tensor, loops = state.tensors[number], CloneLoops()
        computation = replace(old, name=tensor.name, bodies=(old.bodies[number],))
        signals = tuple(
            each
            for each in state.sync_ops
            if each.kind == "barrier" or number == {"receive": 0, "send": last}[each.kind]
        )
        template = replace(state, sync_ops=signals)
        if number == kept:
            part = stage
            loops.update({loop: loop for loop in _all_loops(state)})
            changes[part] = replace(template, computation=computation, tensors=(tensor,))
        else:
            part = clone_stage(schedule, state, with_new_axes(computation, tensor.name), tensor, loops)
            changes[part] = _with_tags_of(part.state, template, loops, state.attachment)
        clones = {stage: (part, loops)}
        replacements: dict[Tensor, Tensor] = {}
        nest: list[EditedStage] = []
        for attached in reversed(_needed(computation, inside)):  # enclosing stages first
            location, own = attached.state.attachment, CloneLoops()
            assert location is not None
            anchor, anchor_loops = clones[schedule.at(location)]
            attachment = replace(location, enclosing=anchor.id, axis=anchor_loops(location.axis))
            if attached not in placed:
                placed.add(attached)
                clone = attached
                own.update({loop: loop for loop in _all_loops(attached.state)})
                changes[clone] = replace(attached.state, attachment=attachment)
            else:
                name = fresh_name(schedule, attached.name, names)
                names.add(name)
                copy = with_new_axes(attached.state.computation, name)
                new_tensor = replacements[attached.tensor] = initial_state(copy).tensor
                clone = clone_stage(schedule, attached.state, copy, new_tensor, own)
                changes[clone] = _with_tags_of(clone.state, attached.state, own, attachment)
            clones[attached] = (clone, own)
            nest.insert(0, clone)
        for each in (*nest, part):
            redirected = redirect_reads(changes[each].computation, replacements)
            changes[each] = replace(changes[each], computation=redirected)
        nests[number] = [*nest, part]
    position = schedule.stages.index(stage)
    moved = {stage, *inside}
    before = [each for each in schedule.stages[:position] if each not in moved]
    after = [each for each in schedule.stages[position:] if each not in moved]
    return [*before, *(each for number in range(last + 1) for each in nests[number]), *after], changes


def _all_loops(state: StageState) -> set[LoopAxis]:
    found = {*state.roots, *state.leaves}
    for relation in state.relations:
        found |= {*replaced_loops(relation), *created_loops(relation)}
    return found


def _with_tags_of(state: StageState, other: StageState, loops: "CloneLoops", location: ComputeAt | None) -> StageState:
    """The state of a clone with tags, memory and compute location like those of the original."""
    if location is not None and location.loops:
        location = replace(location, loops=tuple(map(loops, location.loops)))
    return replace(
        state,
        attachment=location,
        scope=other.scope,
        copy_of=other.copy_of,
        on_alu=other.on_alu,
        buffer_count=other.buffer_count,
        reuse=other.reuse,
        pragma=other.pragma,
        pragma_axis=None if other.pragma_axis is None else loops(other.pragma_axis),
        advance=MappingProxyType({loops(loop): count for loop, count in other.advance.items()}),
        sync_ops=tuple(loops.signal(each) for each in other.sync_ops),
    )


def _needed(computation: Computation, inside: list[EditedStage]) -> list[EditedStage]:
    """The stages inside that a computation depends on, in order."""
    needed = {read.tensor for read in computation.reads}
    found: list[EditedStage] = []
    for stage in reversed(inside):
        if needed & set(stage.state.tensors):
            needed |= {read.tensor for read in stage.state.computation.reads}
            found.insert(0, stage)
    return found


class CloneLoops(dict[LoopAxis, LoopAxis]):
    """The loops of a clone, by those of the original."""

    def __call__(self, old: LoopAxis) -> LoopAxis:
        return self.setdefault(old, LoopAxis(old.name, old.kind, old.source))

    def signal(self, signal: SyncOp) -> SyncOp:
        return replace(signal, axis=None if signal.axis is None else self(signal.axis))


def clone_stage(
    schedule: Edit, state: StageState, computation: Computation, tensor: Tensor, loops: CloneLoops
) -> EditedStage:
    """A clone of a stage that computes one tensor, with loops like those of the original."""
    fresh = replace(initial_state(computation), tensors=(tensor,))
    loops.update(zip(state.roots, fresh.roots, strict=True))

    def renamed(values: "Mapping[LoopAxis, int]") -> "Mapping[LoopAxis, int]":
        return MappingProxyType({loops(loop): value for loop, value in values.items()})

    relations = tuple(with_loops(each, loops) for each in state.relations)
    return schedule.new(
        replace(
            fresh,
            leaves=tuple(map(loops, state.leaves)),
            relations=relations,
            unrolled=frozenset(map(loops, state.unrolled)),
            annotations=MappingProxyType({loops(loop): annotation for loop, annotation in state.annotations.items()}),
            vector_layout=state.vector_layout,
            sequential_dims=state.sequential_dims,
            warmup=renamed(state.warmup),
            threads=renamed(state.threads),
        )
    )
