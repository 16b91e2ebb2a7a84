"""From tensor programs to instructions: four layers, schedule commands, partitioning and emission."""

from lathe.scheduler import rules as _rules  # noqa: F401 - registers the built-in emission rules
from lathe.scheduler.answers import Answer
from lathe.scheduler.build import build
from lathe.scheduler.chunk import Chunk, ChunkLoop, Index, Operand, Place, RuleMismatch
from lathe.scheduler.commands.transform_layout import AXIS_SEPARATOR
from lathe.scheduler.counting import Counts
from lathe.scheduler.coverage import StageCount
from lathe.scheduler.dependences import Dependence
from lathe.scheduler.errors import (
    BuildError,
    CapacityError,
    EmitError,
    LegalityError,
    PaddingError,
    PaddingWitness,
    ParallelismError,
    ScheduleError,
    StorageWitness,
    ValidationError,
    Witness,
)
from lathe.scheduler.explain import explain
from lathe.scheduler.explanation import BufferUse, ChunkClass, Explanation, Pad, Refusal
from lathe.scheduler.interpret import interpret
from lathe.scheduler.lower import lower
from lathe.scheduler.padding import undef
from lathe.scheduler.padding_needs import PaddingNeeded
from lathe.scheduler.recording import bind
from lathe.scheduler.rules.registry import emit_rule
from lathe.scheduler.schedule import Schedule, create_schedule
from lathe.scheduler.stage import Stage
from lathe.scheduler.storage import StorageBuffer
from lathe.scheduler.tensor_layouts import TensorLayout

__all__ = [
    "AXIS_SEPARATOR",
    "Answer",
    "BufferUse",
    "BuildError",
    "CapacityError",
    "Chunk",
    "ChunkClass",
    "ChunkLoop",
    "Counts",
    "Dependence",
    "EmitError",
    "Explanation",
    "Index",
    "LegalityError",
    "Operand",
    "Pad",
    "PaddingError",
    "PaddingNeeded",
    "PaddingWitness",
    "ParallelismError",
    "Place",
    "Refusal",
    "RuleMismatch",
    "Schedule",
    "ScheduleError",
    "Stage",
    "StageCount",
    "StorageBuffer",
    "StorageWitness",
    "TensorLayout",
    "ValidationError",
    "Witness",
    "bind",
    "build",
    "create_schedule",
    "emit_rule",
    "explain",
    "interpret",
    "lower",
    "undef",
]
