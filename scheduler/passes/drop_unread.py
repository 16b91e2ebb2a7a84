"""Elements of a tensor between two stages that no stage reads are not made.

A 1×1 convolution by 2 reads every other pixel of the layer before it, on every other line: three quarters of what that
layer makes, nobody reads. Along each dimension, where all reads are at ``first + step · n``, the tensor holds the
elements ``n`` alone, the maker's axis is ``first + step · axis``, and readers read at ``n``. Makers are looked at after
their readers, so that what is left out goes on through a chain of layers, up to its inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from lathe.frontend import Axis, Computation, Tensor, as_affine
from lathe.frontend.indices.affine import Affine
from lathe.frontend.indices.simplify import simplified_index
from lathe.frontend.nodes import AxisRef, Read
from lathe.frontend.operand import Expr
from lathe.scheduler.algorithm.rewrite import rewrite, rewrite_indices, rewrite_reads
from lathe.scheduler.passes.drop_between_windows import drop_between_windows, put_borders
from lathe.scheduler.passes.merge_reshapes import is_untouched
from lathe.scheduler.passes.widen_sums import restated
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class _Elements:
    """The elements ``first + step · n`` of a dimension, for ``0 <= n < count``."""

    first: int
    step: int
    count: int


def drop_unread(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Leave out, in place, what untouched stages make and nobody reads."""
    cut: list[EditedStage] = []
    for stage in reversed(list(schedule.stages)):
        for dim, elements in _read_of(stage).items():
            _narrow(stage, dim, elements)
        if _is_for_others(stage) and drop_between_windows(stage):
            cut.append(stage)
    for stage in cut:
        put_borders(schedule, stage)


def is_read(stage: StageView) -> bool:
    """Whether along each dimension all is read of what an untouched stage makes for other untouched stages."""
    return not _read_of(stage)


def _read_of(stage: StageView) -> dict[int, _Elements]:
    """By dimension, which elements are read, if not all are."""
    tensor, readers = stage.tensor, stage.schedule.readers(stage.tensor)
    if not _is_for_others(stage):
        return {}
    found = {dim: _read(tensor, dim, readers) for dim in range(tensor.ndim)}
    return {dim: each for dim, each in found.items() if each is not None and each.count < tensor.shape[dim]}


def _is_for_others(stage: StageView) -> bool:
    """Whether an untouched stage makes one tensor, for other untouched stages alone."""
    readers = stage.schedule.readers(stage.tensor)
    own = len(stage.state.tensors) == 1 and all(is_untouched(each) for each in (stage, *readers))
    return own and bool(readers) and stage not in readers and stage.tensor not in stage.schedule.outputs


def _read(tensor: Tensor, dim: int, readers: Sequence[StageView]) -> _Elements | None:
    """Which elements are read along a dimension; None where an index is not affine, or no element is read."""
    found: list[Affine] = []
    for reader in readers:
        for read in reader.state.computation.reads:
            if read.tensor is tensor:
                index = as_affine(read.indices[dim])
                if index is None:
                    return None
                found.append(index)
    some = found[0].const
    step = gcd(*(gcd(each.const - some, *each.coefficients.values()) for each in found))
    last = tensor.shape[dim] - 1
    within = [(max(low, 0), min(high, last)) for low, high in (each.bounds() for each in found)]
    low, high = min(low for low, _ in within), max(high for _, high in within)
    if low > high:
        return None  # padding is all that is read
    step = step or 1
    first = low + (some - low) % step
    return _Elements(first, step, (high - first) // step + 1) if first <= high else None


def _narrow(stage: EditedStage, dim: int, elements: _Elements) -> None:
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
