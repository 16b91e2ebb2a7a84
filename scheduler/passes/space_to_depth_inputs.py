"""Space-to-depth of inputs: re-lay an input that is read with strides, so that elements of one stride phase adjoin.

A 1×1 convolution with stride 2 reads every other pixel of every other row of its data. In the user's layout each pixel
is a burst of its own. The host packs inputs anyway, so it groups pixels by their indices modulo the stride::

    conv[n, y, x, f] = sum over c of data[n, 2 * y, 2 * x, c] * weights[f, c]
    data'[i % 2, j % 2, n, i // 2, j // 2, c] = data[n, i, j, c]
    conv[n, y, x, f] = sum over c of data'[0, 0, n, y, x, c] * weights[f, c]

Rows and tiles become long bursts, and dead pixels are not loaded. DRAM holds more bytes only where strides do not
divide extents. Adjoining pixels may also fill the rows of vectors, unlike strided ones: an input keeps its layout where
that would add layout conflicts.
"""

from lathe.frontend import Axis, Tensor
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read
from lathe.scheduler.passes.resolve_layout_conflicts import count_layout_conflicts
from lathe.scheduler.rewriting.index_maps import index_map
from lathe.scheduler.rewriting.padding import AddedCells
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.rewriting.strided_access import elements_read
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.target.target import Target


def space_to_depth_inputs(schedule: Edit, target: Target) -> None:
    """Pack inputs, in place, by their indices modulo the strides at which all stages read them."""
    reads = [read.tensor for stage in schedule.stages for read in stage.state.computation.reads]
    for tensor in dict.fromkeys(reads):
        strides = _strides(schedule, tensor) if _is_packable(schedule, tensor) else {}
        if not strides:
            continue
        before, conflicts = schedule.state, count_layout_conflicts(schedule, target)
        _pack(schedule, tensor, strides)
        if count_layout_conflicts(schedule, target) > conflicts:
            schedule.reset_to(before)


def _is_packable(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a tensor is an input in the shape and layout that the user has given it."""
    state = schedule.state
    viewed = tensor in state.views or tensor in state.views.values() or tensor in state.layouts
    return schedule.producer(tensor) is None and not viewed and tensor not in state.constants


def _strides(schedule: Edit, tensor: Tensor) -> dict[int, int]:
    """The stride at which all stages read a tensor, for each dimension where it is more than 1."""
    consumers = schedule.consumers(tensor)
    reads = [read for each in consumers for read in each.state.computation.reads if read.tensor is tensor]
    used = {dim: elements_read([read.indices[dim] for read in reads], tensor.shape[dim]) for dim in range(tensor.ndim)}
    return {dim: each.step for dim, each in used.items() if each is not None and each.step > 1}


def _pack(schedule: Edit, tensor: Tensor, strides: dict[int, int]) -> None:
    """Redirect the consumers of an input to a layout with the remainders by ``strides`` as outermost indices."""
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    refs = [AxisRef(axis) for axis in axes]
    remainders: list[Expr] = [refs[dim] % stride for dim, stride in strides.items()]
    quotients: list[Expr] = [ref // strides[dim] if dim in strides else ref for dim, ref in enumerate(refs)]
    new = index_map(axes, [*remainders, *quotients], (), tensor.name, whole=True)
    cells = tuple(Axis(name, extent) for name, extent in zip(new.names([]), new.shape, strict=True))
    pad = AddedCells(cells, Const(0, tensor.dtype)) if new.padded else None
    packed = Tensor(tensor.name, new.shape, tensor.dtype)
    layout = TensorLayout(tensor, (new,), (tensor,), (pad,))
    schedule.update(layouts={**schedule.state.layouts, packed: layout})

    def at(read: Read) -> Expr:
        return Read(packed, new.apply(read.indices))

    for consumer in schedule.consumers(tensor):
        consumer.change(computation=consumer.state.computation.mapped(lambda expr: rewrite_reads(expr, tensor, at)))
