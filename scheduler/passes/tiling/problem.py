"""What a group's tiling is to solve, and what it says."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lathe.configs import HardwareConfig
from lathe.scheduler.state.stage import LoopAxis

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


@dataclass(frozen=True)
class Operand:
    """A stage that loads what ``reader`` reads."""

    stage: "Stage"
    reader: "Stage"


@dataclass
class TilingProblem:
    """One group: ``sink`` is tiled, ``computing`` are computed in its tiles (the last makes what it stores).

    ``leaves`` are the sink's loops as the user left them, ``given`` whether a command made them.
    """

    schedule: "Schedule"
    config: HardwareConfig
    sink: "Stage"
    computing: "list[Stage]"
    operands: list[Operand]
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
    level: "dict[Stage, int]"
    reduce_axis: "dict[Stage, LoopAxis]" = field(default_factory=dict)
    reduce_tile: "dict[Stage, int]" = field(default_factory=dict)
    single: "dict[Stage, list[tuple[LoopAxis, int]]]" = field(default_factory=dict)
    cost: float = 0.0
    cut: tuple[LoopAxis, int] | None = None  # a loop of the user's that is split further, and the factor


__all__ = ["Operand", "Tiling", "TilingProblem"]
