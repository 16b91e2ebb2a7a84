"""Fusion of an int32 addition into the accumulation of a GEMM.

``added[i] = int32(begun[i]) + brought[i]``, where ``brought`` is a GEMM of one multiply-accumulate per vector, such as
a residual times the identity. GEMM adds to its accumulators, so it accumulates directly into those of ``begun``, which
are not reset and then hold ``added``: one cycle per vector instead of four.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lathe.frontend import Computation, Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis, skip_casts
from lathe.frontend.expr.nodes import Binary, Cast, Read, Reduce
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView


@dataclass(frozen=True)
class SumInPlace:
    """``added`` = ``begun`` + ``brought``: the GEMM ``brought`` accumulates into the accumulators of ``begun``."""

    begun: StageView
    brought: StageView
    added: StageView


def sum_in_place(schedule: ScheduleView, added: StageView) -> SumInPlace | None:
    """Match a stage as the sum of two stages that only it reads, of which the later is a GEMM of one tap, or None.

    ``in_place_aliasing.py`` checks that they are computed in the same loops, both in ``acc``.
    """
    computation = added.state.computation
    reads = addends(computation)
    if len(reads) != 2 or not all(_is_plain(computation, read) for read in reads):
        return None
    producers = [schedule.producer(read.tensor) for read in reads]
    order = {stage: number for number, stage in enumerate(schedule.stages)}
    exclusive = [each for each in producers if each is not None and schedule.consumers(each.tensor) == [added]]
    if len(exclusive) < 2:
        return None
    begun, brought = sorted(exclusive, key=order.__getitem__)
    return SumInPlace(begun, brought, added) if _is_of_one_tap(brought) else None


def added_to_loaded(schedule: ScheduleView, stage: StageView, loaded: Tensor) -> StageView | None:
    """The one-tap GEMM that a stage adds to the loaded tensor, which must be in ``acc`` before the GEMM, or None."""
    reads = addends(stage.state.computation)
    producers = [schedule.producer(read.tensor) for read in reads if read.tensor is not loaded]
    if len(reads) != 2 or len(producers) != 1 or (brought := producers[0]) is None:
        return None
    return brought if schedule.consumers(brought.tensor) == [stage] and _is_of_one_tap(brought) else None


def addends(computation: Computation) -> list[Read]:
    """The two reads, of different tensors, that an element-wise computation adds in int32; [] if it is no such sum."""
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
    """Whether a stage is an int32 GEMM whose reduction axes all have extent 1."""
    computation = stage.state.computation
    body = computation.bodies[0]
    summed = isinstance(body, Reduce) and body.kind == "sum" and body.dtype == "int32"
    once = all(axis.extent == 1 for axis in computation.reduce_axes)
    return summed and once and len(computation.bodies) == 1 and match_gemm_operands(computation) is not None


def in_place_sums(aliases: Mapping[StageView, StageView]) -> dict[StageView, StageView]:
    """For each GEMM that accumulates over another stage (``brought``), the sum that aliases its result (``added``)."""
    return {
        owner: stage for stage, owner in aliases.items() if owner in aliases and owner.state.computation.reduce_axes
    }
