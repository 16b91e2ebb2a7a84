"""Verification of a schedule: it is well-formed, and every read finds its value, computed before and still live.

Eight checks pose one query (``reaching_write_query.py``) and report a violation in their own terms: reads of values
with cells of their own, recurrences, and nests of emission rules (``flow_dependences.py``); folded cells
(``storage_checks.py``); parallel loops and virtual threads, which are unordered; and chunks whose instances one
instruction executes at once (``codegen/in_place_checks.py``).
"""

from lathe.scheduler.errors import BuildError, LegalityError, ScheduleError
from lathe.scheduler.legality.flow_dependences import check_emitted, check_reads, check_recurrences
from lathe.scheduler.legality.parallelism import check_annotated_loops
from lathe.scheduler.legality.storage_checks import check_storage
from lathe.scheduler.legality.vthread_independence import check_threads
from lathe.scheduler.legality.well_formedness import check_structure
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.live_instances import restrict_to_live
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView


def check_schedule(schedule: ScheduleView, command: str, changed: set[StageView], moved: set[StageView]) -> None:
    """Refuse the schedule if a tag or a compute location is invalid, or a read would not find its value.

    Dependences are checked again for every stage that depends on one of ``moved``: the ``changed`` stages whose loops,
    compute location, reads or memory are new. Raises ScheduleError, or LegalityError with a witness.
    """
    check_structure(schedule, command)
    check_reads(schedule, command, moved)
    check_storage(schedule, command, changed)
    if schedule.has_recurrences:
        placed = place_stages(schedule)
        check_recurrences(schedule, command, moved, placed)
        for stage in changed & set(schedule.stages):
            check_emitted(placed[stage], command)
    check_annotated_loops(schedule, command)
    check_threads(schedule, command)


def check_lowered(schedule: ScheduleView) -> None:
    """Verify a schedule that has been lowered for a machine.

    Primitives have refused what is illegal in the user's schedule, so an illegal read is now a bug of the compiler: an
    AssertionError with the witness. Raises BuildError if the order of stages that lowering has chosen overwrites a
    value in a buffer of ``store_in``, or if a check exceeds its budget.
    """
    placed = place_stages(schedule)
    try:
        try:
            _check_all_reads(schedule, placed)
        except LegalityError:  # perhaps of a cell that only pads a box
            _check_all_reads(schedule, restrict_to_live(schedule, placed))
    except LegalityError as error:
        raise AssertionError(f"lowering a legal schedule has made it illegal: {error}") from error
    except ScheduleError as error:
        raise BuildError(str(error), kind=error.kind) from None
    try:
        check_storage(schedule, "build")
    except ScheduleError as error:
        raise BuildError(
            f"Cannot build: the order of stages that build chooses makes a storage map of store_in illegal: {error} "
            "Schedule these stages with primitives, down to their tile loops.",
            kind="limit",
        ) from None


def _check_all_reads(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> None:
    stages = set(schedule.stages)
    check_reads(schedule, "build", stages, placed)
    if schedule.has_recurrences:
        check_recurrences(schedule, "build", stages, placed)
        for stage in schedule.stages:
            check_emitted(placed[stage], "build")
