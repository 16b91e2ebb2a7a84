"""Schedule traces: primitives are recorded while parameters are symbolic, and replayed when they are bound to numbers.

Until then the schedule is that of the program with typical values, so each primitive is checked when it is called and
returns what its replay will return. The replay applies the same primitives to the bound program and checks them again
exactly; no result for other values is reused. Only the check that a primitive has an effect is skipped: for some
numbers a loop has one iteration, or a split leaves no remainder, and the primitive becomes a no-op.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lathe.configs import LatheError
from lathe.frontend import Tensor, find_recurrences, topological
from lathe.frontend.arith.parameters import at_values, format_values, formula, value_of
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Parameter
from lathe.frontend.tensor.bind_parameters import Binding, bound_program, program_parameters
from lathe.scheduler.errors import LegalityError, ScheduleError
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState, StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState, initial_state

COMMAND = "is_command"
"""The attribute that marks a method as a primitive."""

P = ParamSpec("P")
S = TypeVar("S", bound=StageView)
Result = TypeVar("Result")


@dataclass(frozen=True)
class _View:
    """The parts of a stage, or of the schedule's layouts, that later primitives may name."""

    stage: EditedStage | None
    things: tuple[object, ...]
    loops: tuple[LoopAxis, ...]


@dataclass(frozen=True)
class _Call:
    owner: EditedStage | None  # None for a primitive of the schedule
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
    """A primitive that was applied; ``before`` is the state in which its loops are named."""

    before: ScheduleState


@dataclass
class ScheduleTrace:
    """The primitives recorded since the schedule was created; ``typical`` has the parameter values that it uses."""

    typical: Mapping[Parameter, int]
    before: tuple[_View, ...]
    commands: list[_Command] = field(default_factory=list)
    busy: bool = False  # whether a primitive is running, which may call others


class TracedSchedule(Edit):
    """A schedule whose primitives are transactions, recorded if its program has unbound parameters."""

    recording: ScheduleTrace | None = None
    """The trace, if the program has unbound parameters."""
    guarded = False
    """Whether only primitives may change it: true for a user's schedule, false for a fork."""
    given: list[TraceEntry] | None = None
    """The primitives applied since it was created; None for a fork, which may be changed in other ways."""

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
        """Replace the states of stages, as primitives do. Raises ScheduleError outside of one."""
        self._check_commanded("put")
        super().put(changes)

    def reset_to(self, state: ScheduleState) -> None:
        """Switch to another state, as primitives do. Raises ScheduleError outside of one."""
        self._check_commanded("reset_to")
        super().reset_to(state)

    def _check_commanded(self, what: str) -> None:
        if self.guarded:
            raise ScheduleError(
                f"{what} of a schedule must be called by a primitive, not directly, which would skip the legality "
                "checks. Use primitives, such as split, or change a fork() of the schedule.",
                kind="argument",
            )


def _run_together(schedule: Edit) -> None:
    """Fuse the stages of each recurrence in the loops that carry it."""
    for cycle in find_recurrences(stage.op for stage in schedule.stages):
        *others, anchor = [schedule[computation] for computation in cycle.computations]
        for other in others if cycle.depth else []:  # a dependence that never occurs needs no shared loops
            loops = other.state.leaves[: cycle.depth]
            attachment = ComputeAt(anchor.id, anchor.state.leaves[cycle.depth - 1], loops)
            other.change(attachment=attachment)


R = TypeVar("R", bound=TracedSchedule)


def start_recording(schedule: TracedSchedule) -> ScheduleTrace | None:
    """A trace for a schedule whose program has parameters; None for any other."""
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


def primitive(function: Callable[P, Result], name: str = "") -> Callable[P, Result]:
    """A primitive as a method of a handle: a transaction, recorded in schedules that have a trace.

    ``function`` takes the stage, or the schedule, first; ``name`` is that of the method, if it differs.
    """
    method = name or function.__name__

    @wraps(function)
    def run(*given: P.args, **keywords: P.kwargs) -> Result:
        owner: Any = given[0]
        schedule: TracedSchedule = getattr(owner, "schedule", owner)
        before, recording, guarded = schedule.state, schedule.recording, schedule.guarded
        schedule.guarded = False
        try:
            if recording is None or recording.busy:
                result = function(*given, **keywords)
            else:
                result = _noted(function, method, schedule, recording, given, keywords)
            if guarded and schedule.given is not None:  # else it is called by another primitive
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
    """Arguments at the time of the call: the caller may change a list afterwards."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value


def _noted(
    function: Callable[..., Result],
    method: str,
    schedule: TracedSchedule,
    recording: ScheduleTrace,
    given: tuple[Any, ...],
    keywords: Mapping[str, Any],
) -> Result:
    """Apply a primitive with typical values, and record it if it succeeds."""
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


def primitives_of(handle: type) -> list[str]:
    """The names of the primitives among the methods of a handle."""
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
    """Replaces parameters in arguments of primitives by numbers, and loops, stages and tensors by those of the replay.

    ``stands_for`` maps old objects to new ones, and grows with every replayed primitive.
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
        except TypeError:  # unhashable, so it cannot be an object of the schedule
            return value

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A user's function with parameters in its results replaced by numbers."""

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return self.of(function(*arguments))

        return call

    def pair(self, old: object, new: object) -> None:
        """Map ``old`` to ``new``, and their items."""
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
    """The schedule of the bound program, by replay of its primitives, and the binding.

    Raises ScheduleError, with primitive and values, if one is refused; also what ``Binding`` raises.
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
                f"Cannot replay primitive {number} of the schedule, {each.text}, for {format_values(binding.values)}, "
                f"although it is legal for {format_values(recording.typical)}: {error}"
            )
            if isinstance(error, LegalityError):
                raise LegalityError(message, error.witness) from error
            raise ScheduleError(message, kind=error.kind) from error
        values.pair(each.result, result)
        values.pair_views(each.after, _views(bound))
    bound.replaying = False
    return bound, binding


def with_bound_parameters(
    schedule: R, parameters: Mapping[str, int] | None, where: str
) -> tuple[R, Mapping[object, object]]:
    """A schedule with its parameters bound, and the replacements of its tensors; unchanged if it has no parameters."""
    if parameters is None and not program_parameters(schedule.program):
        return schedule, {}
    bound, binding = bound_schedule(schedule, parameters, where)
    return bound, binding.of


def bind_parameters(
    program: R | Tensor | Sequence[Tensor], parameters: Mapping[str, int] | None, where: str
) -> tuple[R | tuple[Tensor, ...], Mapping[object, object]]:
    """A program or schedule with its parameters bound, and the replacements of its tensors.

    One without parameters is unchanged. Raises ParameterError for values that do not fit.
    """
    if isinstance(program, TracedSchedule):
        return with_bound_parameters(program, parameters, where)
    outputs, binding = bound_program(program, parameters, where)
    return outputs, {} if binding is None else binding.of


def bind(program: R | Tensor | Sequence[Tensor], parameters: Mapping[str, int]) -> R | Tensor | tuple[Tensor, ...]:
    """The program, or the schedule, with its parameters bound to numbers.

    Returns a tensor for a tensor, a tuple for several, and for a schedule the one that its replayed primitives give,
    each checked with the numbers. Raises ParameterError for a value that is missing, unknown or out of range;
    DomainError if a read is out of bounds with these numbers; ScheduleError for a primitive that is refused with them.
    """
    bound, _ = bind_parameters(program, parameters, "bind")
    return bound[0] if isinstance(program, Tensor) and isinstance(bound, tuple) else bound
