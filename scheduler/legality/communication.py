"""Checks of double buffering, virtual threads and synchronisation against the stages that they apply to."""

from lathe.isa import Unit
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import SyncOp
from lathe.scheduler.schedule_ir.sync import UNITS, unit_of_stage


def check_communication(stage: StageView, command: str) -> None:
    """Raises ScheduleError if a stage's buffering, threads or synchronisation have become impossible."""
    state = stage.state
    for loop, count in state.threads.items():
        _check_loop(stage, loop, f"to run in {count} threads", "vthread", command)
    for signal in state.sync_ops:
        _check_signal(stage, signal, command)
    if state.buffer_count is not None:
        _check_slots(stage, state.buffer_count, command)


def _check_loop(stage: StageView, loop: LoopAxis, what: str, primitive: str, command: str) -> None:
    """Raises ScheduleError unless the loop is one of the stage's own, outside instructions."""
    state = stage.state
    if loop not in state.leaves:
        raise ScheduleError(
            f"loop {loop.name} of stage {stage.name} must stay a loop {what}, not be replaced by {command}. "
            f"Call {primitive} last.",
            kind="limit",
        )
    if loop in state.emitted_leaves():
        raise ScheduleError(
            f"loop {loop.name} of stage {stage.name} must be outside the nest that emit_insn gives to rule "
            f"{state.pragma!r} {what} ({command}). Put the pragma on an inner loop.",
            kind="machine",
        )
    if loop not in state.own_leaves:
        assert stage.enclosing is not None
        raise ScheduleError(
            f"loop {loop.name} of stage {stage.name} must belong to this stage alone {what}, not be shared with "
            f"{stage.enclosing.name} ({command}). Call {primitive} on {stage.enclosing.name}.",
            kind="limit",
        )


def _check_signal(stage: StageView, signal: SyncOp, command: str) -> None:
    """Raises ScheduleError unless the loop and the queue of a ``SyncOp`` exist."""
    primitive = "barrier_at" if signal.kind == "barrier" else signal.kind
    if signal.axis is not None:
        what = {"barrier": "to have a barrier", "send": "to send a token", "receive": "to receive a token"}[signal.kind]
        _check_loop(stage, signal.axis, what, primitive, command)
    if signal.kind == "barrier":
        return
    unit, other = unit_of_stage(stage), UNITS[signal.other]
    after = "" if command == primitive else f" ({command})"
    if abs(unit - other) != 1:
        neighbours = " or ".join(name for name, each in UNITS.items() if abs(each - unit) == 1)
        raise ScheduleError(
            f"unit of {signal.kind} of stage {stage.name} must be {neighbours}, next to {unit.name.lower()}, which "
            f"writes the stage's values{after}, not {signal.other!r}. Only compute can pass a token on between load "
            "and store.",
            kind="machine",
        )
    if unit == Unit.STORE and signal.axis is not None and signal.axis.kind == "reduce":
        raise ScheduleError(
            f"loop {signal.axis.name} of {signal.kind} of stage {stage.name} must be a data loop{after}, not one of a "
            f"reduction, which runs on compute, not store. Use s.cache_write({stage.name}, 'acc') first, and "
            f"{primitive} there.",
            kind="machine",
        )


def _check_slots(stage: StageView, slots: int, command: str) -> None:
    state = stage.state
    after = "" if command == "double_buffer" else f" ({command})"
    if state.scope == DRAM:
        raise ScheduleError(
            f"stage of double_buffer must be in a scratchpad, not {stage.name!r} in dram{after}, where every value has "
            f"its own address. Use set_scope first, or undo it with s[{stage.name}].double_buffer(None).",
            kind="argument",
        )
    if slots > 1 and state.attachment is None:
        raise ScheduleError(
            "stage of double_buffer must be computed in a loop, whose iterations alternate between the buffers, not "
            f"{stage.name!r} at the root{after}. Use compute_at first, or undo it with "
            f"s[{stage.name}].double_buffer(None).",
            kind="argument",
        )
    if slots > 1 and state.storage is not None and state.storage.buffer not in stage.schedule.allocations:
        raise ScheduleError(
            f"stage of double_buffer must be in a buffer that is allocated in a loop, not {stage.name!r} in "
            f"{state.storage.buffer.name}, which is allocated outside all loops{after}. Use s.allocate_at first, or "
            f"undo it with s[{stage.name}].double_buffer(None).",
            kind="argument",
        )
