"""Loops of a stage, and the relations by which primitives derive them from the axes of the computation."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lathe.frontend import Axis
from lathe.frontend.arith.linear import Linear, LoopVariable


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LoopAxis:
    """A loop of a stage, as primitives name it: an axis of the computation, or a loop that a primitive has created.

    Compared by identity; ``name`` is for display.
    """

    name: str
    kind: str
    source: Axis | None = None

    def __repr__(self) -> str:
        return f"LoopAxis({self.name})"


@dataclass(frozen=True)
class Split:
    """``parent = outer * factor + inner``; with ``parts``, the factor is the parent's extent / ``parts``, rounded
    up.
    """

    parent: LoopAxis
    outer: LoopAxis
    inner: LoopAxis
    factor: int | None
    parts: int | None = None


@dataclass(frozen=True)
class Fuse:
    """``fused = outer * extent(inner) + inner``."""

    outer: LoopAxis
    inner: LoopAxis
    fused: LoopAxis


@dataclass(frozen=True)
class AffineMap:
    """``children = forward * parents + shift``; each child counts from its smallest value without the shift.

    ``forward`` is a square integer matrix of determinant 1 or -1, and ``inverse`` its inverse, with one row per result,
    so that each point of the parents has exactly one image. ``command`` is the primitive that created it.
    """

    command: str
    parents: tuple[LoopAxis, ...]
    children: tuple[LoopAxis, ...]
    forward: tuple[tuple[int, ...], ...]
    inverse: tuple[tuple[int, ...], ...]
    shift: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class AffineSchedule:
    """Loops given by the user's isl map: each parent as an affine expression of ``variables``, one per child.

    A child counts from 0 where its variable is ``first``; ``constraints`` must be >= 0 in the domain. A piecewise map
    has ``others``, the further pieces, each with its own values and constraints; pieces are disjoint.
    """

    parents: tuple[LoopAxis, ...]
    children: tuple[LoopAxis, ...]
    variables: tuple[LoopVariable, ...]
    first: tuple[int, ...]
    values: tuple[Linear, ...]
    constraints: tuple[Linear, ...]
    others: tuple[tuple[tuple[Linear, ...], tuple[Linear, ...]], ...] = ()


Relation = Split | Fuse | AffineMap | AffineSchedule


def replaced_loops(relation: Relation) -> tuple[LoopAxis, ...]:
    """The loops that a relation replaces."""
    match relation:
        case Split(parent=parent):
            return (parent,)
        case Fuse(outer=outer, inner=inner):
            return (outer, inner)
    return relation.parents


def created_loops(relation: Relation) -> tuple[LoopAxis, ...]:
    """The loops that a relation creates."""
    match relation:
        case Split(outer=outer, inner=inner):
            return (outer, inner)
        case Fuse(fused=fused):
            return (fused,)
    return relation.children


def with_loops(relation: Relation, loop: Callable[[LoopAxis], LoopAxis]) -> Relation:
    """The same relation with its loops mapped by ``loop``."""
    match relation:
        case Split(parent=parent, outer=outer, inner=inner):
            return replace(relation, parent=loop(parent), outer=loop(outer), inner=loop(inner))
        case Fuse(outer=outer, inner=inner, fused=fused):
            return replace(relation, outer=loop(outer), inner=loop(inner), fused=loop(fused))
    parents, children = tuple(map(loop, relation.parents)), tuple(map(loop, relation.children))
    return replace(relation, parents=parents, children=children)


AxisLike = LoopAxis | Axis | str
"""What may name a loop in a call of a primitive."""
