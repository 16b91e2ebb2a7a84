"""Entry points that inspect programs and schedules: ``lower``, ``explain``, ``bound``, ``interpret``."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from lathe.configs import HardwareConfig, load_config
from lathe.frontend import Tensor, checked_inputs
from lathe.frontend.expr.errors import shown
from lathe.scheduler.build import bound_arguments, check_outputs, check_tensors
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.inspect.explain import explanation_of
from lathe.scheduler.inspect.explanation import Explanation
from lathe.scheduler.inspect.print_levels import after_pass, level
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.interpret import Array, interpret_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.lower_bound.bound import Bound, bound_of
from lathe.scheduler.passes.former_names import FORMER_NAMES
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule import Schedule, create_schedule
from lathe.scheduler.schedule_trace import bind_parameters, with_bound_parameters
from lathe.scheduler.target.target import check_machine

STAGES = ("algorithm", "order", "data", "communication", "loops", "chunks")


def lower(
    program: Schedule | Tensor | Sequence[Tensor],
    tensors: Sequence[Tensor],
    config: HardwareConfig,
    stage: str = "chunks",
    *,
    parameters: Mapping[str, int] | None = None,
) -> str:
    """The text of one level of a program on its way to instructions.

    ``stage`` is the level: "algorithm" (domains and accesses), "order" (the tree of bands with tags, and the time map
    of each stage), "data" (memory scopes and buffers), "communication" (instructions per queue, with tokens and their
    purpose, and the user's barriers and tokens), "loops" (the loop nest with its conditions), "chunks" (the nest
    partitioned into boxes without conditions, as rules emit them, with the padding that DMAs add), or the name of a
    pass ("legalize-domains", ...): order and nest after that pass. Order, loops and chunks show a schedule as the user
    gave it; data and communication, and a tensor program without a schedule, as ``build`` lowers it, chunks then with
    their emission rules. ``parameters`` gives numbers for those of the program, as for ``build``; the algorithm needs
    none. Raises BuildError for an unknown level, an invalid machine, or a wrong list of tensors.
    """
    if isinstance(stage, str):
        stage = FORMER_NAMES.get(stage, stage)
    passes = [each.name for each in PASSES]
    if not isinstance(stage, str) or stage not in (*STAGES, *passes):
        alike = get_close_matches(stage, [*STAGES, *passes], cutoff=0.5) if isinstance(stage, str) else []
        hint = f" Did you mean {' or '.join(map(repr, alike))}?" if alike else ""
        raise BuildError(
            f"stage of lower must be one of {', '.join(STAGES)}, or the name of a pass, not {shown(stage)}.{hint}",
            kind="argument",
        )
    check_machine(config, "lower")
    given = isinstance(program, Schedule)
    if stage != "algorithm" or parameters is not None:  # the algorithm does not depend on the numbers
        program, tensors = bound_arguments(program, tensors, parameters, "lower")
    schedule = program if isinstance(program, Schedule) else create_schedule(program)
    check_tensors(schedule, tensors)
    return after_pass(schedule, config, stage) if stage in passes else level(schedule, config, stage, given=given)


def explain(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig | None = None,
    *,
    parameters: Mapping[str, int] | None = None,
) -> Explanation:
    """The emission rule of each class of chunks of a schedule on a machine, or the first constraint that fails.

    Chunks that differ only in offsets are one class, with its count, its pads, and its rule, or the failed constraint
    with the offending values. Each scratchpad is shown with its buffers. A schedule that ``build`` refuses is
    explained, too: chunks after the first failure are included, a scratchpad that overflows is treated as larger, and
    the overflow is reported first. What the schedule leaves open is chosen as by ``build``. Instruction counts include
    the loads of micro-ops.

    ``config`` is the machine, ``load_config("vta")`` by default; ``parameters`` gives numbers for those of the program.
    The result prints as text; its fields have the same data, and ``to_dict()`` returns plain values for JSON. Raises
    BuildError for an invalid ``config``. Emission rules for partitioned loops are after TVM's ``emit_insn``.

    >>> from lathe.frontend import compute, placeholder
    >>> A = placeholder(60, "int8", "A")
    >>> B = compute(60, lambda i: 60 // A[i], "B")
    >>> print(explain(B))  # doctest: +ELLIPSIS
    on vta: does not map (1 refused); 3 chunks of 3 classes
    acc, 2048 vectors:
      A.acc: 2 × 4 vectors (60 values)
      B.acc: 2 × 4 vectors (60 values)
    A.acc in acc:
      1 × map(i0 in 0..60): dma, 1 instruction
    B.acc in acc:
      1 × map(i in 0..60): REFUSED by 'alu' at io=0: operation must be one of min, max, ... constants, not floordiv
    B in dram:
      1 × map(ii in 0..60): dma, 1 instruction
    <BLANKLINE>
    """
    machine = load_config("vta") if config is None else config
    check_machine(machine, "explain")
    program, _ = bind_parameters(program, parameters, "explain")
    return explanation_of(program if isinstance(program, Schedule) else create_schedule(program), machine)


def bound(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig,
    *,
    parameters: Mapping[str, int] | None = None,
) -> Bound:
    """A lower bound on the cycles of all schedules of a program on a machine, with its terms: docs/lower-bound.md.

    The maximum of compute (GEMM micro-ops, resets, passes of the ALU and of RESCALE, in whole vectors, without taps
    that only meet padding) and memory (bus beats to transfer inputs, weights, parameters and outputs once each, in
    whole vectors). For a schedule it is the bound of its program, whatever primitives have been applied. ``parameters``
    gives numbers for those of the program. The result prints as text, and ``to_dict()`` returns plain values for JSON.

    Raises TensorError for an argument that is no tensor or list of tensors, BuildError if ``config`` is invalid, an
    output is an input, or the machine lacks an extension that the program needs.

    >>> from lathe.frontend import compute, placeholder
    >>> A = placeholder(60, "int8", "A")
    >>> B = compute(60, lambda i: A[i] >> 1, "B")
    >>> print(bound(B, load_config("vta")))
    on vta: at least 16 cycles, bound by memory
    compute 4 cycles
      B, alu: ALU 4
    memory 16 cycles, 128 bytes in 16 beats
      inputs: A 64
      outputs: B 64
    layer by layer, with scratchpads of this size: 16 cycles, 0 bytes between layers, 0 reloaded
    """
    check_machine(config, "bound")
    program, _ = bind_parameters(program, parameters, "bound")
    schedule = create_schedule(program.program if isinstance(program, Schedule) else program)
    check_outputs(schedule)
    return bound_of(schedule, config)


def interpret(
    schedule: Schedule,
    inputs: Mapping[str, Array],
    *,
    reads: dict[str, int] | None = None,
    instances: dict[str, int] | None = None,
    parameters: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Execute a schedule's partitioned loop nest; returns the outputs by name.

    ``inputs`` are arrays by placeholder name. ``reads``, if given, receives the number of values read from each tensor;
    ``instances`` the number of points that each stage computes, as counted by ``count``. ``parameters`` gives numbers
    for those of the program. The counterpart of ``reference`` for every level above instructions. Raises InputError for
    arrays that do not fit the placeholders.
    """
    if not isinstance(schedule, Schedule):
        message = f"schedule to interpret must be a Schedule, as create_schedule returns, not {shown(schedule)}."
        raise ScheduleError(message, kind="argument")
    if reads is not None and not isinstance(reads, dict):
        message = f"reads of interpret must be a dictionary to fill with counts, not {shown(reads)}."
        raise ScheduleError(message, kind="argument")
    schedule, _ = with_bound_parameters(schedule, parameters, "interpret")
    given = {tensor.name: array for tensor, array in checked_inputs(schedule.program, inputs).items()}
    return interpret_nest(schedule, partition(build_nest(schedule, largest_blocks=True)), given, reads, instances)
