"""Load residuals via GEMM: an identity GEMM brings a residual operand to the accumulators, instead of a LOAD to acc.

The compute unit executes LOADs to acc itself, and computes nothing meanwhile. What the matrix core reads is loaded by
the load unit during other work, and a GEMM with ones on the diagonal copies a vector in one cycle. So an int8 residual
takes that way where it needs fewer cycles::

    sum[n, y, x, c] = rescaled(conv[n, y, x, c], residual[n, y, x, c])

    brought[n, y, x, c] = sum over k in 0..1 of residual[n, y, x, c] * ones[k, c]
    sum[n, y, x, c] = rescaled(conv[n, y, x, c], brought[n, y, x, c])

So does an operand that the ALU would add: the GEMM accumulates onto the other operand. If the GEMM before reads the
same tensor, what is loaded for it, perhaps with padding around it, is read twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend import Axis, Computation, Tensor, as_affine, evaluate
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.strip_casts import as_bare_axis, skip_casts, skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Const, Read, Reduce, Select, axes_of, reads_data
from lathe.isa import AluOp
from lathe.scheduler.cost.stage_cost import alu_issue_cycles
from lathe.scheduler.layout.accumulate_in_place import addends
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.rescaling import missing_extensions, rescaling_of
from lathe.scheduler.layout.vector_relayout import conversions_needed
from lathe.scheduler.layout.vector_type import loaded_bytes, vector_type_of
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.matchers import is_elementwise
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_padding


@dataclass(frozen=True)
class _Residual:
    """A read of a residual that an identity GEMM replaces: of ``tensor``, at ``offsets`` from its first element.

    ``along``: the channel dimension, which the GEMM before has as columns.
    """

    read: Read
    tensor: Tensor
    offsets: tuple[int, ...]
    along: int


def load_residual_via_gemm(schedule: Edit, target: Target) -> None:
    """Insert identity GEMMs before additions of GEMM results, in place, where that takes fewer cycles."""
    ones: dict[int, Tensor] = {}
    for stage in list(schedule.stages):
        for residual in _residuals(schedule, stage, target):
            channels = residual.read.tensor.shape[residual.along]
            if channels not in ones:
                tensor = ones[channels] = Tensor(f"ones.{channels}", (1, channels), "int8")
                schedule.update(constants={**schedule.state.constants, tensor: np.ones(tensor.shape, np.int8)})
            _insert(schedule, stage, residual, ones[channels])


def find_unlowered_residual(schedule: Edit, target: Target) -> str | None:
    """An addition with a residual operand that an identity GEMM would bring in fewer cycles."""
    violating = next((stage.name for stage in schedule.stages if _residuals(schedule, stage, target)), None)
    return None if violating is None else f"{violating} loads a residual that an identity GEMM brings in fewer cycles"


def is_identity_gemm(stage: StageView) -> bool:
    """Whether a stage is such an identity GEMM: a reduction of extent 1 with a constant tensor of ones."""
    computation = stage.state.computation
    constants = {read.tensor for read in computation.reads} & set(stage.schedule.state.constants)
    return bool(constants) and [axis.extent for axis in computation.reduce_axes] == [1]


def _residuals(schedule: Edit, stage: EditedStage, target: Target) -> list[_Residual]:
    """The operands of an addition that an identity GEMM brings in fewer cycles than a LOAD."""
    computation = stage.state.computation
    if not is_unscheduled(stage) or len(computation.bodies) > 1:
        return []
    rescaling = rescaling_of(computation)
    rescaled = rescaling is not None and not missing_extensions(rescaling, target.config)
    if rescaled:
        assert rescaling is not None
        reads: Sequence[Read] = [term.data for term in rescaling.terms]
    elif is_elementwise(computation):
        reads = addends(computation)
    else:
        return []
    if len(reads) != 2 or not all(_is_plain(stage, read) for read in reads):
        return []
    gemms = assign_layouts(schedule, target.config).gemms
    for read, other in (reads, reads[::-1]):
        if not _is_loaded(schedule, stage, read):
            continue
        producing = _producing_gemm(schedule, stage, other, gemms, through_others=not rescaled)
        if producing is None or is_identity_gemm(schedule[other.tensor]):  # chosen together with the LOAD of ``read``
            continue
        gemm, gemm_stage = producing
        along = _channel_dim(gemm_stage, gemm)
        offsets = _offsets(schedule, gemm.data.tensor, read.tensor)
        if read.tensor.shape[along] == 1:
            continue  # a single channel has no diagonal: the ALU would multiply it
        if not _is_faster(target, read.tensor.shape[along], in_place=not rescaled):
            continue
        if offsets is not None:
            return [_Residual(read, gemm.data.tensor, offsets, along)]
        ratio = _load_ratio(target) if along == len(read.indices) - 1 else 1.0
        if rescaled or _is_gemm_data(schedule, read.tensor, along, target, ratio):
            return [_Residual(read, read.tensor, (0,) * len(read.indices), along)]
    return [] if rescaled else _loaded_residuals(schedule, stage, reads, target)


def _loaded_residuals(schedule: Edit, stage: EditedStage, reads: Sequence[Read], target: Target) -> list[_Residual]:
    """Of two operands in DRAM, none, one or both, whichever takes the fewest cycles, if channels fill the lanes.

    A single one is accumulated onto the other, which the compute unit loads; of both, the second onto the first.
    """
    along = len(stage.state.computation.axes) - 1
    if along < 0 or stage.tensor.shape[along] % vector_type_of(target.config, ACC).cols:
        return []
    if not all(_is_loaded(schedule, stage, read) for read in reads):
        return []
    gemm, reset, load = _costs(target, stage.tensor.shape[along])
    addition = alu_issue_cycles(AluOp.ADD, immediate=False)
    stored = [read for read in reads if _is_gemm_data(schedule, read.tensor, along, target, _load_ratio(target))]
    costs = [2 * load + addition, load + gemm, 2 * gemm + reset]
    count = min(range(len(stored) + 1), key=costs.__getitem__)
    return [_Residual(read, read.tensor, (0,) * len(read.indices), along) for read in stored[len(stored) - count :]]


def _is_loaded(schedule: Edit, stage: EditedStage, read: Read) -> bool:
    """Whether a read is of bytes that come from DRAM."""
    return read.dtype == "int8" and schedule.scope_of(read.tensor) == DRAM and _is_stored(schedule, stage, read)


def _channel_dim(stage: EditedStage, gemm: GemmMatch) -> int:
    """The dimension of the columns of a GEMM; the last dimension if it has none."""
    axes = stage.state.computation.axes
    return next((dim for dim, axis in enumerate(axes) if axis is gemm.column), len(axes) - 1)


def _producing_gemm(
    schedule: Edit, stage: EditedStage, read: Read, gemms: "dict[Tensor, GemmMatch | None]", through_others: bool
) -> tuple[GemmMatch, EditedStage] | None:
    """The GEMM that computes what a stage reads, if ``through_others`` perhaps followed by element-wise stages."""
    producer = schedule.producer(read.tensor)
    if producer is None or not is_unscheduled(producer) or read.tensor in schedule.outputs:
        return None
    if schedule.consumers(read.tensor) != [stage]:
        return None
    gemm = gemms[read.tensor]
    if gemm is not None:
        return gemm, producer
    computation = producer.state.computation
    if not through_others or not is_elementwise(computation) or len(computation.bodies) > 1:
        return None
    found = (_producing_gemm(schedule, producer, each.node, gemms, through_others) for each in computation.reads)
    return next((each for each in found if each is not None), None)


def _offsets(schedule: Edit, data: Tensor, tensor: Tensor) -> tuple[int, ...] | None:
    """The position in ``data`` of the first element of ``tensor``, if ``data`` is that with padding; else None."""
    if data is tensor:
        return (0,) * len(tensor.shape)
    pad = schedule.producer(data)
    if pad is None or not is_unscheduled(pad) or not is_padding(pad, with_zeros=False):
        return None
    body = skip_casts(pad.state.computation.bodies[0])
    if not isinstance(body, Select) or not isinstance(skip_casts(body.otherwise), Const):
        return None
    value, axes = skip_casts(body.then), pad.state.computation.axes
    if not isinstance(value, Read) or value.tensor is not tensor or len(axes) != len(value.indices):
        return None
    offsets: list[int] = []
    for axis, index in zip(axes, value.indices, strict=True):
        affine = as_affine(index)
        if affine is None or dict(affine.coefficients) != {axis: 1} or axis.start:
            return None
        offsets.append(-affine.const)
    holding = {axis: np.ones(axis.extent, np.bool_) for axis in axes}
    for condition, holds in guards_of(body.condition, True):
        used = axes_of(condition)
        if len(used) != 1 or used[0] not in holding or reads_data(condition):
            return None
        holding[used[0]] &= np.asarray(evaluate(condition, {used[0]: np.arange(used[0].extent)})) == holds
    for axis, low, extent in zip(axes, offsets, tensor.shape, strict=True):
        if low < 0 or low + extent > axis.extent or not holding[axis][low : low + extent].all():
            return None
    return tuple(offsets)


def _is_plain(stage: EditedStage, read: Read) -> bool:
    axes = stage.state.computation.axes
    return len(axes) == len(read.indices) and all(
        as_bare_axis(index) is axis for index, axis in zip(read.indices, axes, strict=True)
    )


def _is_stored(schedule: Edit, stage: EditedStage, read: Read) -> bool:
    """Whether a tensor comes from DRAM: it is an input or an output, or has other consumers."""
    producer = schedule.producer(read.tensor)
    return producer is None or read.tensor in schedule.outputs or schedule.consumers(read.tensor) != [stage]


def _is_gemm_data(schedule: Edit, tensor: Tensor, along: int, target: Target, ratio: float = 1.0) -> bool:
    """Whether a tensor that no other GEMM reads can be loaded as GEMM data as it is stored, without many more bytes.

    ``ratio``: how many times the bytes of a LOAD to acc it may take.
    """
    widths = [vector_type_of(target.config, scope).filled(tensor.shape[along]) for scope in (INP, ACC)]
    return widths[0] <= ratio * widths[1] and (
        schedule.producer(tensor) is None or conversions_needed(target.config) == 0
    )


def _load_ratio(target: Target) -> float:
    """How many times the bytes of a LOAD to acc the bus transfers in the cycles of an addition on the ALU."""
    *_, load = _costs(target, 1)
    return max(alu_issue_cycles(AluOp.ADD, immediate=False) / load, 1.0)


def _is_faster(target: Target, channels: int, in_place: bool) -> bool:
    """Whether the GEMM takes fewer cycles per vector than a LOAD to acc, which stalls computation, and an addition.

    ``in_place``: the GEMM accumulates onto the other operand (``scheduler/layout/accumulate_in_place.py``).
    """
    gemm, reset, load = _costs(target, channels)
    return gemm < load + alu_issue_cycles(AluOp.ADD, immediate=False) if in_place else gemm + reset <= load


def _costs(target: Target, channels: int) -> tuple[int, int, float]:
    """Per vector: cycles of the matrix core for its channels, of a reset, and of a LOAD to acc."""
    config = target.config
    gemm = -(-min(channels, vector_type_of(config, ACC).cols) // vector_type_of(config, INP).cols)
    load = loaded_bytes(config, ACC, "int8") * config.memory.cycles_per_beat / config.bus_bytes
    return gemm, 0 if GEMM_BEGIN in config.extensions else 1, load


def _insert(schedule: Edit, stage: EditedStage, residual: _Residual, ones: Tensor) -> None:
    """Insert the identity GEMM of a residual, and redirect the read of the stage to its result."""
    read = residual.read
    axes = tuple(Axis(axis.name, axis.extent) for axis in stage.state.computation.axes)
    inner = Axis("k", 1, 0, "reduce")
    points: tuple[Expr, ...] = tuple(AxisRef(axis) for axis in axes)
    indices = (point + low if low else point for point, low in zip(points, residual.offsets, strict=True))
    data, one = Read(residual.tensor, tuple(indices)), Read(ones, (AxisRef(inner), points[residual.along]))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(one, "int32")), (inner,))
    total = Computation(fresh_name(schedule, f"{read.tensor.name}.brought"), axes, (inner,), (body,))
    schedule.insert(initial_state(total), before=stage)
    replacement = Read(total.outputs[0], read.indices)

    def leaf(node: Expr) -> Expr | None:
        return (
            replacement
            if isinstance(node, Cast) and node.dtype == "int32" and skip_value_preserving_casts(node) is read
            else None
        )

    computation = stage.state.computation
    bodies = tuple(transform(each, leaf) for each in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))
