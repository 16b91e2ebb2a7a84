"""The ways in which a machine can compute a stage, each with its steps, and with the lanes of what it loads.

Steps are those of the instruction table. What a way counts is what any schedule of it has to do: each step on a whole
vector, but no copies, no tokens, no micro-ops, and nothing for bringing values into other lanes. Each way has the lanes
of its accumulators, which stages that read its sums share (``shared_layouts.py``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from lathe.configs import HardwareConfig
from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend import Computation, as_affine
from lathe.frontend.arith.strip_casts import skip_casts, skip_value_preserving_casts
from lathe.frontend.expr.arithmetic import neutral
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
from lathe.scheduler.cost.issue_cycles import steps_of_alu, steps_of_rescaling
from lathe.scheduler.isel.rules.alu_cse import Sharing, sharing_of
from lathe.scheduler.isel.rules.alu_expressions import order
from lathe.scheduler.layout.match_gemm import GemmMatch, only_in
from lathe.scheduler.layout.rescaling import rescaling_of
from lathe.scheduler.layout.vector_type import element_of
from lathe.scheduler.lower_bound.domain_points import Bits, CountedPoints
from lathe.scheduler.lower_bound.mac_counts import Maker, Source, factors_of, products_in, source_of
from lathe.scheduler.rewriting.matchers import dimension_of
from lathe.scheduler.schedule_ir.memories import ACC, INP, OPERANDS, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout

OPERATIONS = {
    "add": AluOp.ADD, "sub": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX, "shr": AluOp.SHR,
    "sum": AluOp.ADD, "prod": AluOp.MUL,
}  # fmt: skip


class BoundPlace(NamedTuple):
    """Which axes of a stage fill the rows and the columns of its accumulators; None for one index in each."""

    row: Axis | None
    column: Axis | None


@dataclass(frozen=True)
class Implementation:
    """Steps of the compute unit, and for each source that is read in lanes of its own: its memory and these lanes.

    ``place``: the lanes of the accumulators. ``products``: those of two values that are added up.
    """

    unit: str
    place: BoundPlace
    gemm: int = 0
    reset: int = 0
    alu: int = 0
    rescale: int = 0
    products: int = 0
    operands: Mapping[Source, tuple[str, tuple[VectorLayout, ...]]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return self.gemm + self.reset + self.alu + self.rescale


class StageImplementations:
    """All ways to compute the points of a stage, by the lanes of its accumulators.

    ``needed``: which values of its data axes anybody reads. ``results``: the points that it makes, before anything is
    reduced.
    """

    def __init__(
        self, computation: Computation, needed: Mapping[Axis, Bits | None], maker: Maker, config: HardwareConfig
    ) -> None:
        self.guards: tuple[Guard, ...] = () if computation.where is None else ((computation.where, True),)
        self.computation, self.needed, self.maker, self.config = computation, needed, maker, config
        self.near, self.data, self.weights = (element_of(config, scope) for scope in (ACC, *OPERANDS))
        self.results = self.points(())
        self.multiplied = products_in(computation, maker, needed)
        self.rescaling = rescaling_of(computation)
        self._at: dict[BoundPlace, tuple[Implementation, ...]] = {}

    @cached_property
    def places(self) -> list[BoundPlace]:
        """The lanes that its accumulators may have."""
        return list(dict.fromkeys([*self.by_products, *self.lanes()]))

    def vectors(self, place: BoundPlace) -> int:
        """How many elements hold what the stage makes, in these lanes."""
        return self.results.vectors(self._filled(place))

    def at(self, place: BoundPlace) -> tuple[Implementation, ...]:
        """All ways in these lanes, if there are any."""
        if place not in self._at:
            self._at[place] = tuple(self._ways_at(place))
        return self._at[place]

    def _ways_at(self, place: BoundPlace) -> Iterator[Implementation]:
        if self.rescaling is not None:
            steps = steps_of_rescaling(self.rescaling) * self.vectors(place)
            yield Implementation("rescale", place, rescale=steps)
            return
        yield from self.by_products.get(place, ())
        if not any(axis is not None and self._is_shifted(axis, size) for axis, size in self._sides(place)):
            yield self._on_alu(place)

    @cached_property
    def by_products(self) -> dict[BoundPlace, list[Implementation]]:
        """The ways on the matrix core."""
        found: dict[BoundPlace, list[Implementation]] = {}
        for way in () if self.rescaling is not None else self.products():
            found.setdefault(way.place, []).append(way)
        return found

    def points(self, conditions: Sequence[Guard], *, reduced: bool = False) -> CountedPoints:
        """The points of the data axes, or of all axes, where conditions hold."""
        axes: dict[Axis, Bits | None] = dict(self.needed)
        if reduced:
            axes.update(dict.fromkeys(self.computation.reduce_axes))
        return CountedPoints(axes, (*self.guards, *conditions))

    def lanes(self) -> Iterator[BoundPlace]:
        """What the lanes of accumulators can be filled with: not what taps shift, which would lie in two elements."""
        axes = [axis for axis in self.computation.axes if axis.extent > 1]
        cols: list[Axis | None] = [axis for axis in axes if not self._is_shifted(axis, self.near.cols)]
        rows: list[Axis | None] = [axis for axis in axes if not self._is_shifted(axis, self.near.rows)]
        for col in cols or [None]:
            for row in (None, *rows) if self.near.rows > 1 else (None,):
                if row is None or row is not col:
                    yield BoundPlace(row, col)

    def _sides(self, place: BoundPlace) -> tuple[tuple[Axis | None, int], tuple[Axis | None, int]]:
        return (place.row, self.near.rows), (place.column, self.near.cols)

    def _filled(self, place: BoundPlace, block: int = 0) -> dict[Axis, int]:
        """How many indices of each axis an element holds; ``block``: how many columns count, all of them if it is 0."""
        return _lanes((place.row, self.near.rows), (place.column, block or self.near.cols))

    def _is_shifted(self, axis: Axis, block: int) -> bool:
        """Whether a step of the reduction moves what is read along an axis by less than whole blocks."""
        for read in self.computation.reads:
            for index in read.indices:
                affine = as_affine(index)
                steps = {} if affine is None else affine.coefficients
                if steps.get(axis) == 1 and any(c % block for each, c in steps.items() if each.kind == "reduce"):
                    return True
        return False

    def products(self) -> Iterator[Implementation]:
        found = factors_of(self.computation, self.maker)
        if found is None:
            yield from self._sums_by_products()
            return
        pair = found.operands
        counted = self.points(found.counted, reduced=True)
        for data, weight in (pair, pair[::-1]):
            for product in self._lanes_of_products(self._packed(data.read), self._packed(weight.read)):
                place = BoundPlace(product.row, product.column)
                lanes = self._filled(place)
                reset = 0 if GEMM_BEGIN in self.config.extensions else self.results.vectors(lanes)
                steps = lanes | _lanes((product.inner, self.data.cols))
                yield Implementation(
                    "diagonal products" if product.diagonal else "products",
                    place,
                    gemm=counted.vectors(self._of_diagonals(product) if product.diagonal else steps),
                    reset=reset,
                    products=self.multiplied,
                    operands={data: (INP, self._of_data(product)), weight: (WGT, self._of_weights(product))},
                )

    def _sums_by_products(self) -> Iterator[Implementation]:
        """A sum of bytes, multiplied by ones on the diagonals of weights that the host makes."""
        body = self.computation.bodies[0]
        if (
            len(self.computation.bodies) > 1
            or not isinstance(body, Reduce)
            or (body.kind, body.dtype) != ("sum", "int32")
        ):
            return
        source = source_of(body.body, self.maker, 0)
        if source is None or source.read.dtype != "int8":
            return
        counted = self.points(source.counted, reduced=True)
        data = self._packed(source.read)
        plain = [axis for axis in self.computation.axes if dimension_of(data, axis) is not None]
        for column in plain:
            rows: list[Axis | None] = [axis for axis in plain if axis is not column]
            for row in rows if rows and self.data.rows > 1 else [None]:
                place = BoundPlace(row, column)
                product = GemmMatch(data, data, row, column, column, diagonal=True)
                yield Implementation(
                    "sums by products",
                    place,
                    gemm=counted.vectors(self._of_diagonals(product)),
                    reset=0 if GEMM_BEGIN in self.config.extensions else self.vectors(place),
                    operands={source: (INP, self._of_data(product))},
                )

    def _packed(self, read: Read) -> Read:
        """A read as the host may pack what it reads: of an input read in steps, elements lie beside each other."""
        if self.maker(read.tensor) is not None:
            return read
        return Read(read.tensor, tuple(map(_without_step, read.indices)))

    def _of_diagonals(self, product: GemmMatch) -> dict[Axis, int]:
        """The lanes of one step of diagonal weights: as many columns as fill elements of data and of results."""
        return _lanes((product.row, self.data.rows), (product.column, min(self.data.cols, self.near.cols)))

    def _lanes_of_products(self, data: Read, weight: Read) -> Iterator[GemmMatch]:
        """All choices of axes for rows, columns and summed lanes.

        Rows run along what only the data have, by itself: neighbours that taps shift would have to lie in two elements.
        """
        computation = self.computation
        rows: list[Axis | None] = [*only_in(computation.axes, data, weight, step=1)]
        rows = rows if rows and self.data.rows > 1 else [None]
        both = (*computation.axes, *computation.reduce_axes)
        shared = [a for a in both if all(dimension_of(each, a, step=1) is not None for each in (data, weight))]
        columns: list[Axis | None] = [*only_in(computation.axes, weight, data, step=1)]
        inners: list[Axis | None] = [axis for axis in shared if axis.kind == "reduce"]
        for row in rows:
            for column in columns or [None]:
                for inner in inners or [None]:
                    yield GemmMatch(data, weight, row, column, inner)
            along = [axis for axis in shared if axis.kind == "data"]
            if self.maker(weight.tensor) is None:  # the host repeats them along what only the data have
                along += [axis for axis in only_in(computation.axes, data, weight, step=1) if axis is not row]
            for column in along:
                yield GemmMatch(data, weight, row, column, column, diagonal=True)

    def _of_data(self, product: GemmMatch) -> tuple[VectorLayout, ...]:
        """The lanes of the data: rows along any of its dimensions."""
        along = dimension_of(product.data, product.inner, step=1)
        rows = (None, *range(len(product.data.indices))) if self.data.rows > 1 else (None,)
        return tuple(VectorLayout(row, along) for row in rows if row is None or row != along)

    def _of_weights(self, product: GemmMatch) -> tuple[VectorLayout, ...]:
        along = (dimension_of(product.weight, axis, step=1) for axis in (product.column, product.inner))
        return (VectorLayout(*along),)

    def _on_alu(self, place: BoundPlace) -> Implementation:
        work = self._work_of_alu
        pair, block = steps_of_alu(AluOp.ADD, immediate=False), min(self.near.cols, self.data.cols)
        lanes, brought = self._filled(place), self._filled(place, block)
        steps = sum(each * points.vectors(lanes, axes) for each, points, axes in work.counts)
        for points, axes in work.added:
            steps += min(pair * points.vectors(lanes, axes), points.vectors(brought, axes))
        return Implementation(
            "alu" if work.counts or work.added else "copy",
            place,
            reset=self.results.vectors(lanes) * len(self.computation.bodies) if work.reset else 0,
            alu=steps,
            products=self.multiplied,
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
                source = source_of(value, self.maker, neutral(reduction, body.dtype))
                conditions = () if source is None else source.counted
                points = self.points(conditions, reduced=True)
                own = frozenset((*self.computation.axes, *self.computation.reduce_axes))
                counts.append((steps_of_alu(OPERATIONS[reduction], immediate=False), points, own))
                reset = True
            walker = _Operations(sharing_of(value, alu_operations(self.config)))
            for operation, immediate, axes, guards in walker.found(value):
                points = self.points((*conditions, *guards), reduced=True)
                counts.append((steps_of_alu(operation, immediate=immediate), points, axes))
            if len(self.computation.bodies) == 1 and (axes_of_sum := _axes_of_sum(body)) is not None:
                added.append((counts.pop(0)[1], axes_of_sum))
        return _WorkOfAlu(counts, added, reset)


class _WorkOfAlu(NamedTuple):
    """Steps of each operation with its points and the axes that matter; sums that products may add in place instead,
    one step each; and whether results are set first."""

    counts: list[tuple[int, CountedPoints, frozenset[Axis]]]
    added: list[tuple[CountedPoints, frozenset[Axis]]]
    reset: bool


class _Operations:
    """The operations of an expression, equal ones once, as the rule ``alu`` takes it apart, without its copies."""

    def __init__(self, sharing: Sharing) -> None:
        self.sharing = sharing
        self.seen: set[Expr] = set()

    def found(
        self, expr: Expr, guards: tuple[Guard, ...] = ()
    ) -> Iterator[tuple[AluOp, bool, frozenset[Axis], tuple[Guard, ...]]]:
        """Operation, whether the second operand is an immediate, the axes that matter, and where it is needed."""
        first = self.sharing.same(expr)
        if first in self.seen or not reads_data(first):
            return
        self.seen.add(first)
        match first:
            case Select(condition=condition, then=then, otherwise=otherwise):
                yield from self.found(then, (*guards, (condition, True)))
                yield from self.found(otherwise, (*guards, (condition, False)))
            case Binary():
                simple = self.sharing.simple(first)
                operation = OPERATIONS.get("shr" if simple.op == "shl" else simple.op)
                _, second = order(self.sharing, simple, None) if operation is not None else (None, None)
                immediate = second is None or isinstance(skip_value_preserving_casts(second), Const)
                if operation is not None and simple.dtype not in ("bool", "index"):
                    yield operation, immediate, frozenset(axes_of(first)), guards
                for side in (simple.lhs, simple.rhs):
                    yield from self.found(side, guards)
            case Cast(operand=operand):
                yield from self.found(operand, guards)


def _axes_of_sum(body: Expr) -> frozenset[Axis] | None:
    """The axes of a sum of two elements, one of them bytes, which products add in place; None for anything else."""
    sum_ = skip_casts(body)
    if not isinstance(sum_, Binary) or sum_.op != "add" or sum_.dtype != "int32":
        return None
    sides = [skip_value_preserving_casts(side) for side in (sum_.lhs, sum_.rhs)]
    both = all(isinstance(side, Read) for side in sides) and sides[0] is not sides[1]
    return frozenset(axes_of(sum_)) if both and any(side.dtype == "int8" for side in sides) else None


def _without_step(index: Expr) -> Expr:
    """An axis instead of a multiple of it and a constant; any other index as it is."""
    affine = as_affine(index)
    if affine is None or len(affine.coefficients) != 1:
        return index
    ((axis, step),) = affine.coefficients.items()
    return AxisRef(axis) if step > 1 else index


def _lanes(*sides: tuple[Axis | None, int]) -> dict[Axis, int]:
    return {axis: size for axis, size in sides if axis is not None and size > 1}


__all__ = ["BoundPlace", "Implementation", "StageImplementations"]
