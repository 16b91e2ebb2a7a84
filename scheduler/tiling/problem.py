"""A group whose tiles are chosen, and the tiling that is found, as values."""

from dataclasses import dataclass, field

from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class LoadedOperand:
    """A stage that loads what ``readers`` read in the same tile."""

    stage: EditedStage
    readers: tuple[EditedStage, ...]

    @property
    def only_reader(self) -> EditedStage | None:
        """The reader, if there is one: a part of its reduction may be loaded at a time."""
        return self.readers[0] if len(self.readers) == 1 else None


@dataclass
class TilingProblem:
    """One group: ``sink`` is tiled, ``computing`` are computed in its tiles (the last makes what it stores).

    ``leaves`` are the sink's loops as the user left them, ``given`` whether a command made them.
    """

    schedule: Edit
    target: Target
    sink: EditedStage
    computing: list[EditedStage]
    operands: list[LoadedOperand]
    leaves: tuple[LoopAxis, ...]
    given: bool
    least_depth: int = 0  # so many of the given loops must stay outside, because other stages are computed in them
    spare: dict[str, int] = field(default_factory=dict)  # elements of each scratchpad that tiles must leave free


@dataclass
class Tiling:
    """``tile`` per data axis of the sink, ``order`` of the tile loops, the loop count (``level``) outside each load.

    ``reduce_axis`` and ``reduce_tile`` say how a reduction is cut, ``single`` which of its other loops come outside as
    well, with the steps that stay together.
    """

    tile: tuple[int, ...]
    order: tuple[int, ...]
    depth: int
    level: dict[EditedStage, int]
    reduce_axis: dict[EditedStage, LoopAxis] = field(default_factory=dict)
    reduce_tile: dict[EditedStage, int] = field(default_factory=dict)
    single: dict[EditedStage, list[tuple[LoopAxis, int]]] = field(default_factory=dict)
    cost: float = 0.0
    adjoining: dict[EditedStage, bool] = field(default_factory=dict)  # of loads, whether stored elements stay together
    cut: tuple[LoopAxis, int] | None = None  # a loop of the user's that is split further, and the factor


__all__ = ["LoadedOperand", "Tiling", "TilingProblem"]
