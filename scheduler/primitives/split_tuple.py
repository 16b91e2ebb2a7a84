"""Computations of several outputs become one for each: the machine computes one output after the other.

So do those of which a command is about one output.

Outputs do not read each other, so all of one may be computed before the next, in loops made like those of the whole.
What is computed inside these loops, reuse buffers and what feeds them, is there for each of the outputs that reads it.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lathe.frontend import Computation, Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.recurrences import recurrence_of
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.rewrite import redirect_reads, renamed_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis, made_by, replaced_by, with_loops
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, SyncOp, initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name


def alone(stage: EditedStage, tensor: object, command: str) -> EditedStage:
    """The stage, made to compute a tensor and nothing else: the outputs of one that has several come apart.

    The stage stays that of the tensor, and so do its loops and what is computed in them, as far as the tensor needs it.
    Raises ScheduleError where something is in its loops that can be there only once, and if no tensor is named.
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
            f"{len(stage.state.tensors)} of {stage.name}, in a cycle of stages that need each other's earlier values. "
            "Give each output a computation of its own.",
            kind="limit",
        )
    tied = tied_stage(schedule, stage)
    if tied:
        raise ScheduleError(
            f"tensor of {command} must be the only output of its computation, not {tensor.name!r}, one of "
            f"{len(stage.state.tensors)} of {stage.name}, in whose loops stage {tied} would have to be once for each. "
            f"Call {command} before that stage is placed there.",
            kind="limit",
        )
    stages, changes = split_by_output(schedule, stage, stage.state.tensors.index(tensor))
    commit(schedule, changes, command, stages=stages)
    return stage


def tied_stage(schedule: Edit, host: EditedStage) -> str:
    """The name of a stage in the loops of one that cannot be there more than once; "" if there is none."""
    for stage in _inside(schedule, host):
        place = stage.state.attachment
        assert place is not None
        if place.loops or stage.state.storage is not None or len(stage.state.tensors) > 1:
            return stage.name
    return ""


def _inside(schedule: Edit, host: EditedStage) -> list[EditedStage]:
    """The stages in the loops of one, in order."""
    found: list[EditedStage] = [host]
    for stage in reversed(schedule.stages):
        place = stage.state.attachment
        if place is not None and schedule.at(place) in found:
            found.append(stage)
    return found[:0:-1]


def split_by_output(
    schedule: Edit, stage: EditedStage, kept: int
) -> tuple[list[EditedStage], dict[EditedStage, StageState]]:
    """The stages of a schedule with one for each output of a stage, and their states; it stays that of output ``kept``.

    What is computed in its loops stays there for the first output that needs it, and is there again for others.
    """
    state, old, inside = stage.state, stage.state.computation, _inside(schedule, stage)
    last = len(state.tensors) - 1
    changes: dict[EditedStage, StageState] = {}
    nests: dict[int, list[EditedStage]] = {}
    used: set[EditedStage] = set()
    names: set[str] = set()
    for number in sorted(range(last + 1), key=lambda each: each != kept):
        tensor, loops = state.tensors[number], Loops()
        computation = replace(old, name=tensor.name, bodies=(old.bodies[number],))
        signals = tuple(
            each
            for each in state.signals
            if each.kind == "barrier" or number == {"receive": 0, "send": last}[each.kind]
        )
        alike = replace(state, signals=signals)
        if number == kept:
            part = stage
            loops.update({loop: loop for loop in _all_loops(state)})
            changes[part] = replace(alike, computation=computation, tensors=(tensor,))
        else:
            part = twin(schedule, state, renamed_axes(computation, tensor.name), tensor, loops)
            changes[part] = _like(part.state, alike, loops, state.attachment)
        hosts = {stage: (part, loops)}
        instead: dict[Tensor, Tensor] = {}
        nest: list[EditedStage] = []
        for guest in reversed(_wanted(computation, inside)):  # hosts come before what is inside them
            place, own = guest.state.attachment, Loops()
            assert place is not None
            host, of_host = hosts[schedule.at(place)]
            attachment = replace(place, host=host.id, axis=of_host(place.axis))
            if guest not in used:
                used.add(guest)
                like = guest
                own.update({loop: loop for loop in _all_loops(guest.state)})
                changes[like] = replace(guest.state, attachment=attachment)
            else:
                name = fresh_name(schedule, guest.name, names)
                names.add(name)
                copy = renamed_axes(guest.state.computation, name)
                made = instead[guest.tensor] = initial_state(copy).tensor
                like = twin(schedule, guest.state, copy, made, own)
                changes[like] = _like(like.state, guest.state, own, attachment)
            hosts[guest] = (like, own)
            nest.insert(0, like)
        for each in (*nest, part):
            redirected = redirect_reads(changes[each].computation, instead)
            changes[each] = replace(changes[each], computation=redirected)
        nests[number] = [*nest, part]
    position = schedule.stages.index(stage)
    gone = {stage, *inside}
    before = [each for each in schedule.stages[:position] if each not in gone]
    behind = [each for each in schedule.stages[position:] if each not in gone]
    return [*before, *(each for number in range(last + 1) for each in nests[number]), *behind], changes


def _all_loops(state: StageState) -> set[LoopAxis]:
    found = {*state.roots, *state.leaves}
    for relation in state.relations:
        found |= {*replaced_by(relation), *made_by(relation)}
    return found


def _like(state: StageState, other: StageState, loops: "Loops", place: ComputeAt | None) -> StageState:
    """The state of a twin with tags, memory and place like those of another."""
    if place is not None and place.loops:
        place = replace(place, loops=tuple(map(loops, place.loops)))
    return replace(
        state,
        attachment=place,
        scope=other.scope,
        copies=other.copies,
        on_alu=other.on_alu,
        slots=other.slots,
        reuse=other.reuse,
        pragma=other.pragma,
        pragma_axis=None if other.pragma_axis is None else loops(other.pragma_axis),
        advance=MappingProxyType({loops(loop): count for loop, count in other.advance.items()}),
        signals=tuple(loops.signal(each) for each in other.signals),
    )


def _wanted(computation: Computation, inside: list[EditedStage]) -> list[EditedStage]:
    """The stages inside that a part reads, or what it reads needs, in order."""
    needed = {read.tensor for read in computation.reads}
    found: list[EditedStage] = []
    for stage in reversed(inside):
        if needed & set(stage.state.tensors):
            needed |= {read.tensor for read in stage.state.computation.reads}
            found.insert(0, stage)
    return found


class Loops(dict[LoopAxis, LoopAxis]):
    """The loops of a twin, by those of the stage that it is like."""

    def __call__(self, old: LoopAxis) -> LoopAxis:
        return self.setdefault(old, LoopAxis(old.name, old.kind, old.source))

    def signal(self, signal: SyncOp) -> SyncOp:
        return replace(signal, axis=None if signal.axis is None else self(signal.axis))


def twin(schedule: Edit, state: StageState, computation: Computation, tensor: Tensor, loops: Loops) -> EditedStage:
    """A stage that computes one tensor in loops made as those of another are."""
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
            annotations=MappingProxyType({loops(loop): mark for loop, mark in state.annotations.items()}),
            lanes=state.lanes,
            sequential_dims=state.sequential_dims,
            warmup=renamed(state.warmup),
            threads=renamed(state.threads),
        )
    )
