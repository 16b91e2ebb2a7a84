"""The state of one stage: its loops, how they derive from the axes, its tags, compute location and memory scope.

Everything here is immutable. A primitive builds a new ``StageState`` and hands it to the schedule, which verifies the
result and keeps it or discards it, so a refused primitive has no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Literal

from lathe.frontend import Computation, Tensor
from lathe.scheduler.schedule_ir.loops import AffineSchedule, LoopAxis, Relation
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.storage import Storage

ACROSS_CORES = ("parallelize", "distribute")
"""Annotations of loops whose iterations may run on different cores."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class StageId:
    """Identity of a stage: the same in all states of its schedule, even if its computation changes."""

    name: str  # the initial one, for display

    def __repr__(self) -> str:
        return f"StageId({self.name})"


@dataclass(frozen=True)
class VectorLayout:
    """Which dimension of a tensor maps to the rows of a vector and which to its columns; None: that axis is broadcast.

    One dimension for both fills the diagonals of weight vectors, with zeros elsewhere. ``conversions`` counts the
    layout conversions that blocks of values have gone through (``scheduler/layout/vector_relayout.py``) between the
    layout of stored vectors and that of loaded ones; None: the rows and columns of the memory's vectors.
    """

    rows: int | None
    cols: int | None
    conversions: int | None = None

    @property
    def is_diagonal(self) -> bool:
        """Whether a dimension maps to diagonals."""
        return self.rows is not None and self.rows == self.cols

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that map to rows or columns, each once."""
        return tuple(dict.fromkeys(dim for dim in (self.rows, self.cols) if dim is not None))


@dataclass(frozen=True)
class SyncOp:
    """Synchronisation added by the user: a barrier of all units, or a token that the stage's unit sends or receives.

    It happens in each iteration of loop ``axis``; None: each time that the stage is computed. ``other`` is the unit at
    the other end of the token's queue; ``ahead`` tokens to receive are in the queue from the start.
    """

    kind: Literal["barrier", "send", "receive"]
    axis: LoopAxis | None
    other: str = ""
    ahead: int = 0


Region = Literal["box", "exact", "missing"]
"""What an iteration computes: a bounding box of what it reads; exactly that; or only what is not computed yet."""


@dataclass(frozen=True)
class ComputeAt:
    """Compute location of a stage: each iteration of loop ``axis`` of stage ``enclosing`` computes ``region`` of it.

    Without ``loops``, the region is what the iteration reads. With them, these outermost loops of the stage are fused
    with those of ``enclosing``, one for one, down to ``axis``, and each iteration computes its own part of the domain.
    """

    enclosing: StageId
    axis: LoopAxis
    loops: tuple[LoopAxis, ...] = ()
    region: Region = "box"


def same_loop(one: ComputeAt | None, other: ComputeAt | None) -> bool:
    """Whether two stages are computed at the same loop, of whatever regions."""
    if one is None or other is None:
        return one is other
    return one.enclosing is other.enclosing and one.axis is other.axis


@dataclass(frozen=True)
class StageState:
    """The state of one stage; ``leaves`` are its loops, outermost first.

    The emission rule ``pragma`` takes loop ``pragma_axis`` and those inside it.
    """

    computation: Computation
    tensors: tuple[Tensor, ...]  # what consumers read: these stay when a cache rewrites the computation
    roots: tuple[LoopAxis, ...]
    leaves: tuple[LoopAxis, ...]
    relations: tuple[Relation, ...] = ()
    unrolled: frozenset[LoopAxis] = frozenset()
    annotations: Mapping[LoopAxis, str] = field(default_factory=lambda: MappingProxyType({}))  # "vectorize", ...
    pragma: str | None = None
    pragma_axis: LoopAxis | None = None
    rule: str | None = None  # the emission rule selected for the stage
    attachment: ComputeAt | None = None
    scope: str = DRAM
    copy_of: Tensor | None = None  # the tensor that this stage caches, for printing
    vector_layout: VectorLayout | None = None  # the assigned vector layout
    sequential_dims: frozenset[int] = frozenset()  # not vectorised: a recurrence computes them one value at a time
    on_alu: bool = False  # whether the ALU computes it although GEMM could
    contiguous: bool | None = None  # whether a stored vector stays contiguous in a scratchpad; None: undecided
    buffer_count: int | None = None  # buffers that iterations alternate between; None: two if they fit
    reuse: str | None = None  # "ring" or "shift": the kind of a reuse buffer along the attachment's loop
    advance: Mapping[LoopAxis, int] = field(default_factory=lambda: MappingProxyType({}))
    """Iterations by which a loop will run ahead of a stage that shares it later."""
    warmup: Mapping[LoopAxis, int] = field(default_factory=lambda: MappingProxyType({}))
    """Warm-up iterations of loops, in which reuse buffers fill and nothing else happens."""
    storage: Storage | None = None  # the user's storage map, if any
    threads: Mapping[LoopAxis, int] = field(default_factory=lambda: MappingProxyType({}))
    """Virtual threads of loops (``vthread``)."""
    sync_ops: tuple[SyncOp, ...] = ()
    concat_of: tuple[tuple[Tensor, int], ...] = ()
    """Tensors that are stored as slices of this one, and the offset of each; together they cover it."""

    @property
    def tensor(self) -> Tensor:
        return self.tensors[0]

    @property
    def reduce_leaves(self) -> tuple[LoopAxis, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.kind == "reduce")

    @property
    def has_changed_loops(self) -> bool:
        """Whether a primitive has changed the loops."""
        loops = self.leaves != self.roots or bool(self.relations)
        return loops or self.pragma is not None or bool(self.threads) or bool(self.sync_ops)

    @property
    def is_vectorized(self) -> bool:
        """Whether a loop has been mapped to the lanes of vectors by a primitive."""
        return "vectorize" in self.annotations.values()

    @property
    def has_affine_schedule(self) -> bool:
        """Whether set_schedule has defined the loops."""
        return any(isinstance(relation, AffineSchedule) for relation in self.relations)

    @property
    def own_leaves(self) -> tuple[LoopAxis, ...]:
        """The loops that are not shared with another stage."""
        return self.leaves[len(self.attachment.loops) :] if self.attachment else self.leaves

    @property
    def synchronised_leaves(self) -> tuple[LoopAxis, ...]:
        """The loops that have threads or synchronisation: they must stay outside instructions."""
        named = {*self.threads, *(signal.axis for signal in self.sync_ops)}
        return tuple(leaf for leaf in self.leaves if leaf in named)

    def emitted_leaves(self) -> tuple[LoopAxis, ...]:
        """The loops that the emission rule takes: ``pragma_axis`` and those inside it."""
        if self.pragma_axis is None:
            return ()
        return self.leaves[self.leaves.index(self.pragma_axis) :]


TAGS = frozenset(
    {
        "unrolled",
        "annotations",
        "pragma",
        "pragma_axis",
        "rule",
        "scope",
        "copy_of",
        "vector_layout",
        "on_alu",
        "buffer_count",
    }
    | {"threads", "sync_ops", "advance", "contiguous"}
)
"""Fields that affect neither what is computed, nor in which loops, nor the compute location."""
PLACED = attrgetter(*(each.name for each in fields(StageState) if each.name not in TAGS))


def same_loop_nest(one: StageState, other: StageState) -> bool:
    """Whether two states of a stage agree in computation, loops and compute location: tags and memory are ignored."""
    return one is other or bool(PLACED(one) == PLACED(other))


def initial_state(computation: Computation, scope: str = DRAM, copies: Tensor | None = None) -> StageState:
    roots = tuple(LoopAxis(axis.name, axis.kind, axis) for axis in (*computation.axes, *computation.reduce_axes))
    return StageState(computation, computation.outputs, roots, roots, scope=scope, copy_of=copies)
