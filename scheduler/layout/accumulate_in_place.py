"""Additions that the matrix core does in the accumulators of what is added to.

``added[i] = int32(branch[i]) + brought[i]``, where ``brought`` is a product of one tap, such as that of a residual with
ones on the diagonals: a GEMM adds. So the products go to the accumulators of ``branch``, which are reset by nobody, and
afterwards hold ``added``, for which nothing is left to do: one step for each element instead of four.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lathe.frontend import Computation, Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis, skip_casts
from lathe.frontend.expr.nodes import Binary, Cast, Read, Reduce
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


@dataclass(frozen=True)
class SumInPlace:
    """``added`` is the sum of ``begun``, whose cells it takes over, and of ``brought``, which products add there."""

    begun: StageView
    brought: StageView
    added: StageView


def sum_in_place(schedule: ScheduleView, added: StageView) -> SumInPlace | None:
    """The sum that a stage is, if its operands are made for it alone, the one of products after the other.

    Whether they are made in the same loops, and both in accumulators, is another question (``reused_cells``).
    """
    computation = added.state.computation
    reads = addends(computation)
    if len(reads) != 2 or not all(_is_plain(computation, read) for read in reads):
        return None
    makers = [schedule.maker(read.tensor) for read in reads]
    order = {stage: number for number, stage in enumerate(schedule.stages)}
    found = [each for each in makers if each is not None and schedule.readers(each.tensor) == [added]]
    if len(found) < 2:
        return None
    begun, brought = sorted(found, key=order.__getitem__)
    return SumInPlace(begun, brought, added) if _is_of_one_tap(brought) else None


def added_to_loaded(schedule: ScheduleView, stage: StageView, loaded: Tensor) -> StageView | None:
    """The product that a stage adds to what is loaded of a tensor, which has to be there before."""
    reads = addends(stage.state.computation)
    makers = [schedule.maker(read.tensor) for read in reads if read.tensor is not loaded]
    if len(reads) != 2 or len(makers) != 1 or (brought := makers[0]) is None:
        return None
    return brought if schedule.readers(brought.tensor) == [stage] and _is_of_one_tap(brought) else None


def addends(computation: Computation) -> list[Read]:
    """The two elements that a computation adds in int32, each once; none where it is no such sum."""
    if len(computation.bodies) > 1 or computation.reduce_axes:
        return []
    body = skip_casts(computation.bodies[0])
    if not isinstance(body, Binary) or body.op != "add" or body.dtype != "int32":
        return []
    sides = [side.operand if isinstance(side, Cast) else side for side in (body.lhs, body.rhs)]
    reads = [side for side in sides if isinstance(side, Read)]
    return reads if len(reads) == 2 and reads[0].tensor is not reads[1].tensor else []


def _is_plain(computation: Computation, read: Read) -> bool:
    axes = computation.axes
    return len(axes) == len(read.indices) and all(
        as_bare_axis(index) is axis for index, axis in zip(read.indices, axes, strict=True)
    )


def _is_of_one_tap(stage: StageView) -> bool:
    """Whether a stage is a product in int32 that each element takes one of."""
    computation = stage.state.computation
    body = computation.bodies[0]
    summed = isinstance(body, Reduce) and body.kind == "sum" and body.dtype == "int32"
    once = all(axis.extent == 1 for axis in computation.reduce_axes)
    return summed and once and len(computation.bodies) == 1 and match_gemm_operands(computation) is not None


def begun_sums(aliases: Mapping[StageView, StageView]) -> dict[StageView, StageView]:
    """Of stages that take over cells of others those that products add to, and the stage that is made by that."""
    return {
        owner: stage for stage, owner in aliases.items() if owner in aliases and owner.state.computation.reduce_axes
    }
