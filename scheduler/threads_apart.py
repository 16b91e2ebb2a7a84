"""May iterations of a loop run in threads? What they have in common must not depend on which comes first.

Iterations that read what others make, or use cells of a buffer that others write, must come in order: such a loop is
not parallel. Nor may two begin the same sum in DRAM: one would set to zero what another goes on with.
"""

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


def check_threads(schedule: "Schedule", command: str) -> None:
    """Raises ScheduleError, with a witness where there is one, if iterations in threads must wait for each other."""
    threaded = [(stage, loop, count) for stage in schedule.stages for loop, count in stage.state.threads.items()]
    if not threaded:
        return
    placed = place_stages(schedule)
    after = "" if command == "vthread" else f" ({command})"
    for stage, loop, count in threaded:
        answer = parallel_loop(schedule, stage, loop, placed, updates_commute=True)
        if answer:
            answer = _updated_apart(schedule, stage, loop, placed)
        if answer:
            continue
        message = (
            f"loop {loop.name} of stage {stage.name} must be parallel to run in {count} threads{after}, but "
            f"{answer.reason}."
        )
        if isinstance(answer.witness, Witness):
            raise ParallelismError(message, answer.witness)
        raise ScheduleError(message)


def _updated_apart(schedule: "Schedule", stage: "Stage", loop: LoopAxis, placed: "dict[Stage, Placement]") -> Answer:
    """Whether no two iterations of a loop make the same sums in cells that they share: one would begin what another
    goes on with. In a buffer of its own each thread has its own.
    """
    outer, inner = levels_of(placed[stage], loop)
    around = _around(placed[stage])[:inner]
    for each in schedule.stages:
        state, place = each.state, placed[each]
        if state.attachment is None or state.attachment.loops or state.scope != DRAM:
            continue
        if not state.computation.reduce_axes or _around(place)[:inner] != around:
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
            f"iterations {first} and {second} both begin the sum {each.tensor.name}[{cell}], in dram: in a buffer "
            "inside the loop each thread would have its own",
        )
    return Answer(True, "no two iterations update the same cells")


def _around(placement: Placement) -> list[LoopVariable]:
    return [*placement.prefix, *placement.loops.variables]
