"""GEMM operands that stay contiguous in ``inp`` as they were stored, in groups of narrower vectors.

A vector of ``out`` has ``block_out`` columns, one of ``inp`` ``block_in``. If the former is wider (and both have the
same rows), it is stored in DRAM as a group of several contiguous vectors of ``inp``. A buffer with channels outermost
gets each vector by a LOAD row of its own, which costs the memory's latency. If the group is contiguous in the buffer,
too, one LOAD row loads all that is contiguous in DRAM.
"""

from collections.abc import Mapping

from lathe.frontend import Tensor, as_affine
from lathe.frontend.arith.linear import Linear, LoopVariable, bound_range
from lathe.frontend.expr.nodes import axes_of
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.memories import DRAM, INP
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target


def stored_source(stage: StageView, target: Target) -> Tensor | None:
    """The tensor that a stage loads for GEMMs, if the program stores it in wider vectors; else None."""
    state = stage.state
    if state.scope != INP or target.acc.vector_type.cols <= target.data.vector_type.cols:
        return None
    if state.storage is not None or state.reuse is not None or state.pragma not in (None, "dma"):
        return None
    schedule, tensors = stage.schedule, {read.tensor for read in state.computation.reads}
    if len(tensors) != 1 or not all(_is_gemm(each) for each in schedule.consumers(state.tensor)):
        return None
    (tensor,) = tensors
    return tensor if schedule.producer(tensor) is not None and schedule.scope_of(tensor) == DRAM else None


def _is_gemm(reader: StageView) -> bool:
    """Whether a stage is a GEMM by the built-in rule."""
    return reader.state.pragma in (None, "gemm") and match_gemm_operands(reader.state.computation) is not None


def has_contiguous_groups(form: PhysicalLayout) -> bool:
    """Whether groups may be contiguous in a buffer: its layout has columns, and is neither permuted nor diagonal."""
    return form.lanes.cols is not None and form.lanes.conversions is None and not form.lanes.is_diagonal


def can_be_contiguous(placed: Mapping[StageView, StageRegion], stage: StageView, form: PhysicalLayout) -> bool:
    """Whether groups may be contiguous in a stage's buffer with this layout.

    Its box must always start at a group and have whole groups, or the whole dimension; and loops of GEMMs that read it
    must stay within groups or advance by whole ones.
    """
    placement, cols = placed[stage], form.lanes.cols
    assert cols is not None, f"a layout without columns has no groups: {form}"
    if placement.window is not None:
        return False
    step, computation = form.step(cols), placement.state.computation
    axis = computation.axes[cols]
    for read in computation.reads:
        if cols >= len(read.indices):
            return False  # the stage has more dimensions than its source
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
        and all(_stays_in_groups(placed[each], stage, form) for each in stage.schedule.consumers(stage.tensor))
    )


def wastes_lanes(placement: StageRegion, form: PhysicalLayout) -> bool:
    """Whether at least half of the vectors of contiguous groups would be loaded in vain: they have unused channels."""
    cols = form.lanes.cols
    assert cols is not None, f"a layout without columns has no groups: {form}"
    size = _largest(placement, cols)
    return 2 * -(-size // form.block(cols)) <= form.blocks(cols, 0, size)


def _largest(placement: StageRegion, dim: int) -> int:
    return bound_range(placement.extent[dim], placement.box)[1]


def _stays_in_groups(placement: StageRegion, stage: StageView, form: PhysicalLayout) -> bool:
    """Whether each loop of a consumer has a stride along columns that is a multiple or a divisor of a group."""
    cols, state = form.lanes.cols, placement.state
    assert cols is not None, f"a layout without columns has no groups: {form}"
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
                stride = abs(factor * coefficient)
                if not isinstance(variable, LoopVariable) or (stride % step and step % stride):
                    return False
    return True
