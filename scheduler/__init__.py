"""From tensor programs to instructions: four layers, schedule commands, partitioning and emission."""

from lathe.scheduler import rules as _rules  # noqa: F401 - registers the built-in emission rules
from lathe.scheduler.build import build
from lathe.scheduler.chunk import Chunk, ChunkLoop, Index, Operand, Place, RuleMismatch
from lathe.scheduler.errors import (
    BuildError,
    CapacityError,
    EmitError,
    LegalityError,
    ParallelismError,
    ScheduleError,
    Witness,
)
from lathe.scheduler.interpret import interpret
from lathe.scheduler.lower import lower
from lathe.scheduler.rules.registry import emit_rule
from lathe.scheduler.schedule import Schedule, create_schedule
from lathe.scheduler.stage import Stage

__all__ = [
    "BuildError",
    "CapacityError",
    "Chunk",
    "ChunkLoop",
    "EmitError",
    "Index",
    "LegalityError",
    "ParallelismError",
    "Operand",
    "Place",
    "RuleMismatch",
    "Schedule",
    "ScheduleError",
    "Stage",
    "Witness",
    "build",
    "create_schedule",
    "emit_rule",
    "interpret",
    "lower",
]
