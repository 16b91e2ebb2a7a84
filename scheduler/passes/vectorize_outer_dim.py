"""Lanes of what all stages lead through, such as images, where channels would leave most lanes empty.

A depthwise layer of three channels fills three lanes of sixteen, and so does a 1×1 behind it. Eight images fill eight,
in all stages alike: nothing is summed over them. The weights that multiply them are the same for all; the host packs
weights, and repeats them for each image::

    conv[n, y, x, f] = sum over c of data[n, y, x, c] * weights[f, c]
    conv[n, y, x, f] = sum over c of data[n, y, x, c] * weights'[n, f, c]

so that ``n`` runs along the diagonals of elements of weights (``scheduler/layout/match_depthwise.py``). A step of the
matrix core takes one channel to one filter, then, and not as many as there are lanes: this is for few channels.
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
from lathe.scheduler.cost.stage_cost import element_steps
from lathe.scheduler.layout.layout_assignment import LayoutAssignment, assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch, lanes_of_operand
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.store_forms import stores_make_elements
from lathe.scheduler.layout.vector_relayout import conversions_needed, steps_of_span
from lathe.scheduler.layout.vector_type import element_of, loaded_bytes
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.resolve_layout_conflicts import layout_conflicts, resolve_layout_conflicts
from lathe.scheduler.passes.select_execution_units import STEPS_OF_ALU
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
"""The part of the cycles, by the estimate, that the other lanes may take: neither knows tiles."""


@dataclass(frozen=True)
class _Led:
    """Lanes that connected stages may have: along one axis of ``extent``, that all of them lead through.

    ``repeated``: tensors that stand for inputs which are the same all along it; ``reading``: what the stages compute
    with these; ``plan``: their lanes and products, then.
    """

    extent: int
    repeated: Mapping[Tensor, Tensor]
    reading: Mapping[EditedStage, Computation]
    plan: LayoutAssignment


def vectorize_outer_dim(schedule: Edit, target: Target) -> None:
    """Give connected untouched stages, in place, lanes along one axis, where this takes fewer cycles."""
    for stages in _connected(schedule):
        if not all(map(_is_open, stages)) or not any(map(_is_product, stages)):
            continue
        found = [led for dim in range(stages[-1].tensor.ndim) if (led := _led(schedule, stages, dim)) is not None]
        costs = [_cycles(schedule, stages, led.plan, target.config) for led in found]
        if not costs:
            continue
        least = min(range(len(costs)), key=costs.__getitem__)
        before = schedule.state
        if costs[least] < GAIN * _as_planned(schedule, stages, target):
            apart = layout_conflicts(schedule, target)
            _lead(schedule, stages, found[least])
            if layout_conflicts(schedule, target) > apart:
                schedule.reset_to(before)


def _as_planned(schedule: Edit, stages: list[EditedStage], target: Target) -> float:
    """Cycles of stages in the lanes that are planned so far, or that they agree on, if they disagree and it is less."""
    config = target.config
    planned = _cycles(schedule, stages, assign_layouts(schedule, config), config)
    if not layout_conflicts(schedule, target):
        return planned
    agreed, others = schedule.fork(), {each.id for each in schedule.stages} - {each.id for each in stages}
    resolve_layout_conflicts(agreed, target)
    rest = [each for each in agreed.stages if each.id not in others]
    return min(planned, _cycles(agreed, rest, assign_layouts(agreed, config), config))


def _connected(schedule: Edit) -> list[list[EditedStage]]:
    """The stages that are connected by what some make and others read, the last of each part at its end."""
    parts: list[list[EditedStage]] = []
    for stage in schedule.stages:
        read = {access.tensor for access in stage.state.computation.reads}
        mine = [part for part in parts if any(not read.isdisjoint(each.state.tensors) for each in part)]
        parts = [part for part in parts if part not in mine]
        parts.append([*(each for part in mine for each in part), stage])
    return parts


def _is_open(stage: EditedStage) -> bool:
    state = stage.state
    return is_unscheduled(stage) and len(state.tensors) == 1 and state.lanes is None and not state.on_alu


def _is_product(stage: EditedStage) -> bool:
    return match_gemm_operands(stage.state.computation) is not None


def _led(schedule: Edit, stages: list[EditedStage], last: int) -> _Led | None:
    """The lanes along dimension ``last`` of what the last stage makes, if all stages lead it through."""
    extent, dims = stages[-1].tensor.shape[last], {stages[-1].tensor: last}
    axes: dict[EditedStage, Axis] = {}
    same: set[Tensor] = set()
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
            same |= {read.tensor for read in computation.reads} - set(along)
            for tensor, dim in (*along.items(), (stage.tensor, computation.axes.index(axis))):
                if dims.setdefault(tensor, dim) != dim or tensor.shape[dim] != extent:
                    return None
        if len(axes) == before:
            return None  # who reads one index of what another makes
    if same & set(dims) or any(schedule.maker(tensor) for tensor in same):
        return None
    return _with_weights(schedule, extent, dims, axes, same)


def _axis_along(computation: Computation, made: Tensor, dims: Mapping[Tensor, int]) -> Axis | None:
    """The axis of a computation along a dimension of what it makes or reads, if that of one of these is known."""
    if made in dims:
        return computation.axes[dims[made]]
    found = (as_bare_axis(read.indices[dims[read.tensor]]) for read in computation.reads if read.tensor in dims)
    return next((axis for axis in found if axis is not None), None)


def _dims_along(computation: Computation, axis: Axis) -> dict[Tensor, int] | None:
    """Which dimension of each tensor that a computation reads an axis indexes by itself; None if it does otherwise."""
    found: dict[Tensor, int] = {}
    for access in computation.reads:
        read = [dim for dim, index in enumerate(access.indices) if axis in axes_of(index)]
        if not read:
            continue
        plain = len(read) == 1 and as_bare_axis(access.indices[read[0]]) is axis
        if not plain or found.setdefault(access.tensor, read[0]) != read[0]:
            return None
    return found if axis in computation.axes else None


def _with_weights(
    schedule: Edit, extent: int, dims: Mapping[Tensor, int], axes: Mapping[EditedStage, Axis], same: set[Tensor]
) -> _Led | None:
    """The lanes along an axis of each stage, with weights that are repeated along it; None where these cannot be."""
    repeated: dict[Tensor, Tensor] = {}
    reading: dict[EditedStage, Computation] = {}
    products: dict[Tensor, GemmMatch | None] = {}
    for stage, axis in axes.items():
        pair = match_gemm_operands(stage.state.computation)
        products[stage.tensor] = None
        if pair is None:
            continue
        data, weight = sorted(pair, key=lambda read: read.tensor in same or schedule.maker(read.tensor) is None)
        if data.tensor in same or schedule.maker(weight.tensor) is not None:
            return None
        if weight.tensor in same:
            tensor = weight.tensor
            if tensor in schedule.layouts or tensor in schedule.state.views:
                return None
            new = repeated.setdefault(tensor, Tensor(tensor.name, (extent, *tensor.shape), tensor.dtype))
            reading[stage] = _reading(stage.state.computation, tensor, new, axis)
            weight = Read(new, (AxisRef(axis), *weight.indices))
        products[stage.tensor] = GemmMatch(data, weight, None, axis, axis, diagonal=True)
    if any(each not in reading for tensor in repeated for each in schedule.readers(tensor)):
        return None
    lanes = {stage.tensor: VectorLayout(None, dims[stage.tensor]) for stage in axes}
    return _Led(extent, repeated, reading, LayoutAssignment(lanes, products))


def _reading(computation: Computation, tensor: Tensor, repeated: Tensor, axis: Axis) -> Computation:
    """A computation that reads what an axis tells apart where it has read what is the same all along it."""

    def at(read: Read) -> Expr:
        return Read(repeated, (AxisRef(axis), *read.indices))

    return computation.mapped(lambda expr: rewrite_reads(expr, tensor, at))


def _lead(schedule: Edit, stages: list[EditedStage], led: _Led) -> None:
    """Let stages have the lanes."""
    for stage in stages:
        computation = led.reading.get(stage, stage.state.computation)
        stage.put(replace(with_computation(computation, stage.state.tensors), lanes=led.plan.known[stage.tensor]))
    layouts = {
        new: TensorLayout(tensor, spread=(Repeating(tensor.shape, led.extent),)) for tensor, new in led.repeated.items()
    }
    schedule.update(layouts={**schedule.layouts, **layouts})


def _cycles(schedule: Edit, stages: list[EditedStage], plan: LayoutAssignment, config: HardwareConfig) -> float:
    """Cycles of stages in the lanes of a plan, about: steps of the compute unit, or beats of the bus if these are more.

    What products read is loaded once, and stored before if a stage makes it, with turns where it is stored in other
    elements; what the outputs are is stored, and what else is read comes in any lanes. The ALU multiplies where it is
    quicker.
    """
    steps = beats = 0.0
    for stage in stages:
        computation, product = stage.state.computation, plan.products[stage.tensor]
        cells = PhysicalLayout(stage.tensor.shape, plan.known[stage.tensor], element_of(config, ACC)).count
        if stage.tensor in schedule.outputs:
            beats += _beats(cells * config.out_element_bytes, config)
        taps = prod(axis.extent for axis in computation.reduce_axes)
        ways = [
            (float(cells * (STEPS_OF_ALU * taps if _is_product(stage) else element_steps(computation, config))), 0.0)
        ]
        if product is not None:
            ways.append(_on_matrix_core(schedule, stage, product, plan, cells, config))
        if product is not None or not is_copy(stage):
            best = min(ways, key=sum)
            steps, beats = steps + best[0], beats + best[1]
    return max(steps, beats) + min(steps, beats) / 8


def _on_matrix_core(
    schedule: Edit, stage: EditedStage, product: GemmMatch, plan: LayoutAssignment, cells: int, config: HardwareConfig
) -> tuple[float, float]:
    """Steps and beats of a product, with those of turns."""
    near, moved = element_of(config, ACC), 0
    steps = cells + _steps(stage, product, cells, config)
    for scope, read in zip(OPERANDS, (product.data, product.weight), strict=True):
        form = PhysicalLayout(read.tensor.shape, lanes_of_operand(product, scope, config), element_of(config, scope))
        moved += form.count * loaded_bytes(config, scope, read.tensor.dtype)
    source = _stored(schedule, product.data.tensor)
    if source is not None:
        lanes = plan.known[source]
        stored = PhysicalLayout(source.shape, lanes, near).count
        moved += stored * config.out_element_bytes
        if not stores_make_elements(config, lanes, INP, source.shape):
            steps += conversions_needed(config) * ceil(stored * near.cols / near.span) * steps_of_span(config)
    return steps, _beats(moved, config)


def _beats(size: int, config: HardwareConfig) -> float:
    """Cycles in which the bus moves so many bytes."""
    return size * config.memory.cycles_per_beat / config.bus_bytes


def _steps(stage: EditedStage, product: GemmMatch, cells: int, config: HardwareConfig) -> int:
    """Steps of the matrix core for a product; parts of an element that hold no column are left out."""
    if not product.diagonal or product.column is None:
        return cells * product.steps(stage.state.computation, config)
    extent = product.column.extent
    whole, parts = ceil(extent / element_of(config, ACC).cols), ceil(extent / element_of(config, INP).grain)
    return cells // whole * parts * prod(axis.extent for axis in stage.state.computation.reduce_axes)


def _stored(schedule: Edit, tensor: Tensor) -> Tensor | None:
    """What stages make of a tensor that a product loads, through borders around it; None of an input."""
    maker = schedule.maker(tensor)
    while maker is not None and is_copy(maker):
        tensor = maker.state.computation.reads[0].tensor
        maker = schedule.maker(tensor)
    return None if maker is None else tensor
