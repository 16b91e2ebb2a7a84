"""Read-only queries of a schedule: legality of a primitive, parallel loops, legal shifts, parallelising skews."""

from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any

from lathe.frontend import Axis, Tensor
from lathe.scheduler.errors import LegalityError, PaddingError, ScheduleError
from lathe.scheduler.legality.parallelism import parallel_loop
from lathe.scheduler.loop_ir.compute_locations import loop_extent, place_stages
from lathe.scheduler.primitives.order import after
from lathe.scheduler.primitives.reorder import reorder
from lathe.scheduler.primitives.shift import shift
from lathe.scheduler.primitives.skew import skew
from lathe.scheduler.query_results import QueryResult
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_trace import primitives_of


def is_parallel(
    schedule: ScheduleView, axis: "LoopAxis | Axis", stage: Tensor | StageView | None = None
) -> QueryResult:
    """Whether the iterations of a loop, with all stages inside it, may run in any order or in parallel.

    ``axis`` is a current loop of the schedule, or its name, with its ``stage``. The answer converts to bool and has a
    reason; if one iteration reads what another writes, its ``witness`` shows both. Raises ScheduleError for an axis
    that is no current loop.
    """
    if stage is not None:
        anchor = schedule[stage]
        loop = anchor.find(axis, "is_parallel")
    else:
        matches = [each for each in schedule.stages if axis in each.state.leaves or _source_of(each, axis)]
        if len(matches) != 1:
            name = axis if isinstance(axis, str) else getattr(axis, "name", axis)
            raise ScheduleError(
                f"axis of is_parallel must be a present loop of one of the stages "
                f"({', '.join(each.name for each in schedule.stages)}), not {name!r}. Name the stage, too, as in "
                's.is_parallel("i", C).',
                kind="argument",
            )
        anchor = matches[0]
        loop = anchor.find(axis, "is_parallel")
    attachment = anchor.state.attachment
    while attachment is not None and loop in attachment.loops:  # the loop is shared with the enclosing stage
        loop = schedule.at(attachment).state.leaves[attachment.loops.index(loop)]
        anchor = schedule.at(attachment)
        attachment = anchor.state.attachment
    return parallel_loop(schedule, anchor, loop, place_stages(schedule))


def _source_of(stage: StageView, axis: object) -> bool:
    return any(leaf.source is not None and leaf.source is axis for leaf in stage.state.leaves)


def is_legal(schedule: Edit, command: str | Callable[[Edit], object], *arguments: Any) -> QueryResult:
    """Whether a primitive is legal, without applying it.

    ``s.is_legal("compute_at", B, C, "i")`` checks a primitive of a stage: its name, the stage (or its tensor), and the
    arguments of the primitive. ``s.is_legal(lambda s: s[C].reorder(j, i))`` checks a function, which may apply several
    primitives to a copy of the schedule. If the answer is no, ``reason`` is the error message, and ``witness`` shows
    two conflicting instances, if there are any. Raises ScheduleError for an unknown primitive.
    """
    copy = schedule.fork()

    def in_copy(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(in_copy(each) for each in value)
        return copy.own(value) if isinstance(value, StageView) and value in schedule.stages else value

    try:
        if callable(command):
            command(copy)
        else:
            _apply(copy, command, [in_copy(each) for each in arguments])
    except (LegalityError, PaddingError) as error:
        return QueryResult(False, str(error), error.witness)
    except _NoCommandError as error:
        raise ScheduleError(str(error), kind=error.kind) from None
    except ScheduleError as error:
        return QueryResult(False, str(error), None)
    return QueryResult(True, "every read comes after the write of its value", None)


class _NoCommandError(ScheduleError):
    """An error of the query, not of the primitive in it."""


STAGE_ARGUMENTS = {"compute_at": (0,), "after": (0,), "before": (0,), "then": (0,), "between": (0, 2), "reuse_at": (0,)}
"""Positions of the arguments of a primitive that are stages, for which tensors may be passed."""

FOR_INPUTS = ("reuse_at", "transform_layout")
"""Primitives of stages that the schedule has for input tensors, too."""


OF_SCHEDULES = ("allocate_at", "barrier_at", "cache_read", "cache_write", "copy_at", "device_to_host")
"""Primitives of the schedule, not of a stage."""


def _apply(schedule: Edit, command: object, arguments: list[Any]) -> None:
    if command in OF_SCHEDULES:
        _call(getattr(schedule, str(command)), command, arguments)
        return
    commands = primitives_of(type(schedule.stages[0]))
    if command not in commands:
        raise _NoCommandError(
            f"command of is_legal must be a function of the schedule, or one of {', '.join(commands)}, "
            f"{', '.join(OF_SCHEDULES)}, not {command!r}.",
            kind="argument",
        )
    if not arguments:
        raise _NoCommandError(
            f"command {command!r} of is_legal must be followed by the stage that it is for.", kind="argument"
        )
    stage, *rest = arguments
    for position in STAGE_ARGUMENTS.get(str(command), ()):
        if position < len(rest) and isinstance(rest[position], Tensor):
            rest[position] = schedule[rest[position]]
    if command in FOR_INPUTS and isinstance(stage, Tensor) and schedule.producer(schedule.current(stage)) is None:
        _call(getattr(schedule, str(command)), command, [stage, *rest])
        return
    _call(getattr(schedule[stage], str(command)), command, rest)


def _call(method: Callable[..., object], command: object, arguments: list[Any]) -> None:
    try:
        signature(method).bind(*arguments)
    except TypeError as error:
        raise _NoCommandError(
            f"arguments of command {command!r} of is_legal must match its signature: {error}.", kind="argument"
        ) from None
    method(*arguments)


def smallest_shift(
    schedule: Edit, stage: Tensor | StageView, other: Tensor | StageView, axis: "AxisLike"
) -> tuple[int, ...] | None:
    """The smallest shift of a stage's loops with which it can run after another stage in the same loops.

    One number for each loop of ``stage`` down to ``axis``, outermost first: the lexicographically smallest with which
    ``s[stage].after(s[other], axis)`` is legal, so that values are live as short as possible. The schedule does not
    change; apply the shift with ``shift`` and ``after``. None if even a shift past all iterations of the other stage is
    illegal, for example since it moves the stage after its own consumers in these loops. Raises ScheduleError if
    ``after`` does for another reason. Legality is decided by the same check as for the primitives.
    """
    reader, producer = schedule[stage], schedule[other]
    loops = reader.state.leaves[: reader.state.leaves.index(reader.find(axis, "smallest_shift")) + 1]
    others = [*producer.state.leaves, *loops[len(producer.state.leaves) :]]
    extents = [
        max(loop_extent(reader, loop), loop_extent(producer if n < len(producer.state.leaves) else reader, others[n]))
        for n, loop in enumerate(loops)
    ]

    def legal(amounts: tuple[int, ...]) -> bool:
        copy = schedule.fork()
        target: LoopAxis = loops[-1]
        try:
            for loop, amount in zip(loops, amounts, strict=True):
                moved = shift(copy.own(reader), loop, amount) if amount else loop
                target = moved if loop is loops[-1] else target
            after(copy.own(reader), copy.own(producer), target)
        except LegalityError:
            return False
        return True

    if legal((0,) * len(loops)):
        return (0,) * len(loops)
    # Legality is monotonic in the shift of an outer loop: bisect loop by loop.
    fixed: tuple[int, ...] = ()
    for level in range(len(loops)):
        far = tuple(extents[level + 1 :])
        low, high = 0, extents[level]
        if not legal((*fixed, high, *far)):
            return None
        while low < high:
            middle = (low + high) // 2
            if legal((*fixed, middle, *far)):
                high = middle
            else:
                low = middle + 1
        fixed = (*fixed, low)
    return fixed


def parallel_skew(
    schedule: Edit, stage: Tensor | StageView, outer: "AxisLike", inner: "AxisLike", largest: int = 4
) -> tuple[int, int] | None:
    """Skew factors of two loops with which, diagonals outermost, the inner loop is parallel.

    The first pair ``(outer_factor, inner_factor)`` of coprime factors up to ``largest``, smallest sum first; ``(0, 1)``
    means that interchanging the loops is enough, and ``(1, 0)`` that the inner loop is parallel already. If dependence
    distances require more, ``(n, 1)`` with the smallest ``n`` below the extent of the inner loop. Stages that share
    both loops are skewed alike. None if no such pair exists. Raises ScheduleError for axes that are no current loops.
    """
    anchor = schedule[stage]
    first, second = anchor.find(outer, "parallel_skew"), anchor.find(inner, "parallel_skew")
    if is_parallel(schedule, second, anchor):
        return (1, 0)

    def helps(a: int, b: int) -> bool:
        copy = schedule.fork()
        copied = copy.own(anchor)
        try:
            along, diagonal = skew(copied, first, second, a, b)
            reorder(copied, diagonal, along)
            return bool(is_parallel(copy, along, copied))
        except ScheduleError:
            return False

    candidates = sorted(product(range(largest + 1), range(1, largest + 1)), key=lambda pair: (sum(pair), pair))
    small = next((pair for pair in candidates if helps(*pair)), None)
    low, high = largest + 1, loop_extent(anchor, second) - 1
    if small is not None or low > high or not helps(high, 1):
        return small
    while low < high:  # steeper diagonals keep legal all dependences on earlier outer iterations
        middle = (low + high) // 2
        low, high = (low, middle) if helps(middle, 1) else (middle + 1, high)
    return low, 1
