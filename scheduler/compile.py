"""Where passes and emission meet: a schedule, completed for a machine and compiled."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.garbage import rarely_collected
from lathe.scheduler.emission.assemble import compile_schedule
from lathe.scheduler.emission.compiled import Compiled
from lathe.scheduler.passes.complete import Watch, complete
from lathe.scheduler.state.schedule import ScheduleView
from lathe.scheduler.target.wanted_extensions import check_extensions


@rarely_collected()
def compiled(
    schedule: ScheduleView,
    config: HardwareConfig,
    constants: Mapping[str, NDArray[Any]],
    watch: Watch | None = None,
    products: int | None = None,
) -> Compiled:
    """A schedule, completed and compiled; ``watch`` is shown it at first and after each pass.

    ``products`` are those that the program makes, if anybody has counted them.
    """
    check_extensions(schedule, config)
    return emitted(complete(schedule, config, watch=watch), config, constants, products)


@rarely_collected()
def emitted(
    completed: ScheduleView, config: HardwareConfig, constants: Mapping[str, NDArray[Any]], products: int | None = None
) -> Compiled:
    """A completed schedule, compiled, with the constants that passes have added."""
    added = {tensor.name: array for tensor, array in completed.state.constants.items()}
    return compile_schedule(completed, config, {**constants, **added}, completed.state.views, products)
