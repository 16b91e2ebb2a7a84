"""Outputs in cells of the user's choice: the host finds the program's values where the map has put them."""

from lathe.isa.layout_steps import LayoutStep
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.rewriting.index_maps import index_map
from lathe.scheduler.schedule_ir.schedule import StageView


def host_steps(stage: StageView, view: tuple[int, ...]) -> tuple[LayoutStep, ...]:
    """How the host reads the cells of an output. Raises BuildError for a map that no reshaping of arrays undoes."""
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} has no cells of its own"
    try:
        found = index_map(storage.axes, list(storage.indices), (), stage.name)
    except ScheduleError:
        found = None
    if found is None or found.shape != view:
        raise BuildError(
            f"output {stage.name!r} must be stored by a map that gives each cell of its buffer one index, made of axes "
            f"or digits of axes, for the host to unpack it, not {storage} of {view}. Store a copy of it instead, with "
            f"s.cache_write({stage.name}, 'dram').",
            kind="limit",
        ) from None
    return found.steps()
