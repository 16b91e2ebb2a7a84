"""Elements that a store lays out otherwise than a load wants them, turned by products in between.

Where rows lie between the blocks of a stored tensor that a product's data need side by side, or the other way round,
``T`` is read where it lies and multiplied with matrices that move its blocks
(``scheduler/layout/vector_relayout.py``)::

    sum[n, y, x, c] = sum over e of T[n, y, x, c] * select[e, 0, 0]
    T.turned[n, y, x, c] = int8(sum[n, y, x, c])

As values this is ``T`` again, for only the first matrix has a 1 at its beginning; in memory it is elements of ``inp``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Const, Read, Reduce
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.store_forms import stores_make_elements
from lathe.scheduler.layout.vector_relayout import conversions_needed, selection
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.passes.propagate_layout_to_inputs import stages_to_order
from lathe.scheduler.rewriting.rewrite import reads_redirected
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import VectorLayout, initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import groups_of, is_copy, is_padding


@dataclass(frozen=True)
class _Wanted:
    """``reader`` loads a stored tensor at ``reads`` as data of a product, in lanes of other elements than it has."""

    reader: EditedStage
    tensor: Tensor
    reads: tuple[Read, ...]


def insert_layout_conversions(schedule: Edit, target: Target) -> None:
    """Put turns between what is stored and products that load it as other elements, in place."""
    turned: dict[Tensor, Tensor] = {}
    matrices: dict[int, Tensor] = {}
    while (one := next(_wanted(schedule, target), None)) is not None:
        if one.tensor not in turned:
            plan = assign_layouts(schedule, target.config)
            loaders = [each.reader for each in _wanted(schedule, target)]
            ordered = stages_to_order(schedule, target.config, plan, one.tensor, loaders)
            if ordered:
                for stage in ordered:
                    stage.change(lanes=replace(plan.known[stage.tensor], turns=conversions_needed(target.config)))
                continue
            lanes = plan.known[one.tensor]
            last = one.tensor
            for turn in range(1, conversions_needed(target.config) + 1):
                if turn not in matrices:
                    shape = selection(target.config, turn).shape
                    matrices[turn] = Tensor(fresh_name(schedule, f"select{turn}"), shape, "int8")
                last = _insert(schedule, last, matrices[turn], replace(lanes, turns=turn))
            turned[one.tensor] = last
        instead = dict.fromkeys(one.reads, turned[one.tensor])
        one.reader.change(computation=reads_redirected(one.reader.state.computation, instead))
    constants = {tensor: selection(target.config, turn) for turn, tensor in matrices.items()}
    schedule.update(constants={**schedule.state.constants, **constants})


def find_unconverted(schedule: Edit, target: Target) -> str | None:
    """A tensor that is stored in other elements than a product loads, where turns may stand between."""
    one = next(_wanted(schedule, target), None)
    return None if one is None else f"{one.reader.name} loads {one.tensor.name} in other elements than it is stored in"


def can_convert_layout(schedule: Edit, tensor: Tensor) -> bool:
    """Whether turns may stand behind a computed tensor, or behind what is loaded to make it."""
    maker = schedule.maker(tensor)
    if maker is None:
        return True
    state = maker.state
    loaded = state.scope != DRAM and is_copy(maker)
    if loaded or is_padding(maker):
        if not all(can_convert_layout(schedule, read.tensor) for read in state.computation.reads):
            return False
        if loaded:
            return True
    circling = schedule.has_recurrences and any(maker in circle for circle in recurrence_groups(schedule))
    return state.scope == DRAM and state.attachment is None and state.storage is None and not circling


def _wanted(schedule: Edit, target: Target) -> Iterator[_Wanted]:
    if conversions_needed(target.config) == 0:
        return
    plan = assign_layouts(schedule, target.config)
    pads = {pad for group in groups_of(schedule, target) for pad in group.pads}
    for stage in schedule.stages:
        product = plan.products[stage.tensor]
        if product is None or product.turns is not None:
            continue
        reader = stage
        reads: tuple[Read, ...] = (product.data,)
        maker = schedule.maker(product.data.tensor)
        if maker is not None and (maker in pads or maker.state.scope == target.data.name):
            reader, reads = maker, tuple(read.node for read in maker.state.computation.reads)
        for tensor in dict.fromkeys(read.tensor for read in reads):
            if schedule.maker(tensor) is None or schedule.scope_of(tensor) != DRAM:
                continue
            lanes = plan.known[tensor]
            if lanes.cols is None or stores_make_elements(target.config, lanes, target.data.name, tensor.shape):
                continue
            if can_convert_layout(schedule, tensor):
                yield _Wanted(reader, tensor, tuple(read for read in reads if read.tensor is tensor))


def _insert(schedule: Edit, tensor: Tensor, matrix: Tensor, lanes: VectorLayout) -> Tensor:
    """One turn behind the stage that makes a tensor."""
    maker = schedule.maker(tensor)
    assert maker is not None, f"no stage makes {tensor.name}"
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    element = Axis("e", matrix.shape[0], 0, "reduce")
    points: tuple[Expr, ...] = tuple(AxisRef(axis) for axis in axes)
    data, select = Read(tensor, points), Read(matrix, (AxisRef(element), Const(0, INDEX), Const(0, INDEX)))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(select, "int32")), (element,))
    total = Computation(fresh_name(schedule, f"{tensor.name}.turned.sum"), axes, (element,), (body,))
    value = Cast(Read(total.outputs[0], points), "int8")
    turned = Computation(fresh_name(schedule, f"{tensor.name}.turned"), axes, (), (value,))
    schedule.insert(replace(initial_state(total), lanes=lanes), behind=maker)
    summed = schedule.maker(total.outputs[0])
    assert summed is not None, f"{total.name} has been inserted"
    schedule.insert(replace(initial_state(turned), lanes=lanes), behind=summed)
    return turned.outputs[0]
