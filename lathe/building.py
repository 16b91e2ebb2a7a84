"""``build``: from a schedule to a program, and the proof of it where that is asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.errors import shown
from lathe.configs.host_memory import within_memory
from lathe.frontend import Tensor
from lathe.isa import Program
from lathe.scheduler import BuildError, Schedule
from lathe.scheduler.build import build_compiled
from lathe.validation import validate

Check: TypeAlias = bool | Literal["passes"]

_AT_LEAST: ContextVar[Check] = ContextVar("check of builds", default=False)


@contextmanager
def checked_builds(check: Check = True) -> Iterator[None]:
    """Every ``build`` inside checks what it makes, whatever it is called with: for scripts that others have written."""
    before = _AT_LEAST.set(check)
    try:
        yield
    finally:
        _AT_LEAST.reset(before)


Watcher: TypeAlias = Callable[[Schedule | Tensor | Sequence[Tensor], HardwareConfig, Mapping[str, int] | None], object]
"""What is called with program, machine and parameters of a build, before anything is compiled."""

_WATCHERS: ContextVar[tuple[Watcher, ...]] = ContextVar("who watches builds", default=())


@contextmanager
def watched_builds(watcher: Watcher) -> Iterator[None]:
    """Tell of every ``build`` inside: for scripts that others have written."""
    before = _WATCHERS.set((*_WATCHERS.get(), watcher))
    try:
        yield
    finally:
        _WATCHERS.reset(before)


@within_memory("a program's build")
def build(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    *,
    constants: Mapping[str, NDArray[Any]] | None = None,
    check: Check = False,
    parameters: Mapping[str, int] | None = None,
) -> Program:
    """Compile a schedule, or a tensor program with the default schedule, for a machine.

    ``tensors`` are the program's inputs and outputs, in any order. ``constants`` gives arrays, by name, for inputs that
    become part of the program instead. ``parameters`` gives numbers, by name, for the parameters of the program;
    commands of the schedule are carried out again with them, and checked.

    ``check=True`` validates the instructions: that they make each element of each stage from the right operands
    (docs/validation.md), that the verifier finds nothing, and that the outputs equal NumPy's on inputs of three kinds.
    ``check="passes"`` compares the loop nest with NumPy after each pass of the compiler besides, to say which one is
    wrong.

    What a schedule leaves open (caches, scopes, tiles, pragmas of stages that no command has touched) is completed; the
    schedule given is not changed. Raises BuildError for a wrong list of tensors, CapacityError for tiles that do not
    fit, EmitError for chunks that map to no instruction, ValidationError for what ``check`` finds.
    """
    if not isinstance(check, bool) and not (isinstance(check, str) and check == "passes"):
        message = f"check of build must be True, False or 'passes', not {shown(check)}."
        raise BuildError(message, kind="argument")
    check = check or _AT_LEAST.get()
    if isinstance(config, HardwareConfig):
        for watcher in _WATCHERS.get():
            watcher(program, config, parameters)
    made = build_compiled(
        program, tensors, config, constants=constants, parameters=parameters, check_passes=check == "passes"
    )
    if check:
        validate(made, made.schedule.program)
    return made.program
