"""Elements of a tensor between two stages that no stage reads are not made.

A 1×1 convolution by 2 reads every other pixel of the layer before it, on every other line: three quarters of what that
layer makes, nobody reads. Along each dimension, where all reads are at ``first + step · n``, the tensor holds the
elements ``n`` alone, the maker's axis is ``first + step · axis``, and readers read at ``n``. Makers are looked at after
their readers, so that what is left out goes on through a chain of layers, up to its inputs.
"""

from lathe.frontend import Tensor
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.shrink_to_windows import drop_between_windows, put_borders
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.strided_access import Elements, elements_read, narrowed, reading_narrowed
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.target.target import Target


def eliminate_dead_elements(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Leave out, in place, what untouched stages make and nobody reads."""
    cut: list[EditedStage] = []
    for stage in reversed(list(schedule.stages)):
        for dim, elements in _read_of(stage).items():
            shrink_dim(stage, dim, elements)
        if _is_for_others(stage) and drop_between_windows(stage):
            cut.append(stage)
    for stage in cut:
        put_borders(schedule, stage)


def is_read(stage: StageView) -> bool:
    """Whether along each dimension all is read of what an untouched stage makes for other untouched stages."""
    return not _read_of(stage)


def _read_of(stage: StageView) -> dict[int, Elements]:
    """By dimension, which elements are read, if not all are."""
    tensor, readers = stage.tensor, stage.schedule.readers(stage.tensor)
    if not _is_for_others(stage):
        return {}
    reads = [read for each in readers for read in each.state.computation.reads if read.tensor is tensor]
    found = {dim: elements_read([read.indices[dim] for read in reads], tensor.shape[dim]) for dim in range(tensor.ndim)}
    return {dim: each for dim, each in found.items() if each is not None and each.count < tensor.shape[dim]}


def _is_for_others(stage: StageView) -> bool:
    """Whether an untouched stage makes one tensor, for other untouched stages alone."""
    readers = stage.schedule.readers(stage.tensor)
    own = len(stage.state.tensors) == 1 and all(is_unscheduled(each) for each in (stage, *readers))
    return own and bool(readers) and stage not in readers and stage.tensor not in stage.schedule.outputs


def shrink_dim(stage: EditedStage, dim: int, elements: Elements) -> None:
    """Make, in place, some elements of a dimension alone, and let readers read these."""
    old = stage.tensor
    new = narrowed(stage.state.computation, dim, elements)
    tensor = Tensor(old.name, new.shape, old.dtype, new)
    readers = stage.schedule.readers(old)
    stage.put(with_computation(new, (tensor,)))
    for reader in readers:
        again = reading_narrowed(reader.state.computation, old, tensor, dim, elements)
        reader.put(with_computation(again, reader.state.tensors))
