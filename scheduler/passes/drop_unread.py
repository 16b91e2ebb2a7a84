"""Elements of a tensor between two stages that no stage reads are not made.

A 1×1 convolution by 2 reads every other pixel of the layer before it, on every other line: three quarters of what that
layer makes, nobody reads. Along each dimension, where all reads are at ``first + step · n``, the tensor holds the
elements ``n`` alone, the maker's axis is ``first + step · axis``, and readers read at ``n``. Makers are looked at after
their readers, so that what is left out goes on through a chain of layers, up to its inputs.
"""

from collections.abc import Sequence

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.indices.simplify import simplified_index
from lathe.frontend.nodes import AxisRef, Read
from lathe.frontend.operand import Expr
from lathe.scheduler.algorithm.read_elements import Elements, elements_read
from lathe.scheduler.algorithm.rewrite import rewrite, rewrite_indices, rewrite_reads
from lathe.scheduler.passes.merge_reshapes import is_untouched
from lathe.scheduler.passes.widen_sums import restated
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.target.target import Target


def drop_unread(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Leave out, in place, what untouched stages make and nobody reads."""
    for stage in reversed(list(schedule.stages)):
        for dim, elements in _read_of(stage).items():
            _narrow(stage, dim, elements)


def is_read(stage: StageView) -> bool:
    """Whether along each dimension all is read of what an untouched stage makes for other untouched stages."""
    return not _read_of(stage)


def _read_of(stage: StageView) -> dict[int, Elements]:
    """By dimension, which elements are read, if not all are."""
    schedule, tensor = stage.schedule, stage.tensor
    readers = schedule.readers(tensor)
    own = len(stage.state.tensors) == 1 and all(is_untouched(each) for each in (stage, *readers))
    if not own or not readers or stage in readers or tensor in schedule.outputs:
        return {}
    found = {dim: _read(tensor, dim, readers) for dim in range(tensor.ndim)}
    return {dim: each for dim, each in found.items() if each is not None and each.count < tensor.shape[dim]}


def _read(tensor: Tensor, dim: int, readers: Sequence[StageView]) -> Elements | None:
    """Which elements are read along a dimension; None where an index is not affine, or no element is read."""
    reads = (read for reader in readers for read in reader.state.computation.reads if read.tensor is tensor)
    return elements_read([read.indices[dim] for read in reads], tensor.shape[dim])


def _narrow(stage: EditedStage, dim: int, elements: Elements) -> None:
    computation, old = stage.state.computation, stage.tensor
    axis = computation.axes[dim]
    narrow = Axis(axis.name, elements.count, 0, axis.kind)
    axes = tuple(narrow if each is axis else each for each in computation.axes)
    place: Expr = AxisRef(narrow) * elements.step + elements.first
    made = computation.mapped(lambda expr: rewrite_indices(rewrite(expr, axes={axis: place}), simplified_index))
    new = Computation(made.name, axes, made.reduce_axes, made.bodies, made.attrs)
    shape = tuple(each.extent for each in axes)
    tensor = Tensor(old.name, shape, old.dtype, new)
    readers = stage.schedule.readers(old)
    stage.put(restated(new, (tensor,)))

    def at(read: Read) -> Read:
        index = simplified_index((read.indices[dim] - elements.first) // elements.step)
        return Read(tensor, (*read.indices[:dim], index, *read.indices[dim + 1 :]))

    for reader in readers:
        again = reader.state.computation.mapped(lambda expr: rewrite_reads(expr, old, at))
        reader.put(restated(again, reader.state.tensors))
