"""Is a schedule legal? What it says fits together, and every read finds its value: computed before, and still there.

Eight ask one question (``reaching_write_query.py``), and each says in its own words what a verdict means: reads of
values with cells of their own, cycles, and nests of emission rules (``flow_dependences.py``); cells that hold
several values (``storage.py``); loops marked as parallel and loops in threads, which have no order; and chunks that
instructions carry out at once (``codegen/in_place_checks.py``).
"""

from lathe.scheduler.errors import BuildError, LegalityError, ScheduleError
from lathe.scheduler.legality.flow_dependences import check_circles, check_emitted, check_reads
from lathe.scheduler.legality.parallelism import check_marked_loops
from lathe.scheduler.legality.storage import check_storage
from lathe.scheduler.legality.vthread_independence import check_threads
from lathe.scheduler.legality.well_formedness import check_structure
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.live_instances import without_unneeded
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


def check_schedule(schedule: ScheduleView, command: str, changed: set[StageView], moved: set[StageView]) -> None:
    """Refuse the schedule if a tag or a place has become impossible, or a read would miss its value.

    Dependences are checked again for every stage that depends on one of ``moved``: those of the ``changed`` ones whose
    loops, place, reads or memory are new. Raises ScheduleError, or LegalityError with a witness.
    """
    check_structure(schedule, command)
    check_reads(schedule, command, moved)
    check_storage(schedule, command, changed)
    if schedule.has_recurrences:
        placed = place_stages(schedule)
        check_circles(schedule, command, moved, placed)
        for stage in changed & set(schedule.stages):
            check_emitted(placed[stage], command)
    check_marked_loops(schedule, command)
    check_threads(schedule, command)


def check_completed(schedule: ScheduleView) -> None:
    """What commands have checked, asked once more of a schedule that has been completed for a machine.

    Commands have refused what is illegal in the schedule as it was given, so a read that misses its value now is a
    fault of the compiler: an AssertionError with the witness. Raises BuildError if the order that completion has given
    stages overwrites a value in a buffer that ``store_in`` names, or where a check takes too long.
    """
    placed = place_stages(schedule)
    try:
        try:
            _check_all_reads(schedule, placed)
        except LegalityError:  # perhaps of a cell that takes up room in a box only
            _check_all_reads(schedule, without_unneeded(schedule, placed))
    except LegalityError as error:
        raise AssertionError(f"completing a legal schedule has made it illegal: {error}") from error
    except ScheduleError as error:
        raise BuildError(str(error), kind=error.kind) from None
    try:
        check_storage(schedule, "build")
    except ScheduleError as error:
        raise BuildError(
            f"order of a schedule must keep what store_in relies on when build completes it: {error} Say with commands "
            "in which loops these stages run, down to their tiles.",
            kind="limit",
        ) from None


def _check_all_reads(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> None:
    stages = set(schedule.stages)
    check_reads(schedule, "build", stages, placed)
    if schedule.has_recurrences:
        check_circles(schedule, "build", stages, placed)
        for stage in schedule.stages:
            check_emitted(placed[stage], "build")
