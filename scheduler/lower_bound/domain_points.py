"""Number of points of a computation's domain under conditions, without enumerating all of them.

Axes that no condition relates are independent, so that a count is a product of small counts: a padded 3×3 convolution
has groups for rows with their taps, columns with theirs, and images, filters and channels.
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
"""A set of elements as a Cartesian product: for each dimension of a tensor, which indices are in it."""

MAX_POINTS = 1 << 20
"""Greatest number of points that are enumerated; of larger groups a subset is, so counts are never too large."""


class CountedPoints:
    """The points of axes at which conditions hold, as a product over groups of axes that conditions relate.

    ``axes``: for each axis, which of its values are in the domain, a bool array of its extent; None for all. Conditions
    on data count as true. ``groups``: axes, and a bool array with a dimension for each of the points enumerated.
    """

    def __init__(self, axes: Mapping[Axis, Bits | None], conditions: Iterable[Guard] = ()) -> None:
        self.groups: list[tuple[tuple[Axis, ...], Bits]] = []
        guards = [guard for each in conditions for guard in guards_of(*each) if not reads_data(guard[0])]
        for group in _components(tuple(axes), [axes_of(condition) for condition, _ in guards]):
            own = [each for each in guards if set(axes_of(each[0])) & set(group)]
            self.groups.append((group, _where(group, axes, own)))
        self.possible = all(
            bool(evaluate(condition, {})) is holds for condition, holds in guards if not axes_of(condition)
        )

    @cached_property
    def number(self) -> int:
        """The number of points."""
        return self.vectors({})

    def vectors(self, lanes: Mapping[Axis, int], only: Collection[Axis] | None = None) -> int:
        """The least number of vectors with these ``lanes`` that hold all points, projected onto axes ``only``."""
        total = int(self.possible)
        for axes, bits in self.groups:
            if only is not None:
                others = tuple(n for n, axis in enumerate(axes) if axis not in only)
                bits, axes = np.asarray(bits.any(axis=others)), tuple(axis for axis in axes if axis in only)
            inside = tuple(n for n, axis in enumerate(axes) if axis in lanes)
            counts = bits.sum(axis=inside, dtype=np.int64)
            total *= int((-(-counts // prod(lanes[axes[n]] for n in inside))).sum())
        return total

    def read(self, indices: Sequence[Expr], shape: Sequence[int]) -> Masks:
        """The elements of a tensor that these points read; all along dimensions whose index depends on data.

        If dimensions are read by a common axis, as in ``A[i, i]``, a Cartesian product that is read completely.
        """
        masks: list[Bits] = [np.ones(extent, np.bool_) for extent in shape]
        if not self.possible or any(not bits.any() for _, bits in self.groups):
            return tuple(np.zeros(extent, np.bool_) for extent in shape)
        plain = [dim for dim, index in enumerate(indices) if not reads_data(index)]
        of_dim = {dim: self._groups_of(indices[dim]) for dim in plain}
        for dims in _components(tuple(plain), [[d for d in plain if g in of_dim[d]] for g in range(len(self.groups))]):
            for dim, mask in zip(
                dims, self._together([indices[d] for d in dims], [shape[d] for d in dims]), strict=True
            ):
                masks[dim] = mask
        return tuple(masks)

    def _groups_of(self, index: Expr) -> set[int]:
        mentioned = set(axes_of(index))
        return {n for n, (axes, _) in enumerate(self.groups) if mentioned & set(axes)}

    def _together(self, indices: Sequence[Expr], extents: Sequence[int]) -> list[Bits]:
        """The masks of dimensions that are read by common axes."""
        mentioned = axes_of(*indices)
        env, present = self._grid(mentioned)
        values = [np.broadcast_to(evaluate(index, env), present.shape)[present] for index in indices]
        inside = np.logical_and.reduce([(v >= 0) & (v < n) for v, n in zip(values, extents, strict=True)])
        if len(indices) > 1 and prod(extents) > MAX_POINTS:
            inside[1:] = False
        cells = [value[inside] for value in values]
        if len(indices) == 1 or prod(extents) > MAX_POINTS:
            masks = [np.zeros(extent, np.bool_) for extent in extents]
            for mask, value in zip(masks, cells, strict=True):
                mask[value] = True
            return masks
        read = np.zeros(tuple(extents), np.bool_)
        read[tuple(cells)] = True
        return _box_in(read)

    def _grid(self, mentioned: Sequence[Axis]) -> tuple[dict[Any, NDArray[Any] | int], Bits]:
        """The values of axes, as arrays that broadcast together, and at which of them there are points."""
        known = {axis: n for axes, bits in self.groups for axis, n in zip(axes, bits.shape, strict=True)}
        extents = _at_most([known[axis] for axis in mentioned])
        env: dict[Any, NDArray[Any] | int] = {}
        present: Bits = np.ones(tuple(extents), np.bool_)
        position = {axis: n for n, axis in enumerate(mentioned)}
        for axis, extent in zip(mentioned, extents, strict=True):
            env[axis] = _along(np.arange(axis.start, axis.start + extent), position[axis], len(extents))
        for axes, bits in self.groups:
            own = [axis for axis in axes if axis in position]
            if not own:
                continue
            projected = np.asarray(bits.any(axis=tuple(n for n, axis in enumerate(axes) if axis not in position)))
            projected = projected[tuple(slice(extents[position[axis]]) for axis in own)]
            order = sorted(range(len(own)), key=lambda n: position[own[n]])
            shape = [1] * len(extents)
            for n in order:
                shape[position[own[n]]] = projected.shape[n]
            present = present & projected.transpose(order).reshape(shape)
        return env, present


def united(parts: Sequence[Masks]) -> Masks:
    """The union of sets of elements if it is a Cartesian product again; else a large one in it."""
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


def _components(items: tuple[Any, ...], sets: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Connected components of the items: those of each set are in the same group."""
    group = {item: {item} for item in items}
    for each in sets:
        members = [item for item in each if item in group]
        if members:
            union = set().union(*(group[item] for item in members))
            group.update(dict.fromkeys(union, union))
    components = {id(members): members for members in group.values()}
    return [tuple(item for item in items if item in members) for members in components.values()]


def _where(group: tuple[Axis, ...], axes: Mapping[Axis, Bits | None], conditions: Sequence[Guard]) -> Bits:
    """The points of a group at which its conditions hold."""
    extents = _at_most([axis.extent for axis in group])
    env: dict[Any, NDArray[Any] | int] = {}
    holds: Bits = np.ones(tuple(extents), np.bool_)
    for n, (axis, extent) in enumerate(zip(group, extents, strict=True)):
        env[axis] = _along(np.arange(axis.start, axis.start + extent), n, len(extents))
        mask = axes[axis]
        if mask is not None:
            holds = holds & _along(mask[:extent], n, len(extents))
    for condition, expected in conditions:
        holds = holds & (evaluate(condition, env) == expected)
    return holds


def _along(values: NDArray[Any], dim: int, rank: int) -> NDArray[Any]:
    return values.reshape([-1 if n == dim else 1 for n in range(rank)])


def _at_most(extents: Sequence[int]) -> list[int]:
    """Extents, the longest ones halved until there are at most ``MAX_POINTS`` points."""
    limited = list(extents)
    while prod(limited) > MAX_POINTS:
        longest = max(range(len(limited)), key=lambda n: limited[n])
        limited[longest] = max(limited[longest] // 2, 1)
    return limited


def _box_in(read: Bits) -> list[Bits]:
    """A large Cartesian product of elements that are all read: complete in all dimensions but one, else one element."""
    best: list[Bits] = []
    for dim in range(read.ndim):
        masks = [np.ones(extent, np.bool_) for extent in read.shape]
        masks[dim] = np.asarray(read.all(axis=tuple(n for n in range(read.ndim) if n != dim)))
        if not best or _size(tuple(masks)) > _size(tuple(best)):
            best = masks
    if _size(tuple(best)):
        return best
    cell = np.argwhere(read)[0] if read.any() else None
    return [np.arange(extent) == (-1 if cell is None else cell[n]) for n, extent in enumerate(read.shape)]


__all__ = ["Bits", "CountedPoints", "Masks", "united"]
