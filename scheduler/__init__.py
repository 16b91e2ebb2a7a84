"""From tensor programs to instructions: four layers, schedule commands, partitioning and emission."""

from lathe.scheduler.algorithm.padding import undef
from lathe.scheduler.answers import Answer
from lathe.scheduler.asking import bound, explain, interpret, lower
from lathe.scheduler.build import build
from lathe.scheduler.commands.transform_layout import AXIS_SEPARATOR
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
from lathe.scheduler.history import bind
from lathe.scheduler.legality.dependences import Dependence
from lathe.scheduler.legality.padding_needs import PaddingNeeded
from lathe.scheduler.reports.bound import Bound, StageBound
from lathe.scheduler.reports.counts import Counts
from lathe.scheduler.reports.coverage import StageCount
from lathe.scheduler.reports.explanation import BufferUse, ChunkClass, Explanation, Pad, Refusal
from lathe.scheduler.schedule import Schedule, Stage, create_schedule
from lathe.scheduler.state.layout import TensorLayout
from lathe.scheduler.state.storage import StorageBuffer
from lathe.scheduler.target import rules as _rules  # noqa: F401 - registers the built-in emission rules
from lathe.scheduler.target.chunk import Chunk, ChunkLoop, Index, Operand, Place
from lathe.scheduler.target.mismatches import RuleMismatch
from lathe.scheduler.target.rules.rule import emit_rule
from lathe.scheduler.target.statement import Statement

__all__ = [
    "AXIS_SEPARATOR",
    "Answer",
    "Bound",
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
    "StageBound",
    "StageCount",
    "Statement",
    "StorageBuffer",
    "StorageWitness",
    "TensorLayout",
    "ValidationError",
    "Witness",
    "bind",
    "bound",
    "build",
    "create_schedule",
    "emit_rule",
    "explain",
    "interpret",
    "lower",
    "undef",
]
