"""Vectorise an outer dimension, such as the batch, of connected stages whose channels would leave most lanes empty.

A depthwise layer of 3 channels fills 3 of 16 lanes, and so does a 1×1 convolution after it. 8 images fill 8 lanes in
all stages, as none sums over images. The weights are the same for all images: the host, which packs weights, repeats
them for each::

    conv[n, y, x, f] = sum over c of data[n, y, x, c] * weights[f, c]
    conv[n, y, x, f] = sum over c of data[n, y, x, c] * weights'[n, f, c]

so that ``n`` runs along the diagonals of weight matrices (``scheduler/layout/match_depthwise.py``). Each micro-op of
the matrix core then multiplies a single channel with a single filter, so this pays off only for few channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import AxisRef, Computation, Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Read, axes_of
from lathe.isa.layout_steps import Repeating
from lathe.scheduler.cost.stage_cost import cycles_per_vector
from lathe.scheduler.layout.layout_assignment import LayoutAssignment, assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch, gemm_operand_layout
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.store_forms import forms_loadable_vectors
from lathe.scheduler.layout.vector_relayout import conversion_cycles_of_span, conversions_needed
from lathe.scheduler.layout.vector_type import loaded_bytes, vector_type_of
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.resolve_layout_conflicts import count_layout_conflicts, resolve_layout_conflicts
from lathe.scheduler.passes.select_execution_units import ALU_CYCLES_PER_MAC
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.memories import ACC, INP, OPERANDS
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_copy

GAIN = 0.8
"""The dimension is vectorised only below this fraction of the estimated cycles: the estimates know nothing of tiles."""


@dataclass(frozen=True)
class _Candidate:
    """A vector layout for connected stages: lanes along one axis of ``extent`` that runs through all of them.

    ``repeated``: for each input that is the same along the axis, the tensor that repeats it; ``computations``: those of
    the stages that read these tensors; ``plan``: the resulting layouts and GEMMs.
    """

    extent: int
    repeated: Mapping[Tensor, Tensor]
    computations: Mapping[EditedStage, Computation]
    plan: LayoutAssignment


def vectorize_outer_dim(schedule: Edit, target: Target) -> None:
    """Give connected unscheduled stages, in place, lanes along a common axis, where this takes fewer cycles."""
    for stages in _connected(schedule):
        if not all(map(_is_free, stages)) or not any(map(_is_gemm, stages)):
            continue
        found = [each for dim in range(stages[-1].tensor.ndim) if (each := _match(schedule, stages, dim)) is not None]
        costs = [_cycles(schedule, stages, each.plan, target.config) for each in found]
        if not costs:
            continue
        cheapest = min(range(len(costs)), key=costs.__getitem__)
        before = schedule.state
        if costs[cheapest] < GAIN * _baseline_cycles(schedule, stages, target):
            conflicts = count_layout_conflicts(schedule, target)
            _apply(schedule, stages, found[cheapest])
            if count_layout_conflicts(schedule, target) > conflicts:
                schedule.reset_to(before)


def _baseline_cycles(schedule: Edit, stages: list[EditedStage], target: Target) -> float:
    """Estimated cycles in the layouts assigned so far or, if these conflict, in the resolved ones if that is less."""
    config = target.config
    planned = _cycles(schedule, stages, assign_layouts(schedule, config), config)
    if not count_layout_conflicts(schedule, target):
        return planned
    resolved, others = schedule.fork(), {each.id for each in schedule.stages} - {each.id for each in stages}
    resolve_layout_conflicts(resolved, target)
    rest = [each for each in resolved.stages if each.id not in others]
    return min(planned, _cycles(resolved, rest, assign_layouts(resolved, config), config))


def _connected(schedule: Edit) -> list[list[EditedStage]]:
    """The connected components of stages by producers and consumers, each in program order."""
    groups: list[list[EditedStage]] = []
    for stage in schedule.stages:
        read = {access.tensor for access in stage.state.computation.reads}
        joined = [group for group in groups if any(not read.isdisjoint(each.state.tensors) for each in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(each for group in joined for each in group), stage])
    return groups


def _is_free(stage: EditedStage) -> bool:
    state = stage.state
    return is_unscheduled(stage) and len(state.tensors) == 1 and state.vector_layout is None and not state.on_alu


def _is_gemm(stage: EditedStage) -> bool:
    return match_gemm_operands(stage.state.computation) is not None


def _match(schedule: Edit, stages: list[EditedStage], outer_dim: int) -> _Candidate | None:
    """The layouts with lanes along dimension ``outer_dim`` of the last tensor, if it runs through all stages."""
    extent, dims = stages[-1].tensor.shape[outer_dim], {stages[-1].tensor: outer_dim}
    axes: dict[EditedStage, Axis] = {}
    invariant: set[Tensor] = set()
    if extent == 1:
        return None
    while len(axes) < len(stages):
        before = len(axes)
        for stage in (*reversed(stages), *stages):
            computation = stage.state.computation
            axis = axes.get(stage) or _axis_along(computation, stage.tensor, dims)
            if axis is None:
                continue
            axes[stage] = axis
            along = _dims_along(computation, axis)
            if along is None or axis.extent != extent or axis.start:
                return None
            invariant |= {read.tensor for read in computation.reads} - set(along)
            for tensor, dim in (*along.items(), (stage.tensor, computation.axes.index(axis))):
                if dims.setdefault(tensor, dim) != dim or tensor.shape[dim] != extent:
                    return None
        if len(axes) == before:
            return None  # a stage reads single indices of another's tensor
    if invariant & set(dims) or any(schedule.producer(tensor) for tensor in invariant):
        return None
    return _with_weights(schedule, extent, dims, axes, invariant)


def _axis_along(computation: Computation, result: Tensor, dims: Mapping[Tensor, int]) -> Axis | None:
    """The computation's axis along the known dimension of a tensor that it computes or reads, if one is known."""
    if result in dims:
        return computation.axes[dims[result]]
    axes = (as_bare_axis(read.indices[dims[read.tensor]]) for read in computation.reads if read.tensor in dims)
    return next((axis for axis in axes if axis is not None), None)


def _dims_along(computation: Computation, axis: Axis) -> dict[Tensor, int] | None:
    """The dimension of each tensor read that the axis indexes by itself; None if it indexes one in another way."""
    dims: dict[Tensor, int] = {}
    for access in computation.reads:
        indexed = [dim for dim, index in enumerate(access.indices) if axis in axes_of(index)]
        if not indexed:
            continue
        bare = len(indexed) == 1 and as_bare_axis(access.indices[indexed[0]]) is axis
        if not bare or dims.setdefault(access.tensor, indexed[0]) != indexed[0]:
            return None
    return dims if axis in computation.axes else None


def _with_weights(
    schedule: Edit, extent: int, dims: Mapping[Tensor, int], axes: Mapping[EditedStage, Axis], invariant: set[Tensor]
) -> _Candidate | None:
    """The layouts with lanes along the axes, with weights repeated along them; None if a GEMM does not allow it."""
    repeated: dict[Tensor, Tensor] = {}
    computations: dict[EditedStage, Computation] = {}
    products: dict[Tensor, GemmMatch | None] = {}
    for stage, axis in axes.items():
        pair = match_gemm_operands(stage.state.computation)
        products[stage.tensor] = None
        if pair is None:
            continue
        data, weight = sorted(pair, key=lambda read: read.tensor in invariant or schedule.producer(read.tensor) is None)
        if data.tensor in invariant or schedule.producer(weight.tensor) is not None:
            return None
        if weight.tensor in invariant:
            tensor = weight.tensor
            if tensor in schedule.layouts or tensor in schedule.state.views:
                return None
            new = repeated.setdefault(tensor, Tensor(tensor.name, (extent, *tensor.shape), tensor.dtype))
            computations[stage] = _with_repeated_reads(stage.state.computation, tensor, new, axis)
            weight = Read(new, (AxisRef(axis), *weight.indices))
        products[stage.tensor] = GemmMatch(data, weight, None, axis, axis, diagonal=True)
    if any(each not in computations for tensor in repeated for each in schedule.consumers(tensor)):
        return None
    lanes = {stage.tensor: VectorLayout(None, dims[stage.tensor]) for stage in axes}
    return _Candidate(extent, repeated, computations, LayoutAssignment(lanes, products))


def _with_repeated_reads(computation: Computation, tensor: Tensor, repeated: Tensor, axis: Axis) -> Computation:
    """The computation with reads of an input replaced by reads of the tensor that repeats it along an axis."""

    def at(read: Read) -> Expr:
        return Read(repeated, (AxisRef(axis), *read.indices))

    return computation.mapped(lambda expr: rewrite_reads(expr, tensor, at))


def _apply(schedule: Edit, stages: list[EditedStage], best: _Candidate) -> None:
    """Give the stages the layouts of the candidate ``best``."""
    for stage in stages:
        computation = best.computations.get(stage, stage.state.computation)
        stage.put(
            replace(with_computation(computation, stage.state.tensors), vector_layout=best.plan.layouts[stage.tensor])
        )
    layouts = {
        new: TensorLayout(tensor, host_steps=(Repeating(tensor.shape, best.extent),))
        for tensor, new in best.repeated.items()
    }
    schedule.update(layouts={**schedule.layouts, **layouts})


def _cycles(schedule: Edit, stages: list[EditedStage], plan: LayoutAssignment, config: HardwareConfig) -> float:
    """Estimated cycles of stages in the layouts of a plan: of the compute unit, or of the bus if these are more.

    GEMM operands are loaded once and, if a stage computes them, stored before, with layout conversions if stored and
    loaded vectors differ. Outputs are stored; other operands need no conversion. The ALU multiplies where it is faster.
    """
    cycles = bus_cycles = 0.0
    for stage in stages:
        computation, product = stage.state.computation, plan.gemms[stage.tensor]
        cells = PhysicalLayout(stage.tensor.shape, plan.layouts[stage.tensor], vector_type_of(config, ACC)).count
        if stage.tensor in schedule.outputs:
            bus_cycles += _bus_cycles(cells * config.out_element_bytes, config)
        taps = prod(axis.extent for axis in computation.reduce_axes)
        options = [
            (
                float(
                    cells * (ALU_CYCLES_PER_MAC * taps if _is_gemm(stage) else cycles_per_vector(computation, config))
                ),
                0.0,
            )
        ]
        if product is not None:
            options.append(_matrix_core_cycles(schedule, stage, product, plan, cells, config))
        if product is not None or not is_copy(stage):
            best = min(options, key=sum)
            cycles, bus_cycles = cycles + best[0], bus_cycles + best[1]
    return max(cycles, bus_cycles) + min(cycles, bus_cycles) / 8


def _matrix_core_cycles(
    schedule: Edit, stage: EditedStage, product: GemmMatch, plan: LayoutAssignment, cells: int, config: HardwareConfig
) -> tuple[float, float]:
    """Cycles of the matrix core and of the bus for a GEMM, with layout conversions."""
    near, bytes_moved = vector_type_of(config, ACC), 0
    cycles = cells + _gemm_cycles(stage, product, cells, config)
    for scope, read in zip(OPERANDS, (product.data, product.weight), strict=True):
        operand = PhysicalLayout(
            read.tensor.shape, gemm_operand_layout(product, scope, config), vector_type_of(config, scope)
        )
        bytes_moved += operand.count * loaded_bytes(config, scope, read.tensor.dtype)
    source = _stored_operand(schedule, product.data.tensor)
    if source is not None:
        lanes = plan.layouts[source]
        stored = PhysicalLayout(source.shape, lanes, near).count
        bytes_moved += stored * config.out_element_bytes
        if not forms_loadable_vectors(config, lanes, INP, source.shape):
            cycles += (
                conversions_needed(config) * ceil(stored * near.cols / near.span) * conversion_cycles_of_span(config)
            )
    return cycles, _bus_cycles(bytes_moved, config)


def _bus_cycles(size: int, config: HardwareConfig) -> float:
    """Cycles for moving ``size`` bytes over the bus."""
    return size * config.memory.cycles_per_beat / config.bus_bytes


def _gemm_cycles(stage: EditedStage, product: GemmMatch, cells: int, config: HardwareConfig) -> int:
    """Cycles of the matrix core for a GEMM; blocks of a vector without columns are skipped."""
    if not product.diagonal or product.column is None:
        return cells * product.steps(stage.state.computation, config)
    extent = product.column.extent
    whole, blocks = ceil(extent / vector_type_of(config, ACC).cols), ceil(extent / vector_type_of(config, INP).grain)
    return cells // whole * blocks * prod(axis.extent for axis in stage.state.computation.reduce_axes)


def _stored_operand(schedule: Edit, tensor: Tensor) -> Tensor | None:
    """The tensor that stages compute and store as a GEMM operand, before paddings of it; None for an input."""
    producer = schedule.producer(tensor)
    while producer is not None and is_copy(producer):
        tensor = producer.state.computation.reads[0].tensor
        producer = schedule.producer(tensor)
    return None if producer is None else tensor
