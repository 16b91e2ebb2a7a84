"""Questions about a schedule that change nothing: is it legal, is it parallel, how far apart must stages be."""

from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any

from lathe.frontend import Axis, Tensor
from lathe.scheduler.errors import LegalityError, PaddingError, ScheduleError
from lathe.scheduler.legality.parallelism import parallel_loop
from lathe.scheduler.loop_ir.compute_locations import loop_extent, place_stages
from lathe.scheduler.primitives.after import after
from lathe.scheduler.primitives.reorder import reorder
from lathe.scheduler.primitives.shift import shift
from lathe.scheduler.primitives.skew import skew
from lathe.scheduler.query_results import Answer
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_trace import commands_of


def is_parallel(schedule: ScheduleView, axis: "LoopAxis | Axis", stage: Tensor | StageView | None = None) -> Answer:
    """Whether the iterations of a loop, with all that is computed inside it, may run in any order or at once.

    The loop is one of the schedule's present ones; by name, with the stage that it belongs to. The answer is true or
    false in a condition, and says why; where an iteration reads what another makes, its ``witness`` shows both. Raises
    ScheduleError for an axis that is no present loop.
    """
    if stage is not None:
        host = schedule[stage]
        loop = host.find(axis, "is_parallel")
    else:
        found = [each for each in schedule.stages if axis in each.state.leaves or _source_of(each, axis)]
        if len(found) != 1:
            name = axis if isinstance(axis, str) else getattr(axis, "name", axis)
            raise ScheduleError(
                f"axis of is_parallel must be a present loop of one of the stages "
                f"({', '.join(each.name for each in schedule.stages)}), not {name!r}. Name the stage, too, as in "
                's.is_parallel("i", C).',
                kind="argument",
            )
        host = found[0]
        loop = host.find(axis, "is_parallel")
    attachment = host.state.attachment
    while attachment is not None and loop in attachment.loops:  # its loop is one of the host's
        loop = schedule.at(attachment).state.leaves[attachment.loops.index(loop)]
        host = schedule.at(attachment)
        attachment = host.state.attachment
    return parallel_loop(schedule, host, loop, place_stages(schedule))


def _source_of(stage: StageView, axis: object) -> bool:
    return any(leaf.source is not None and leaf.source is axis for leaf in stage.state.leaves)


def is_legal(schedule: Edit, command: str | Callable[[Edit], object], *arguments: Any) -> Answer:
    """Whether a command would be accepted, without carrying it out.

    ``s.is_legal("compute_at", B, C, "i")`` asks for a command of a stage: its name, the stage (or its tensor), and the
    command's arguments. ``s.is_legal(lambda s: s[C].reorder(j, i))`` asks for whatever the function does to a copy of
    the schedule, several commands included. Where the answer is no, ``reason`` is the refusal and ``witness``
    shows two instances, if there are two. Raises ScheduleError for a command that there is not.
    """
    copy = schedule.fork()

    def there(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(there(each) for each in value)
        return copy.own(value) if isinstance(value, StageView) and value in schedule.stages else value

    try:
        if callable(command):
            command(copy)
        else:
            _carry_out(copy, command, [there(each) for each in arguments])
    except (LegalityError, PaddingError) as error:
        return Answer(False, str(error), error.witness)
    except _NoCommandError as error:
        raise ScheduleError(str(error), kind=error.kind) from None
    except ScheduleError as error:
        return Answer(False, str(error), None)
    return Answer(True, "every read finds its value", None)


class _NoCommandError(ScheduleError):
    """The question itself is wrong."""


STAGE_ARGUMENTS = {"compute_at": (0,), "after": (0,), "before": (0,), "then": (0,), "between": (0, 2), "reuse_at": (0,)}
"""Which arguments of a command are stages: these may be given by their tensors."""

FOR_INPUTS = ("reuse_at", "transform_layout")
"""Commands of stages that the schedule has for tensors without a stage, too."""


OF_SCHEDULES = ("allocate_at", "barrier_at", "cache_read", "cache_write", "copy_at", "device_to_host")
"""Commands of the schedule, not of a stage."""


def _carry_out(schedule: Edit, command: object, arguments: list[Any]) -> None:
    if command in OF_SCHEDULES:
        _call(getattr(schedule, str(command)), command, arguments)
        return
    commands = commands_of(type(schedule.stages[0]))
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
    if command in FOR_INPUTS and isinstance(stage, Tensor) and schedule.maker(schedule.current(stage)) is None:
        _call(getattr(schedule, str(command)), command, [stage, *rest])
        return
    _call(getattr(schedule[stage], str(command)), command, rest)


def _call(method: Callable[..., object], command: object, arguments: list[Any]) -> None:
    try:
        signature(method).bind(*arguments)
    except TypeError as error:
        raise _NoCommandError(
            f"arguments of command {command!r} of is_legal must be those of it: {error}.", kind="argument"
        ) from None
    method(*arguments)


def smallest_shift(
    schedule: Edit, stage: Tensor | StageView, other: Tensor | StageView, axis: "AxisLike"
) -> tuple[int, ...] | None:
    """By how much the loops of a stage must be shifted for it to run after another in the same loops.

    One number for each loop of ``stage`` down to ``axis``, outermost first: the lexicographically smallest with which
    ``s[stage].after(s[other], axis)`` is legal, zero wherever that is enough, so that values wait as short as possible.
    Nothing is changed; carry it out with ``shift`` and ``after``. None where even a shift past all iterations of the
    other does not help, as where it takes the stage past readers of its own in these loops. Raises ScheduleError where
    ``after`` does for another reason. Whether a shift is legal is decided by the same check as the commands.
    """
    reader, producer = schedule[stage], schedule[other]
    loops = reader.state.leaves[: reader.state.leaves.index(reader.find(axis, "smallest_shift")) + 1]
    beside = [*producer.state.leaves, *loops[len(producer.state.leaves) :]]
    extents = [
        max(loop_extent(reader, loop), loop_extent(producer if n < len(producer.state.leaves) else reader, beside[n]))
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
    # a larger shift of a loop outside the others makes legal whatever a smaller one does: bisect level by level
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
    """Factors with which skewing two loops, diagonals outside, leaves the loop inside parallel.

    The first pair ``(outer_factor, inner_factor)`` of coprime factors up to ``largest``, smallest sum first; ``(0, 1)``
    says that exchanging the two loops is enough, and ``(1, 0)`` that the inner loop is parallel as it stands. Where
    values come from further along than that, ``(n, 1)`` with the smallest ``n`` below the extent of the inner loop.
    Stages that share both loops are skewed alike. None if no such pair helps. Raises ScheduleError for axes that are no
    present loops.
    """
    host = schedule[stage]
    first, second = host.find(outer, "parallel_skew"), host.find(inner, "parallel_skew")
    if is_parallel(schedule, second, host):
        return (1, 0)

    def helps(a: int, b: int) -> bool:
        copy = schedule.fork()
        twin = copy.own(host)
        try:
            along, diagonal = skew(twin, first, second, a, b)
            reorder(twin, diagonal, along)
            return bool(is_parallel(copy, along, twin))
        except ScheduleError:
            return False

    candidates = sorted(product(range(largest + 1), range(1, largest + 1)), key=lambda pair: (sum(pair), pair))
    found = next((pair for pair in candidates if helps(*pair)), None)
    low, high = largest + 1, loop_extent(host, second) - 1
    if found is not None or low > high or not helps(high, 1):
        return found
    while low < high:  # the steeper the diagonals, the earlier whatever comes from an earlier outer iteration
        middle = (low + high) // 2
        low, high = (low, middle) if helps(middle, 1) else (middle + 1, high)
    return low, 1
