"""Inputs of products laid out so that what is read of them begins with an element, or is a dimension of its own.

``w[o + 40, ..]`` begins within a block of 16 lanes. The host lays ``w`` out with 8 zeros in front of it, and the stage
reads ``w'[o + 48, ..]``. Of what is read in steps of 2, ``w[2 * o + 1, ..]``, it makes ``w'[o, 1, ..]``. Other stages
read the input as it was: it lies in DRAM in as many forms as its readers need.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lathe.frontend import Axis, Tensor, as_affine
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read
from lathe.scheduler.layout.vector_type import whole_elements
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.index_maps import IndexMap, index_map
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.padding import AddedCells
from lathe.scheduler.rewriting.rewrite import reads_replaced
from lathe.scheduler.rewriting.strided_access import Elements, elements_read
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.target.target import Target


def align_input_slices(schedule: Edit, target: Target) -> None:
    """Lay inputs out, in place, for untouched products of which columns or summed values begin within a block."""
    while (one := _first(schedule, target)) is not None:
        shift_input(schedule, one.reader, (one.read,), one.dim, one.within, whole_elements(target.config))


@dataclass(frozen=True)
class _Shift:
    """``reader`` reads elements ``within`` blocks along a dimension of an input."""

    reader: EditedStage
    read: Read
    dim: int
    within: Elements


def _first(schedule: Edit, target: Target) -> _Shift | None:
    """The first such read."""
    block = whole_elements(target.config)
    for stage in schedule.stages:
        for read in (match_gemm_operands(stage.state.computation) or ()) if is_unscheduled(stage) else ():
            for dim in range(len(read.indices)) if may_be_shifted(schedule, read.tensor) else ():
                within = within_blocks((read,), dim, block) if _along_lanes(stage, read, dim) else None
                if within is not None:
                    return _Shift(stage, read, dim, within)
    return None


def within_blocks(reads: Sequence[Read], dim: int, block: int) -> Elements | None:
    """The elements that are read along a dimension, where they begin within a block of lanes or leave some out."""
    found = elements_read([read.indices[dim] for read in reads], reads[0].tensor.shape[dim])
    return None if found is not None and found.step == 1 and found.first % block == 0 else found


def _along_lanes(stage: EditedStage, read: Read, dim: int) -> bool:
    """Whether an index has one axis only, which is summed over or that of the result's channels."""
    computation, index = stage.state.computation, as_affine(read.indices[dim])
    axes = [] if index is None else list(index.coefficients)
    return len(axes) == 1 and axes[0] in (*computation.reduce_axes, *computation.axes[-1:])


def may_be_shifted(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a tensor is an input, in the shape that the user gave it."""
    return schedule.maker(tensor) is None and tensor not in schedule.state.views


def shift_input(
    schedule: Edit, reader: EditedStage, reads: Sequence[Read], dim: int, elements: Elements, block: int
) -> None:
    """Let reads of ``reader``, all of one input, read it where ``elements`` of ``dim`` begin with a multiple of
    ``block``."""
    tensor = reads[0].tensor
    new = _map(tensor, dim, elements, block)
    axes = tuple(Axis(name, extent) for name, extent in zip(new.names([]), new.shape, strict=True))
    pad = AddedCells(axes, Const(0, tensor.dtype)) if new.padded else None
    seen = Tensor(tensor.name, new.shape, tensor.dtype)
    old = schedule.state.layouts.get(tensor, TensorLayout(tensor))
    layout = TensorLayout(old.tensor, (*old.maps, new), (*old.earlier, tensor), (*old.pads, pad))
    schedule.update(layouts={**schedule.state.layouts, seen: layout})

    instead = {read: Read(seen, new.apply(read.indices)) for read in reads}
    reader.change(computation=reads_replaced(reader.state.computation, instead))


def _map(tensor: Tensor, dim: int, elements: Elements, block: int) -> IndexMap:
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    refs = [AxisRef(axis) for axis in axes]
    own = refs[dim]
    place = [own % elements.step, own // elements.step] if elements.step > 1 else [own + -elements.first % block]
    indices: list[Expr] = [*refs[:dim], *place, *refs[dim + 1 :]]
    return index_map(axes, indices, (), tensor.name, whole=True)
