"""Does every read find its value in its cell, where cells of a buffer hold several values one after the other?"""

from functools import partial

from lathe.scheduler.errors import LegalityError, StorageWitness
from lathe.scheduler.legality.reaching_write_query import Ordering, Violation, first_lost
from lathe.scheduler.legality.storage_folding import FoldedAccesses, storage_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.timestamps import occurrences_of
from lathe.scheduler.query_results import answerable
from lathe.scheduler.schedule_ir.dataflow_graph import makers_of, reached, readers_of
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, storages_of


def check_storage(schedule: ScheduleView, command: str, changed: set[StageView] | None = None) -> None:
    """Raises LegalityError, with a witness, if a value would be gone from its cell when it is read.

    Only buffers that ``changed`` stages may concern are looked at; all, if that is None. Raises ScheduleError where
    there are too many events to look at.
    """
    buffers = [each for each in storages_of(schedule.stages).values() if _needs_check(schedule, each, changed)]
    if not buffers:
        return
    occurrences, end = occurrences_of(partition(build_nest(schedule, largest_blocks=True)))
    for allocated in buffers:
        users = " and ".join(stage.name for stage in allocated.users)
        place = f"in buffer {allocated.buffer.name}"
        with answerable(f"whether values of {users} stay {place} until they are read after {command}"):
            verdict = first_lost(FoldedAccesses(schedule, allocated, occurrences, end), Ordering())
        if verdict is not None:
            raise _refusal(schedule, allocated, verdict, command)


def _needs_check(schedule: ScheduleView, allocated: UserBuffer, changed: set[StageView] | None) -> bool:
    stages = allocated.users
    shared = len(stages) > 1 or allocated.buffer in schedule.allocations
    if not shared and not storage_of(stages[0]).folds(allocated.shape):
        return False
    return changed is None or bool(_concerned(schedule, allocated) & changed)


def _concerned(schedule: ScheduleView, allocated: UserBuffer) -> set[StageView]:
    """The stages whose place and loops decide when a buffer's values are written and read."""

    def onward(stage: StageView) -> list[StageView]:
        """Where it is computed, and what it computes there: that follows from what its readers need."""
        return [] if stage.host is None else [stage.host, *readers_of(schedule, stage)]

    users = allocated.users
    found = reached([*users, *(reader for stage in users for reader in readers_of(schedule, stage))], onward)
    return reached(
        found, partial(makers_of, schedule)
    )  # what is computed inside a stage's loops, or no longer is, orders its statements


def _refusal(schedule: ScheduleView, allocated: UserBuffer, verdict: Violation, command: str) -> LegalityError:
    witness, name = verdict.found, allocated.buffer.name
    if not isinstance(witness, StorageWitness):  # the value itself, from another life of the buffer
        place = schedule.allocations[allocated.buffer]
        reader = witness.consumer_stage
        return LegalityError(
            f"values in buffer {name} must live within one iteration of loop {place.axis.name} of "
            f"{schedule.at(place).name}, for each of which it is allocated anew ({command}), not be read by "
            f"{reader or 'the host'} in another: {witness if reader else 'they are outputs'}. Allocate it at a loop "
            "outside.",
            witness,
        )
    what = f"buffer {name}, shared by {witness.producer_stage} and {witness.overwriter_stage},"
    if witness.producer_stage == witness.overwriter_stage:
        stage = next(each for each in allocated.users if each.name == witness.producer_stage)
        what = f"store_in of {stage.name} as {storage_of(stage)}"
    return LegalityError(
        f"{what} must keep each value until it is last read, not let another take its cell before ({command}): "
        f"{witness}. Give the buffer more cells, or let values be read sooner after they are made.",
        witness,
    )
