"""Computations of several outputs become one for each: the machine computes one output after the other.

Outputs do not read each other, so all of one may be computed before the next, in loops made like those of the whole.
What is computed inside these loops, reuse buffers and what feeds them, is there for each of the outputs that reads it.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lathe.frontend import Computation, Tensor
from lathe.scheduler.commands.cache import fresh_name
from lathe.scheduler.rewrite import redirect_reads, renamed_axes
from lathe.scheduler.state import DRAM, Attachment, LoopAxis, Signal, StageState, initial_state, with_loops

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


def separate_outputs(schedule: "Schedule") -> None:
    """Separate the outputs of every stage that is stored as a whole, wherever its loops allow."""
    for stage in [each for each in schedule.stages if len(each.state.tensors) > 1]:
        state, inside = stage.state, _inside(schedule, stage)
        if state.scope == DRAM and state.pragma is None and not state.attachment and inside is not None:
            _separate(schedule, stage, inside)


def _inside(schedule: "Schedule", host: "Stage") -> "list[Stage] | None":
    """The stages in the loops of one, in order; None if one of them cannot be there more than once."""
    found: list[Stage] = [host]
    for stage in reversed(schedule.stages):
        place = stage.state.attachment
        if place is not None and place.stage in found:
            if place.loops or stage.state.storage is not None or len(stage.state.tensors) > 1:
                return None
            found.append(stage)
    return found[:0:-1]


def _separate(schedule: "Schedule", stage: "Stage", inside: "list[Stage]") -> None:
    state, old = stage.state, stage.state.computation
    parts: list[Stage] = []
    last = len(state.tensors) - 1
    for number, (tensor, body) in enumerate(zip(state.tensors, old.bodies, strict=True)):
        computation = renamed_axes(replace(old, name=tensor.name, bodies=(body,)), tensor.name)
        loops = Loops()
        guests = _wanted(computation, inside)
        instead: dict[Tensor, Tensor] = {}
        hosts: dict[Stage, tuple[Stage, Loops]] = {}
        part = twin(schedule, state, computation, tensor, loops)
        signals = [each for each in state.signals if each.kind != "receive" or not number]
        signals = [each for each in signals if each.kind != "send" or number == last]
        part.state = replace(part.state, signals=tuple(loops.signal(each) for each in signals))
        hosts[stage] = (part, loops)
        twins: list[Stage] = []
        for guest in reversed(guests):  # hosts come before what is inside them
            own = Loops()
            copy = guest.state.computation
            made = guest.tensor
            if number:
                copy = renamed_axes(copy, fresh_name(schedule, guest.name))
                made = initial_state(copy).tensor
                instead[guest.tensor] = made
            like = twin(schedule, guest.state, copy, made, own)
            place = guest.state.attachment
            assert place is not None
            host, of_host = hosts[place.stage]
            attachment = Attachment(host, of_host(place.axis), region=place.region)
            like.state = replace(
                like.state,
                attachment=attachment,
                scope=guest.state.scope,
                copies=guest.state.copies,
                slots=guest.state.slots,
                reuse=guest.state.reuse,
                pragma=guest.state.pragma,
                pragma_axis=None if guest.state.pragma_axis is None else own(guest.state.pragma_axis),
                signals=tuple(own.signal(each) for each in guest.state.signals),
            )
            hosts[guest] = (like, own)
            twins.insert(0, like)
        for each in (*twins, part):
            each.state = replace(each.state, computation=redirect_reads(each.state.computation, instead))
        parts += [*twins, part]
        schedule.stages = [*schedule.stages, *twins]  # so that names stay apart
    position = schedule.stages.index(stage)
    gone = {stage, *inside, *parts}
    before = [each for each in schedule.stages[:position] if each not in gone]
    behind = [each for each in schedule.stages[position:] if each not in gone]
    schedule.stages = [*before, *parts, *behind]


def _wanted(computation: Computation, inside: "list[Stage]") -> "list[Stage]":
    """The stages inside that a part reads, or what it reads needs, in order."""
    needed = {read.tensor for read in computation.reads}
    found: list[Stage] = []
    for stage in reversed(inside):
        if needed & set(stage.state.tensors):
            needed |= {read.tensor for read in stage.state.computation.reads}
            found.insert(0, stage)
    return found


class Loops(dict[LoopAxis, LoopAxis]):
    """The loops of a twin, by those of the stage that it is like."""

    def __call__(self, old: LoopAxis) -> LoopAxis:
        return self.setdefault(old, LoopAxis(old.name, old.kind, old.source))

    def signal(self, signal: Signal) -> Signal:
        return replace(signal, axis=None if signal.axis is None else self(signal.axis))


def twin(schedule: "Schedule", state: StageState, computation: Computation, tensor: Tensor, loops: Loops) -> "Stage":
    """A stage that computes one tensor in loops made as those of another are."""
    from lathe.scheduler.stage import Stage

    fresh = replace(initial_state(computation), tensors=(tensor,))
    loops.update(zip(state.roots, fresh.roots, strict=True))

    def renamed(values: "Mapping[LoopAxis, int]") -> "Mapping[LoopAxis, int]":
        return MappingProxyType({loops(loop): value for loop, value in values.items()})

    relations = tuple(with_loops(each, loops) for each in state.relations)
    return Stage(
        schedule,
        replace(
            fresh,
            leaves=tuple(map(loops, state.leaves)),
            relations=relations,
            unrolled=frozenset(map(loops, state.unrolled)),
            marks=MappingProxyType({loops(loop): mark for loop, mark in state.marks.items()}),
            lanes=state.lanes,
            walked=state.walked,
            lead=renamed(state.lead),
            threads=renamed(state.threads),
        ),
    )
