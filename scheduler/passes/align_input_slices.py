"""Align input slices: pad or split the host layout of a GEMM input so that the slice read starts at a vector boundary.

``w[o + 40, ..]`` starts within a vector of 16 lanes: the host packs ``w`` with 8 zeros in front, and the stage reads
``w'[o + 48, ..]``. For a strided read ``w[2 * o + 1, ..]`` the host packs by remainders, and the stage reads
``w'[1, o, ..]``. Other stages read the input as it was: DRAM holds it in as many layouts as its consumers need.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lathe.frontend import Axis, Tensor, as_affine
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read
from lathe.scheduler.layout.vector_type import largest_block
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.index_maps import IndexMap, index_map
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.padding import AddedCells
from lathe.scheduler.rewriting.rewrite import replace_single_reads
from lathe.scheduler.rewriting.strided_access import StridedElements, elements_read
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.target.target import Target


def align_input_slices(schedule: Edit, target: Target) -> None:
    """Re-lay inputs, in place, whose columns or reduced elements an unscheduled GEMM reads from within a vector on."""
    while (first := _find_misaligned(schedule, target)) is not None:
        align_input(schedule, first.consumer, (first.read,), first.dim, first.elements, largest_block(target.config))


@dataclass(frozen=True)
class _Misalignment:
    """A read by ``consumer`` of ``elements`` along a dimension of an input that do not start at a vector boundary."""

    consumer: EditedStage
    read: Read
    dim: int
    elements: StridedElements


def _find_misaligned(schedule: Edit, target: Target) -> _Misalignment | None:
    """The first misaligned read of an unscheduled GEMM, or None."""
    block = largest_block(target.config)
    for stage in schedule.stages:
        for read in (match_gemm_operands(stage.state.computation) or ()) if is_unscheduled(stage) else ():
            for dim in range(len(read.indices)) if is_original_input(schedule, read.tensor) else ():
                elements = misaligned_elements((read,), dim, block) if _is_along_lanes(stage, read, dim) else None
                if elements is not None:
                    return _Misalignment(stage, read, dim, elements)
    return None


def misaligned_elements(reads: Sequence[Read], dim: int, block: int) -> StridedElements | None:
    """The elements that are read along a dimension if they are strided or start within a vector, else None."""
    found = elements_read([read.indices[dim] for read in reads], reads[0].tensor.shape[dim])
    return None if found is not None and found.step == 1 and found.first % block == 0 else found


def _is_along_lanes(stage: EditedStage, read: Read, dim: int) -> bool:
    """Whether an index has a single axis that runs along lanes: a reduction axis or the last data axis (channels)."""
    computation, affine = stage.state.computation, as_affine(read.indices[dim])
    axes = [] if affine is None else list(affine.coefficients)
    return len(axes) == 1 and axes[0] in (*computation.reduce_axes, *computation.axes[-1:])


def is_original_input(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a tensor is an input in the shape that the user has given it."""
    return schedule.producer(tensor) is None and tensor not in schedule.state.views


def align_input(
    schedule: Edit, consumer: EditedStage, reads: Sequence[Read], dim: int, elements: StridedElements, block: int
) -> None:
    """Re-lay an input for reads of ``consumer``, so that ``elements`` of ``dim`` start at a multiple of ``block``."""
    tensor = reads[0].tensor
    new = _map(tensor, dim, elements, block)
    axes = tuple(Axis(name, extent) for name, extent in zip(new.names([]), new.shape, strict=True))
    pad = AddedCells(axes, Const(0, tensor.dtype)) if new.padded else None
    relaid = Tensor(tensor.name, new.shape, tensor.dtype)
    old = schedule.state.layouts.get(tensor, TensorLayout(tensor))
    layout = TensorLayout(old.tensor, (*old.maps, new), (*old.predecessors, tensor), (*old.pads, pad))
    schedule.update(layouts={**schedule.state.layouts, relaid: layout})

    replacements = {read: Read(relaid, new.apply(read.indices)) for read in reads}
    consumer.change(computation=replace_single_reads(consumer.state.computation, replacements))


def _map(tensor: Tensor, dim: int, elements: StridedElements, block: int) -> IndexMap:
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    refs = [AxisRef(axis) for axis in axes]
    own = refs[dim]
    split = [own % elements.step, own // elements.step] if elements.step > 1 else [own + -elements.first % block]
    indices: list[Expr] = [*refs[:dim], *split, *refs[dim + 1 :]]
    return index_map(axes, indices, (), tensor.name, whole=True)
