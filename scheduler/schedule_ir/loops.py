"""The loops of a stage, and how those of today came from the axes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lathe.frontend import Axis
from lathe.frontend.arith.linear import Linear, LoopVariable


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LoopAxis:
    """A loop of a stage, as schedule commands name it: an axis of the computation, or one that a command made.

    Two loop axes are the same only if they are the same object; ``name`` is for people.
    """

    name: str
    kind: str
    source: Axis | None = None

    def __repr__(self) -> str:
        return f"LoopAxis({self.name})"


@dataclass(frozen=True)
class Split:
    """``parent = outer * factor + inner``; with ``parts``, the factor is its extent / ``parts``, rounded up."""

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
    """``children = forward * parents + shift``, each child counted from its smallest value without the shift.

    ``forward`` is a square integer matrix with determinant 1 or -1, and ``inverse`` its inverse: both have a row for
    each result, so that every value of the parents is met exactly once. ``command`` made it.
    """

    command: str
    parents: tuple[LoopAxis, ...]
    children: tuple[LoopAxis, ...]
    forward: tuple[tuple[int, ...], ...]
    inverse: tuple[tuple[int, ...], ...]
    shift: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class AffineSchedule:
    """Loops that an isl map of the user's gives: each parent as a formula of ``variables``, one per child.

    A child counts from 0 where its variable is ``first``; ``constraints`` must be >= 0 at the points that there are.
    A map of several pieces has more cases, each with its own values and constraints; no two hold at the same time.
    """

    parents: tuple[LoopAxis, ...]
    children: tuple[LoopAxis, ...]
    variables: tuple[LoopVariable, ...]
    first: tuple[int, ...]
    values: tuple[Linear, ...]
    constraints: tuple[Linear, ...]
    others: tuple[tuple[tuple[Linear, ...], tuple[Linear, ...]], ...] = ()


Relation = Split | Fuse | AffineMap | AffineSchedule


def replaced_by(relation: Relation) -> tuple[LoopAxis, ...]:
    """The loops that are no more."""
    match relation:
        case Split(parent=parent):
            return (parent,)
        case Fuse(outer=outer, inner=inner):
            return (outer, inner)
    return relation.parents


def made_by(relation: Relation) -> tuple[LoopAxis, ...]:
    """The loops that stand in their place."""
    match relation:
        case Split(outer=outer, inner=inner):
            return (outer, inner)
        case Fuse(fused=fused):
            return (fused,)
    return relation.children


def with_loops(relation: Relation, loop: Callable[[LoopAxis], LoopAxis]) -> Relation:
    """The same relation between other loops."""
    match relation:
        case Split(parent=parent, outer=outer, inner=inner):
            return replace(relation, parent=loop(parent), outer=loop(outer), inner=loop(inner))
        case Fuse(outer=outer, inner=inner, fused=fused):
            return replace(relation, outer=loop(outer), inner=loop(inner), fused=loop(fused))
    parents, children = tuple(map(loop, relation.parents)), tuple(map(loop, relation.children))
    return replace(relation, parents=parents, children=children)


AxisLike = LoopAxis | Axis | str
"""What names a loop in a command."""
