"""Index maps from a tensor to its layout, as mixed-radix arithmetic on digits of its axes.

A layout such as ``[n, c // 4, h, w, c % 4]`` splits axes into digits and composes each new index of digits, so a map
and its inverse are exact integer arithmetic. Where a divisor does not divide an extent, or an index has an offset, the
axis is first widened to a multiple of the divisor: the added cells are padding. isl explains why others are refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import NoReturn

import islpy as isl

from lathe.frontend import Axis, as_affine, walk
from lathe.frontend.arith.conditions import conjunction
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, Points, TooManyOperationsError, limited_operations
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.arith.substitution import SplitAxes, substitute
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Compare, Const
from lathe.isa.layout_steps import LayoutStep, Reordering, Reversing, Widening
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.rewriting.reversed_axes import without_reversal

SET = isl.dim_type.set


@dataclass(frozen=True)
class Digit:
    """A digit ``(wide[axis] // weight) % extent`` of an axis, stored as ``(new_index[dim] // step) % span``.

    ``wide[axis]`` is the widened axis; a span above the extent adds cells.
    """

    axis: int
    weight: int
    extent: int
    dim: int
    step: int
    span: int


@dataclass(frozen=True, eq=False)
class IndexMap:
    """An injective map of elements, indexed by ``axes``, to cells of ``shape``, at ``indices``.

    ``digits`` are in row-major order of the axes. ``separators`` are the positions in ``indices`` at which another
    dimension of the physical buffer begins. ``widths`` are the numbers of values added before and after each axis. The
    axes at the positions ``reversed`` are counted from their ends, by digits and widths as well.
    """

    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    separators: tuple[int, ...]
    digits: tuple[Digit, ...]
    widths: tuple[tuple[int, int], ...]
    reversed: tuple[int, ...] = ()

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The extents of the new indices."""
        return tuple(prod(digit.span for digit in self.digits if digit.dim == dim) for dim in range(len(self.indices)))

    def last_live(self, dim: int) -> int:
        """The number of values of a new index up to the last that has elements; all if the index has several digits."""
        digits = [digit for digit in self.digits if digit.dim == dim]
        if len(digits) != 1:
            return self.shape[dim]
        (digit,) = digits
        before, after = self.widths[digit.axis]
        wide = before + self.axes[digit.axis].extent + after
        whole = digit.weight == digit.step == 1 and digit.extent == wide and digit.axis not in self.reversed
        return wide - after if whole else digit.extent

    @property
    def padded(self) -> bool:
        """Whether the map adds cells (padding)."""
        return any(map(any, self.widths)) or any(digit.span > digit.extent for digit in self.digits)

    def apply(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The new indices of the element at ``indices``."""
        values = dict(zip(self.axes, indices, strict=True))
        return tuple(simplified_index(substitute(index, values)) for index in self.indices)

    def inverse(self, axes: Sequence[Axis]) -> dict[Axis, Expr]:
        """The old axes in terms of new ones; out of range, or meaningless, in added cells."""
        found: dict[Axis, Expr] = {}
        for position, old in enumerate(self.axes):
            before = self.widths[position][0]
            wide = self._wide(position, axes)
            found[old] = simplified_index(Binary("sub", wide, Const(before, "index"))) if before else wide
            if position in self.reversed:
                found[old] = simplified_index(Binary("sub", Const(old.extent - 1, "index"), found[old]))
        return found

    def live(self, axes: Sequence[Axis]) -> Expr | None:
        """The condition, over new axes, under which a cell holds an element; None where all cells do."""
        conditions: list[Expr] = []
        for digit in self.digits:
            if digit.span > digit.extent:
                conditions.append(Compare("lt", self._digit(digit, axes), Const(digit.extent, "index")))
        for position, (old, (before, after)) in enumerate(zip(self.axes, self.widths, strict=True)):
            wide = self._wide(position, axes)
            if before:
                conditions.append(Compare("ge", wide, Const(before, "index")))
            if after:
                conditions.append(Compare("lt", wide, Const(before + old.extent, "index")))
        return conjunction(conditions)

    def _digit(self, digit: Digit, axes: Sequence[Axis]) -> Expr:
        value: Expr = AxisRef(axes[digit.dim])
        if digit.step > 1:
            value = Binary("floordiv", value, Const(digit.step, "index"))
        if digit.step * digit.span < self.shape[digit.dim]:
            value = Binary("mod", value, Const(digit.span, "index"))
        return value

    def _wide(self, position: int, axes: Sequence[Axis]) -> Expr:
        total: Expr | None = None
        for digit in self.digits:
            if digit.axis == position:
                value = self._digit(digit, axes)
                term = value if digit.weight == 1 else Binary("mul", value, Const(digit.weight, "index"))
                total = term if total is None else Binary("add", total, term)
        return simplified_index(Const(0, "index") if total is None else total)

    def steps(self, value: int | None = None) -> tuple[LayoutStep, ...]:
        """The map as steps on arrays; added cells hold ``value``, or are undefined for None."""
        order = sorted(range(len(self.digits)), key=lambda n: (self.digits[n].dim, -self.digits[n].step))
        view = tuple(digit.extent for digit in self.digits)
        span = tuple(digit.span for digit in self.digits)
        found: list[LayoutStep] = []
        if self.reversed:
            found.append(Reversing(tuple(axis.extent for axis in self.axes), self.reversed))
        if any(map(any, self.widths)):
            found.append(Widening(tuple(axis.extent for axis in self.axes), self.widths, value))
        if span != view:
            found.append(Widening(view, tuple((0, r - n) for r, n in zip(span, view, strict=True)), value))
        return (*found, Reordering(span, tuple(order), self.shape))

    def names(self, taken: Sequence[str]) -> list[str]:
        """Names for the new axes, from those of the old axes in them; unique, and none of ``taken``."""
        found: list[str] = []
        for dim in range(len(self.indices)):
            mine = sorted((digit for digit in self.digits if digit.dim == dim), key=lambda digit: -digit.step)
            base = "_".join(dict.fromkeys(self._name(digit) for digit in mine)) or f"i{dim}"
            name, count = base, 1
            while name in found or name in taken:
                count += 1
                name = f"{base}{count}"
            found.append(name)
        return found

    def _name(self, digit: Digit) -> str:
        """``c`` for all of axis c, ``co`` for its first digit, ``ci`` for the last one."""
        name, extent = self.axes[digit.axis].name, self.axes[digit.axis].extent + sum(self.widths[digit.axis])
        if digit.extent == extent:
            return name
        return f"{name}i" if digit.weight == 1 else f"{name}o" if digit.weight * digit.extent == extent else f"{name}m"

    def __str__(self) -> str:
        groups = [""] * len(self.indices)
        for position in self.separators:
            groups[position] = "AXIS_SEPARATOR, "
        new = ", ".join(f"{group}{index}" for group, index in zip(groups, self.indices, strict=True))
        return f"[{', '.join(axis.name for axis in self.axes)}] -> [{new}]"


def index_map(
    axes: Sequence[Axis], indices: Sequence[Expr], separators: Sequence[int], name: str, *, whole: bool = False
) -> IndexMap:
    """The index map of tensor ``name``. Raises ScheduleError unless it is injective and made of digits.

    The extent of a new index is that of its values; with ``whole``, a remainder has all its values, also where an axis
    is shorter: 8 channels in blocks of 16 are one block of 16.
    """
    axes, indices = tuple(axes), tuple(indices)
    counted, forward, reversed_ = without_reversal(axes, indices)
    digits = None if whole else _digits_of(counted, forward, exact=True)
    widths = tuple((0, 0) for _ in axes)
    if digits is None:
        wide = _widened(counted, forward, whole)
        if wide is not None:
            widths = wide.widths
            digits = _digits_of(wide.axes, wide.indices, exact=False)
    if digits is None and whole:
        return index_map(axes, indices, separators, name)
    if digits is None:
        _refuse(axes, indices, name)
    return IndexMap(axes, indices, tuple(separators), digits, widths, reversed_)


_ENDLESS = 1 << 40
"""The extent of an axis that is long enough for every remainder to have all its values."""


@dataclass(frozen=True)
class _Wide:
    """Axes widened to multiples of their divisors, and the indices in terms of these."""

    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    widths: tuple[tuple[int, int], ...]


def _widened(axes: tuple[Axis, ...], indices: tuple[Expr, ...], whole: bool) -> _Wide | None:
    """The map in terms of axes that include its offsets and are multiples of its divisors; None if there are none."""
    offsets: dict[Axis, int] = {}
    for index in indices:
        divided = [node.lhs for node in walk(index) if isinstance(node, Binary) and node.op in ("floordiv", "mod")]
        for operand in divided or [index]:
            affine = as_affine(operand)
            if affine is None or (divided and list(affine.coefficients.values()) != [1]):
                continue
            rest = affine.const
            for axis, coefficient in sorted(affine.coefficients.items(), key=lambda item: -item[1]):
                if coefficient > 0 and rest > 0:
                    offsets.setdefault(axis, rest // coefficient)
                    rest %= coefficient
    before = [offsets.get(axis, 0) for axis in axes]
    extents = [axis.extent + offset for axis, offset in zip(axes, before, strict=True)]
    shifted = {
        axis: Axis(axis.name, _ENDLESS if whole and extent > 1 else extent)
        for axis, extent in zip(axes, extents, strict=True)
    }
    unshifted: dict[Axis, Expr] = {
        axis: Binary("sub", AxisRef(shifted[axis]), Const(offset, "index")) if offset else AxisRef(shifted[axis])
        for axis, offset in zip(axes, before, strict=True)
    }
    shifted_indices = tuple(simplified_index(substitute(index, unshifted)) for index in indices)
    wide: list[Axis] = []
    widths: list[tuple[int, int]] = []
    for axis, offset, extent in zip(axes, before, extents, strict=True):
        new = shifted[axis]
        divisors = sorted(_divisors(shifted_indices, new))
        if any(b % a for a, b in pairwise(divisors)):
            return None
        reached = -(-extent // divisors[-1]) * divisors[-1] if divisors else extent
        wide.append(replace(new, extent=reached))
        widths.append((offset, reached - extent))
    final: dict[Axis, Expr] = {shifted[axis]: AxisRef(new) for axis, new in zip(axes, wide, strict=True)}
    return _Wide(tuple(wide), tuple(substitute(index, final) for index in shifted_indices), tuple(widths))


def _divisors(indices: tuple[Expr, ...], axis: Axis) -> set[int]:
    """The divisors that the extent of an axis must be a multiple of."""
    found: set[int] = set()
    for index in indices:
        for node in walk(index):
            if not isinstance(node, Binary) or node.op not in ("floordiv", "mod") or not isinstance(node.rhs, Const):
                continue
            if as_bare_axis(node.lhs) is axis:
                found.add(node.rhs.value)
            match node:
                case Binary(
                    op="mod", lhs=Binary(op="floordiv", lhs=inner, rhs=Const(value=low)), rhs=Const(value=high)
                ):
                    if as_bare_axis(inner) is axis:
                        found.add(low * high)
    return {step for step in found if step > 1}


def _digits_of(axes: tuple[Axis, ...], indices: tuple[Expr, ...], *, exact: bool) -> tuple[Digit, ...] | None:
    """The digits of a map; None unless each digit is used once. ``exact``: the map must not add cells."""
    cut = SplitAxes(axes, indices)
    positions: dict[Axis, tuple[int, int]] = {}
    spans: dict[Axis, int] = {}
    gaps: dict[Axis, int] = {}  # the stride of the last digit of an index, if above 1: it adds cells after each value
    for dim, body in enumerate(cut.bodies):
        affine = as_affine(body)
        if affine is None or affine.const:
            return None
        step = 1
        lower: Axis | None = None
        moving = [(part, c) for part, c in affine.coefficients.items() if part.extent > 1]
        for part, coefficient in sorted(moving, key=lambda item: item[1]):
            if part in positions or coefficient <= 0:
                return None
            if coefficient != step:
                lower_stride = 1 if lower is None else positions[lower][1]
                if exact or coefficient < step or coefficient % lower_stride:
                    return None
                if lower is None:
                    gaps[part] = coefficient
                else:
                    spans[lower] = coefficient // lower_stride
            positions[part] = dim, coefficient
            step, lower = coefficient * part.extent, part
    digits: list[Digit] = []
    for position, axis in enumerate(axes):
        weight = axis.extent
        for part in cut.parts[axis]:
            weight //= part.extent
            if part.extent > 1:
                if part not in positions:
                    return None
                dim, step = positions[part]
                digits.append(Digit(position, weight, part.extent, dim, step, spans.get(part, part.extent)))
        gapped = [part for part in cut.parts[axis] if part in gaps]
        digits += [Digit(position, 1, 1, positions[part][0], 1, gaps[part]) for part in gapped]
    return tuple(digits)


def _refuse(axes: tuple[Axis, ...], indices: tuple[Expr, ...], name: str) -> NoReturn:
    """Raise the ScheduleError of a map that is not made of digits."""
    where = f"index map of transform_layout of {name}"
    points = Points(axes, "logical")
    functions = [points.value(index) for index in indices]
    for index, function in zip(indices, functions, strict=True):
        if function is None:
            raise ScheduleError(
                f"{where} must be quasi-affine (sums, floor divisions, remainders of axes by constants), not {index}.",
                kind="limit",
            )
    try:
        with limited_operations():
            _diagnose(points, [function for function in functions if function is not None], where)
    except TooManyOperationsError:
        raise ScheduleError(
            f"Cannot check {where}, [{', '.join(map(str, indices))}], within {OPERATIONS_LIMIT} isl operations. "
            "Transform the layout in several steps.",
            kind="limit",
        ) from None
    raise ScheduleError(
        f"{where} must compose each index of axes, or of quotients and remainders of axes, in a mixed radix, not "
        f"[{', '.join(map(str, indices))}]: the host cannot pack other one-to-one maps, such as skewed axes.",
        kind="limit",
    )


def _diagnose(points: Points, functions: list[isl.PwAff], where: str) -> None:
    """Raise ScheduleError for two elements in one cell, a negative index, or a cell without an element."""
    cells = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[f"p{n}" for n in range(len(functions))])
    function = isl.MultiPwAff.zero(points.space.map_from_domain_and_range(cells.set_tuple_name(SET, "cell")))
    for position, each in enumerate(functions):
        function = function.set_pw_aff(position, each)
    relation = isl.Map.from_multi_pw_aff(function).intersect_domain(points.box())
    if not relation.is_injective():
        pairs = relation.apply_range(relation.reverse())
        pairs = pairs.intersect(isl.Map.lex_lt(points.space))
        first = _first(pairs.domain())
        second = _first(pairs.intersect_domain(first).range())
        cell = relation.intersect_domain(first).range()
        raise ScheduleError(
            f"{where} must be one-to-one, not map {_index(first)} and {_index(second)} both to cell {_index(cell)}. "
            "Add an index that distinguishes them.",
            kind="argument",
        )
    image = relation.range()
    box = isl.Set.universe(image.get_space())
    shape: list[int] = []
    for position in range(len(functions)):
        low = int(image.dim_min_val(position).to_python())
        high = int(image.dim_max_val(position).to_python())
        if low < 0:
            raise ScheduleError(
                f"{where} must have indices from 0 on, not {low} as index {position}. Add {-low} to it.",
                kind="argument",
            )
        shape.append(high + 1)
        box = box.lower_bound_val(SET, position, isl.Val(0)).upper_bound_val(SET, position, isl.Val(high))
    missing = box.subtract(image)
    if not missing.is_empty():
        raise ScheduleError(
            f"{where} must fill its shape {tuple(shape)}, not leave cell {_index(_first(missing))} without an element. "
            "Padding may follow or precede an axis or a digit of one, not lie along diagonals.",
            kind="limit",
        )


def _first(points: isl.Set) -> isl.Set:
    """The lexicographically first of some points, or any of them where isl fails to find it."""
    try:
        return points.lexmin()
    except isl.Error:
        return isl.Set.from_basic_set(points.sample())


def _index(points: isl.Set) -> str:
    """The text of one point of a set."""
    sample = points.sample_point()
    return str(tuple(int(sample.get_coordinate_val(SET, n).to_python()) for n in range(points.dim(SET))))
