"""Which computations are GEMMs for a machine, and which of their axes become rows, columns and reduction lanes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from typing import Protocol

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor, as_affine
from lathe.frontend.expr.nodes import Axis, Read, axes_of
from lathe.scheduler.layout.vector_type import largest_block, vector_type_of
from lathe.scheduler.rewriting.matchers import dim_indexed_by, is_loadable, is_plain_read, match_gemm_operands
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP, OPERANDS, WGT
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout

AGAINST = 1e-3
"""The score of an axis that contradicts the layout that a tensor already has: taken only if there is no other."""


class KnownLanes(Protocol):
    """Vector layouts of tensors, as far as they are known."""

    def get(self, tensor: Tensor, /) -> VectorLayout | None:
        """The layout of a tensor, if it is known."""

    def __getitem__(self, tensor: Tensor, /) -> VectorLayout:
        """The layout of a tensor, which must be known."""


class ProducerLookup(Protocol):
    """What matching asks of a schedule: the producer of a tensor, and its memory."""

    def producer(self, tensor: Tensor) -> StageView | None:
        """The stage that computes the tensor; None for an input."""

    def scope_of(self, tensor: Tensor) -> str:
        """The memory that holds the tensor."""


@dataclass(frozen=True)
class SequentialAxes:
    """Axes of a result that cannot be its rows, or its columns: it is computed in smaller steps than a vector has."""

    rows: frozenset[Axis] = frozenset()
    cols: frozenset[Axis] = frozenset()


@dataclass(frozen=True)
class GemmMatch:
    """A matched GEMM: its operands, and the axes that become lanes (None: a single value fills them).

    ``inner`` is the reduction axis. In a ``diagonal`` match (depthwise) it equals ``column``, which runs along the
    diagonal of the weight vectors, and nothing is reduced over it.
    """

    data: Read
    weight: Read
    row: Axis | None
    column: Axis | None
    inner: Axis | None
    diagonal: bool = False
    turns: int | None = None  # of a permutation GEMM (layout conversion): those of its result (``VectorLayout.turns``)

    def steps(self, computation: Computation, config: HardwareConfig) -> int:
        """Cycles of the matrix core (one GEMM micro-op each) for every vector of the result."""
        count = prod(axis.extent for axis in computation.reduce_axes)
        if self.turns is not None:
            return count if config.block_out > config.block_in else 1
        if self.diagonal:
            return count * self.steps_of_tap(config)
        if self.inner is None:
            return count
        return count // self.inner.extent * ceil(self.inner.extent / vector_type_of(config, INP).cols)

    def steps_of_tap(self, config: HardwareConfig) -> int:
        """Cycles of the matrix core for every vector of the result and point of the reduction outside the lanes."""
        if not self.diagonal:
            return 1
        data, weights = (vector_type_of(config, scope) for scope in OPERANDS)
        return ceil(weights.rows / data.cols)

    def fill(self, config: HardwareConfig) -> float:
        """Utilisation: the fraction of the matrix core's multipliers that contribute to the result."""
        data, weights = (vector_type_of(config, scope) for scope in OPERANDS)
        rows = filled(self.row, data.rows)
        if self.diagonal:
            return rows * filled(self.column, min(weights.rows, weights.cols)) / max(weights.rows, weights.cols)
        return rows * filled(self.column, weights.rows) * filled(self.inner, weights.cols)

    def is_thin(self, config: HardwareConfig) -> bool:
        """Whether no lanes are reduced and at most a quarter of the columns are filled, so that the ALU is faster."""
        narrow = self.column is None or self.column.extent * 4 <= vector_type_of(config, WGT).rows
        return self.inner is None and narrow


def match_gemm(
    computation: Computation,
    config: HardwareConfig,
    schedule: ProducerLookup | None = None,
    known: KnownLanes | None = None,
    made: VectorLayout | None = None,
    walked: SequentialAxes = SequentialAxes(),
) -> GemmMatch | None:
    """Match a computation as a GEMM, and choose the axes in its lanes that leave the fewest lanes empty; or None.

    The operand that has the output's column axis, and the other has not, is the weight; a computed tensor is the data
    where possible, because stored vectors seldom have the layout of weights. ``known`` gives the layouts of computed
    tensors, which the choice follows where it can; ``made`` the layout of the result, if it is fixed; ``walked`` the
    axes that cannot be its lanes. A product that reduces no lanes (as in a depthwise convolution) and has hardly any
    columns is not matched: it may be a GEMM with diagonal weights (``match_depthwise``), or else the ALU takes fewer
    cycles, and preserves the layout of the channels.
    """
    pair = match_gemm_operands(computation)
    if pair is None:
        return None
    candidates: list[tuple[float, GemmMatch]] = []
    in_operand_memory = False
    data_element, weight_element = (vector_type_of(config, scope) for scope in OPERANDS)
    step = largest_block(config)
    for order, (data, weight) in enumerate((pair, pair[::-1])):
        scopes = (schedule.scope_of(data.tensor), schedule.scope_of(weight.tensor)) if schedule else (DRAM, DRAM)
        if ACC in scopes:
            return None  # the ALU reads it there
        in_operand_memory = in_operand_memory or INP in scopes or WGT in scopes
        if scopes[0] == WGT or scopes[1] == INP:
            continue
        may_be_rows, may_be_columns = possible_axes(computation, walked)
        columns = axes_of_made_lanes(computation, only_in(may_be_columns, weight, data, step), made, "cols")
        inners = [
            axis
            for axis in _mentioned(computation.reduce_axes, data, step)
            if dim_indexed_by(weight, axis, step) is not None and may_end(axis, data_element.cols, (data, weight))
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
        candidates.append((score - 1e-12 * order, product))
    if not candidates:
        return None
    best = max(candidates, key=lambda each: each[0])[1]
    if made is None and not in_operand_memory and best.is_thin(config) and computation.shape[-1:] > (1,):
        return None
    return best


def possible_axes(computation: Computation, walked: SequentialAxes) -> tuple[list[Axis], list[Axis]]:
    """The axes of a computation that can be rows, and those that can be columns."""
    rows, cols = ([axis for axis in computation.axes if axis not in each] for each in (walked.rows, walked.cols))
    return rows, cols


def axes_of_made_lanes(
    computation: Computation, axes: list[Axis], result: VectorLayout | None, side: str
) -> list[Axis] | None:
    """The axes that can be a side ("rows" or "cols") of the result's vectors; None if its given layout excludes all."""
    if result is None:
        return axes
    dim = result.rows if side == "rows" else result.cols
    if dim is None:
        return []
    return [computation.axes[dim]] if computation.axes[dim] in axes else None


def _is_sooner_loaded(product: GemmMatch, computation: Computation, config: HardwareConfig) -> bool:
    """Whether the weights of a GEMM, padded to whole vectors, take no longer to load than the GEMM to compute."""
    weights, data = (vector_type_of(config, scope) for scope in (WGT, INP))
    blocks = {product.column: weights.rows, product.row: data.rows}
    steps = prod(ceil(axis.extent / blocks.get(axis, 1)) for axis in computation.axes)
    lanes = gemm_operand_layout(product, WGT, config)
    elements = prod(ceil(extent / weights.block(lanes, dim)) for dim, extent in enumerate(product.weight.tensor.shape))
    beats = elements * config.wgt_element_bytes * config.memory.cycles_per_beat / config.bus_bytes
    return beats <= steps * product.steps(computation, config)


def is_computed(tensor: Tensor, schedule: ProducerLookup | None, borders: bool = True) -> bool:
    """Whether a tensor is a computed one, or a copy, possibly through several stages, of a computed one.

    With ``borders``, copies with zero padding count as copies too.
    """
    while True:
        stage = schedule.producer(tensor) if schedule else None
        computation = stage.state.computation if stage is not None else tensor.computation
        source = None if computation is None else (loaded if borders else copied)(computation)
        if source is None:
            return tensor.computation is not None
        tensor = source


@lru_cache(maxsize=4096)
def copied(computation: Computation) -> Tensor | None:
    """The tensor that a computation copies, at data-independent indices, if that is all it does."""
    body = computation.bodies[0]
    return body.tensor if is_plain_read(body) else None


@lru_cache(maxsize=4096)
def loaded(computation: Computation) -> Tensor | None:
    """The tensor that a computation copies, perhaps with zero padding, if that is all it does."""
    tensors = {read.tensor for read in computation.reads}
    return tensors.pop() if len(tensors) == 1 and is_loadable(computation.bodies[0]) else None


def may_end(axis: Axis, block: int, reads: Iterable[Read]) -> bool:
    """Whether an axis can be reduced along lanes: it fills whole blocks, or ends where a tensor does (zero padding)."""
    return axis.extent % block == 0 or any(ends_with(read, axis) for read in reads)


def ends_with(read: Read, axis: Axis) -> bool:
    """Whether an axis that alone indexes a dimension of a tensor ends where the dimension ends."""
    dim = dim_indexed_by(read, axis, step=1)
    index = None if dim is None else as_affine(read.indices[dim])
    return dim is not None and index is not None and read.tensor.shape[dim] == axis.extent + index.const


def _mentioned(axes: Iterable[Axis], read: Read, step: int) -> list[Axis]:
    return [axis for axis in axes if dim_indexed_by(read, axis, step) is not None]


def only_in(axes: Iterable[Axis], operand: Read, other: Read, step: int) -> list[Axis]:
    """The axes that index one operand, alone or plus a multiple of ``step``, and the other not at all."""
    elsewhere = _indexing(other)
    return [axis for axis in _mentioned(axes, operand, step) if axis not in elsewhere]


@lru_cache(maxsize=4096)
def _indexing(read: Read) -> frozenset[Axis]:
    return frozenset(axes_of(*read.indices))


def filled(axis: Axis | None, block: int) -> float:
    """The fraction of lanes that an axis fills in vectors of ``block`` lanes."""
    if axis is None:
        return 1 / block
    return axis.extent / (-(-axis.extent // block) * block)


def best_axis(
    axes: list[Axis], block: int, read: Read, step: int, wanted: int | None, strict: bool = False
) -> tuple[Axis | None, float]:
    """The axis that leaves the fewest lanes empty, of equal ones the innermost, and its score.

    If the operand already has dimension ``wanted`` in its lanes, the axis that indexes it is preferred. ``strict``: the
    operand's layout is known, so that no axis is chosen if ``wanted`` is None.
    """
    if strict or wanted is not None:
        matching = [axis for axis in axes if wanted is not None and dim_indexed_by(read, axis, step) == wanted]
        if matching:
            return matching[0], filled(matching[0], block)
        if strict and wanted is None:
            return None, filled(None, block)
    chosen = max(reversed(axes), key=lambda axis: filled(axis, block), default=None)
    return chosen, filled(chosen, block) * (AGAINST if wanted is not None and block > 1 else 1)


def gemm_operand_layout(product: GemmMatch, scope: str, config: HardwareConfig) -> VectorLayout:
    """The layout of the operand of a GEMM that is read from a scratchpad, ``inp`` or ``wgt``."""
    inner, step = product.inner, largest_block(config)
    if product.turns is not None:
        if scope == WGT:
            return VectorLayout(1, 2)
        row, column = (dim_indexed_by(product.data, axis) for axis in (product.row, product.column))
        return VectorLayout(row, column, product.turns - 1)
    if scope == INP:
        row = dim_indexed_by(product.data, product.row, step) if vector_type_of(config, INP).rows > 1 else None
        return VectorLayout(row, dim_indexed_by(product.data, inner, step))
    return VectorLayout(
        dim_indexed_by(product.weight, product.column, step), dim_indexed_by(product.weight, inner, step)
    )


def turning_product(computation: Computation, lanes: VectorLayout) -> GemmMatch:
    """The permutation GEMM of a stage that ``insert-layout-conversions`` has added; ``lanes``: layout of its result."""
    pair = match_gemm_operands(computation)
    assert pair is not None, f"{computation.name} is no product"
    rows, cols = (None if dim is None else computation.axes[dim] for dim in (lanes.rows, lanes.cols))
    return GemmMatch(*pair, rows, cols, None, turns=lanes.conversions)


def reads_operand_memory(stage: StageView) -> bool:
    """Whether an operand of a stage is already in ``inp`` or ``wgt``, which only GEMM reads."""
    return any(stage.schedule.scope_of(read.tensor) in OPERANDS for read in stage.state.computation.reads)
