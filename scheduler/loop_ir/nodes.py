"""What a loop nest is made of, before and after partitioning: loops, statement blocks, lifetimes of buffers.

Nodes are values: a nest is changed by making another, which may share nodes with it.
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
    """``variable`` from ``first`` to ``last`` inclusive, while every one of ``constraints`` is >= 0.

    ``threads`` iterations at a time are carried out together; ``across_cores``: each may be on a core of its own.
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

    ``role``: ``init`` sets a reduction to its neutral value, ``update`` adds one point to it, ``map`` is a statement
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
    """From here on a buffer in a scratchpad holds the box of the stage that starts at ``low``.

    ``stored``: a buffer that stages name, of which ``placement`` is the first; ``extent`` counts its cells then.
    """

    placement: StageRegion
    low: tuple[Bound, ...]
    extent: tuple[Bound, ...]
    stored: UserBuffer | None = None


@dataclass(frozen=True)
class Free:
    """The buffer of the stage is not read any more."""

    placement: StageRegion
    stored: UserBuffer | None = None


@dataclass(frozen=True)
class AdvanceWindow:
    """The window of a reuse buffer moves to the box that starts at ``low``: cells outside it are gone."""

    placement: StageRegion
    low: tuple[Bound, ...]
    extent: tuple[Bound, ...]


@dataclass(frozen=True)
class SignalNode:
    """A barrier, or a token that a stage sends or receives."""

    placement: StageRegion
    signal: SyncOp


@dataclass(frozen=True)
class Guard:
    """What happens only where every one of ``constraints`` is >= 0; partitioning removes it."""

    body: "tuple[Node, ...]"
    constraints: tuple[Bound, ...]


@dataclass(frozen=True)
class ChunkNode:
    """A block with constant extents and no condition. ``roots`` is linear in outer and own loops (from 0)."""

    placement: StageRegion
    role: Role
    loops: tuple[tuple[LoopVariable, int], ...]
    roots: Mapping[Axis, Linear]
    whole_reduction: bool = False


Around = tuple[tuple[LoopVariable, int, int], ...]


@dataclass(frozen=True)
class DecidedChunk(ChunkNode):
    """A chunk whose statements compute ``values``, without selects over loops.

    ``around`` are (loop, before, after): the first and last iterations of a loop that get the constant ``padding``
    instead of what is read.
    ``choices`` are what the selects have chosen; ``rule`` is the one that takes the chunk, where that is known.
    """

    values: tuple[Expr, ...] = ()
    around: Around = ()
    padding: int = 0
    choices: tuple[bool, ...] = ()
    rule: str = ""


@dataclass(frozen=True)
class PipelinedChunks:
    """Chunks that follow each other, each in as many parts: part n of one needs no later part of those before it."""

    chunks: tuple[tuple[ChunkNode, ...], ...]


Node = Loop | StatementBlock | Alloc | Free | AdvanceWindow | SignalNode | Guard | ChunkNode | PipelinedChunks
