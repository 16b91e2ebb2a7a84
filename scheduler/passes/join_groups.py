"""Groups of a convolution that are multiplied together, with zeros between them in the weights.

A group of few channels or filters leaves most of an element empty: of 4 groups with 4 filters each, every pixel has
four elements of 16 columns, which are reset, brought to 8 bits, stored and loaded one by one. The host lets the weights
be blocks along a diagonal (``isa.BlockDiagonal``)::

    conv[.., o] = sum of data[.., o // 4 * 2 + rc] * weights[o, .., rc]        rc in 0..2
    conv[.., o] = sum of data[.., rc] * weights[o, .., rc]              rc in 0..8

What a group does not have is multiplied by 0. So many groups are joined as leave the fewest steps: where each fills
whole blocks, none are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.frontend import Axis, Computation, Tensor, as_affine, walk
from lathe.frontend.indices.plain import plain_axis
from lathe.frontend.indices.simplify import simplified_index
from lathe.frontend.nodes import AxisRef, Binary, Const, Read, Reduce, axes_of
from lathe.frontend.operand import Expr
from lathe.isa.layout_steps import BlockDiagonal
from lathe.scheduler.algorithm.patterns import dimension_of, factors
from lathe.scheduler.algorithm.rewrite import rewrite, rewrite_reads
from lathe.scheduler.passes.element_steps import element_steps
from lathe.scheduler.passes.merge_reshapes import is_untouched
from lathe.scheduler.passes.widen_sums import restated
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.layout import TensorLayout
from lathe.scheduler.state.memories import NEAR, OPERANDS
from lathe.scheduler.target.element import element_of
from lathe.scheduler.target.target import Target
from lathe.scheduler.target.turns import turns_needed

WORTH = 0.98
"""The part of the cycles that joined groups take at most, where they are joined: about as much is an estimate off."""


@dataclass(frozen=True)
class _Groups:
    """``count`` groups of a product: axis ``out`` counts all filters, ``inner`` the channels of one.

    ``channel`` is the dimension of the data that has the channels of all groups.
    """

    data: Read
    weight: Read
    out: Axis
    inner: Axis
    channel: int
    count: int

    @property
    def filters(self) -> int:
        """Filters of one group."""
        return self.out.extent // self.count


def join_groups(schedule: Edit, target: Target) -> None:
    """Let untouched stages multiply groups together, in place, where that takes fewer steps."""
    for stage in reversed(list(schedule.stages)):  # what reads in groups has channels of groups apart
        groups = _groups_of(stage) if is_untouched(stage) else None
        if groups is None:
            continue
        costs = {each: _cost(stage, groups, each, target.config) for each in _divisors(groups.count)}
        together = min(costs, key=lambda each: (costs[each], each))
        if costs[together] < WORTH * costs[1]:
            _join(stage, groups, together)


def _groups_of(stage: EditedStage) -> _Groups | None:
    """The groups of a stage whose weights the host gives, if it is a product in groups."""
    schedule, computation = stage.schedule, stage.state.computation
    pair = factors(computation)
    if pair is None or len(stage.state.tensors) > 1:
        return None
    for data, weight in (pair, pair[::-1]):
        tensor = weight.tensor
        given = tensor.computation is None and tensor not in schedule.layouts and tensor not in schedule.state.views
        if not given or data.tensor is tensor:
            continue
        axes = [plain_axis(index) for index in weight.indices]
        if None in axes or len(set(axes)) < len(axes):
            continue
        for channel, index in enumerate(data.indices):
            for out, count in _divided(index):
                found = _checked(data, weight, channel, out, count)
                if found is not None:
                    return found
    return None


def _divided(index: Expr) -> Iterator[tuple[Axis, int]]:
    """The axes that an index divides, and in how many parts."""
    for node in walk(index):
        if isinstance(node, Binary) and node.op == "floordiv" and isinstance(node.rhs, Const):
            axis = plain_axis(node.lhs)
            if axis is not None and axis.kind == "data" and axis.start == 0 and axis.extent % node.rhs.value == 0:
                yield axis, axis.extent // node.rhs.value


def _checked(data: Read, weight: Read, channel: int, out: Axis, count: int) -> _Groups | None:
    """The groups, if channel ``out // filters * channels + inner`` is read, and nothing else depends on the two."""
    along = [plain_axis(index) for index in weight.indices]
    group, one = Axis("g", count), Axis("f", out.extent // count)
    place: Expr = AxisRef(group) * one.extent + AxisRef(one)
    affine = as_affine(simplified_index(rewrite(data.indices[channel], axes={out: place})))
    if affine is None or affine.const or out not in along:
        return None
    size, odd = divmod(data.tensor.shape[channel], count)
    inners = [axis for axis in along if axis is not None and axis.kind == "reduce" and axis.extent == size]
    others = {axis for dim, index in enumerate(data.indices) if dim != channel for axis in axes_of(index)}
    for inner in inners:
        wanted = {group: size, inner: 1}
        read = {axis: factor for axis, factor in affine.coefficients.items() if axis.extent > 1}
        alike = read == {axis: factor for axis, factor in wanted.items() if axis.extent > 1}
        if alike and not odd and not inner.start and not {out, inner} & others:
            return _Groups(data, weight, out, inner, channel, count)
    return None


def _cost(stage: EditedStage, groups: _Groups, together: int, config: HardwareConfig) -> float:
    """Cycles of a product with so many groups together, of what makes its data, and of what follows, about.

    Stages before and behind it have channels of groups in elements of their own, where groups have. Loads hide behind
    products.
    """
    data, weights, near = (element_of(config, scope) for scope in (*OPERANDS, NEAR))
    computation, tensor = stage.state.computation, groups.data.tensor
    parts = groups.count // together
    filters, channels = parts * ceil(together * groups.filters / near.cols), together * groups.inner.extent
    images = computation.axes[0].extent if computation.axes[0] is not groups.out else 1
    filled = ceil(images / data.rows) / images
    taps = prod(axis.extent for axis in computation.reduce_axes if axis is not groups.inner)
    blocks = ceil(channels / data.cols) * taps
    results = prod(axis.extent for axis in computation.axes if axis is not groups.out) * filled
    pixels = prod(extent for dim, extent in enumerate(tensor.shape) if dim != groups.channel) * filled
    loaded = min(pixels, results * taps) * parts * ceil(channels / data.cols) * config.inp_element_bytes
    loaded += filters * blocks * weights.lanes
    along = _Neighbours(stage.schedule, config)
    before = along.before(tensor, groups.channel) * filled * parts * ceil(channels / near.cols)
    computed, summed = along.behind(stage.tensor, computation.axes.index(groups.out))
    behind = filled * (computed * filters + summed * parts * ceil(together * groups.filters / data.cols))
    if before:
        turned = parts * ceil(channels / near.span) * (near.span // near.grain + 1)
        before += pixels * turned * turns_needed(config)
    return max(results * filters * (blocks + 1), loaded / config.bus_bytes) + before + behind


class _Neighbours:
    """Steps of stages whose elements hold the same channels as a tensor, for one element along these."""

    def __init__(self, schedule: Edit, config: HardwareConfig) -> None:
        self.schedule, self.config = schedule, config
        self.seen: set[EditedStage] = set()

    def before(self, tensor: Tensor, dim: int) -> int:
        """Of the stages that make a tensor with channels along a dimension, up to where the channels come from."""
        stage = self.schedule.maker(tensor)
        if stage is None or stage in self.seen:
            return 0
        self.seen.add(stage)
        computation = stage.state.computation
        axis = computation.axes[dim]
        reads = ((read.tensor, dimension_of(read.node, axis)) for read in computation.reads)
        return self._own(stage, dim) + sum(self.before(read, along) for read, along in reads if along is not None)

    def behind(self, tensor: Tensor, dim: int) -> tuple[int, int]:
        """Of the stages that read a tensor with channels along a dimension; of those that sum them, for each block."""
        computed = summed = 0
        for stage in self.schedule.readers(tensor):
            computation = stage.state.computation
            read = next(each for each in computation.reads if each.tensor is tensor)
            axis = plain_axis(read.indices[dim])
            if stage in self.seen or axis is None:
                continue
            self.seen.add(stage)
            if axis.kind == "reduce":
                *others, last = (each.extent for each in computation.axes)
                taps = prod(each.extent for each in computation.reduce_axes if each is not axis)
                summed += prod(others) * ceil(last / element_of(self.config, NEAR).cols) * taps
                continue
            own = computation.axes.index(axis)
            further = self.behind(stage.tensor, own)
            computed, summed = computed + self._own(stage, own) + further[0], summed + further[1]
        return computed, summed

    def _own(self, stage: EditedStage, dim: int) -> int:
        computation = stage.state.computation
        others = prod(axis.extent for each, axis in enumerate(computation.axes) if each != dim)
        return others * element_steps(computation, self.config)


def _divisors(count: int) -> list[int]:
    return [each for each in range(1, count + 1) if count % each == 0]


def _join(stage: EditedStage, groups: _Groups, together: int) -> None:
    schedule, weight = stage.schedule, groups.weight
    axes = [plain_axis(index) for index in weight.indices]
    step = BlockDiagonal(weight.tensor.shape, axes.index(groups.out), axes.index(groups.inner), groups.count, together)
    joined = Tensor(weight.tensor.name, step.shape, weight.tensor.dtype)
    layouts: Mapping[Tensor, TensorLayout] = {
        **schedule.layouts,
        joined: TensorLayout(weight.tensor, spread=step),
    }
    schedule.amend(layouts=MappingProxyType(layouts))
    stage.put(restated(_joined(stage.state.computation, groups, together, joined), stage.state.tensors))


def _joined(computation: Computation, groups: _Groups, together: int, weights: Tensor) -> Computation:
    """The product with a longer sum, of data of several groups and of weights with zeros."""
    inner = Axis(groups.inner.name, groups.inner.extent * together, 0, "reduce")
    reduce_axes = tuple(inner if axis is groups.inner else axis for axis in computation.reduce_axes)
    channel: Expr = AxisRef(inner) + 0
    if together < groups.count:
        channel = AxisRef(groups.out) // (groups.filters * together) * inner.extent + AxisRef(inner)

    def with_channel(read: Read) -> Read:
        return Read(read.tensor, (*read.indices[: groups.channel], channel, *read.indices[groups.channel + 1 :]))

    (body,) = computation.bodies
    assert isinstance(body, Reduce), f"{computation.name} sums nothing"
    value = rewrite(body.body, axes={groups.inner: AxisRef(inner)})
    value = rewrite_reads(value, groups.data.tensor, with_channel)
    value = rewrite_reads(value, groups.weight.tensor, lambda read: Read(weights, read.indices))
    return Computation(
        computation.name, computation.axes, reduce_axes, (Reduce("sum", value, reduce_axes),), computation.attrs
    )


__all__ = ["join_groups"]
