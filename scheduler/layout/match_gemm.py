"""Matrix products in computations, and which of their axes become rows, columns and the summed lanes of elements."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from typing import Protocol

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor, as_affine
from lathe.frontend.expr.nodes import Axis, Read, axes_of
from lathe.scheduler.layout.vector_type import element_of, whole_elements
from lathe.scheduler.rewriting.matchers import dimension_of, is_loadable, is_plain_read, match_gemm_operands
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP, OPERANDS, WGT
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout

AGAINST = 1e-3
"""What a choice counts that contradicts the lanes which a tensor has already: only if there is no other."""


class KnownLanes(Protocol):
    """Lanes of tensors, as far as they are known."""

    def get(self, tensor: Tensor, /) -> VectorLayout | None:
        """The lanes of a tensor, if they are known."""

    def __getitem__(self, tensor: Tensor, /) -> VectorLayout:
        """The lanes of a tensor that are known."""


class ProducerLookup(Protocol):
    """What a product asks a schedule: who makes a tensor, and in which memory it is."""

    def maker(self, tensor: Tensor) -> StageView | None:
        """The stage that computes the tensor; None for an input."""

    def scope_of(self, tensor: Tensor) -> str:
        """The memory in which the tensor is."""


@dataclass(frozen=True)
class SequentialAxes:
    """Axes of a result that are walked within blocks of lanes, so that they can be no rows, or no columns."""

    rows: frozenset[Axis] = frozenset()
    cols: frozenset[Axis] = frozenset()


@dataclass(frozen=True)
class GemmMatch:
    """A matrix product in a computation: operands, and the axes that become lanes (None: of one value only).

    ``inner`` is the axis that is summed over; in a ``diagonal`` one it is the ``column``, which runs along the
    diagonals of elements of weights, and nothing is summed over it.
    """

    data: Read
    weight: Read
    row: Axis | None
    column: Axis | None
    inner: Axis | None
    diagonal: bool = False
    turns: int | None = None  # of one that only moves blocks of values: those of its result (``VectorLayout``)

    def steps(self, computation: Computation, config: HardwareConfig) -> int:
        """Steps of the matrix core for each element of the result."""
        count = prod(axis.extent for axis in computation.reduce_axes)
        if self.turns is not None:
            return count if config.block_out > config.block_in else 1
        if self.diagonal:
            return count * self.steps_of_tap(config)
        if self.inner is None:
            return count
        return count // self.inner.extent * ceil(self.inner.extent / element_of(config, INP).cols)

    def steps_of_tap(self, config: HardwareConfig) -> int:
        """Steps for each vector of the result and one point of what is summed, with its lanes."""
        if not self.diagonal:
            return 1
        data, weights = (element_of(config, scope) for scope in OPERANDS)
        return ceil(weights.rows / data.cols)

    def fill(self, config: HardwareConfig) -> float:
        """The part of the matrix core's multipliers that do something for the result."""
        data, weights = (element_of(config, scope) for scope in OPERANDS)
        rows = filled(self.row, data.rows)
        if self.diagonal:
            return rows * filled(self.column, min(weights.rows, weights.cols)) / max(weights.rows, weights.cols)
        return rows * filled(self.column, weights.rows) * filled(self.inner, weights.cols)

    def is_thin(self, config: HardwareConfig) -> bool:
        """Whether nothing is summed along lanes, nor are there columns to speak of: the ALU is quicker then."""
        narrow = self.column is None or self.column.extent * 4 <= element_of(config, WGT).rows
        return self.inner is None and narrow


def matrix_product(
    computation: Computation,
    config: HardwareConfig,
    schedule: ProducerLookup | None = None,
    known: KnownLanes | None = None,
    made: VectorLayout | None = None,
    walked: SequentialAxes = SequentialAxes(),
) -> GemmMatch | None:
    """The matrix product that a computation is, with lanes chosen to leave the fewest empty, or None.

    The operand that has a lane axis of the output which the other lacks is the weight; a computed tensor is the data
    where it can be, because a store seldom lays elements out as weights. ``known`` gives the lanes of computed tensors,
    which the choice keeps to where it can; ``made`` those of the result, where they are decided; ``walked`` are axes
    that cannot be lanes of it. A product that neither shares lanes between the operands (as in a
    depthwise convolution) nor has columns to speak of is none: it may be one with diagonal weights
    (``diagonal_product``), or else the ALU does it in fewer cycles, and keeps the channels' lanes.
    """
    pair = match_gemm_operands(computation)
    if pair is None:
        return None
    found: list[tuple[float, GemmMatch]] = []
    placed = False
    data_element, weight_element = (element_of(config, scope) for scope in OPERANDS)
    step = whole_elements(config)
    for order, (data, weight) in enumerate((pair, pair[::-1])):
        places = (schedule.scope_of(data.tensor), schedule.scope_of(weight.tensor)) if schedule else (DRAM, DRAM)
        if ACC in places:
            return None  # the ALU reads it there
        placed = placed or INP in places or WGT in places
        if places[0] == WGT or places[1] == INP:
            continue
        may_be_rows, may_be_columns = possible_axes(computation, walked)
        columns = axes_of_made_lanes(computation, only_in(may_be_columns, weight, data, step), made, "cols")
        inners = [
            axis
            for axis in _mentioned(computation.reduce_axes, data, step)
            if dimension_of(weight, axis, step) is not None and may_end(axis, data_element.cols, (data, weight))
        ]
        rows = axes_of_made_lanes(computation, only_in(may_be_rows, data, weight, step), made, "rows")
        if columns is None or (rows is None and data_element.rows > 1):
            continue
        before = (None, None) if known is None else (known.get(data.tensor), known.get(weight.tensor))
        column, a = best_axis(columns, weight_element.rows, weight, step, before[1].rows if before[1] else None)
        along = before[0].rows if before[0] and data_element.rows > 1 else None
        row, b = best_axis(rows or [], data_element.rows, data, step, along)
        score = a * b
        if before[0] is not None:
            inner, c = best_axis(inners, data_element.cols, data, step, before[0].cols, strict=True)
        elif before[1] is not None:
            inner, c = best_axis(inners, weight_element.cols, weight, step, before[1].cols, strict=True)
        else:
            inner, c = best_axis(inners, data_element.cols, data, step, None)
        score *= c
        product = GemmMatch(data, weight, row, column, inner)
        if is_computed(weight.tensor, schedule, borders=False):
            given = not is_computed(weight.tensor, schedule) and _is_sooner_loaded(product, computation, config)
            score *= 1 if given else 0.5 if is_computed(data.tensor, schedule) else 1e-2
        found.append((score - 1e-12 * order, product))
    if not found:
        return None
    best = max(found, key=lambda each: each[0])[1]
    if made is None and not placed and best.is_thin(config) and computation.axes[-1].extent > 1:
        return None
    return best


def possible_axes(computation: Computation, walked: SequentialAxes) -> tuple[list[Axis], list[Axis]]:
    """The axes of a computation that may be rows, and those that may be columns."""
    rows, cols = ([axis for axis in computation.axes if axis not in each] for each in (walked.rows, walked.cols))
    return rows, cols


def axes_of_made_lanes(
    computation: Computation, axes: list[Axis], made: VectorLayout | None, side: str
) -> list[Axis] | None:
    """Those of the axes that may run along a side of the result's elements; None where the decided one cannot."""
    if made is None:
        return axes
    dim = made.rows if side == "rows" else made.cols
    if dim is None:
        return []
    return [computation.axes[dim]] if computation.axes[dim] in axes else None


def _is_sooner_loaded(product: GemmMatch, computation: Computation, config: HardwareConfig) -> bool:
    """Whether the weights of a product, with lanes that stay empty, are loaded while it is computed."""
    weights, data = (element_of(config, scope) for scope in (WGT, INP))
    blocks = {product.column: weights.rows, product.row: data.rows}
    steps = prod(ceil(axis.extent / blocks.get(axis, 1)) for axis in computation.axes)
    lanes = lanes_of_operand(product, WGT, config)
    elements = prod(ceil(extent / weights.block(lanes, dim)) for dim, extent in enumerate(product.weight.tensor.shape))
    beats = elements * config.wgt_element_bytes * config.memory.cycles_per_beat / config.bus_bytes
    return beats <= steps * product.steps(computation, config)


def is_computed(tensor: Tensor, schedule: ProducerLookup | None, borders: bool = True) -> bool:
    """Whether a chain of plain copies that leads to a tensor begins with one that is computed.

    With ``borders``, of copies with zeros around them, too.
    """
    while True:
        stage = schedule.maker(tensor) if schedule else None
        computation = stage.state.computation if stage is not None else tensor.computation
        source = None if computation is None else (loaded if borders else copied)(computation)
        if source is None:
            return tensor.computation is not None
        tensor = source


@lru_cache(maxsize=4096)
def copied(computation: Computation) -> Tensor | None:
    """The tensor whose elements a computation copies from places that do not depend on data, if that is all it does."""
    body = computation.bodies[0]
    return body.tensor if is_plain_read(body) else None


@lru_cache(maxsize=4096)
def loaded(computation: Computation) -> Tensor | None:
    """The tensor of which a computation holds elements and zeros around them, if that is all it does."""
    tensors = {read.tensor for read in computation.reads}
    return tensors.pop() if len(tensors) == 1 and is_loadable(computation.bodies[0]) else None


def may_end(axis: Axis, block: int, reads: Iterable[Read]) -> bool:
    """Whether a sum along lanes can end in their midst: it has whole blocks, or zeros may stand behind a tensor."""
    return axis.extent % block == 0 or any(ends_with(read, axis) for read in reads)


def ends_with(read: Read, axis: Axis) -> bool:
    """Whether an axis goes as far as the dimension of a tensor that it alone indexes, perhaps not from its first on."""
    dim = dimension_of(read, axis, step=1)
    index = None if dim is None else as_affine(read.indices[dim])
    return dim is not None and index is not None and read.tensor.shape[dim] == axis.extent + index.const


def _mentioned(axes: Iterable[Axis], read: Read, step: int) -> list[Axis]:
    return [axis for axis in axes if dimension_of(read, axis, step) is not None]


def only_in(axes: Iterable[Axis], operand: Read, other: Read, step: int) -> list[Axis]:
    """Axes that index one operand, alone or with a multiple of ``step``, and the other not at all."""
    elsewhere = _indexing(other)
    return [axis for axis in _mentioned(axes, operand, step) if axis not in elsewhere]


@lru_cache(maxsize=4096)
def _indexing(read: Read) -> frozenset[Axis]:
    return frozenset(axes_of(*read.indices))


def filled(axis: Axis | None, block: int) -> float:
    """The part of the lanes that an axis fills."""
    if axis is None:
        return 1 / block
    return axis.extent / (-(-axis.extent // block) * block)


def best_axis(
    axes: list[Axis], block: int, read: Read, step: int, wanted: int | None, strict: bool = False
) -> tuple[Axis | None, float]:
    """The axis that leaves the fewest lanes empty, among equals the innermost, and what the choice counts.

    If the operand has lanes already along dimension ``wanted``, the axis that runs along it comes first.
    """
    if strict or wanted is not None:
        agreeing = [axis for axis in axes if wanted is not None and dimension_of(read, axis, step) == wanted]
        if agreeing:
            return agreeing[0], filled(agreeing[0], block)
        if strict and wanted is None:
            return None, filled(None, block)
    chosen = max(reversed(axes), key=lambda axis: filled(axis, block), default=None)
    return chosen, filled(chosen, block) * (AGAINST if wanted is not None and block > 1 else 1)


def lanes_of_operand(product: GemmMatch, scope: str, config: HardwareConfig) -> VectorLayout:
    """Lanes of an operand of a matrix product: of the one that is read from a scratchpad."""
    inner, step = product.inner, whole_elements(config)
    if product.turns is not None:
        if scope == WGT:
            return VectorLayout(1, 2)
        row, column = (dimension_of(product.data, axis) for axis in (product.row, product.column))
        return VectorLayout(row, column, product.turns - 1)
    if scope == INP:
        row = dimension_of(product.data, product.row, step) if element_of(config, INP).rows > 1 else None
        return VectorLayout(row, dimension_of(product.data, inner, step))
    return VectorLayout(dimension_of(product.weight, product.column, step), dimension_of(product.weight, inner, step))


def turning_product(computation: Computation, lanes: VectorLayout) -> GemmMatch:
    """The product that a computation of ``insert_turns`` is, with a result in such lanes."""
    pair = match_gemm_operands(computation)
    assert pair is not None, f"{computation.name} is no product"
    rows, cols = (None if dim is None else computation.axes[dim] for dim in (lanes.rows, lanes.cols))
    return GemmMatch(*pair, rows, cols, None, turns=lanes.turns)


def has_placed_operand(stage: StageView) -> bool:
    """Whether somebody has placed what a stage reads where only matrix products read."""
    return any(stage.schedule.scope_of(read.tensor) in OPERANDS for read in stage.state.computation.reads)
