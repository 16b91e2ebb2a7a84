"""What a schedule knows of one stage: its loops in order, how they came from the axes, its tags, place and scope.

Everything here is immutable. A command builds a new ``StageState`` and hands it to the schedule, which verifies the
whole and then keeps it or refuses it, so a refused command leaves no trace.
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
"""Marks of loops whose iterations may run on different cores."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class StageId:
    """Which stage of a schedule: the same in all its states, whatever the stage computes by then."""

    name: str  # as it was at first, for people

    def __repr__(self) -> str:
        return f"StageId({self.name})"


@dataclass(frozen=True)
class VectorLayout:
    """Which dimension of a tensor fills the rows of an element and which its columns; None: the same in all.

    The same dimension for both fills the diagonals of elements of weights, with zeros beside them. ``turns``: blocks of
    values lie where that many turns have brought them (``scheduler/layout/vector_relayout.py``), on the way from
    stored elements to such as are loaded; None: in the rows and columns of the memory's elements.
    """

    rows: int | None
    cols: int | None
    turns: int | None = None

    @property
    def is_diagonal(self) -> bool:
        """Whether a dimension runs along diagonals."""
        return self.rows is not None and self.rows == self.cols

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that run along lanes, each once."""
        return tuple(dict.fromkeys(dim for dim in (self.rows, self.cols) if dim is not None))


@dataclass(frozen=True)
class SyncOp:
    """What a user lets queues do by hand at a stage: a barrier for all, or a token sent or received by its unit.

    ``axis``: in each iteration of this loop; None: each time that the stage is computed. ``other``: the unit that the
    token goes to or comes from. ``ahead``: how many tokens that are received are there from the beginning.
    """

    kind: Literal["barrier", "send", "receive"]
    axis: LoopAxis | None
    other: str = ""
    ahead: int = 0


Region = Literal["box", "exact", "missing"]
"""A box around what an iteration reads; exactly that; or what of it no earlier iteration has made."""


@dataclass(frozen=True)
class ComputeAt:
    """Where a stage is computed: in each iteration of loop ``axis`` of ``host``, and there which ``region`` of it.

    Without ``loops``, the part that the iteration needs. With them, these outermost loops of the stage itself run
    together with the host's, one by one, down to ``axis``, and each iteration computes what it would alone.
    """

    host: StageId
    axis: LoopAxis
    loops: tuple[LoopAxis, ...] = ()
    region: Region = "box"


def same_place(one: ComputeAt | None, other: ComputeAt | None) -> bool:
    """Whether two stages are computed at the same loop, whatever of them."""
    if one is None or other is None:
        return one is other
    return one.host is other.host and one.axis is other.axis


@dataclass(frozen=True)
class StageState:
    """One stage of a schedule. ``leaves`` are its loops, outermost first; ``pragma_axis`` and those inside it go to
    the ``emit_insn`` rule named ``pragma``."""

    computation: Computation
    tensors: tuple[Tensor, ...]  # what readers name: these stay when a cache rewrites the computation
    roots: tuple[LoopAxis, ...]
    leaves: tuple[LoopAxis, ...]
    relations: tuple[Relation, ...] = ()
    unrolled: frozenset[LoopAxis] = frozenset()
    annotations: Mapping[LoopAxis, str] = field(default_factory=lambda: MappingProxyType({}))  # "vectorize", ...
    pragma: str | None = None
    pragma_axis: LoopAxis | None = None
    rule: str | None = None  # the rule that takes the stage, once that is known
    attachment: ComputeAt | None = None
    scope: str = DRAM
    copies: Tensor | None = None  # the tensor that this stage caches, for its text form
    lanes: VectorLayout | None = None  # which dimensions fill the lanes of elements, where that has been decided
    sequential_dims: frozenset[int] = (
        frozenset()
    )  # dimensions made one value at a time, as a cycle wants: no lanes for them
    on_alu: bool = False  # whether the ALU shall compute it although it is a matrix product
    contiguous: bool | None = (
        None  # whether what one stored element holds adjoins in a scratchpad, too; None: undecided
    )
    slots: int | None = None  # how many buffers take turns; None: two where there is room
    reuse: str | None = None  # "ring" or "shift": values stay from one iteration of the attachment's loop to the next
    advance: Mapping[LoopAxis, int] = field(default_factory=lambda: MappingProxyType({}))
    """By how many iterations a loop shall run before those of a stage that will share it."""
    warmup: Mapping[LoopAxis, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many iterations loops have before their first, in which reuse buffers fill and nothing else happens."""
    storage: Storage | None = None  # in which cells of which buffer its values are, where the user has said so
    threads: Mapping[LoopAxis, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many iterations of loops are carried out together (``vthread``)."""
    signals: tuple[SyncOp, ...] = ()
    concat_of: tuple[tuple[Tensor, int], ...] = ()
    """Tensors that are stored as parts of this one, and where each begins: they are all that it is made of."""

    @property
    def tensor(self) -> Tensor:
        return self.tensors[0]

    @property
    def reduce_leaves(self) -> tuple[LoopAxis, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.kind == "reduce")

    @property
    def is_touched(self) -> bool:
        """Whether a command has changed the loops."""
        loops = self.leaves != self.roots or bool(self.relations)
        return loops or self.pragma is not None or bool(self.threads) or bool(self.signals)

    @property
    def is_vectorized(self) -> bool:
        """Whether a command has said which loop fills the lanes of elements."""
        return "vectorize" in self.annotations.values()

    @property
    def is_mapped(self) -> bool:
        """Whether set_schedule has given the loops."""
        return any(isinstance(relation, AffineSchedule) for relation in self.relations)

    @property
    def own_leaves(self) -> tuple[LoopAxis, ...]:
        """The loops that the stage does not run together with those of another."""
        return self.leaves[len(self.attachment.loops) :] if self.attachment else self.leaves

    @property
    def kept_leaves(self) -> tuple[LoopAxis, ...]:
        """The loops that commands on queues speak of: no instruction may have them inside."""
        named = {*self.threads, *(signal.axis for signal in self.signals)}
        return tuple(leaf for leaf in self.leaves if leaf in named)

    def emitted_leaves(self) -> tuple[LoopAxis, ...]:
        """The loops that belong to the emission rule: ``pragma_axis`` and everything inside it."""
        if self.pragma_axis is None:
            return ()
        return self.leaves[self.leaves.index(self.pragma_axis) :]


TAGS = frozenset(
    {"unrolled", "annotations", "pragma", "pragma_axis", "rule", "scope", "copies", "lanes", "on_alu", "slots"}
    | {"threads", "signals", "advance", "contiguous"}
)
"""Fields of a state that say neither what is computed nor in which loops or where among those of other stages."""
PLACED = attrgetter(*(each.name for each in fields(StageState) if each.name not in TAGS))


def placed_alike(one: StageState, other: StageState) -> bool:
    """Whether two states of a stage compute the same in the same loops in the same place, tags and memory aside."""
    return one is other or bool(PLACED(one) == PLACED(other))


def initial_state(computation: Computation, scope: str = DRAM, copies: Tensor | None = None) -> StageState:
    roots = tuple(LoopAxis(axis.name, axis.kind, axis) for axis in (*computation.axes, *computation.reduce_axes))
    return StageState(computation, computation.outputs, roots, roots, scope=scope, copies=copies)
