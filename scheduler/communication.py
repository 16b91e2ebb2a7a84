"""What a schedule says about buffers in turn and about queues, checked with the stages that it speaks of."""

from typing import TYPE_CHECKING

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state import DRAM

if TYPE_CHECKING:
    from lathe.scheduler.stage import Stage


def check_communication(stage: "Stage", command: str) -> None:
    """Raises ScheduleError if buffers that a stage has been given by name have become impossible."""
    state = stage.state
    if state.slots is None:
        return
    after = "" if command == "double_buffer" else f" ({command})"
    if state.scope == DRAM:
        raise ScheduleError(
            f"stage of double_buffer must live in a scratchpad, not {stage.name!r} in dram{after}, where all values "
            f"have places of their own. Use set_scope first, or undo it with s[{stage.name}].double_buffer(None)."
        )
    if state.slots > 1 and state.attachment is None:
        raise ScheduleError(
            f"stage of double_buffer must be computed in a loop, whose iterations take turns, not {stage.name!r} at "
            f"the root{after}. Use compute_at first, or undo it with s[{stage.name}].double_buffer(None)."
        )
