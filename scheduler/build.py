"""``build``: compile a schedule, or tensors, to a program."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.array_args import array_of
from lathe.frontend import Tensor, placeholders
from lathe.frontend.expr.errors import shown
from lathe.isa import Program
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.compile import lower_and_compile
from lathe.scheduler.errors import BuildError
from lathe.scheduler.inspect.nest_difftest import NestCheck
from lathe.scheduler.lower_bound.mac_counts import macs_of
from lathe.scheduler.schedule import Schedule, create_schedule
from lathe.scheduler.schedule_trace import bind_parameters
from lathe.scheduler.target.target import check_machine


def build(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    *,
    constants: Mapping[str, NDArray[Any]] | None = None,
    parameters: Mapping[str, int] | None = None,
) -> Program:
    """The program of ``build_compiled``, which takes the same arguments."""
    return build_compiled(program, tensors, config, constants=constants, parameters=parameters).program


def build_compiled(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    *,
    constants: Mapping[str, NDArray[Any]] | None = None,
    parameters: Mapping[str, int] | None = None,
    check_passes: bool = False,
) -> Compiled:
    """Compile a schedule, or a tensor program with the default schedule, for a machine.

    ``tensors`` are the program's inputs and outputs, in any order. ``constants`` maps names of inputs to arrays that
    become part of the program. ``parameters`` gives numbers, by name, for the parameters of the program; the primitives
    of the schedule are replayed and checked with them. With ``check_passes`` the loop nest is compared with NumPy
    before the first pass and after each.

    What a schedule leaves open (caches, scopes, tiles, pragmas of unscheduled stages) is chosen; the given schedule is
    not changed. Raises BuildError for a wrong list of tensors, CapacityError for tiles that do not fit, EmitError for
    chunks that map to no instruction, ValidationError if ``check_passes`` finds a difference.
    """
    check_machine(config, "build")
    program, tensors = bound_arguments(program, tensors, parameters, "build")
    schedule = program if isinstance(program, Schedule) else create_schedule(program)
    check_tensors(schedule, tensors)
    given = checked_constants(schedule, {} if constants is None else constants)
    watch = NestCheck(schedule, given) if check_passes else None
    return lower_and_compile(schedule, config, given, watch, macs_of(schedule.program))


def bound_arguments(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    parameters: Mapping[str, int] | None,
    where: str,
) -> tuple[Schedule | Tensor | Sequence[Tensor], Sequence[Tensor]]:
    """The program and its tensors with parameters bound to numbers."""
    bound, replacements = bind_parameters(program, parameters, where)
    if not isinstance(tensors, Sequence) or not all(isinstance(each, Tensor) for each in tensors):
        return bound, tensors  # ``check_tensors`` reports the error
    replaced = (replacements.get(each, each) for each in tensors)
    return bound, [each for each in replaced if isinstance(each, Tensor)]


def check_tensors(schedule: Schedule, tensors: Sequence[Tensor]) -> None:
    """Raises BuildError unless ``tensors`` are the inputs and outputs of the program."""
    if (
        isinstance(tensors, Tensor)
        or not isinstance(tensors, Iterable)
        or not all(isinstance(each, Tensor) for each in tensors)
    ):
        raise BuildError(f"tensors of build must be a list of tensors, not {shown(tensors)}.", kind="argument")
    check_outputs(schedule)
    expected = [*placeholders(schedule.program), *schedule.program]
    for tensor in expected:
        if tensor not in tensors:
            kind = "output" if tensor in schedule.program else "input"
            raise BuildError(
                f"tensors of build must list every input and output of the program, not leave out {kind} "
                f"{tensor.name!r}. Add it to the list.",
                kind="argument",
            )
    for tensor in tensors:
        if tensor not in expected:
            raise BuildError(
                f"tensors of build must be inputs and outputs of the program, not {tensor.name!r}, which is "
                f"{'not used' if tensor.computation is None else 'an intermediate result'}. Take it off the list.",
                kind="argument",
            )


def check_outputs(schedule: Schedule) -> None:
    """Raises BuildError unless all outputs of the program are computed."""
    for tensor in schedule.program:
        if tensor.computation is None:
            raise BuildError(
                f"outputs of a program must be computed, not {tensor.name!r}, which is an input. To output an input, "
                "copy it with compute.",
                kind="argument",
            )


def checked_constants(schedule: Schedule, constants: object) -> dict[str, NDArray[Any]]:
    """The constants as arrays of shape and dtype of their inputs. Raises BuildError if one does not fit."""
    if not isinstance(constants, Mapping):
        raise BuildError(
            f"constants of build must map names of inputs to arrays, not be {shown(constants)}.", kind="argument"
        )
    inputs = {tensor.name: tensor for tensor in placeholders(schedule.program)}
    given = {}
    for name, value in constants.items():
        if name not in inputs:
            raise BuildError(
                f"constants of build must be inputs of the program ({', '.join(inputs)}), not {name!r}.",
                kind="argument",
            )
        tensor = inputs[name]
        must = f"constant {name!r} of build must be an array of shape {tensor.shape} and dtype {tensor.dtype}"
        try:
            array = array_of(value, tensor.dtype)
        except ValueError as error:
            raise BuildError(f"{must}, not {error}.", kind="argument") from None
        if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
            raise BuildError(f"{must}, not of shape {array.shape} and dtype {array.dtype}.", kind="argument")
        given[name] = array
    return given
