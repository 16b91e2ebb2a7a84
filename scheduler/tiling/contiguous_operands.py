"""Data for products that are loaded as they were stored: groups of narrower elements side by side.

An element of ``out`` holds ``block_out`` columns, one of ``inp`` ``block_in``. Where it is the wider one (with a batch
of 1, or the same in all rows), it lies in DRAM as several of ``inp`` that adjoin. A buffer that keeps these apart,
channel by channel, gets each by a row of a LOAD of its own: one element, and the memory's latency. Where they adjoin in
the buffer, too, a row of a LOAD brings all that adjoins in DRAM.
"""

from collections.abc import Mapping

from lathe.frontend import Tensor, as_affine
from lathe.frontend.arith.linear import Linear, LoopVariable, bound_range
from lathe.frontend.expr.nodes import axes_of
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.memories import DRAM, INP
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.target.target import Target


def stored_source(stage: StageView, target: Target) -> Tensor | None:
    """The tensor that a stage loads for products, if it is stored by the program in wider elements; or None."""
    state = stage.state
    if state.scope != INP or target.near.element.cols <= target.data.element.cols:
        return None
    if state.storage is not None or state.reuse is not None or state.pragma not in (None, "dma"):
        return None
    schedule, tensors = stage.schedule, {read.tensor for read in state.computation.reads}
    if len(tensors) != 1 or not all(_is_product(each) for each in schedule.readers(state.tensor)):
        return None
    (tensor,) = tensors
    return tensor if schedule.maker(tensor) is not None and schedule.scope_of(tensor) == DRAM else None


def _is_product(reader: StageView) -> bool:
    """Whether a stage sums products by the machine's rule."""
    return reader.state.pragma in (None, "gemm") and match_gemm_operands(reader.state.computation) is not None


def may_adjoin(form: PhysicalLayout) -> bool:
    """Whether groups of elements can adjoin in a buffer of a form: neighbouring columns, in no order of their own."""
    return form.lanes.cols is not None and form.lanes.turns is None and not form.lanes.is_diagonal


def adjoins(placed: Mapping[StageView, StageRegion], stage: StageView, form: PhysicalLayout) -> bool:
    """Whether groups can adjoin in a stage's buffer of such a ``form``.

    It must begin with a group each time; where it ends within one, the rest of that is loaded with it. And loops of
    products must stay within groups or move by whole ones.
    """
    placement, cols = placed[stage], form.lanes.cols
    assert cols is not None, f"no groups adjoin in {form}"
    if placement.window is not None:
        return False
    step, computation = form.step(cols), placement.state.computation
    axis = computation.axes[cols]
    for read in computation.reads:
        if cols >= len(read.indices):
            return False  # a dimension of what is read is several here
        index = as_affine(read.indices[cols])
        if index is None or dict(index.coefficients) != {axis: 1} or index.const % step:
            return False
        if any(axis in axes_of(each) for n, each in enumerate(read.indices) if n != cols):
            return False
    low, size = placement.low[cols], _largest(placement, cols)
    begins = isinstance(low, Linear) and all(each % step == 0 for each in (low.constant, *low.terms.values()))
    whole = size % step == 0 or size == form.view[cols]
    return (
        begins
        and whole
        and all(_stays_in_groups(placed[each], stage, form) for each in stage.schedule.readers(stage.tensor))
    )


def wastes(placement: StageRegion, form: PhysicalLayout) -> bool:
    """Whether half or more of the elements that adjoin are loaded for nothing: most channels of a group are none."""
    cols = form.lanes.cols
    assert cols is not None, f"no groups adjoin in {form}"
    size = _largest(placement, cols)
    return 2 * -(-size // form.block(cols)) <= form.blocks(cols, 0, size)


def _largest(placement: StageRegion, dim: int) -> int:
    return bound_range(placement.extent[dim], placement.box)[1]


def _stays_in_groups(placement: StageRegion, stage: StageView, form: PhysicalLayout) -> bool:
    """Whether each loop of a reader moves along columns by whole groups, or by parts that fill groups."""
    cols, state = form.lanes.cols, placement.state
    assert cols is not None, f"no groups adjoin in {form}"
    step = form.step(cols)
    roots = {root.source: root for root in state.roots}
    for read in state.computation.reads:
        if read.tensor is not stage.tensor:
            continue
        index = as_affine(read.indices[cols])
        if index is None or index.const % step:
            return False
        for axis, factor in index.coefficients.items():
            for variable, coefficient in placement.loops.local[roots[axis]].terms.items():
                moved = abs(factor * coefficient)
                if not isinstance(variable, LoopVariable) or (moved % step and step % moved):
                    return False
    return True
