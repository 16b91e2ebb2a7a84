"""The autotuner: simulates candidate schedules, made of public schedule primitives, and keeps the fastest."""

from lathe.autotune.autoschedule import autoschedule
from lathe.autotune.schedule_cache import ScheduleCache, ScheduleCacheError
from lathe.autotune.tuned_schedule import Candidate, TunedSchedule
from lathe.autotune.what_if import explain

__all__ = ["Candidate", "ScheduleCache", "ScheduleCacheError", "TunedSchedule", "autoschedule", "explain"]
