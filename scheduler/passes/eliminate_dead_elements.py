"""Eliminate dead elements: shrink intermediate tensors to the elements that consumers read (demanded elements).

A 1×1 convolution with stride 2 reads every other pixel of every other row, so three quarters of what the layer before
computes is dead. Along each dimension, where all reads are at ``first + step · n``, the tensor shrinks to the elements
``n``: the producer's axis becomes ``first + step · axis``, and consumers read at ``n``. Consumers are visited before
producers, so that the elimination propagates through a chain of layers up to the inputs.
"""

from lathe.frontend import Tensor
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.shrink_to_windows import insert_borders, shrink_to_windows
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.strided_access import StridedElements, elements_read, restrict_dim, restrict_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target


def eliminate_dead_elements(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Shrink, in place, the tensors of unscheduled intermediate stages to their demanded elements."""
    shrunk: list[EditedStage] = []
    for stage in reversed(list(schedule.stages)):
        for dim, elements in _demanded(stage).items():
            shrink_dim(stage, dim, elements)
        if _is_shrinkable(stage) and shrink_to_windows(stage):
            shrunk.append(stage)
    for stage in shrunk:
        insert_borders(schedule, stage)


def has_no_dead_elements(stage: StageView) -> bool:
    """Whether consumers read all elements of an unscheduled intermediate stage along each dimension."""
    return not _demanded(stage)


def _demanded(stage: StageView) -> dict[int, StridedElements]:
    """The demanded elements along each dimension that has dead ones."""
    tensor, consumers = stage.tensor, stage.schedule.consumers(stage.tensor)
    if not _is_shrinkable(stage):
        return {}
    reads = [read for each in consumers for read in each.state.computation.reads if read.tensor is tensor]
    used = {dim: elements_read([read.indices[dim] for read in reads], tensor.shape[dim]) for dim in range(tensor.ndim)}
    return {dim: each for dim, each in used.items() if each is not None and each.count < tensor.shape[dim]}


def _is_shrinkable(stage: StageView) -> bool:
    """Whether a stage computes a single tensor that is no output, and it and all its consumers are unscheduled."""
    consumers = stage.schedule.consumers(stage.tensor)
    unscheduled = len(stage.state.tensors) == 1 and all(is_unscheduled(each) for each in (stage, *consumers))
    return unscheduled and bool(consumers) and stage not in consumers and stage.tensor not in stage.schedule.outputs


def shrink_dim(stage: EditedStage, dim: int, elements: StridedElements) -> None:
    """Shrink a dimension of a stage's tensor to some elements, in place, and redirect its consumers' reads."""
    old = stage.tensor
    new = restrict_dim(stage.state.computation, dim, elements)
    tensor = Tensor(old.name, new.shape, old.dtype, new)
    consumers = stage.schedule.consumers(old)
    stage.put(with_computation(new, (tensor,)))
    for consumer in consumers:
        again = restrict_reads(consumer.state.computation, old, tensor, dim, elements)
        consumer.put(with_computation(again, consumer.state.tensors))
