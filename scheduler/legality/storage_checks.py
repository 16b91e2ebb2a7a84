"""Storage check: every read finds its value in its cell, for buffers whose cells hold several values over time."""

from functools import partial

from lathe.scheduler.errors import LegalityError, StorageWitness
from lathe.scheduler.legality.reaching_write_query import Ordering, Violation, first_violation
from lathe.scheduler.legality.storage_folding import FoldedAccesses, storage_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.timestamps import occurrences_of
from lathe.scheduler.query_results import answerable
from lathe.scheduler.schedule_ir.dataflow_graph import consumers_of, producers_of, reachable
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, user_buffers_of


def check_storage(schedule: ScheduleView, command: str, changed: set[StageView] | None = None) -> None:
    """Raises LegalityError, with a witness, if a value would be overwritten or freed before it is read.

    Checks only buffers that ``changed`` stages may affect; all if that is None. Raises ScheduleError if there are too
    many events to enumerate.
    """
    buffers = [each for each in user_buffers_of(schedule.stages).values() if _needs_check(schedule, each, changed)]
    if not buffers:
        return
    occurrences, end = occurrences_of(partition(build_nest(schedule, largest_blocks=True)))
    for allocated in buffers:
        users = " and ".join(stage.name for stage in allocated.users)
        location = f"in buffer {allocated.buffer.name}"
        with answerable(f"whether values of {users} stay live {location} until they are read after {command}"):
            violation = first_violation(FoldedAccesses(schedule, allocated, occurrences, end), Ordering())
        if violation is not None:
            raise _refusal(schedule, allocated, violation, command)


def _needs_check(schedule: ScheduleView, allocated: UserBuffer, changed: set[StageView] | None) -> bool:
    stages = allocated.users
    shared = len(stages) > 1 or allocated.buffer in schedule.allocations
    if not shared and not storage_of(stages[0]).folds(allocated.shape):
        return False
    return changed is None or bool(_affecting_stages(schedule, allocated) & changed)


def _affecting_stages(schedule: ScheduleView, allocated: UserBuffer) -> set[StageView]:
    """The stages whose compute locations and loops determine when a buffer's values are written and read."""

    def onward(stage: StageView) -> list[StageView]:
        """The enclosing stage, and the consumers, which determine the region computed there."""
        return [] if stage.enclosing is None else [stage.enclosing, *consumers_of(schedule, stage)]

    users = allocated.users
    found = reachable([*users, *(consumer for stage in users for consumer in consumers_of(schedule, stage))], onward)
    return reachable(found, partial(producers_of, schedule))  # producers inside a stage's loops affect its order


def _refusal(schedule: ScheduleView, allocated: UserBuffer, violation: Violation, command: str) -> LegalityError:
    witness, name = violation.read_witness, allocated.buffer.name
    if not isinstance(witness, StorageWitness):  # the same value, from another allocation of the buffer
        location = schedule.allocations[allocated.buffer]
        consumer = witness.consumer_stage
        return LegalityError(
            f"values in buffer {name} must be read in the iteration of loop {location.axis.name} of "
            f"{schedule.at(location).name} that writes them, since each iteration allocates the buffer ({command}), "
            f"not by {consumer or 'the host CPU'} in another iteration: {witness if consumer else 'they are outputs'}. "
            "Allocate it at an outer loop.",
            witness,
        )
    what = f"buffer {name}, shared by {witness.producer_stage} and {witness.overwriter_stage},"
    if witness.producer_stage == witness.overwriter_stage:
        stage = next(each for each in allocated.users if each.name == witness.producer_stage)
        what = f"store_in of {stage.name} as {storage_of(stage)}"
    return LegalityError(
        f"{what} must keep each value until its last read, not overwrite it before ({command}): {witness}. Give the "
        "buffer more cells, or read values sooner after they are written.",
        witness,
    )
