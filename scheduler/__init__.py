"""The compiler from tensor programs and schedules to instructions."""

from lathe.scheduler.api import bound, explain, interpret, lower
from lathe.scheduler.build import build
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
from lathe.scheduler.inspect.counts import Counts
from lathe.scheduler.inspect.explanation import BufferUse, ChunkClass, Explanation, Pad, Refusal
from lathe.scheduler.inspect.redundant_compute import StageCount
from lathe.scheduler.isel import rules as _rules  # noqa: F401 - registers the built-in emission rules
from lathe.scheduler.isel.chunk import BufferView, Chunk, ChunkLoop, Index, Operand, vectors
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.rule import emit_rule
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.legality.dependences import Dependence
from lathe.scheduler.legality.required_pad_values import PaddingNeeded
from lathe.scheduler.lower_bound.bound import Bound, StageBound
from lathe.scheduler.primitives.transform_layout import AXIS_SEPARATOR
from lathe.scheduler.query_results import QueryResult
from lathe.scheduler.rewriting.padding import undef
from lathe.scheduler.schedule import Schedule, Stage, create_schedule
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_trace import bind

__all__ = [
    "AXIS_SEPARATOR",
    "Bound",
    "BufferUse",
    "BufferView",
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
    "QueryResult",
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
    "vectors",
]
