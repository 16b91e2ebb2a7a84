"""What users ask of programs and schedules: parameters are bound first, then the rooms answer."""

from collections.abc import Mapping, Sequence

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
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule import Schedule, create_schedule
from lathe.scheduler.schedule_trace import numbered, with_numbers
from lathe.scheduler.target.machine import check_machine

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

    ``stage``: "algorithm" (domains and accesses), "order" (the tree of bands with tags, and the time map of each
    stage), "data" (where values live), "communication" (instructions per queue, with tokens, what each is for, and the
    barriers and tokens by hand between them), "loops" (the nest with its conditions) or "chunks" (the nest partitioned
    into boxes without conditions, as rules carry them out: where a DMA pads, with the constant around what it loads),
    or the name of a pass of the compiler ("legalize-domains", ...): order and nest as that pass leaves them.
    Order, loops and chunks show a schedule as it was given; data and communication, and a tensor program without a
    schedule, as ``build`` completes it, chunks then with the rules that take them. ``parameters`` gives numbers for
    those of the program, as for ``build``; the algorithm needs none. Raises BuildError for another stage, a machine
    that is none, or a wrong list of tensors.
    """
    passes = [each.name for each in PASSES]
    if not isinstance(stage, str) or stage not in (*STAGES, *passes):
        raise BuildError(
            f"stage of lower must be one of {', '.join(STAGES)}, or a pass ({', '.join(passes)}), not {shown(stage)}.",
            kind="argument",
        )
    check_machine(config, "lower")
    given = isinstance(program, Schedule)
    if stage != "algorithm" or parameters is not None:  # the algorithm is the same for all numbers
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
    """Which rule takes the chunks of a schedule on a machine, and if none does, which constraint fails first.

    Chunks alike but for offsets are one class, with its count, its pads, and the rule that took it or the constraint
    that failed, with the values that it failed for. Each scratchpad is shown with the buffers in it. A schedule that
    ``build`` refuses is explained all the same: chunks are asked for beyond the first one that fails, tiles that exceed
    a scratchpad are taken as if it were larger, and what exceeds it is told first. What the schedule leaves open is
    completed as ``build`` does it. Instructions are counted with the loads of micro-ops that come before them.

    ``config`` is the machine, ``load_config("vta")`` unless given; ``parameters`` gives numbers for those of the
    program. The result prints as text; its fields say the same
    to programs, and ``to_dict()`` is plain values for JSON. Raises BuildError if ``config`` is no machine. The idea
    of rules that are handed partitioned loops is from TVM's ``emit_insn``; what became of each is not told there.

    >>> from lathe.frontend import compute, placeholder
    >>> A = placeholder(60, "int8", "A")
    >>> B = compute(60, lambda i: A[i] // 3, "B")
    >>> print(explain(B))  # doctest: +ELLIPSIS
    on vta: does not map (1 refused); 3 chunks of 3 classes
    acc, 2048 elements:
      A.acc: 2 × 4 elements (60 values)
    A.acc in acc:
      1 × map(i0 in 0..60): dma, 1 instruction
    B.acc in acc:
      1 × map(i in 0..60): REFUSED by 'alu' at io=0: operation must be one of min, max, ... and % 2**n, not floordiv
    B in dram:
      1 × map(ii in 0..60): dma, 1 instruction
    <BLANKLINE>
    """
    machine = load_config("vta") if config is None else config
    check_machine(machine, "explain")
    program, _ = with_numbers(program, parameters, "explain")
    return explanation_of(program if isinstance(program, Schedule) else create_schedule(program), machine)


def bound(
    program: Schedule | Tensor | Sequence[Tensor],
    config: HardwareConfig,
    *,
    parameters: Mapping[str, int] | None = None,
) -> Bound:
    """Cycles that no schedule of a program can be quicker than on a machine, with their parts: docs/lower-bound.md.

    The greater of compute (GEMM micro-ops, resets, passes of the ALU and of RESCALE, whole vectors each, without taps
    that only meet padding) and memory (what is read of inputs, weights, parameters and outputs, once, in whole
    elements, over the bus). Of a schedule it is the bound of its program, whatever commands have done. ``parameters``
    gives numbers for those of the program. The result prints as text, and ``to_dict()`` is plain values for JSON.

    Raises TensorError for what is no tensor or list of tensors, BuildError if ``config`` is no machine, an output is an
    input, or the machine lacks an extension that the program needs.

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
    layer by layer, in scratchpads of this size: 16 cycles, 0 bytes between layers, 0 again
    """
    check_machine(config, "bound")
    program, _ = with_numbers(program, parameters, "bound")
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

    ``inputs`` are arrays by placeholder name. ``reads``, if given, gets the number of values read from each tensor, by
    name; ``instances`` gets the number of points that each stage has computed, as ``count`` counts them. ``parameters``
    gives numbers for those of the program. The counterpart of ``reference`` for everything up to instructions. Raises
    InputError for arrays that do not fit the placeholders.
    """
    if not isinstance(schedule, Schedule):
        message = (
            f"schedule to interpret must be a Schedule, not {shown(schedule)}. It is what create_schedule returns."
        )
        raise ScheduleError(message, kind="argument")
    if reads is not None and not isinstance(reads, dict):
        message = f"reads of interpret must be a dictionary, which gets the counts, not {shown(reads)}."
        raise ScheduleError(message, kind="argument")
    schedule, _ = numbered(schedule, parameters, "interpret")
    given = {tensor.name: array for tensor, array in checked_inputs(schedule.program, inputs).items()}
    return interpret_nest(schedule, partition(build_nest(schedule, largest_blocks=True)), given, reads, instances)
