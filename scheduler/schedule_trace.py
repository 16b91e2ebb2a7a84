"""Schedules of programs whose parameters are open: commands are noted, and carried out again once there are numbers.

Until then the schedule is that of the program with typical values, so every command is checked when it is called, and
what it returns is what it would return later. When the parameters are bound, the same commands are carried out on the
bound program and checked again, exactly: nothing is taken over that was shown for another value. Only whether a command
does anything is not asked again: with some numbers a loop has one iteration, or a split leaves no rest, and then there
is nothing to be done.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lathe.configs import LatheError
from lathe.frontend import Tensor, cycles, topological
from lathe.frontend.arith.parameters import at_values, described, formula, value_of
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Parameter
from lathe.frontend.tensor.bind_parameters import Binding, bound_program, program_parameters
from lathe.scheduler.errors import LegalityError, ScheduleError
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import ScheduleState, StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState, initial_state

COMMAND = "is_command"
"""What methods have that are commands."""

P = ParamSpec("P")
S = TypeVar("S", bound=StageView)
Made = TypeVar("Made")


@dataclass(frozen=True)
class _View:
    """What of a stage, or of the layouts of the schedule, may be named in later commands."""

    stage: EditedStage | None
    things: tuple[object, ...]
    loops: tuple[LoopAxis, ...]


@dataclass(frozen=True)
class _Call:
    owner: EditedStage | None  # None for a command of the schedule
    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(frozen=True)
class _Command(_Call):
    text: str
    result: object
    after: tuple[_View, ...]


@dataclass(frozen=True)
class TraceEntry(_Call):
    """A command that a schedule has been given; ``before``: what the schedule was then, by which loops are named."""

    before: ScheduleState


@dataclass
class ScheduleTrace:
    """The commands of a schedule since it was created, to which it adds; ``typical``: the values that it works with."""

    typical: Mapping[Parameter, int]
    before: tuple[_View, ...]
    commands: list[_Command] = field(default_factory=list)
    busy: bool = False  # whether a command is being carried out, which may be made of others


class TracedSchedule(Edit):
    """A schedule whose commands are all or nothing, and noted where its program has parameters that are not bound."""

    recording: ScheduleTrace | None = None
    """The commands so far, where the program has parameters that are not bound."""
    guarded = False
    """Whether only commands may change it: a user's schedule is, a fork of it, on which something is tried, is not."""
    given: list[TraceEntry] | None = None
    """The commands since it was created; None of a fork, which anything may have changed."""

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        program = tuple(outputs)
        stages = {StageId(each.name): initial_state(each) for each in topological(program)}
        super().__init__(ScheduleState(program, program, stages))
        if recurrence_groups(self):
            self.update(has_recurrences=True)
            _run_together(self)
        self.recording = start_recording(self)
        self.guarded = True
        self.given = []

    def put(self, changes: Mapping[S, StageState]) -> None:
        """Let stages be others, as commands do. Raises ScheduleError for anybody else."""
        self._check_commanded("put")
        super().put(changes)

    def reset_to(self, state: ScheduleState) -> None:
        """Go on from another state, as commands do. Raises ScheduleError for anybody else."""
        self._check_commanded("reset_to")
        super().reset_to(state)

    def _check_commanded(self, what: str) -> None:
        if self.guarded:
            raise ScheduleError(
                f"{what} of a schedule must be called by a command, not from outside: nobody asks then whether the "
                "order is legal. Use commands, such as split, or try things on a fork() of the schedule.",
                kind="argument",
            )


def _run_together(schedule: Edit) -> None:
    """Put the stages of each cycle into the loops that carry it."""
    for cycle in cycles(stage.op for stage in schedule.stages):
        *guests, host = [schedule[computation] for computation in cycle.computations]
        for guest in guests if cycle.depth else []:  # reads that never happen need no loops
            loops = guest.state.leaves[: cycle.depth]
            attachment = ComputeAt(host.id, host.state.leaves[cycle.depth - 1], loops)
            guest.change(attachment=attachment)


R = TypeVar("R", bound=TracedSchedule)


def start_recording(schedule: TracedSchedule) -> ScheduleTrace | None:
    """A recording for a schedule of a program with parameters; None for any other."""
    parameters = program_parameters(schedule.program)
    if not parameters:
        return None
    return ScheduleTrace({each: each.typical for each in parameters}, _views(schedule))


def _views(schedule: TracedSchedule) -> tuple[_View, ...]:
    found = [_View(None, tuple(schedule.layouts), ())]
    for stage in schedule.stages:
        state = stage.state
        axes = (*state.computation.axes, *state.computation.reduce_axes)
        found.append(_View(stage, (state.computation, *state.tensors, *axes), (*state.roots, *state.leaves)))
    return tuple(found)


def command(function: Callable[P, Made], name: str = "") -> Callable[P, Made]:
    """A command as a method of a handle: all or nothing, and noted in schedules that record.

    ``function`` takes the stage, or the schedule, first; ``name`` is that of the method, if it has another.
    """
    method = name or function.__name__

    @wraps(function)
    def run(*given: P.args, **keywords: P.kwargs) -> Made:
        owner: Any = given[0]
        schedule: TracedSchedule = getattr(owner, "schedule", owner)
        before, recording, guarded = schedule.state, schedule.recording, schedule.guarded
        schedule.guarded = False
        try:
            if recording is None or recording.busy:
                result = function(*given, **keywords)
            else:
                result = _noted(function, method, schedule, recording, given, keywords)
            if guarded and schedule.given is not None:  # else it is part of another command
                stage = None if owner is schedule else owner
                schedule.given.append(TraceEntry(stage, method, _copied(given[1:]), _copied(keywords), before))
            return result
        except BaseException:
            schedule.reset_to(before)
            raise
        finally:
            schedule.guarded = guarded

    setattr(run, COMMAND, True)
    return run


def _copied(value: Any) -> Any:
    """Arguments as they are now: a list may be changed by whoever has given it."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value


def _noted(
    function: Callable[..., Made],
    method: str,
    schedule: TracedSchedule,
    recording: ScheduleTrace,
    given: tuple[Any, ...],
    keywords: Mapping[str, Any],
) -> Made:
    """Carry out a command with typical values, and note it when that is done."""
    owner, *rest = given
    arguments = tuple(rest)
    typical = _Values(recording.typical, {})
    recording.busy = True
    try:
        result = function(owner, *typical.of(arguments), **typical.of(keywords))
    finally:
        recording.busy = False
    stage = None if owner is schedule else owner
    text = f"{'schedule' if stage is None else stage.name}.{method}({_text(arguments, keywords)})"
    recording.commands.append(_Command(stage, method, arguments, keywords, text, result, _views(schedule)))
    return result


def commands_of(handle: type) -> list[str]:
    """The names of the commands among the methods of a handle."""
    return sorted(name for name, value in vars(handle).items() if getattr(value, COMMAND, False))


def _text(arguments: Sequence[object], keywords: Mapping[str, object]) -> str:
    parts = [_shown(each) for each in arguments]
    parts += [f"{name}={_shown(each)}" for name, each in keywords.items()]
    return ", ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if callable(value):
        return "..."
    return str(getattr(value, "name", value))


@dataclass
class _Values:
    """Arguments of commands with numbers for parameters, and with what stands for loops, stages and tensors.

    ``stands_for`` grows with every command that is carried out again.
    """

    numbers: Mapping[Parameter, int]
    stands_for: dict[object, object]

    def of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self.of(each) for key, each in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.of, value))
        expr = formula(value)
        if expr is not None:
            return value_of(expr, self.numbers)
        if isinstance(value, Expr):
            return at_values(value, self.numbers)
        if callable(value) and not isinstance(value, type):
            return self._function(value)
        try:
            return self.stands_for.get(value, value)
        except TypeError:  # nothing that stands for anything
            return value

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the user's whose results have numbers for parameters."""

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return self.of(function(*arguments))

        return call

    def pair(self, old: object, new: object) -> None:
        """From now on ``new`` stands for ``old``, and so do their parts."""
        if isinstance(old, list | tuple) and isinstance(new, list | tuple):
            for one, other in zip(old, new, strict=False):
                self.pair(one, other)
        elif old is not None and not isinstance(old, str | int) and type(old) is type(new):
            self.stands_for[old] = new

    def pair_views(self, before: Sequence[_View], after: Sequence[_View]) -> None:
        for one, other in zip(before, after, strict=False):
            self.pair(one.stage, other.stage)
            self.pair(one.things, other.things)
            self.pair(one.loops, other.loops)


def bound_schedule(schedule: R, parameters: Mapping[str, int] | None, where: str) -> tuple[R, Binding]:
    """The schedule of the bound program, by the same commands, and what stands there for what.

    Raises ScheduleError, naming command and values, if one is refused there; whatever ``Binding`` raises.
    """
    recording = schedule.recording
    binding = Binding(schedule.program, parameters, where)
    if recording is None:
        return schedule, binding
    bound: R = type(schedule)(binding.outputs)
    values = _Values(binding.values, dict(binding.of))
    values.pair_views(recording.before, _views(bound))
    bound.replaying = True
    for number, each in enumerate(recording.commands, 1):
        owner = bound if each.owner is None else values.of(each.owner)
        try:
            result = getattr(owner, each.name)(*values.of(each.arguments), **values.of(each.keywords))
        except LatheError as error:
            message = (
                f"command {number} of the schedule, {each.text}, must be possible for {described(binding.values)} as "
                f"it is for {described(recording.typical)}, not be refused: {error}"
            )
            if isinstance(error, LegalityError):
                raise LegalityError(message, error.witness) from error
            raise ScheduleError(message, kind=error.kind) from error
        values.pair(each.result, result)
        values.pair_views(each.after, _views(bound))
    bound.replaying = False
    return bound, binding


def numbered(schedule: R, parameters: Mapping[str, int] | None, where: str) -> tuple[R, Mapping[object, object]]:
    """A schedule with its parameters bound, and what stands for its tensors; as it is if its program has none."""
    if parameters is None and not program_parameters(schedule.program):
        return schedule, {}
    bound, binding = bound_schedule(schedule, parameters, where)
    return bound, binding.of


def with_numbers(
    program: R | Tensor | Sequence[Tensor], parameters: Mapping[str, int] | None, where: str
) -> tuple[R | tuple[Tensor, ...], Mapping[object, object]]:
    """A program or schedule with its parameters bound, and what stands for its tensors.

    One without parameters stays as it is. Raises ParameterError for values that do not fit.
    """
    if isinstance(program, TracedSchedule):
        return numbered(program, parameters, where)
    outputs, binding = bound_program(program, parameters, where)
    return outputs, {} if binding is None else binding.of


def bind(program: R | Tensor | Sequence[Tensor], parameters: Mapping[str, int]) -> R | Tensor | tuple[Tensor, ...]:
    """The program, or the schedule, with numbers for its parameters.

    Of a tensor the tensor, of several a tuple, of a schedule the schedule that the same commands give, each of them
    checked with the numbers. Raises ParameterError for a value that is missing, unknown or out of range; DomainError
    where a read leaves its tensor with these numbers; ScheduleError for a command that they make impossible.
    """
    bound, _ = with_numbers(program, parameters, "bind")
    return bound[0] if isinstance(program, Tensor) and isinstance(bound, tuple) else bound
