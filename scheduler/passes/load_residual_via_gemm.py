"""What an addition reads besides a product, brought to the accumulators by the matrix core.

The compute unit loads accumulators itself, and stands still meanwhile. The matrix core reads what has been loaded while
it did other things: a product with ones on the diagonals copies an element in one step. So a residual of 8 bits takes
that way where it is shorter::

    sum[n, y, x, c] = rescaled(conv[n, y, x, c], residual[n, y, x, c])

    brought[n, y, x, c] = sum over k in 0..1 of residual[n, y, x, c] * ones[k, c]
    sum[n, y, x, c] = rescaled(conv[n, y, x, c], brought[n, y, x, c])

So does one that the ALU would add: products are added where the other operand is. If the product before reads the same
tensor, what is loaded for it, perhaps with a border around it, is read twice.
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
from lathe.scheduler.cost.issue_cycles import steps_of_alu
from lathe.scheduler.layout.accumulate_in_place import addends
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.layout.rescaling import missing_extensions, rescaling_of
from lathe.scheduler.layout.vector_relayout import conversions_needed
from lathe.scheduler.layout.vector_type import element_of, loaded_bytes
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.matchers import is_elementwise
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_padding


@dataclass(frozen=True)
class _Brought:
    """The read of an addition that a product replaces: of ``tensor``, so far from its first element.

    ``along``: the dimension of its channels, which the other product has for columns.
    """

    read: Read
    tensor: Tensor
    offsets: tuple[int, ...]
    along: int


def load_residual_via_gemm(schedule: Edit, target: Target) -> None:
    """Put a product with ones before additions of products, in place, where that takes fewer cycles."""
    ones: dict[int, Tensor] = {}
    for stage in list(schedule.stages):
        for brought in _brought(schedule, stage, target):
            channels = brought.read.tensor.shape[brought.along]
            if channels not in ones:
                tensor = ones[channels] = Tensor(f"ones.{channels}", (1, channels), "int8")
                schedule.update(constants={**schedule.state.constants, tensor: np.ones(tensor.shape, np.int8)})
            _insert(schedule, stage, brought, ones[channels])


def find_unlowered_residual(schedule: Edit, target: Target) -> str | None:
    """An addition of products before which a product with ones would save cycles."""
    wrong = next((stage.name for stage in schedule.stages if _brought(schedule, stage, target)), None)
    return None if wrong is None else f"{wrong} loads what a product would bring"


def is_brought(stage: StageView) -> bool:
    """Whether a stage is such a product: of one step, with ones that are part of the program."""
    computation = stage.state.computation
    added = {read.tensor for read in computation.reads} & set(stage.schedule.state.constants)
    return bool(added) and [axis.extent for axis in computation.reduce_axes] == [1]


def _brought(schedule: Edit, stage: EditedStage, target: Target) -> list[_Brought]:
    """The operands of an addition that the matrix core had better bring."""
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
    products = assign_layouts(schedule, target.config).products
    for read, other in (reads, reads[::-1]):
        if not _is_loaded(schedule, stage, read):
            continue
        product = _product_before(schedule, stage, other, products, through_others=not rescaled)
        if product is None:
            continue
        found, stage_of_product = product
        along = _along(stage_of_product, found)
        offsets = _offsets(schedule, found.data.tensor, read.tensor)
        if read.tensor.shape[along] == 1:
            continue  # one channel is no diagonal: the ALU would multiply it
        if not _is_shorter(target, read.tensor.shape[along], in_place=not rescaled):
            continue
        if offsets is not None:
            return [_Brought(read, found.data.tensor, offsets, along)]
        most = _hidden(target) if along == len(read.indices) - 1 else 1.0
        if rescaled or _lies_for_products(schedule, read.tensor, along, target, most):
            return [_Brought(read, read.tensor, (0,) * len(read.indices), along)]
    return [] if rescaled else _of_loaded(schedule, stage, reads, target)


def _of_loaded(schedule: Edit, stage: EditedStage, reads: Sequence[Read], target: Target) -> list[_Brought]:
    """Of two loaded operands none, one or both, whichever is shortest, where channels fill the lanes.

    A single one is added to the other where the compute unit has loaded it; of both, the second to the first.
    """
    along = len(stage.state.computation.axes) - 1
    if along < 0 or stage.tensor.shape[along] % element_of(target.config, ACC).cols:
        return []
    if not all(_is_loaded(schedule, stage, read) for read in reads):
        return []
    steps, reset, load = _costs(target, stage.tensor.shape[along])
    addition = steps_of_alu(AluOp.ADD, immediate=False)
    lying = [read for read in reads if _lies_for_products(schedule, read.tensor, along, target, _hidden(target))]
    costs = [2 * load + addition, load + steps, 2 * steps + reset]
    count = min(range(len(lying) + 1), key=costs.__getitem__)
    return [_Brought(read, read.tensor, (0,) * len(read.indices), along) for read in lying[len(lying) - count :]]


def _is_loaded(schedule: Edit, stage: EditedStage, read: Read) -> bool:
    """Whether what is read are bytes that come from DRAM."""
    return read.dtype == "int8" and schedule.scope_of(read.tensor) == DRAM and _is_stored(schedule, stage, read)


def _along(stage: EditedStage, product: GemmMatch) -> int:
    """The dimension of the columns of a product; the last where it has none."""
    axes = stage.state.computation.axes
    return next((dim for dim, axis in enumerate(axes) if axis is product.column), len(axes) - 1)


def _product_before(
    schedule: Edit,
    stage: EditedStage,
    read: Read,
    products: "dict[Tensor, GemmMatch | None]",
    through_others: bool,
) -> tuple[GemmMatch, EditedStage] | None:
    """The product that makes what a stage reads, perhaps through stages that the ALU computes element by element."""
    maker = schedule.maker(read.tensor)
    if maker is None or not is_unscheduled(maker) or read.tensor in schedule.outputs:
        return None
    if schedule.readers(read.tensor) != [stage]:
        return None
    product = products[read.tensor]
    if product is not None:
        return product, maker
    made = maker.state.computation
    if not through_others or not is_elementwise(made) or len(made.bodies) > 1:
        return None
    found = (_product_before(schedule, maker, each.node, products, through_others) for each in made.reads)
    return next((each for each in found if each is not None), None)


def _offsets(schedule: Edit, data: Tensor, tensor: Tensor) -> tuple[int, ...] | None:
    """How far from the first element of ``data`` that of ``tensor`` is, if it is this one with a border around it."""
    if data is tensor:
        return (0,) * len(tensor.shape)
    pad = schedule.maker(data)
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
    held = {axis: np.ones(axis.extent, np.bool_) for axis in axes}
    for condition, holds in guards_of(body.condition, True):
        named = axes_of(condition)
        if len(named) != 1 or named[0] not in held or reads_data(condition):
            return None
        held[named[0]] &= np.asarray(evaluate(condition, {named[0]: np.arange(named[0].extent)})) == holds
    for axis, low, extent in zip(axes, offsets, tensor.shape, strict=True):
        if low < 0 or low + extent > axis.extent or not held[axis][low : low + extent].all():
            return None
    return tuple(offsets)


def _is_plain(stage: EditedStage, read: Read) -> bool:
    axes = stage.state.computation.axes
    return len(axes) == len(read.indices) and all(
        as_bare_axis(index) is axis for index, axis in zip(read.indices, axes, strict=True)
    )


def _is_stored(schedule: Edit, stage: EditedStage, read: Read) -> bool:
    """Whether a tensor comes from DRAM: it is an input, or others than the stage want it there."""
    maker = schedule.maker(read.tensor)
    return maker is None or read.tensor in schedule.outputs or schedule.readers(read.tensor) != [stage]


def _lies_for_products(schedule: Edit, tensor: Tensor, along: int, target: Target, most: float = 1.0) -> bool:
    """Whether a tensor that no other product wants is loaded as the data of one as it lies, in no more bytes.

    ``most``: how many times the bytes of a load to the accumulators these may be.
    """
    filled = [element_of(target.config, scope).filled(tensor.shape[along]) for scope in (INP, ACC)]
    return filled[0] <= most * filled[1] and (schedule.maker(tensor) is None or conversions_needed(target.config) == 0)


def _hidden(target: Target) -> float:
    """How many times the bytes of a load to the accumulators the bus has brought while the ALU would add."""
    *_, load = _costs(target, 1)
    return max(steps_of_alu(AluOp.ADD, immediate=False) / load, 1.0)


def _is_shorter(target: Target, channels: int, in_place: bool) -> bool:
    """Whether products take less for each element than a load, for which the compute unit waits, and an addition.

    Those ``in_place`` are added where they are made (``scheduler/layout/accumulate_in_place.py``).
    """
    steps, reset, load = _costs(target, channels)
    return steps < load + steps_of_alu(AluOp.ADD, immediate=False) if in_place else steps + reset <= load


def _costs(target: Target, channels: int) -> tuple[int, int, float]:
    """For each element: steps of the matrix core for its channels, and of a reset, and cycles of a load."""
    config = target.config
    steps = -(-min(channels, element_of(config, ACC).cols) // element_of(config, INP).cols)
    load = loaded_bytes(config, ACC, "int8") * config.memory.cycles_per_beat / config.bus_bytes
    return steps, 0 if GEMM_BEGIN in config.extensions else 1, load


def _insert(schedule: Edit, stage: EditedStage, brought: _Brought, ones: Tensor) -> None:
    """Let a stage read the product of what it reads with ones."""
    read = brought.read
    axes = tuple(Axis(axis.name, axis.extent) for axis in stage.state.computation.axes)
    inner = Axis("k", 1, 0, "reduce")
    points: tuple[Expr, ...] = tuple(AxisRef(axis) for axis in axes)
    places = (point + low if low else point for point, low in zip(points, brought.offsets, strict=True))
    data, one = Read(brought.tensor, tuple(places)), Read(ones, (AxisRef(inner), points[brought.along]))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(one, "int32")), (inner,))
    total = Computation(fresh_name(schedule, f"{read.tensor.name}.brought"), axes, (inner,), (body,))
    schedule.insert(initial_state(total), before=stage)
    instead = Read(total.outputs[0], read.indices)

    def leaf(node: Expr) -> Expr | None:
        return (
            instead
            if isinstance(node, Cast) and node.dtype == "int32" and skip_value_preserving_casts(node) is read
            else None
        )

    computation = stage.state.computation
    bodies = tuple(transform(each, leaf) for each in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))
