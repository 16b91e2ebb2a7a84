"""What a schedule says about buffers in turn and about queues, checked with the stages that it speaks of."""

from typing import TYPE_CHECKING

import islpy as isl

from lathe.scheduler.answers import Answer, answerable
from lathe.scheduler.errors import ParallelismError, ScheduleError, Witness
from lathe.scheduler.linear import LoopVariable
from lathe.scheduler.parallelism import levels_of, parallel_loop, values_of
from lathe.scheduler.placement import Placement, place_stages
from lathe.scheduler.polyhedra import cells_written
from lathe.scheduler.state import DRAM, LoopAxis

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


def check_communication(stage: "Stage", command: str) -> None:
    """Raises ScheduleError if what a schedule says of a stage's buffers and loops has become impossible."""
    state = stage.state
    for loop, count in state.threads.items():
        _check_loop(stage, loop, f"in {count} threads", "vthread", command)
    if state.slots is not None:
        _check_slots(stage, state.slots, command)


def _check_loop(stage: "Stage", loop: LoopAxis, what: str, cause: str, command: str) -> None:
    """Raises ScheduleError unless a loop that a command speaks of is one of the stage's own, around instructions."""
    state = stage.state
    if loop not in state.leaves:
        raise ScheduleError(
            f"loop {loop.name} of stage {stage.name} must stay a loop while it runs {what}, not be replaced by "
            f"{command}. Call {cause} last."
        )
    if loop in state.emitted_leaves():
        raise ScheduleError(
            f"loop {loop.name} of stage {stage.name} must be outside the nest that emit_insn gives to rule "
            f"{state.pragma!r} to run {what} ({command}). Put the pragma on an inner loop."
        )
    if loop not in state.own_leaves:
        assert state.attachment is not None
        raise ScheduleError(
            f"loop {loop.name} of stage {stage.name} must be one that it runs by itself to run {what}, not one that it "
            f"shares with {state.attachment.stage.name} ({command}). Call {cause} on {state.attachment.stage.name}."
        )


def check_threads(schedule: "Schedule", command: str) -> None:
    """Raises ScheduleError, with a witness where there is one, if iterations in threads must wait for each other."""
    threaded = [(stage, loop, count) for stage in schedule.stages for loop, count in stage.state.threads.items()]
    if not threaded:
        return
    placed = place_stages(schedule)
    for stage, loop, count in threaded:
        answer = parallel_loop(schedule, stage, loop, placed, updates_commute=True)
        if answer:
            answer = _updated_apart(schedule, stage, loop, placed)
        if answer:
            continue
        after = "" if command == "vthread" else f" ({command})"
        message = (
            f"loop {loop.name} of stage {stage.name} must be parallel to run in {count} threads{after}, but "
            f"{answer.reason}."
        )
        if isinstance(answer.witness, Witness):
            raise ParallelismError(message, answer.witness)
        raise ScheduleError(message)


def _updated_apart(schedule: "Schedule", stage: "Stage", loop: LoopAxis, placed: "dict[Stage, Placement]") -> Answer:
    """Whether no two iterations of a loop make the same sums in DRAM: one would begin what another goes on with.

    In a scratchpad each thread has its own.
    """
    outer, inner = levels_of(placed[stage], loop)
    around = _around(placed[stage])[:inner]
    for each in schedule.stages:
        state, place = each.state, placed[each]
        shared = state.attachment is None or state.attachment.loops or state.scope != DRAM
        if shared or not state.computation.reduce_axes or _around(place)[:inner] != around:
            continue
        with answerable(f"whether loop {loop.name} of stage {stage.name} may run in threads"):
            made = cells_written(place, each.tensor.name, inner).set_tuple_name(isl.dim_type.in_, "loops")
            pairs = made.apply_range(made.reverse())
            same = isl.Map.universe(pairs.get_space())
            for level in range(outer):
                same = same.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
            pairs = pairs.intersect(same).subtract(isl.Map.identity(pairs.get_space()))
            if pairs.is_empty():
                continue
            one = pairs.domain().lexmin()
            other = pairs.intersect_domain(one).range().lexmin()
            both = made.intersect_domain(one).range().intersect(made.intersect_domain(other).range()).lexmin()
            cell = ", ".join(map(str, values_of(both)))
            first, second = values_of(one)[inner - 1], values_of(other)[inner - 1]
        return Answer(
            False,
            f"iterations {first} and {second} both begin the sum {each.tensor.name}[{cell}], in dram: in a scratchpad "
            "each thread would have its own",
        )
    return Answer(True, "no two iterations update the same cells")


def _around(placement: "Placement") -> list[LoopVariable]:
    return [*placement.prefix, *placement.loops.variables]


def _check_slots(stage: "Stage", slots: int, command: str) -> None:
    state = stage.state
    after = "" if command == "double_buffer" else f" ({command})"
    if state.scope == DRAM:
        raise ScheduleError(
            f"stage of double_buffer must live in a scratchpad, not {stage.name!r} in dram{after}, where all values "
            f"have places of their own. Use set_scope first, or undo it with s[{stage.name}].double_buffer(None)."
        )
    if slots > 1 and state.attachment is None:
        raise ScheduleError(
            f"stage of double_buffer must be computed in a loop, whose iterations take turns, not {stage.name!r} at "
            f"the root{after}. Use compute_at first, or undo it with s[{stage.name}].double_buffer(None)."
        )
