"""Passes and code generation combined: a schedule, lowered for a machine and compiled."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.gc_pause import with_gc_relaxed
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.codegen.driver import compile_schedule
from lathe.scheduler.passes.pipeline import PassInstrument, run_pipeline
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView
from lathe.scheduler.target.required_extensions import check_extensions


@with_gc_relaxed()
def lower_and_compile(
    schedule: ScheduleView,
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
    watch: PassInstrument | None = None,
    products: int | None = None,
) -> Compiled:
    """A schedule, lowered and compiled; ``watch`` sees it before the first pass and after each.

    ``products`` is the number of multiply-accumulates of the program, if it is known.
    """
    check_extensions(schedule, config)
    return compile_lowered(run_pipeline(schedule, config, watch=watch), config, constants, products)


@with_gc_relaxed()
def compile_lowered(
    lowered: ScheduleView, config: HardwareConfig, constants: Mapping[str, NDArray[Any]], products: int | None = None
) -> Compiled:
    """A lowered schedule, compiled, with the constants that passes have added."""
    added = {tensor.name: array for tensor, array in lowered.state.constants.items()}
    return compile_schedule(lowered, config, {**constants, **added}, lowered.state.views, products)
