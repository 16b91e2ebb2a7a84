"""Points of a computation under conditions on its axes, counted without walking over all of them.

Axes that no condition joins are independent, so that a count is a product of small counts: a 3×3 convolution with
padding has the rows with their taps, the columns with theirs, and images, filters and channels each by themselves.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import evaluate
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Guard, axes_of, reads_data

Bits: TypeAlias = NDArray[np.bool_]
Masks: TypeAlias = tuple[Bits, ...]
"""For each dimension of a tensor which indices: what they have in common is a box with holes."""

MOST = 1 << 20
"""The most points that are looked at together: of more only a part, so that counts are too small, never too large."""


class CountedPoints:
    """The points of axes at which conditions hold, as a product of groups of axes that conditions join.

    ``axes`` gives for each axis which of its values there are, a bool array of its extent; None for all. Conditions on
    data are taken to hold. ``groups``: axes, and a bool array with a dimension for each, of the part that is looked at.
    """

    def __init__(self, axes: Mapping[Axis, Bits | None], conditions: Iterable[Guard] = ()) -> None:
        self.groups: list[tuple[tuple[Axis, ...], Bits]] = []
        given = [part for each in conditions for part in guards_of(*each) if not reads_data(part[0])]
        for group in _joined(tuple(axes), [axes_of(condition) for condition, _ in given]):
            own = [each for each in given if set(axes_of(each[0])) & set(group)]
            self.groups.append((group, _where(group, axes, own)))
        self.possible = all(
            bool(evaluate(condition, {})) is holds for condition, holds in given if not axes_of(condition)
        )

    @cached_property
    def number(self) -> int:
        """How many points there are."""
        return self.vectors({})

    def vectors(self, lanes: Mapping[Axis, int], only: Collection[Axis] | None = None) -> int:
        """How many vectors hold all points, at least, if so many values of each axis in ``lanes`` fill one.

        ``only``: of the points that are left when other axes are left out.
        """
        total = int(self.possible)
        for axes, bits in self.groups:
            if only is not None:
                away = tuple(n for n, axis in enumerate(axes) if axis not in only)
                bits, axes = np.asarray(bits.any(axis=away)), tuple(axis for axis in axes if axis in only)
            inside = tuple(n for n, axis in enumerate(axes) if axis in lanes)
            counts = bits.sum(axis=inside, dtype=np.int64)
            total *= int((-(-counts // prod(lanes[axes[n]] for n in inside))).sum())
        return total

    def read(self, indices: Sequence[Expr], shape: Sequence[int]) -> Masks:
        """Which indices of each dimension of a tensor are read at these points; all where they depend on data.

        Where dimensions are read together, as in ``A[i, i]``, a box that is read whole.
        """
        masks: list[Bits] = [np.ones(extent, np.bool_) for extent in shape]
        if not self.possible or any(not bits.any() for _, bits in self.groups):
            return tuple(np.zeros(extent, np.bool_) for extent in shape)
        plain = [dim for dim, index in enumerate(indices) if not reads_data(index)]
        of_dim = {dim: self._groups_of(indices[dim]) for dim in plain}
        for dims in _joined(tuple(plain), [[d for d in plain if g in of_dim[d]] for g in range(len(self.groups))]):
            for dim, mask in zip(
                dims, self._together([indices[d] for d in dims], [shape[d] for d in dims]), strict=True
            ):
                masks[dim] = mask
        return tuple(masks)

    def _groups_of(self, index: Expr) -> set[int]:
        mentioned = set(axes_of(index))
        return {n for n, (axes, _) in enumerate(self.groups) if mentioned & set(axes)}

    def _together(self, indices: Sequence[Expr], extents: Sequence[int]) -> list[Bits]:
        """The masks of dimensions that are read together."""
        mentioned = axes_of(*indices)
        env, there = self._grid(mentioned)
        values = [np.broadcast_to(evaluate(index, env), there.shape)[there] for index in indices]
        inside = np.logical_and.reduce([(v >= 0) & (v < n) for v, n in zip(values, extents, strict=True)])
        if len(indices) > 1 and prod(extents) > MOST:
            inside[1:] = False
        cells = [value[inside] for value in values]
        if len(indices) == 1 or prod(extents) > MOST:
            masks = [np.zeros(extent, np.bool_) for extent in extents]
            for mask, value in zip(masks, cells, strict=True):
                mask[value] = True
            return masks
        found = np.zeros(tuple(extents), np.bool_)
        found[tuple(cells)] = True
        return _box_in(found)

    def _grid(self, mentioned: Sequence[Axis]) -> tuple[dict[Any, NDArray[Any] | int], Bits]:
        """What axes are bound to, so that they broadcast together, and where there are points."""
        known = {axis: n for axes, bits in self.groups for axis, n in zip(axes, bits.shape, strict=True)}
        extents = _at_most([known[axis] for axis in mentioned])
        env: dict[Any, NDArray[Any] | int] = {}
        there: Bits = np.ones(tuple(extents), np.bool_)
        place = {axis: n for n, axis in enumerate(mentioned)}
        for axis, extent in zip(mentioned, extents, strict=True):
            env[axis] = _along(np.arange(axis.start, axis.start + extent), place[axis], len(extents))
        for axes, bits in self.groups:
            own = [axis for axis in axes if axis in place]
            if not own:
                continue
            left = np.asarray(bits.any(axis=tuple(n for n, axis in enumerate(axes) if axis not in place)))
            left = left[tuple(slice(extents[place[axis]]) for axis in own)]
            order = sorted(range(len(own)), key=lambda n: place[own[n]])
            shape = [1] * len(extents)
            for n in order:
                shape[place[own[n]]] = left.shape[n]
            there = there & left.transpose(order).reshape(shape)
        return env, there


def united(parts: Sequence[Masks]) -> Masks:
    """What is read by one or another, where that is such a box again; else the largest that is found."""
    boxes = list(parts)
    merged = True
    while merged:
        merged = False
        for a, b in combinations(range(len(boxes)), 2):
            if sum(not np.array_equal(x, y) for x, y in zip(boxes[a], boxes[b], strict=True)) <= 1:
                boxes[a] = tuple(x | y for x, y in zip(boxes[a], boxes.pop(b), strict=True))
                merged = True
                break
    return max(boxes, key=_size)


def _size(masks: Masks) -> int:
    return prod(int(np.count_nonzero(mask)) for mask in masks)


def _joined(items: tuple[Any, ...], sets: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """The items in groups, those of each set in one."""
    group = {item: {item} for item in items}
    for each in sets:
        members = [item for item in each if item in group]
        if members:
            whole = set().union(*(group[item] for item in members))
            group.update(dict.fromkeys(whole, whole))
    found = {id(members): members for members in group.values()}
    return [tuple(item for item in items if item in members) for members in found.values()]


def _where(group: tuple[Axis, ...], axes: Mapping[Axis, Bits | None], conditions: Sequence[Guard]) -> Bits:
    """At which points of a group its conditions hold."""
    part = _at_most([axis.extent for axis in group])
    env: dict[Any, NDArray[Any] | int] = {}
    holds: Bits = np.ones(tuple(part), np.bool_)
    for n, (axis, extent) in enumerate(zip(group, part, strict=True)):
        env[axis] = _along(np.arange(axis.start, axis.start + extent), n, len(part))
        mask = axes[axis]
        if mask is not None:
            holds = holds & _along(mask[:extent], n, len(part))
    for condition, wanted in conditions:
        holds = holds & (evaluate(condition, env) == wanted)
    return holds


def _along(values: NDArray[Any], place: int, rank: int) -> NDArray[Any]:
    return values.reshape([-1 if n == place else 1 for n in range(rank)])


def _at_most(extents: Sequence[int]) -> list[int]:
    """Extents of a part, the longest cut, that has no more points than are looked at together."""
    part = list(extents)
    while prod(part) > MOST:
        longest = max(range(len(part)), key=lambda n: part[n])
        part[longest] = max(part[longest] // 2, 1)
    return part


def _box_in(found: Bits) -> list[Bits]:
    """A box, perhaps with holes, all of which is there: whole but in one dimension, else one cell."""
    best: list[Bits] = []
    for dim in range(found.ndim):
        masks = [np.ones(extent, np.bool_) for extent in found.shape]
        masks[dim] = np.asarray(found.all(axis=tuple(n for n in range(found.ndim) if n != dim)))
        if not best or _size(tuple(masks)) > _size(tuple(best)):
            best = masks
    if _size(tuple(best)):
        return best
    cell = np.argwhere(found)[0] if found.any() else None
    return [np.arange(extent) == (-1 if cell is None else cell[n]) for n, extent in enumerate(found.shape)]


__all__ = ["Bits", "CountedPoints", "Masks", "united"]
