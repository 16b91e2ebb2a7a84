"""Alternative implementations of a stage on a machine, each with its issue cycles and the layouts of its operands.

Issue cycles are those of the instruction table, a lower bound for any schedule: each is for a whole vector, and copies,
tokens, micro-ops and layout conversions cost nothing. Each implementation has a vector layout of its accumulators,
which stages that read them in 32 bits must share (``shared_layouts.py``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from lathe.configs import HardwareConfig
from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend import Computation, as_affine
from lathe.frontend.arith.strip_casts import skip_casts, skip_value_preserving_casts
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Const,
    Guard,
    Read,
    Reduce,
    Select,
    axes_of,
    reads_data,
)
from lathe.isa import AluOp
from lathe.isa.table import alu_operations
from lathe.scheduler.cost.stage_cost import alu_issue_cycles, rescale_issue_cycles
from lathe.scheduler.isel.rules.alu_cse import Sharing, sharing_of
from lathe.scheduler.isel.rules.alu_expressions import order
from lathe.scheduler.layout.match_gemm import GemmMatch, only_in
from lathe.scheduler.layout.rescaling import rescaling_of
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.lower_bound.domain_points import Bits, CountedPoints
from lathe.scheduler.lower_bound.mac_counts import ProducerOf, Source, factors_of, macs_in, source_of
from lathe.scheduler.rewriting.matchers import dim_indexed_by
from lathe.scheduler.schedule_ir.memories import ACC, INP, OPERANDS, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout

OPERATIONS = {
    "add": AluOp.ADD, "sub": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX, "shr": AluOp.SHR,
    "sum": AluOp.ADD, "prod": AluOp.MUL,
}  # fmt: skip


class AccLayout(NamedTuple):
    """Vector layout of a stage's accumulators: the axes along rows and columns; None if only one index is used."""

    row: Axis | None
    column: Axis | None


@dataclass(frozen=True)
class Implementation:
    """Issue cycles, ``layout`` of accumulators, number of MACs; per GEMM operand its memory and possible layouts."""

    unit: str
    layout: AccLayout
    gemm: int = 0
    reset: int = 0
    alu: int = 0
    rescale: int = 0
    products: int = 0
    operands: Mapping[Source, tuple[str, tuple[VectorLayout, ...]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """All issue cycles."""
        return self.gemm + self.reset + self.alu + self.rescale


class StageImplementations:
    """All implementations of a stage, by accumulator layout; ``needed``: the live values of its data axes."""

    def __init__(
        self, computation: Computation, needed: Mapping[Axis, Bits | None], producer_of: ProducerOf,
        config: HardwareConfig,
    ) -> None:  # fmt: skip
        self.guards: tuple[Guard, ...] = () if computation.where is None else ((computation.where, True),)
        self.computation, self.needed, self.producer_of, self.config = computation, needed, producer_of, config
        self.acc, self.data, self.weights = (vector_type_of(config, scope) for scope in (ACC, *OPERANDS))
        self.results = self.points(())
        self.macs = macs_in(computation, producer_of, needed)
        self.rescaling = rescaling_of(computation)
        self._at: dict[AccLayout, tuple[Implementation, ...]] = {}

    @cached_property
    def layouts(self) -> list[AccLayout]:
        """The possible layouts of its accumulators."""
        return list(dict.fromkeys([*self.by_gemm, *self.alu_layouts()]))

    def vectors(self, layout: AccLayout) -> int:
        """The number of vectors of the stage's results in a layout."""
        return self.results.vectors(self._lanes_of(layout))

    def at(self, layout: AccLayout) -> tuple[Implementation, ...]:
        """All implementations with this layout, if there are any."""
        if layout not in self._at:
            self._at[layout] = tuple(self._at_layout(layout))
        return self._at[layout]

    def _at_layout(self, layout: AccLayout) -> Iterator[Implementation]:
        if self.rescaling is not None:
            steps = rescale_issue_cycles(self.rescaling) * self.vectors(layout)
            yield Implementation("rescale", layout, rescale=steps)
            return
        yield from self.by_gemm.get(layout, ())
        if not any(axis is not None and self._is_shifted(axis, size) for axis, size in self._sides(layout)):
            yield self._on_alu(layout)

    @cached_property
    def by_gemm(self) -> dict[AccLayout, list[Implementation]]:
        """The implementations by GEMM, by the layout of accumulators."""
        gemms: dict[AccLayout, list[Implementation]] = {}
        for each in () if self.rescaling is not None else self.gemms():
            gemms.setdefault(each.layout, []).append(each)
        return gemms

    def points(self, conditions: Sequence[Guard], *, reduced: bool = False) -> CountedPoints:
        """The points of the data axes, with ``reduced`` of all axes, at which conditions hold."""
        axes: dict[Axis, Bits | None] = dict(self.needed)
        if reduced:
            axes.update(dict.fromkeys(self.computation.reduce_axes))
        return CountedPoints(axes, (*self.guards, *conditions))

    def alu_layouts(self) -> Iterator[AccLayout]:
        """The layouts for the ALU: not along axes that taps shift, where reads would straddle two vectors."""
        axes = [axis for axis in self.computation.axes if axis.extent > 1]
        cols: list[Axis | None] = [axis for axis in axes if not self._is_shifted(axis, self.acc.cols)]
        rows: list[Axis | None] = [axis for axis in axes if not self._is_shifted(axis, self.acc.rows)]
        for col in cols or [None]:
            for row in (None, *rows) if self.acc.rows > 1 else (None,):
                if row is None or row is not col:
                    yield AccLayout(row, col)

    def _sides(self, layout: AccLayout) -> tuple[tuple[Axis | None, int], tuple[Axis | None, int]]:
        return (layout.row, self.acc.rows), (layout.column, self.acc.cols)

    def _lanes_of(self, layout: AccLayout, block: int = 0) -> dict[Axis, int]:
        """The number of lanes of a vector along each axis; ``block``: number of columns in use, 0 for all."""
        return _lane_counts((layout.row, self.acc.rows), (layout.column, block or self.acc.cols))

    def _is_shifted(self, axis: Axis, block: int) -> bool:
        """Whether an iteration of the reduction shifts reads along an axis by less than whole vectors."""
        for read in self.computation.reads:
            for index in read.indices:
                affine = as_affine(index)
                strides = {} if affine is None else affine.coefficients
                if strides.get(axis) == 1 and any(c % block for each, c in strides.items() if each.kind == "reduce"):
                    return True
        return False

    def gemms(self) -> Iterator[Implementation]:
        """The implementations by GEMM: either operand may be the data; of a sum of bytes, GEMM with ones."""
        factors = factors_of(self.computation, self.producer_of)
        if factors is None:
            yield from self._sums_as_gemm()
            return
        pair = factors.operands
        counted = self.points(factors.counted, reduced=True)
        for data, weight in (pair, pair[::-1]):
            for product in self._gemm_matches(self._packed(data.read), self._packed(weight.read)):
                layout = AccLayout(product.row, product.column)
                lanes = self._lanes_of(layout)
                reset = 0 if GEMM_BEGIN in self.config.extensions else self.results.vectors(lanes)
                issued = lanes | _lane_counts((product.inner, self.data.cols))
                yield Implementation(
                    "diagonal products" if product.diagonal else "products",
                    layout,
                    gemm=counted.vectors(self._of_diagonals(product) if product.diagonal else issued),
                    reset=reset,
                    products=self.macs,
                    operands={data: (INP, self._of_data(product)), weight: (WGT, self._of_weights(product))},
                )

    def _sums_as_gemm(self) -> Iterator[Implementation]:
        """A sum of int8 values as a GEMM with ones on the diagonals of weights."""
        body = self.computation.bodies[0]
        if (
            len(self.computation.bodies) > 1
            or not isinstance(body, Reduce)
            or (body.kind, body.dtype) != ("sum", "int32")
        ):
            return
        source = source_of(body.body, self.producer_of, 0)
        if source is None or source.read.dtype != "int8":
            return
        counted = self.points(source.counted, reduced=True)
        data = self._packed(source.read)
        plain = [axis for axis in self.computation.axes if dim_indexed_by(data, axis) is not None]
        for column in plain:
            rows: list[Axis | None] = [axis for axis in plain if axis is not column]
            for row in rows if rows and self.data.rows > 1 else [None]:
                layout = AccLayout(row, column)
                product = GemmMatch(data, data, row, column, column, diagonal=True)
                yield Implementation(
                    "sums by products",
                    layout,
                    gemm=counted.vectors(self._of_diagonals(product)),
                    reset=0 if GEMM_BEGIN in self.config.extensions else self.vectors(layout),
                    operands={source: (INP, self._of_data(product))},
                )

    def _packed(self, read: Read) -> Read:
        """A read as the host CPU may pack the tensor: without the stride of a strided read of an input."""
        if self.producer_of(read.tensor) is not None:
            return read
        return Read(read.tensor, tuple(map(_without_stride, read.indices)))

    def _of_diagonals(self, product: GemmMatch) -> dict[Axis, int]:
        """The lanes of one issue of a diagonal GEMM: as many columns as vectors of data and of results both have."""
        return _lane_counts((product.row, self.data.rows), (product.column, min(self.data.cols, self.acc.cols)))

    def _gemm_matches(self, data: Read, weight: Read) -> Iterator[GemmMatch]:
        """All choices of axes for rows, columns and reduction lanes.

        Rows are along an axis of the data only, without taps that shift it, for which reads would straddle two vectors.
        """
        computation = self.computation
        rows: list[Axis | None] = [*only_in(computation.axes, data, weight, step=1)]
        rows = rows if rows and self.data.rows > 1 else [None]
        both = (*computation.axes, *computation.reduce_axes)
        shared = [a for a in both if all(dim_indexed_by(each, a, step=1) is not None for each in (data, weight))]
        columns: list[Axis | None] = [*only_in(computation.axes, weight, data, step=1)]
        inners: list[Axis | None] = [axis for axis in shared if axis.kind == "reduce"]
        for row in rows:
            for column in columns or [None]:
                for inner in inners or [None]:
                    yield GemmMatch(data, weight, row, column, inner)
            along = [axis for axis in shared if axis.kind == "data"]
            if self.producer_of(weight.tensor) is None:  # the host CPU broadcasts inputs along axes of the data only
                along += [axis for axis in only_in(computation.axes, data, weight, step=1) if axis is not row]
            for column in along:
                yield GemmMatch(data, weight, row, column, column, diagonal=True)

    def _of_data(self, product: GemmMatch) -> tuple[VectorLayout, ...]:
        """The possible layouts of the data: rows along any other dimension."""
        along = dim_indexed_by(product.data, product.inner, step=1)
        rows = (None, *range(len(product.data.indices))) if self.data.rows > 1 else (None,)
        return tuple(VectorLayout(row, along) for row in rows if row is None or row != along)

    def _of_weights(self, product: GemmMatch) -> tuple[VectorLayout, ...]:
        along = (dim_indexed_by(product.weight, axis, step=1) for axis in (product.column, product.inner))
        return (VectorLayout(*along),)

    def _on_alu(self, layout: AccLayout) -> Implementation:
        work = self._work_of_alu
        pair, block = alu_issue_cycles(AluOp.ADD, immediate=False), min(self.acc.cols, self.data.cols)
        lanes, gemm_lanes = self._lanes_of(layout), self._lanes_of(layout, block)
        steps = sum(each * points.vectors(lanes, axes) for each, points, axes in work.counts)
        for points, axes in work.added:
            steps += min(pair * points.vectors(lanes, axes), points.vectors(gemm_lanes, axes))
        return Implementation(
            "alu" if work.counts or work.added else "copy",
            layout,
            reset=self.results.vectors(lanes) * len(self.computation.bodies) if work.reset else 0,
            alu=steps,
            products=self.macs,
        )

    @cached_property
    def _work_of_alu(self) -> "_WorkOfAlu":
        counts: list[tuple[int, CountedPoints, frozenset[Axis]]] = []
        added: list[tuple[CountedPoints, frozenset[Axis]]] = []
        reset = False
        for body in self.computation.bodies:
            reduction = body.kind if isinstance(body, Reduce) else None
            value = body.body if isinstance(body, Reduce) else body
            conditions: tuple[Guard, ...] = ()
            if reduction is not None:
                source = source_of(value, self.producer_of, neutral_element(reduction, body.dtype))
                conditions = () if source is None else source.counted
                points = self.points(conditions, reduced=True)
                own = frozenset((*self.computation.axes, *self.computation.reduce_axes))
                counts.append((alu_issue_cycles(OPERATIONS[reduction], immediate=False), points, own))
                reset = True
            walker = _Operations(sharing_of(value, alu_operations(self.config)))
            for operation, immediate, axes, guards in walker.operations(value):
                points = self.points((*conditions, *guards), reduced=True)
                counts.append((alu_issue_cycles(operation, immediate=immediate), points, axes))
            if len(self.computation.bodies) == 1 and (addition_axes := _axes_of_addition(body)) is not None:
                added.append((counts.pop(0)[1], addition_axes))
        return _WorkOfAlu(counts, added, reset)


class _WorkOfAlu(NamedTuple):
    """``counts``: issue cycles, points and axes of each operation; ``added``: points and axes of additions that an
    identity GEMM may do in one cycle; ``reset``: whether accumulators are initialised."""

    counts: list[tuple[int, CountedPoints, frozenset[Axis]]]
    added: list[tuple[CountedPoints, frozenset[Axis]]]
    reset: bool


class _Operations:
    """The ALU operations of an expression after common-subexpression elimination, as in the rule ``alu``."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self.seen: set[Expr] = set()

    def operations(
        self, expr: Expr, guards: tuple[Guard, ...] = ()
    ) -> Iterator[tuple[AluOp, bool, frozenset[Axis], tuple[Guard, ...]]]:
        """Operation, whether the second operand is an immediate, the axes that it depends on, and its guards."""
        first = self.sharing.same(expr)
        if first in self.seen or not reads_data(first):
            return
        self.seen.add(first)
        match first:
            case Select(condition=condition, then=then, otherwise=otherwise):
                yield from self.operations(then, (*guards, (condition, True)))
                yield from self.operations(otherwise, (*guards, (condition, False)))
            case Binary():
                simple = self.sharing.simple(first)
                operation = OPERATIONS.get("shr" if simple.op == "shl" else simple.op)
                _, second = order(self.sharing, simple, None) if operation is not None else (None, None)
                immediate = second is None or isinstance(skip_value_preserving_casts(second), Const)
                if operation is not None and simple.dtype not in ("bool", "index"):
                    yield operation, immediate, frozenset(axes_of(first)), guards
                for side in (simple.lhs, simple.rhs):
                    yield from self.operations(side, guards)
            case Cast(operand=operand):
                yield from self.operations(operand, guards)


def _axes_of_addition(body: Expr) -> frozenset[Axis] | None:
    """The axes of an addition of two tensors, one of int8, which an identity GEMM can do; None for anything else."""
    sum_ = skip_casts(body)
    if not isinstance(sum_, Binary) or sum_.op != "add" or sum_.dtype != "int32":
        return None
    sides = [skip_value_preserving_casts(side) for side in (sum_.lhs, sum_.rhs)]
    both = all(isinstance(side, Read) for side in sides) and sides[0] is not sides[1]
    return frozenset(axes_of(sum_)) if both and any(side.dtype == "int8" for side in sides) else None


def _without_stride(index: Expr) -> Expr:
    """The axis alone, for an index that is a multiple of it plus a constant; any other index unchanged."""
    affine = as_affine(index)
    if affine is None or len(affine.coefficients) != 1:
        return index
    ((axis, stride),) = affine.coefficients.items()
    return AxisRef(axis) if stride > 1 else index


def _lane_counts(*sides: tuple[Axis | None, int]) -> dict[Axis, int]:
    return {axis: size for axis, size in sides if axis is not None and size > 1}


__all__ = ["AccLayout", "Implementation", "StageImplementations"]
