"""Indices of a tensor's dimensions, given digit by digit: 256 as 4 heads of 64 values has an index of two digits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """An index by its digits, of which the last moves fastest; ``extents`` are how many values each has."""

    extents: Shape
    digits: tuple[Expr | Axis, ...]


def indices_of(expressions: Sequence[Expr], digits: Sequence[Shape]) -> list[Index]:
    """Expressions for the digits of several dimensions, one behind the other, as an index for each dimension."""
    ahead = iter(expressions)
    return [Index(extents, tuple(next(ahead) for _ in extents)) for extents in digits]


def in_digits(index: Index, extents: Sequence[int]) -> list[Expr | Axis | int]:
    """An index in digits of other extents, of as large a product; that of a dimension of one value is 0.

    Where digits are the same, or lie within one, they stay expressions of few indices.
    """
    found: list[Expr | Axis | int] = [0] * len(extents)
    if prod(extents) == 1:
        return found
    own = [(extent, digit) for extent, digit in zip(index.extents, index.digits, strict=True) if extent > 1]
    wanted = [place for place, extent in enumerate(extents) if extent > 1]
    for these, those in _runs([extent for extent, _ in own], [extents[place] for place in wanted]):
        (_, value), *rest = own[these]
        for extent, digit in rest:
            value = value * extent + digit
        within = prod(extents[place] for place in wanted[those])
        for number, place in enumerate(wanted[those]):
            within //= extents[place]
            digit = value // within if within > 1 else value
            found[place] = digit % extents[place] if number else digit
    return found


def regrouped(extents: Sequence[int], shape: Sequence[int]) -> list[list[int]] | None:
    """Which axes, in row-major order, are the digits of each dimension of a shape; None where they aren't.

    Axes have extents of 2 and more.
    """
    groups: list[list[int]] = []
    at = 0
    for size in shape:
        group: list[int] = []
        while size > 1:
            if at == len(extents) or size % extents[at]:
                return None
            size //= extents[at]
            group.append(at)
            at += 1
        groups.append(group)
    return groups


def _runs(own: Sequence[int], wanted: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """The fewest digits on either side that have the same product, from the first on; all have 2 values and more."""
    first = second = at = 0
    left = right = 1
    for number, extent in enumerate(own, 1):
        left *= extent
        while right < left:
            right *= wanted[at]
            at += 1
        if left == right:
            yield slice(first, number), slice(second, at)
            first, second, left, right = number, at, 1, 1
