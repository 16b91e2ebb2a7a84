"""The nodes of the loop nest IR, before and after partitioning: loops, statement blocks, allocation of buffers.

Nodes are immutable: a transformation returns a new nest, which may share nodes with the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lathe.frontend.arith.linear import Bound, Linear, LoopVariable
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.stage import SyncOp
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer

Role = Literal["init", "update", "map"]


@dataclass(frozen=True)
class Loop:
    """A loop of ``variable`` from ``first`` to ``last`` inclusive, over iterations in which all constraints are >= 0.

    ``threads``: the number of virtual threads; ``across_cores``: iterations may run on different cores.
    """

    variable: LoopVariable
    first: int
    last: int
    body: "tuple[Node, ...]"
    constraints: tuple[Bound, ...] = ()
    threads: int = 1
    across_cores: bool = False


@dataclass(frozen=True)
class StatementBlock:
    """All instances of a stage's statement over ``variables`` that satisfy the constraints (each must be >= 0).

    ``role``: ``init`` sets a reduction to its neutral element, ``update`` accumulates one point, ``map`` is a statement
    without reduction. ``roots`` gives the axes of the computation.
    """

    placement: StageRegion
    role: Role
    variables: tuple[LoopVariable, ...]
    roots: Mapping[Axis, Bound]
    constraints: tuple[Bound, ...]
    whole_reduction: bool = False  # whether init and update of the reduction are in the same emitted nest


@dataclass(frozen=True)
class Alloc:
    """Allocates a scratchpad buffer for the box of a stage that starts at ``low``.

    ``stored``: a user buffer instead, of which ``placement`` is the first stage; ``extent`` is then its shape.
    """

    placement: StageRegion
    low: tuple[Bound, ...]
    extent: tuple[Bound, ...]
    stored: UserBuffer | None = None


@dataclass(frozen=True)
class Free:
    """Frees the buffer of a stage: it has no later reads."""

    placement: StageRegion
    stored: UserBuffer | None = None


@dataclass(frozen=True)
class AdvanceWindow:
    """Moves the window of a reuse buffer to the box that starts at ``low``; cells outside it are dropped."""

    placement: StageRegion
    low: tuple[Bound, ...]
    extent: tuple[Bound, ...]


@dataclass(frozen=True)
class SyncNode:
    """Manual synchronisation: a barrier, or a dependence token that a stage sends or receives."""

    placement: StageRegion
    signal: SyncOp


@dataclass(frozen=True)
class Guard:
    """Nodes that are executed only where all constraints are >= 0; partitioning removes guards."""

    body: "tuple[Node, ...]"
    constraints: tuple[Bound, ...]


@dataclass(frozen=True)
class ChunkNode:
    """A block with constant extents and no condition. ``roots`` is linear in enclosing and own loops (from 0)."""

    placement: StageRegion
    role: Role
    loops: tuple[tuple[LoopVariable, int], ...]
    roots: Mapping[Axis, Linear]
    whole_reduction: bool = False


Around = tuple[tuple[LoopVariable, int, int], ...]


@dataclass(frozen=True)
class DecidedChunk(ChunkNode):
    """A chunk whose statements compute ``values``, with all selects over loops resolved.

    ``around`` are (loop, before, after): how many first and last iterations of a loop get the constant ``padding``
    instead of a value that is read. ``choices``: which branch each select took. ``rule``: its rule, if known.
    """

    values: tuple[Expr, ...] = ()
    around: Around = ()
    padding: int = 0
    choices: tuple[bool, ...] = ()
    rule: str = ""


@dataclass(frozen=True)
class PipelinedChunks:
    """Consecutive chunks, each cut into slices: slice n of one depends on slices up to n of those before it only."""

    chunks: tuple[tuple[ChunkNode, ...], ...]


Node = Loop | StatementBlock | Alloc | Free | AdvanceWindow | SyncNode | Guard | ChunkNode | PipelinedChunks
