"""Maps from the indices of a tensor to those of its layout: which digit of which axis becomes which part of an index.

A layout such as ``[n, c // 4, h, w, c % 4]`` takes axes apart into digits and writes each new index as a number made of
digits, so a map and its inverse are exact arithmetic on integers. Other maps are handed to isl, which finds out what is
wrong with them: two indices of one cell, or a cell of no index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NoReturn

import islpy as isl

from lathe.frontend import Axis, as_affine
from lathe.frontend.expressions import AxisRef, Binary, Const, Expr
from lathe.frontend.polyhedra import OPERATIONS_LIMIT, Points, limited_operations
from lathe.frontend.substitution import SplitAxes, substitute
from lathe.isa.layout import Reordering
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.indices import simplified_index

SET = isl.dim_type.set


@dataclass(frozen=True)
class Digit:
    """``(index[axis] // weight) % extent``, which is also ``(new index[place] // step) % extent``."""

    axis: int
    weight: int
    extent: int
    place: int
    step: int


@dataclass(frozen=True, eq=False)
class IndexMap:
    """``indices``, expressions over ``axes``, say where an element lies; every cell of ``shape`` is hit once.

    ``digits`` are in row-major order of the axes. ``separators`` are the positions in ``indices`` at which another
    dimension of the physical buffer begins.
    """

    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    separators: tuple[int, ...]
    digits: tuple[Digit, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The extents of the new indices."""
        return tuple(
            prod(digit.extent for digit in self.digits if digit.place == place) for place in range(len(self.indices))
        )

    def apply(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The new indices of the element at ``indices``."""
        values = dict(zip(self.axes, indices, strict=True))
        return tuple(simplified_index(substitute(index, values)) for index in self.indices)

    def inverse(self, axes: Sequence[Axis]) -> dict[Axis, Expr]:
        """What the old axes are in terms of new ones."""
        return {old: self._inverse_of(position, axes) for position, old in enumerate(self.axes)}

    def _inverse_of(self, position: int, axes: Sequence[Axis]) -> Expr:
        terms: list[Expr] = []
        for digit in self.digits:
            if digit.axis == position:
                value: Expr = AxisRef(axes[digit.place])
                if digit.step > 1:
                    value = Binary("floordiv", value, Const(digit.step, "index"))
                if digit.step * digit.extent < self.shape[digit.place]:
                    value = Binary("mod", value, Const(digit.extent, "index"))
                terms.append(value if digit.weight == 1 else Binary("mul", value, Const(digit.weight, "index")))
        total = terms[0] if terms else Const(0, "index")
        for term in terms[1:]:
            total = Binary("add", total, term)
        return simplified_index(total)

    @cached_property
    def reordering(self) -> Reordering:
        """The same for arrays."""
        order = sorted(range(len(self.digits)), key=lambda n: (self.digits[n].place, -self.digits[n].step))
        return Reordering(tuple(digit.extent for digit in self.digits), tuple(order), self.shape)

    def names(self, taken: Sequence[str]) -> list[str]:
        """Names for the new axes: those of the old ones they are made of, none twice and none of ``taken``."""
        found: list[str] = []
        for place in range(len(self.indices)):
            mine = sorted((digit for digit in self.digits if digit.place == place), key=lambda digit: -digit.step)
            wanted = "_".join(dict.fromkeys(self._name(digit) for digit in mine)) or f"i{place}"
            name, count = wanted, 1
            while name in found or name in taken:
                count += 1
                name = f"{wanted}{count}"
            found.append(name)
        return found

    def _name(self, digit: Digit) -> str:
        """``c`` for all of axis c, ``co`` for its first digit, ``ci`` for the last one."""
        name, extent = self.axes[digit.axis].name, self.axes[digit.axis].extent
        if digit.extent == extent:
            return name
        return f"{name}i" if digit.weight == 1 else f"{name}o" if digit.weight * digit.extent == extent else f"{name}m"

    def __str__(self) -> str:
        groups = [""] * len(self.indices)
        for position in self.separators:
            groups[position] = "AXIS_SEPARATOR, "
        new = ", ".join(f"{group}{index}" for group, index in zip(groups, self.indices, strict=True))
        return f"[{', '.join(axis.name for axis in self.axes)}] -> [{new}]"


def index_map(axes: Sequence[Axis], indices: Sequence[Expr], separators: Sequence[int], name: str) -> IndexMap:
    """The map of tensor ``name``. Raises ScheduleError unless each index has a cell and each cell an index."""
    digits = _digits_of(tuple(axes), tuple(indices))
    if digits is None:
        _refuse(tuple(axes), tuple(indices), name)
    return IndexMap(tuple(axes), tuple(indices), tuple(separators), digits)


def _digits_of(axes: tuple[Axis, ...], indices: tuple[Expr, ...]) -> tuple[Digit, ...] | None:
    """The digits of a map, or None if it is not made of digits, each used once."""
    cut = SplitAxes(axes, indices)
    places: dict[Axis, tuple[int, int]] = {}
    for place, body in enumerate(cut.bodies):
        affine = as_affine(body)
        if affine is None or affine.const:
            return None
        step = 1
        moving = [(part, c) for part, c in affine.coefficients.items() if part.extent > 1]
        for part, coefficient in sorted(moving, key=lambda item: item[1]):
            if coefficient != step or part in places:
                return None
            places[part] = place, step
            step *= part.extent
    digits: list[Digit] = []
    for position, axis in enumerate(axes):
        weight = axis.extent
        for part in cut.parts[axis]:
            weight //= part.extent
            if part.extent > 1:
                if part not in places:
                    return None
                digits.append(Digit(position, weight, part.extent, *places[part]))
    return tuple(digits)


def _refuse(axes: tuple[Axis, ...], indices: tuple[Expr, ...], name: str) -> NoReturn:
    """Say what is wrong with a map that is not made of digits."""
    where = f"index map of transform_layout of {name}"
    points = Points(axes, "logical")
    functions = [points.value(index) for index in indices]
    for index, function in zip(indices, functions, strict=True):
        if function is None:
            raise ScheduleError(
                f"{where} must be made of sums, floor divisions and remainders of its axes by constants, not {index}."
            )
    try:
        with limited_operations():
            _diagnose(points, [function for function in functions if function is not None], where)
    except isl.Error:
        raise ScheduleError(
            f"{where} must be one that can be checked within {OPERATIONS_LIMIT} isl operations, not "
            f"[{', '.join(map(str, indices))}]. Transform the layout in several steps."
        ) from None
    raise ScheduleError(
        f"{where} must write each index as a number whose digits are axes or digits of axes, not "
        f"[{', '.join(map(str, indices))}], although it gives each element a cell of its own. Reversed and skewed axes "
        "are beyond what the host packs."
    )


def _diagnose(points: Points, functions: list[isl.PwAff], where: str) -> None:
    """Raise for two indices of one cell, a negative index, or a cell of no index."""
    cells = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[f"p{n}" for n in range(len(functions))])
    function = isl.MultiPwAff.zero(points.space.map_from_domain_and_range(cells.set_tuple_name(SET, "cell")))
    for position, each in enumerate(functions):
        function = function.set_pw_aff(position, each)
    relation = isl.Map.from_multi_pw_aff(function).intersect_domain(points.box())
    if not relation.is_injective():
        pairs = relation.apply_range(relation.reverse())
        pairs = pairs.intersect(isl.Map.lex_lt(points.space))
        first = pairs.domain().lexmin()
        second = pairs.intersect_domain(first).range().lexmin()
        cell = relation.intersect_domain(first).range()
        raise ScheduleError(
            f"{where} must send different indices to different cells, not {_index(first)} and {_index(second)} both to "
            f"{_index(cell)}. Keep what tells them apart in an index of its own."
        )
    image = relation.range()
    box = isl.Set.universe(image.get_space())
    shape: list[int] = []
    for position in range(len(functions)):
        low = int(image.dim_min_val(position).to_python())
        high = int(image.dim_max_val(position).to_python())
        if low < 0:
            raise ScheduleError(
                f"{where} must give indices from 0 on, not {low} as index {position}. Add {-low} to it."
            )
        shape.append(high + 1)
        box = box.lower_bound_val(SET, position, isl.Val(0)).upper_bound_val(SET, position, isl.Val(high))
    missing = box.subtract(image)
    if not missing.is_empty():
        raise ScheduleError(
            f"{where} must fill the whole of {tuple(shape)}, not leave out cell {_index(missing.lexmin())}, which is "
            "that of no index. Let divisors divide the extents."
        )


def _index(points: isl.Set) -> str:
    """One point of a set, as an index."""
    sample = points.sample_point()
    return str(tuple(int(sample.get_coordinate_val(SET, n).to_python()) for n in range(points.dim(SET))))
