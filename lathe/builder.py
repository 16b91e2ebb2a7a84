"""``build``: from a schedule to a program, and the proof of it where that is asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from lathe.autotune.autoschedule import autoschedule, build_or_retune, cache_for, checked_budget
from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.program_cache import program_key, read_program, write_program
from lathe.autotune.schedule_cache import ScheduleCache
from lathe.configs import HardwareConfig
from lathe.configs.errors import shown
from lathe.configs.host_memory import within_memory
from lathe.frontend import Tensor
from lathe.isa import Program
from lathe.scheduler import BuildError, Schedule, create_schedule
from lathe.scheduler.build import bound_arguments, build_compiled, check_tensors, checked_constants
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.isel.rules import RULES, is_own
from lathe.scheduler.target.machine import check_machine
from lathe.validation import validate

Check: TypeAlias = bool | Literal["passes"]

_AT_LEAST: ContextVar[Check] = ContextVar("check of builds", default=False)


@contextmanager
def validate_builds(check: Check = True) -> Iterator[None]:
    """Every ``build`` inside checks what it makes, whatever it is called with: for scripts that others have written."""
    before = _AT_LEAST.set(check)
    try:
        yield
    finally:
        _AT_LEAST.reset(before)


BuildHook: TypeAlias = Callable[
    [Schedule | Tensor | Sequence[Tensor], HardwareConfig, Mapping[str, int] | None], object
]
"""What is called with program, machine and parameters of a build, before anything is compiled."""

_WATCHERS: ContextVar[tuple[BuildHook, ...]] = ContextVar("who watches builds", default=())


@contextmanager
def on_build(watcher: BuildHook) -> Iterator[None]:
    """Tell of every ``build`` inside: for scripts that others have written."""
    before = _WATCHERS.set((*_WATCHERS.get(), watcher))
    try:
        yield
    finally:
        _WATCHERS.reset(before)


_COLLECTORS: ContextVar[tuple[Callable[[Compiled], object], ...]] = ContextVar("who gets what is built", default=())


@contextmanager
def capture_builds(collector: Callable[[Compiled], object]) -> Iterator[None]:
    """Give what every ``build`` inside makes, and where its instructions come from; no cache is asked meanwhile."""
    before = _COLLECTORS.set((*_COLLECTORS.get(), collector))
    try:
        yield
    finally:
        _COLLECTORS.reset(before)


def are_builds_looked_at() -> bool:
    """Whether somebody watches, collects or checks every build, so that none may be left out."""
    return bool(_WATCHERS.get() or _COLLECTORS.get() or _AT_LEAST.get())


@within_memory("a program's build")
def build(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    *,
    constants: Mapping[str, NDArray[Any]] | None = None,
    check: Check = False,
    parameters: Mapping[str, int] | None = None,
    budget: int = 1,
    cache: ScheduleCache | bool = True,
) -> Program:
    """Compile a schedule, or a tensor program with the default schedule, for a machine.

    ``tensors`` are the program's inputs and outputs, in any order. ``constants`` gives arrays, by name, for inputs that
    become part of the program instead. ``parameters`` gives numbers, by name, for the parameters of the program;
    commands of the schedule are carried out again with them, and checked.

    ``check=True`` validates the instructions: that they make each element of each stage from the right operands
    (docs/translation-validation.md), that the verifier finds nothing, and that the outputs equal NumPy's on inputs
    of three kinds. ``check="passes"`` compares the loop nest with NumPy after each pass of the compiler besides, to
    say which one is wrong.

    What a schedule leaves open (caches, scopes, tiles, pragmas of stages that no command has touched) is completed; the
    schedule given is not changed. With a ``budget`` of 2 or more, the simulator decides between so many candidates
    (``autoschedule``), and schedule and program are kept in ``cache`` (True: the user's; False: not), by the content of
    all that they depend on, unless the schedule has been begun by hand; the program is not where rules of the user's
    are there.

    Raises BuildError for a wrong list of tensors or a budget that is no number of candidates, CapacityError for tiles
    that do not fit, EmitError for chunks that map to no instruction, ValidationError for what ``check`` finds.
    """
    if not isinstance(check, bool) and not (isinstance(check, str) and check == "passes"):
        message = f"check of build must be True, False or 'passes', not {shown(check)}."
        raise BuildError(message, kind="argument")
    check = check or _AT_LEAST.get()
    candidates = checked_budget(budget, "build")
    _tell(program, config, parameters)
    if candidates != 1:
        return _searched(program, tensors, config, constants, parameters, candidates, cache, check)
    return _built(program, tensors, config, constants, parameters, check).program


@within_memory("a program's build")
def build_with_stages(
    program: Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
) -> tuple[Program, list[str]]:
    """What ``build`` returns, and for each instruction the name of the stage that it is for; "" for none."""
    _tell(program, config, None)
    made = _built(program, tensors, config, constants, None, _AT_LEAST.get())
    return made.program, [origin.stage for origin in made.origins]


def _tell(
    program: Schedule | Tensor | Sequence[Tensor], config: HardwareConfig, parameters: Mapping[str, int] | None
) -> None:
    """Tell whoever watches of a build that begins."""
    if isinstance(config, HardwareConfig):
        for watcher in _WATCHERS.get():
            watcher(program, config, parameters)


@wait_for_lock_once()
def _searched(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]] | None,
    parameters: Mapping[str, int] | None,
    budget: int,
    cache: ScheduleCache | bool,
    check: Check,
) -> Program:
    """The program of the quickest candidate, from the cache where it has been built before and need not be checked."""
    check_machine(config, "build")
    program, tensors = bound_arguments(program, tensors, parameters, "build")
    kept = cache_for(program, cache, "build")
    if kept is not None and any(map(is_own, RULES)):
        kept = None  # the key does not know what the user's rules do
    schedule = program if isinstance(program, Schedule) else create_schedule(program)
    check_tensors(schedule, tensors)
    given = checked_constants(schedule, {} if constants is None else constants)
    key = "" if kept is None else program_key(schedule.program, config, budget, given)
    if kept is not None and not check and not _COLLECTORS.get():
        before = read_program(kept, key)
        if before is not None:
            return before
    found = autoschedule(program, config, budget=budget, cache=cache)
    made = build_or_retune(
        found, config, budget, kept, lambda each: _built(each, tensors, config, given, None, check).program
    )
    if kept is not None:
        write_program(kept, key, made)
    return made


def _built(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]] | None,
    parameters: Mapping[str, int] | None,
    check: Check,
) -> Compiled:
    """A program compiled, and validated where that is asked for."""
    made = build_compiled(
        program, tensors, config, constants=constants, parameters=parameters, check_passes=check == "passes"
    )
    if check:
        validate(made, made.schedule.program)
    for collector in _COLLECTORS.get():
        collector(made)
    return made
