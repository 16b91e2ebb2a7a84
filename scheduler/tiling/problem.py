"""A tiling problem (one fusion group on a machine), and its solution, a tiling."""

from dataclasses import dataclass, field

from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class LoadedOperand:
    """A stage that loads an operand of the stages ``consumers``, which are computed in the same tile."""

    stage: EditedStage
    consumers: tuple[EditedStage, ...]

    @property
    def only_consumer(self) -> EditedStage | None:
        """The consumer, if it is the only one: then the operand may be loaded for each of its reduction tiles."""
        return self.consumers[0] if len(self.consumers) == 1 else None


@dataclass
class TilingProblem:
    """A fusion group: ``sink`` is tiled, ``computing`` are computed in its tiles (the last one's values are stored).

    ``leaves`` are the sink's loops, ``has_user_loops`` whether a primitive of the user made them.
    """

    schedule: Edit
    target: Target
    sink: EditedStage
    computing: list[EditedStage]
    operands: list[LoadedOperand]
    leaves: tuple[LoopAxis, ...]
    has_user_loops: bool
    least_depth: int = 0  # number of user loops that must be tile loops, since other stages are attached to them
    reserved: dict[str, int] = field(default_factory=dict)  # vectors of each scratchpad that tiles must leave free


@dataclass
class Tiling:
    """``tile`` sizes per data axis of the sink, ``order`` of the tile loops, and per load the number of loops outside.

    ``reduce_axis`` and ``reduce_tile``: the tiled reduction loop of a stage and its tile size; ``other_reduce_tiles``:
    its other reduction loops that are tiled, with their tile sizes.
    """

    tile: tuple[int, ...]
    order: tuple[int, ...]
    depth: int
    level: dict[EditedStage, int]
    reduce_axis: dict[EditedStage, LoopAxis] = field(default_factory=dict)
    reduce_tile: dict[EditedStage, int] = field(default_factory=dict)
    other_reduce_tiles: dict[EditedStage, list[tuple[LoopAxis, int]]] = field(default_factory=dict)
    cost: float = 0.0
    contiguous: dict[EditedStage, bool] = field(
        default_factory=dict
    )  # per load, whether stored vectors stay contiguous
    user_split: tuple[LoopAxis, int] | None = None  # a user loop to split further, and the factor


__all__ = ["LoadedOperand", "Tiling", "TilingProblem"]
