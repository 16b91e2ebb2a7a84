"""Insert layout conversions: permutation GEMMs between a STORE and a LOAD whose vectors have different shapes.

On machines with several rows per vector, rows may separate blocks of a stored tensor that a GEMM's data need side by
side, or the other way round. ``T`` is then read as it is stored and multiplied by matrices that move its blocks
(``scheduler/layout/vector_relayout.py``)::

    sum[n, y, x, c] = sum over e of T[n, y, x, c] * select[e, 0, 0]
    T.turned[n, y, x, c] = int8(sum[n, y, x, c])

The values are those of ``T``, as only the first matrix starts with a 1; in memory they are vectors of ``inp``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Const, Read, Reduce
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.store_forms import forms_loadable_vectors
from lathe.scheduler.layout.vector_relayout import conversions_needed, selection
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.passes.propagate_layout_to_inputs import stages_to_relayout
from lathe.scheduler.rewriting.rewrite import redirect_single_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import VectorLayout, initial_state
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import groups_of, is_copy, is_padding


@dataclass(frozen=True)
class _Conversion:
    """A needed conversion: ``consumer`` loads a tensor, at ``reads``, as GEMM data in vectors of another shape."""

    consumer: EditedStage
    tensor: Tensor
    reads: tuple[Read, ...]


def insert_layout_conversions(schedule: Edit, target: Target) -> None:
    """Insert conversions, in place, between stored tensors and GEMMs that load them in vectors of another shape."""
    converted: dict[Tensor, Tensor] = {}
    matrices: dict[int, Tensor] = {}
    while (one := next(_needed_conversions(schedule, target), None)) is not None:
        if one.tensor not in converted:
            plan = assign_layouts(schedule, target.config)
            loaders = [each.consumer for each in _needed_conversions(schedule, target)]
            ordered = stages_to_relayout(schedule, target.config, plan, one.tensor, loaders)
            if ordered:
                for stage in ordered:
                    stage.change(
                        vector_layout=replace(plan.layouts[stage.tensor], conversions=conversions_needed(target.config))
                    )
                continue
            lanes = plan.layouts[one.tensor]
            last = one.tensor
            for number in range(1, conversions_needed(target.config) + 1):
                if number not in matrices:
                    shape = selection(target.config, number).shape
                    matrices[number] = Tensor(fresh_name(schedule, f"select{number}"), shape, "int8")
                last = _insert(schedule, last, matrices[number], replace(lanes, conversions=number))
            converted[one.tensor] = last
        replacements = dict.fromkeys(one.reads, converted[one.tensor])
        one.consumer.change(computation=redirect_single_reads(one.consumer.state.computation, replacements))
    constants = {tensor: selection(target.config, number) for number, tensor in matrices.items()}
    schedule.update(constants={**schedule.state.constants, **constants})


def find_unconverted(schedule: Edit, target: Target) -> str | None:
    """A tensor that is stored in other vectors than a GEMM loads, where a conversion may be inserted."""
    one = next(_needed_conversions(schedule, target), None)
    return None if one is None else f"{one.consumer.name} loads {one.tensor.name} in another layout than it has"


def can_convert_layout(schedule: Edit, tensor: Tensor) -> bool:
    """Whether conversions may be inserted after a computed tensor, or after what is loaded or padded to make it."""
    producer = schedule.producer(tensor)
    if producer is None:
        return True
    state = producer.state
    loaded = state.scope != DRAM and is_copy(producer)
    if loaded or is_padding(producer):
        if not all(can_convert_layout(schedule, read.tensor) for read in state.computation.reads):
            return False
        if loaded:
            return True
    recurrent = schedule.has_recurrences and any(producer in group for group in recurrence_groups(schedule))
    return state.scope == DRAM and state.attachment is None and state.storage is None and not recurrent


def _needed_conversions(schedule: Edit, target: Target) -> Iterator[_Conversion]:
    if conversions_needed(target.config) == 0:
        return
    plan = assign_layouts(schedule, target.config)
    pads = {pad for group in groups_of(schedule, target) for pad in group.pads}
    for stage in schedule.stages:
        gemm = plan.gemms[stage.tensor]
        if gemm is None or gemm.turns is not None:
            continue
        consumer = stage
        reads: tuple[Read, ...] = (gemm.data,)
        producer = schedule.producer(gemm.data.tensor)
        if producer is not None and (producer in pads or producer.state.scope == target.data.name):
            consumer, reads = producer, tuple(read.node for read in producer.state.computation.reads)
        for tensor in dict.fromkeys(read.tensor for read in reads):
            if schedule.producer(tensor) is None or schedule.scope_of(tensor) != DRAM:
                continue
            lanes = plan.layouts[tensor]
            if lanes.cols is None or forms_loadable_vectors(target.config, lanes, target.data.name, tensor.shape):
                continue
            if can_convert_layout(schedule, tensor):
                yield _Conversion(consumer, tensor, tuple(read for read in reads if read.tensor is tensor))


def _insert(schedule: Edit, tensor: Tensor, matrix: Tensor, lanes: VectorLayout) -> Tensor:
    """Insert one conversion after the stage that computes a tensor, and return its result."""
    producer = schedule.producer(tensor)
    assert producer is not None, f"no stage makes {tensor.name}"
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    vector = Axis("e", matrix.shape[0], 0, "reduce")
    points: tuple[Expr, ...] = tuple(AxisRef(axis) for axis in axes)
    data, select = Read(tensor, points), Read(matrix, (AxisRef(vector), Const(0, INDEX), Const(0, INDEX)))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(select, "int32")), (vector,))
    total = Computation(fresh_name(schedule, f"{tensor.name}.turned.sum"), axes, (vector,), (body,))
    value = Cast(Read(total.outputs[0], points), "int8")
    copy = Computation(fresh_name(schedule, f"{tensor.name}.turned"), axes, (), (value,))
    schedule.insert(replace(initial_state(total), vector_layout=lanes), behind=producer)
    accumulated = schedule.producer(total.outputs[0])
    assert accumulated is not None, f"{total.name} has not been inserted"
    schedule.insert(replace(initial_state(copy), vector_layout=lanes), behind=accumulated)
    return copy.outputs[0]
