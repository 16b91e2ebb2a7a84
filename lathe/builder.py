"""``build``: compiles a schedule to a program, through the autotuner and with validation where requested."""

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
from lathe.scheduler.isel.rules import RULES, is_user_rule
from lathe.scheduler.target.target import check_machine
from lathe.validation import validate

Check: TypeAlias = bool | Literal["passes"]

_AT_LEAST: ContextVar[Check] = ContextVar("check of builds", default=False)


@contextmanager
def validate_builds(check: Check = True) -> Iterator[None]:
    """Make every ``build`` in the context validate its program, whatever its own ``check`` is: for users' scripts."""
    before = _AT_LEAST.set(check)
    try:
        yield
    finally:
        _AT_LEAST.reset(before)


BuildHook: TypeAlias = Callable[
    [Schedule | Tensor | Sequence[Tensor], HardwareConfig, Mapping[str, int] | None], object
]
"""Called with the program, machine and parameters of a build before anything is compiled."""

_HOOKS: ContextVar[tuple[BuildHook, ...]] = ContextVar("build hooks", default=())


@contextmanager
def on_build(hook: BuildHook) -> Iterator[None]:
    """Call a hook before every ``build`` in the context: for users' scripts."""
    before = _HOOKS.set((*_HOOKS.get(), hook))
    try:
        yield
    finally:
        _HOOKS.reset(before)


_COLLECTORS: ContextVar[tuple[Callable[[Compiled], object], ...]] = ContextVar("collectors of builds", default=())


@contextmanager
def capture_builds(collector: Callable[[Compiled], object]) -> Iterator[None]:
    """Pass the result of every ``build`` in the context, with its provenance, to ``collector``; bypasses the cache."""
    before = _COLLECTORS.set((*_COLLECTORS.get(), collector))
    try:
        yield
    finally:
        _COLLECTORS.reset(before)


def has_build_observers() -> bool:
    """Whether a hook, a collector or a check applies to every build, so that no build may be skipped."""
    return bool(_HOOKS.get() or _COLLECTORS.get() or _AT_LEAST.get())


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

    ``tensors``: the program's inputs and outputs, in any order. ``constants``: arrays, by name, of inputs that become
    part of the program. ``parameters``: values, by name, of the program's parameters; the primitives of the schedule
    are replayed with them, and checked.

    ``check=True`` validates the program: its instructions compute each scalar element of each stage from the right
    operands (docs/translation-validation.md), the verifier reports nothing, and the outputs equal NumPy's on inputs of
    three kinds. ``check="passes"`` also compares the loop nest with NumPy after each pass, to name a wrong pass.

    The compiler decides what a schedule leaves open (caches, scopes, tiles, pragmas of stages that no primitive has
    scheduled); the given schedule is not changed. With a ``budget`` of 2 or more, ``autoschedule`` simulates that many
    candidates; schedule and program are then stored in ``cache`` (True: the user's cache; False: none) under a hash of
    all that they depend on. Results for a user's Schedule are not cached, nor are programs while user-defined
    rules are registered.

    Raises BuildError for a wrong list of tensors or an invalid budget, CapacityError for tiles that do not fit,
    EmitError for chunks that map to no instruction, ValidationError for what ``check`` finds.
    """
    if not isinstance(check, bool) and not (isinstance(check, str) and check == "passes"):
        message = f"check of build must be True, False or 'passes', not {shown(check)}."
        raise BuildError(message, kind="argument")
    check = check or _AT_LEAST.get()
    candidates = checked_budget(budget, "build")
    _call_hooks(program, config, parameters)
    if candidates != 1:
        return _build_autotuned(program, tensors, config, constants, parameters, candidates, cache, check)
    return _compile(program, tensors, config, constants, parameters, check).program


@within_memory("a program's build")
def build_with_stages(
    program: Sequence[Tensor], tensors: Sequence[Tensor], config: HardwareConfig, constants: Mapping[str, NDArray[Any]]
) -> tuple[Program, list[str]]:
    """What ``build`` returns, and for each instruction the name of the stage that it implements; "" for none."""
    _call_hooks(program, config, None)
    compiled = _compile(program, tensors, config, constants, None, _AT_LEAST.get())
    return compiled.program, [origin.stage for origin in compiled.origins]


def _call_hooks(
    program: Schedule | Tensor | Sequence[Tensor], config: HardwareConfig, parameters: Mapping[str, int] | None
) -> None:
    """Call the build hooks."""
    if isinstance(config, HardwareConfig):
        for hook in _HOOKS.get():
            hook(program, config, parameters)


@wait_for_lock_once()
def _build_autotuned(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]] | None,
    parameters: Mapping[str, int] | None,
    budget: int,
    cache: ScheduleCache | bool,
    check: Check,
) -> Program:
    """The program of the fastest candidate; read from the cache if it is there and need not be validated."""
    check_machine(config, "build")
    program, tensors = bound_arguments(program, tensors, parameters, "build")
    used_cache = cache_for(program, cache, "build")
    if used_cache is not None and any(map(is_user_rule, RULES)):
        used_cache = None  # the key does not cover what user-defined rules do
    schedule = program if isinstance(program, Schedule) else create_schedule(program)
    check_tensors(schedule, tensors)
    given = checked_constants(schedule, {} if constants is None else constants)
    key = "" if used_cache is None else program_key(schedule.program, config, budget, given)
    if used_cache is not None and not check and not _COLLECTORS.get():
        cached = read_program(used_cache, key)
        if cached is not None:
            return cached
    tuned = autoschedule(program, config, budget=budget, cache=cache)
    built = build_or_retune(
        tuned, config, budget, used_cache, lambda each: _compile(each, tensors, config, given, None, check).program
    )
    if used_cache is not None:
        write_program(used_cache, key, built)
    return built


def _compile(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]] | None,
    parameters: Mapping[str, int] | None,
    check: Check,
) -> Compiled:
    """Compile a program, and validate it where ``check`` requests that."""
    compiled = build_compiled(
        program, tensors, config, constants=constants, parameters=parameters, check_passes=check == "passes"
    )
    if check:
        validate(compiled, compiled.schedule.program)
    for collector in _COLLECTORS.get():
        collector(compiled)
    return compiled
