"""Schedules found by trying: candidates of public commands, decided by the simulator."""

from lathe.optimiser.autoschedule import autoschedule
from lathe.optimiser.found import FoundSchedule, Tried
from lathe.optimiser.kept import ScheduleCache, ScheduleCacheError
from lathe.optimiser.outlook import explain

__all__ = ["FoundSchedule", "ScheduleCache", "ScheduleCacheError", "Tried", "autoschedule", "explain"]
