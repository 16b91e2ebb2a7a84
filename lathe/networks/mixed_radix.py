"""Mixed-radix indices: a dimension of 256 that is split into 4 heads of 64 has an index of two digits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Index:
    """An index of a dimension as digits, the last one varying fastest; ``extents``: the extent of each digit."""

    extents: Shape
    digits: tuple[Expr | Axis, ...]


def indices_of(expressions: Sequence[Expr], digits: Sequence[Shape]) -> list[Index]:
    """The index of each dimension, from the concatenated digits of all dimensions."""
    remaining = iter(expressions)
    return [Index(extents, tuple(next(remaining) for _ in extents)) for extents in digits]


def in_digits(index: Index, extents: Sequence[int]) -> list[Expr | Axis | int]:
    """An index in digits of other extents with the same product; 0 for a dimension of extent 1.

    Digits are combined no more than necessary, so that the expressions stay simple.
    """
    found: list[Expr | Axis | int] = [0] * len(extents)
    if prod(extents) == 1:
        return found
    own = [(extent, digit) for extent, digit in zip(index.extents, index.digits, strict=True) if extent > 1]
    targets = [position for position, extent in enumerate(extents) if extent > 1]
    for these, those in _runs([extent for extent, _ in own], [extents[position] for position in targets]):
        (_, value), *rest = own[these]
        for extent, digit in rest:
            value = value * extent + digit
        within = prod(extents[position] for position in targets[those])
        for number, position in enumerate(targets[those]):
            within //= extents[position]
            digit = value // within if within > 1 else value
            found[position] = digit % extents[position] if number else digit
    return found


def regrouped(extents: Sequence[int], shape: Sequence[int]) -> list[list[int]] | None:
    """The axes that are the digits of each dimension of a row-major reshape; None if an axis would have to be split.

    Axes have extents of at least 2.
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


def _runs(own: Sequence[int], other: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Pairs of shortest runs of digits with the same product of extents; all extents are at least 2."""
    first = second = at = 0
    left = right = 1
    for number, extent in enumerate(own, 1):
        left *= extent
        while right < left:
            right *= other[at]
            at += 1
        if left == right:
            yield slice(first, number), slice(second, at)
            first, second, left, right = number, at, 1, 1
