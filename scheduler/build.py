"""``build``: from a schedule to a program, and ``lower``: the text of any level on the way."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.arrays import array_of
from lathe.frontend import Tensor, placeholders
from lathe.frontend.errors import shown
from lathe.isa import Finish, Instruction, Load, MemoryType, Program, Segment
from lathe.scheduler.emission.compiled import Compiled
from lathe.scheduler.emission.dram_map import PAGE, DramMap, packed_bytes
from lathe.scheduler.emission.emit import Emitter
from lathe.scheduler.emission.footprints import Footprints
from lathe.scheduler.emission.order_by_hand import Step, steps_of
from lathe.scheduler.emission.preloading import preload_microops
from lathe.scheduler.emission.tokens import TokenPass
from lathe.scheduler.errors import BuildError, EmitError
from lathe.scheduler.history import with_numbers
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.partition import partition
from lathe.scheduler.passes.complete import complete
from lathe.scheduler.reports.self_check import NestCheck
from lathe.scheduler.schedule import Schedule, create_schedule
from lathe.scheduler.state.signals import Origin
from lathe.scheduler.target.buffers import buffers_of
from lathe.scheduler.target.elements import physical_of
from lathe.scheduler.target.lanes import conflict_of_lanes, plan_lanes
from lathe.scheduler.target.reused_cells import find_aliases

if TYPE_CHECKING:
    pass


def build(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    *,
    constants: Mapping[str, NDArray[Any]] | None = None,
    parameters: Mapping[str, int] | None = None,
) -> Program:
    """The program alone of ``build_compiled``, whose arguments it takes."""
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

    ``tensors`` are the program's inputs and outputs, in any order. ``constants`` gives arrays, by name, for inputs that
    become part of the program instead. ``parameters`` gives numbers, by name, for the parameters of the program;
    commands of the schedule are carried out again with them, and checked. With ``check_passes`` the loop nest is
    compared with NumPy at first and after each pass.

    What a schedule leaves open (caches, scopes, tiles, pragmas of stages that no command has touched) is completed; the
    schedule given is not changed. Raises BuildError for a wrong list of tensors, CapacityError for tiles that do not
    fit, EmitError for chunks that map to no instruction, ValidationError where ``check_passes`` finds a difference.
    """
    check_machine(config, "build")
    program, tensors = bound_arguments(program, tensors, parameters, "build")
    schedule = program if isinstance(program, Schedule) else create_schedule(program)
    check_tensors(schedule, tensors)
    given = _checked_constants(schedule, {} if constants is None else constants)
    return compiled(schedule, config, given, NestCheck(schedule, given) if check_passes else None)


def compiled(
    schedule: Schedule, config: HardwareConfig, constants: Mapping[str, NDArray[Any]], watch: NestCheck | None = None
) -> Compiled:
    """A schedule, completed and compiled; ``watch`` is shown it at first and after each pass."""
    completed = complete(schedule, config, watch=watch)
    added = {tensor.name: array for tensor, array in completed.constants.items()}
    return compile_schedule(completed.schedule, config, {**constants, **added}, completed.views)


def bound_arguments(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    parameters: Mapping[str, int] | None,
    where: str,
) -> tuple[Schedule | Tensor | Sequence[Tensor], Sequence[Tensor]]:
    """Program and tensors with numbers for parameters."""
    bound, of = with_numbers(program, parameters, where)
    if not isinstance(tensors, Sequence) or not all(isinstance(each, Tensor) for each in tensors):
        return bound, tensors  # ``check_tensors`` says what is wrong
    found = (of.get(each, each) for each in tensors)
    return bound, [each for each in found if isinstance(each, Tensor)]


def compile_schedule(
    schedule: Schedule,
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
    views: Mapping[Tensor, Tensor],
) -> Compiled:
    """Compile a complete schedule: allocation, emission, tokens, and the map of DRAM.

    ``views`` maps placeholders that stand for another one, reshaped, to that one.
    """
    symbolic = build_nest(schedule, largest_blocks=True)
    plan = plan_lanes(schedule, config)
    physical = {stage: physical_of(stage, plan.known, config) for stage in schedule.stages}
    aliases = find_aliases(schedule)
    buffers = buffers_of(schedule, config, symbolic, physical, aliases)
    dram = DramMap(schedule, config, plan, constants, views)
    emitter = Emitter(schedule, config, dram, physical, buffers, aliases)
    try:
        emitter.run(partition(symbolic))
    except EmitError as error:
        reasons = [conflict_of_lanes(schedule, config), lanes_as_wanted(schedule)]
        if not any(reasons):
            raise
        raise EmitError(" ".join([str(error), *filter(None, reasons)]), kind=error.kind) from None
    return _assemble(emitter, dram.segments, constants)


def lanes_as_wanted(schedule: Schedule) -> str:
    """A sentence on stages whose lanes a command has decided."""
    wanted = [stage.name for stage in schedule.stages if stage.state.is_vectorized]
    if not wanted:
        return ""
    return f"Lanes of {', '.join(wanted)} are those that vectorize says; without it, build chooses what fits."


def check_tensors(schedule: Schedule, tensors: Sequence[Tensor]) -> None:
    """Raises BuildError unless ``tensors`` are the inputs and outputs of the program."""
    if (
        isinstance(tensors, Tensor)
        or not isinstance(tensors, Iterable)
        or not all(isinstance(each, Tensor) for each in tensors)
    ):
        raise BuildError(f"tensors of build must be a list of tensors, not {shown(tensors)}.", kind="argument")
    for tensor in schedule.program:
        if tensor.computation is None:
            raise BuildError(
                f"outputs of a program must be computed, not {tensor.name!r}, which is an input. Copy it with compute "
                "if that is meant.",
                kind="argument",
            )
    wanted = [*placeholders(schedule.program), *schedule.program]
    for tensor in wanted:
        if tensor not in tensors:
            kind = "output" if tensor in schedule.program else "input"
            raise BuildError(
                f"tensors of build must list every input and output of the program, not leave out {kind} "
                f"{tensor.name!r}. Add it to the list.",
                kind="argument",
            )
    for tensor in tensors:
        if tensor not in wanted:
            raise BuildError(
                f"tensors of build must be inputs and outputs of the program, not {tensor.name!r}, which is "
                f"{'not used' if tensor.computation is None else 'computed on the way'}. Take it off the list.",
                kind="argument",
            )


def check_machine(config: object, where: str) -> None:
    """Raises BuildError unless ``config`` is a machine."""
    if not isinstance(config, HardwareConfig):
        raise BuildError(
            f"machine of {where} must be a HardwareConfig, not {shown(config)}. Make one with load_config.",
            kind="argument",
        )


def _checked_constants(schedule: Schedule, constants: object) -> dict[str, NDArray[Any]]:
    if not isinstance(constants, Mapping):
        raise BuildError(
            f"constants of build must be arrays by the names of inputs, not {shown(constants)}.", kind="argument"
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
        wanted = f"constant {name!r} of build must be an array of shape {tensor.shape} and dtype {tensor.dtype}"
        try:
            array = array_of(value, tensor.dtype)
        except ValueError as error:
            raise BuildError(f"{wanted}, not {error}.", kind="argument") from None
        if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
            raise BuildError(f"{wanted}, not of shape {array.shape} and dtype {array.dtype}.", kind="argument")
        given[name] = array
    return given


def _assemble(emitter: Emitter, segments: list[Segment], constants: Mapping[str, NDArray[Any]]) -> Compiled:
    config = emitter.config
    image = emitter.pool.image()
    steps = steps_in_order(emitter)
    tokens = TokenPass[Origin](footprints_of(emitter))
    numbers: list[int] = []
    for step in steps:
        if step.barrier:
            tokens.barrier(step.origin)
        numbers.append(tokens.add(step.instruction, step.origin, [numbers[n] for n in step.waits]))
    labels = list(emitter.labels) or ["program"]
    tokens.add(Finish(), Origin(len(labels) - 1))
    tokens.check_room()
    address = max((segment.end for segment in segments), default=PAGE)
    uop_address = -(-address // PAGE) * PAGE
    uops = Segment("uop", "uop", uop_address, image.nbytes)
    stream_address = -(-uops.end // PAGE) * PAGE
    instructions = tuple(_moved(each, uop_address // config.uop_element_bytes) for each in tokens.output)
    stream = Segment("instructions", "instructions", stream_address, 16 * len(instructions))
    images = {"uop": image}
    for segment in segments:
        if segment.role == "constant":
            images[segment.name] = packed_bytes(segment, constants[segment.tensor])
    label_of = np.asarray([origin.label for origin in tokens.labels], np.int32)
    program = Program(config, instructions, (*segments, uops, stream), images, tuple(labels), label_of)
    sends = [(number, each) for number, step in zip(numbers, steps, strict=True) for each in step.sends]
    receives = [(number, each) for number, step in zip(numbers, steps, strict=True) for each in step.receives]
    return Compiled(
        program,
        tokens.labels,
        tokens.barriers,
        sends,
        receives,
        emitter.made,
        emitter.schedule,
        emitter.dram.views,
        constants,
    )


def steps_in_order(emitter: Emitter) -> list[Step]:
    """What has been emitted, micro-ops first. Raises ScheduleError where tokens by hand leave no order."""
    entries, origins = [entry for entry, _ in emitter.entries], [origin for _, origin in emitter.entries]
    return steps_of(list(zip(*preload_microops(entries, origins), strict=True)), lambda: footprints_of(emitter))


def footprints_of(emitter: Emitter) -> Footprints:
    """The cells that instructions touch, in the order of a stream, with what the micro-op pool holds by now."""
    config = emitter.config
    written = [segment for segment in emitter.dram.segments if segment.role in ("output", "temporary")]
    tracked = (
        min((segment.address for segment in written), default=0),
        max((segment.end for segment in written), default=0),
    )
    grain = min(config.out_element_bytes, config.inp_element_bytes, config.wgt_element_bytes)
    return Footprints(config, emitter.pool.image().view("<u4"), grain, tracked)


def _moved(instruction: Instruction, uop_base: int) -> Instruction:
    """A LOAD of micro-ops with the address of their segment; loads without data keep a harmless one."""
    from dataclasses import replace

    if isinstance(instruction, Load) and instruction.memory_type == MemoryType.UOP:
        return replace(instruction, dram_base=instruction.dram_base + uop_base)
    return instruction
