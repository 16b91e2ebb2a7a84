"""Where passes and emission meet: a schedule, completed for a machine and compiled."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.gc_pause import with_gc_relaxed
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.codegen.driver import compile_schedule
from lathe.scheduler.passes.pipeline import PassInstrument, run_pipeline
from lathe.scheduler.schedule_ir.schedule import ScheduleView
from lathe.scheduler.target.required_extensions import check_extensions


@with_gc_relaxed()
def compiled(
    schedule: ScheduleView,
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
    watch: PassInstrument | None = None,
    products: int | None = None,
) -> Compiled:
    """A schedule, completed and compiled; ``watch`` is shown it at first and after each pass.

    ``products`` are those that the program makes, if anybody has counted them.
    """
    check_extensions(schedule, config)
    return emitted(run_pipeline(schedule, config, watch=watch), config, constants, products)


@with_gc_relaxed()
def emitted(
    completed: ScheduleView, config: HardwareConfig, constants: Mapping[str, NDArray[Any]], products: int | None = None
) -> Compiled:
    """A completed schedule, compiled, with the constants that passes have added."""
    added = {tensor.name: array for tensor, array in completed.state.constants.items()}
    return compile_schedule(completed, config, {**constants, **added}, completed.state.views, products)
