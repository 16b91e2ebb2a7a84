"""Inputs of which all readers take every n-th element are packed by remainders, so that what is read lies together.

A 1×1 convolution by 2 reads every other pixel on every other line of its data. Loaded as they lie, pixels are a burst
each. The host packs inputs anyway: it puts pixels of equal remainders beside each other, ::

    conv[n, y, x, f] = sum over c of data[n, 2 * y, 2 * x, c] * weights[f, c]
    data'[i % 2, j % 2, n, i // 2, j // 2, c] = data[n, i, j, c]
    conv[n, y, x, f] = sum over c of data'[0, 0, n, y, x, c] * weights[f, c]

so that lines and tiles are long bursts, and what nobody reads is not loaded. No byte more lies in DRAM but for extents
that steps do not divide. Pixels beside each other may fill rows of elements, too, which those in steps do not: an input
stays as it is where stages behind would read these in other lanes.
"""

from lathe.frontend import Axis, Tensor
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read
from lathe.scheduler.passes.resolve_layout_conflicts import layout_conflicts
from lathe.scheduler.rewriting.index_maps import index_map
from lathe.scheduler.rewriting.padding import AddedCells
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.rewriting.strided_access import elements_read
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.target.target import Target


def space_to_depth_inputs(schedule: Edit, target: Target) -> None:
    """Pack inputs, in place, by the remainders of the steps in which all stages read them."""
    reads = [read.tensor for stage in schedule.stages for read in stage.state.computation.reads]
    for tensor in dict.fromkeys(reads):
        steps = _steps(schedule, tensor) if _may_be_packed(schedule, tensor) else {}
        if not steps:
            continue
        before, apart = schedule.state, layout_conflicts(schedule, target)
        _pack(schedule, tensor, steps)
        if layout_conflicts(schedule, target) > apart:
            schedule.reset_to(before)


def _may_be_packed(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a tensor is an input, in the shape and the layout that the user gave it."""
    state = schedule.state
    seen = tensor in state.views or tensor in state.views.values() or tensor in state.layouts
    return schedule.maker(tensor) is None and not seen and tensor not in state.constants


def _steps(schedule: Edit, tensor: Tensor) -> dict[int, int]:
    """By dimension, the steps in which all that is read of a tensor lies, where that is not all of it."""
    readers = schedule.readers(tensor)
    reads = [read for each in readers for read in each.state.computation.reads if read.tensor is tensor]
    found = {dim: elements_read([read.indices[dim] for read in reads], tensor.shape[dim]) for dim in range(tensor.ndim)}
    return {dim: each.step for dim, each in found.items() if each is not None and each.step > 1}


def _pack(schedule: Edit, tensor: Tensor, steps: dict[int, int]) -> None:
    """Let all readers of an input read it where remainders by ``steps`` come before all other indices."""
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    refs = [AxisRef(axis) for axis in axes]
    remainders: list[Expr] = [refs[dim] % step for dim, step in steps.items()]
    places: list[Expr] = [ref // steps[dim] if dim in steps else ref for dim, ref in enumerate(refs)]
    new = index_map(axes, [*remainders, *places], (), tensor.name, whole=True)
    cells = tuple(Axis(name, extent) for name, extent in zip(new.names([]), new.shape, strict=True))
    pad = AddedCells(cells, Const(0, tensor.dtype)) if new.padded else None
    seen = Tensor(tensor.name, new.shape, tensor.dtype)
    layout = TensorLayout(tensor, (new,), (tensor,), (pad,))
    schedule.update(layouts={**schedule.state.layouts, seen: layout})

    def at(read: Read) -> Expr:
        return Read(seen, new.apply(read.indices))

    for reader in schedule.readers(tensor):
        reader.change(computation=reader.state.computation.mapped(lambda expr: rewrite_reads(expr, tensor, at)))
