"""``reuse_at``: values that consecutive iterations share stay in a reuse buffer."""

from collections.abc import Mapping
from dataclasses import replace

from lathe.frontend import Axis, Binary, Expr, Tensor, as_affine, walk
from lathe.frontend.arith.linear import Bound, Linear, LoopVariable
from lathe.frontend.arith.loop_bounds import interval_of
from lathe.frontend.expr.errors import shown
from lathe.frontend.expr.nodes import axes_of
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.bounds_inference import eliminate
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.fused_loops import fusion_root
from lathe.scheduler.loop_ir.sliding_windows import REUSE_FORMS
from lathe.scheduler.loop_ir.warmup_iterations import with_warmup
from lathe.scheduler.primitives.cache import axes_of_copy
from lathe.scheduler.primitives.set_scope import checked_scope
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis
from lathe.scheduler.schedule_ir.memories import ACC, DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, initial_state

PROLOGUES = ("loop", "first")


def reuse_at(
    schedule: Edit,
    tensor: Tensor,
    consumer: EditedStage,
    axis: "AxisLike",
    scope: str = ACC,
    *,
    form: str = "ring",
    prologue: str = "loop",
) -> Tensor:
    """Let a stage read ``tensor`` from a reuse buffer: each loop iteration only fetches what the previous one lacked.

    Before::

        for y in 0..10:
          for x in 0..8:
            B[y, x] = A[y, x] + A[y, x + 1] + A[y, x + 2]

    After ``AA = s.reuse_at(A, s[B], x)``::

        for y in 0..10:
          buffer A.reuse in acc: [3], ring along i1
          for x in 0..10:
            keep A.reuse: [y + 1, max(x - 2, 0) + min(3, x + 1)]
            for i0 in 0..1:
              for i1 in 0..1:
                A.reuse[y + i0, x + i1] = A[y + i0, x + i1]
            if x >= 2:
              B[y, x - 2] = A.reuse[y, x - 2] + A.reuse[y, x - 2 + 1] + A.reuse[y, x - 2 + 2]
          free A.reuse

    The inferred shape of the buffer is the smallest box that contains what one iteration reads. With ``form="ring"``,
    index ``i`` of the moving dimension is at position ``i`` modulo the size; with ``form="shift"`` the contents are
    shifted so that the window begins at 0. With ``prologue="loop"`` the loop starts with as many warm-up iterations as
    fill the buffer and do nothing else; with ``prologue="first"`` its first iteration fetches a whole window.
    ``tensor`` may itself be a reuse buffer; ``consumer`` may have several outputs, reductions, selects, splits and a
    compute location. All stages in the loop that read ``tensor`` read the buffer. ``s[P].reuse_at(consumer, axis)``
    does the same for the values that stage P computes, without a copy.

    Returns the buffer's tensor. Raises ScheduleError for invalid arguments, indices that are not affine, reads that do
    not overlap in consecutive iterations or move in several dimensions, and windows of varying size. From HeteroCL.
    """
    where = f"reuse_at of {getattr(tensor, 'name', tensor)}"
    tensor = schedule.current(tensor)
    _check_consumer(schedule, consumer, where)
    loop = consumer.find(axis, "reuse_at")
    runner, loop = fusion_root(consumer, loop)
    consumer = schedule.own(runner)
    inside = stages_inside(consumer, loop)
    readers = [stage for stage in inside if stage in schedule.consumers(tensor)] if isinstance(tensor, Tensor) else []
    if not readers:
        reads = (read.tensor.name for stage in inside for read in stage.state.computation.reads)
        raise ScheduleError(
            f"tensor of reuse_at must be one that is read in loop {loop.name} of stage {consumer.name} "
            f"({', '.join(dict.fromkeys(reads))}), not {getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    computation = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.reuse"), axes_of_copy(tensor))

    name = checked_scope(scope, where)
    if name == DRAM:
        raise ScheduleError(
            f"scope of {where} must be a scratchpad, not dram, which would not save any loads.", kind="argument"
        )
    buffer = schedule.new(initial_state(computation, name, copies=tensor))
    changes = _with_reuse_buffer(buffer, consumer, loop, form, prologue, (tensor,))
    for reader in readers:
        redirected = redirect_reads(reader.state.computation, {tensor: buffer.tensor})
        changes[reader] = replace(changes.get(reader, reader.state), computation=redirected)
    position = min(schedule.stages.index(reader) for reader in readers)
    stages = [*schedule.stages[:position], buffer, *schedule.stages[position:]]
    commit(schedule, changes, "reuse_at", stages=stages)
    return buffer.tensor


def reuse_own_at(
    stage: EditedStage, consumer: EditedStage, axis: "AxisLike", *, form: str = "ring", prologue: str = "loop"
) -> None:
    """Compute, in each iteration of a consumer's loop, only those values of this stage that the previous one lacked.

    Like ``compute_at``, but values stay while they are in the loop's window. Before::

        for i in 0..12:
          B[i] = A[i] * 3
        for i in 0..10:
          C[i] = B[i] + B[i + 2]

    After ``s[B].set_scope("acc")`` and ``s[B].reuse_at(s[C], i)``::

        buffer B in acc: [3], ring along i
        for i in 0..12:
          keep B: [max(i - 2, 0) + min(3, i + 1)]
          for i' in 0..1:
            B[i + i'] = A[i + i'] * 3
          if i >= 2:
            C[i - 2] = B[i - 2] + B[i - 2 + 2]
        free B

    Raises ScheduleError as ``Schedule.reuse_at`` does, and for a stage in DRAM. After Halide's sliding windows.
    """
    where = f"reuse_at of stage {stage.name}"
    _check_consumer(stage.schedule, consumer, where)
    runner, loop = fusion_root(consumer, consumer.find(axis, "reuse_at"))
    consumer = stage.schedule.own(runner)
    readers = [reader for tensor in stage.state.tensors for reader in stage.schedule.consumers(tensor)]
    if consumer is stage or not set(stages_inside(consumer, loop)) & set(readers):
        raise ScheduleError(
            f"loop of {where} must be one in which its values are read, not loop {loop.name} of {consumer.name!r}.",
            kind="argument",
        )
    if stage.state.scope == DRAM:
        raise ScheduleError(
            f"scope of stage {stage.name} must be a scratchpad for {where}, not dram, where all values persist anyway. "
            "Use set_scope first.",
            kind="argument",
        )
    commit(stage.schedule, _with_reuse_buffer(stage, consumer, loop, form, prologue, stage.state.tensors), "reuse_at")


def _check_consumer(schedule: Edit, consumer: object, where: str) -> None:
    if not isinstance(consumer, EditedStage) or consumer not in schedule.stages:
        raise ScheduleError(
            f"consumer of {where} must be a stage of the same schedule, as in s[B], not {shown(consumer)}.",
            kind="argument",
        )


def _with_reuse_buffer(
    stage: EditedStage, consumer: EditedStage, loop: LoopAxis, form: str, prologue: str, tensors: tuple[Tensor, ...]
) -> dict[StageView, StageState]:
    """The states of a stage with a reuse buffer along a loop of its consumer, and of all stages that share this loop.

    Raises ScheduleError if the reads of ``tensors`` in consecutive iterations do not overlap.
    """
    for name, value, known in (("form", form, REUSE_FORMS), ("prologue", prologue, PROLOGUES)):
        if value not in known:
            raise ScheduleError(
                f"{name} of reuse_at of {tensors[0].name} must be one of {', '.join(known)}, not {value!r}.",
                kind="argument",
            )
    warmup = _warmup_iterations(consumer, loop, tensors)
    changes_of_warmup = with_warmup(consumer, loop, warmup) if prologue == "loop" else {}
    return {**changes_of_warmup, stage: replace(stage.state, attachment=ComputeAt(consumer.id, loop), reuse=form)}


def stages_inside(anchor: EditedStage, loop: LoopAxis) -> list[EditedStage]:
    """The stage, and all that are computed inside one of its loops, directly or not, from ``loop`` inwards."""
    leaves = anchor.state.leaves
    found = [anchor]
    for stage in reversed(anchor.schedule.stages):
        location = stage.state.attachment
        if location is None or stage.schedule.at(location) not in found:
            continue
        if stage.schedule.at(location) is not anchor or leaves.index(location.axis) >= leaves.index(loop):
            found.append(stage)
    return found


def _warmup_iterations(anchor: EditedStage, loop: LoopAxis, tensors: tuple[Tensor, ...]) -> int:
    """The number of iterations that fill the window up to its first use.

    Raises ScheduleError if consecutive iterations share no values.
    """
    placed = place_stages(anchor.schedule)
    outer_variables = [*placed[anchor].prefix, *placed[anchor].loops.variables]
    level = max(outer_variables.index(variable) for variable in placed[anchor].loops.of_leaf[loop])
    outer_variables = outer_variables[: level + 1]
    visible, name = set(outer_variables), loop.name
    boxes = [
        (consumer, read, placed[consumer])
        for consumer in anchor.schedule.stages
        if [*placed[consumer].prefix, *placed[consumer].loops.variables][: len(outer_variables)] == outer_variables
        for read in consumer.state.computation.reads
        if read.tensor in tensors
    ]
    tensor = boxes[0][1].tensor
    advances: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for d in range(tensor.ndim):
        lows: list[Linear] = []
        highs: list[Linear] = []
        for consumer, read, there in boxes:
            axes = {axis: (_unclamped(value), _unclamped(value)) for axis, value in there.roots().items()}
            index = read.indices[d]
            interval = interval_of(index, axes)
            if interval is None or (as_affine(index) is None and any(visible & _moving(n, axes) for n in walk(index))):
                raise ScheduleError(
                    f"indices of {tensor.name} in stage {consumer.name} must be affine in the loops for reuse_at, not "
                    f"{index}, which does not move as a window. Read {tensor.name} directly, or copy it with "
                    "cache_read.",
                    kind="limit",
                )
            lows.append(_unclamped(eliminate(interval[0], visible, there.box, "low")))
            highs.append(_unclamped(eliminate(interval[1], visible, there.box, "high")))
        spans = [high - low + 1 for low in lows for high in highs]
        changing = next((span for span in spans if not span.is_constant), None)
        if changing is not None:
            raise ScheduleError(
                f"size of the reuse buffer of {tensor.name} in loop {name} of stage {anchor.name} must be constant, "
                f"not {changing} along dimension {d}. Use cache_read and compute_at, or reuse at another loop.",
                kind="limit",
            )
        sizes[d] = max(span.constant for span in spans)
        variable = outer_variables[-1]
        if any(variable in low.variables() for low in lows):
            advances[d] = abs(lows[0].terms.get(variable, 0))
    if not advances:
        raise ScheduleError(
            f"reads of {tensor.name} in loop {name} of stage {anchor.name} must move for reuse_at, not be the same in "
            "all iterations. Use cache_read, and compute_at at a loop outside.",
            kind="argument",
        )
    disjoint = next((d for d, advance in advances.items() if advance >= sizes[d]), None)
    if disjoint is not None:
        raise ScheduleError(
            f"reads of {tensor.name} in neighbouring iterations of loop {name} of stage {anchor.name} must overlap for "
            f"reuse_at, not be {sizes[disjoint]} wide along dimension {disjoint} and move by {advances[disjoint]}. "
            "Reuse at a loop along which windows overlap.",
            kind="argument",
        )
    return max(-(-(sizes[d] - advance) // advance) if advance else 0 for d, advance in advances.items())


def _moving(node: Expr, axes: Mapping[Axis, tuple[Linear, Linear]]) -> set[LoopVariable]:
    """The loops that a remainder depends on, if the node is one."""
    if not isinstance(node, Binary) or node.op != "mod":
        return set()
    return {variable for axis in axes_of(node) for variable in axes[axis][0].variables()}


def _unclamped(bound: Bound) -> Linear:
    """The linear expression of a bound away from the borders, where it is clamped."""
    if isinstance(bound, Linear):
        return bound
    return max((_unclamped(inner) for inner in bound.bounds), key=lambda each: len(each.terms))
