"""Unpacking of outputs in user buffers: how the host CPU reads values that a storage map has placed."""

from lathe.isa.layout_steps import LayoutStep
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.rewriting.index_maps import index_map
from lathe.scheduler.schedule_ir.schedule import StageView


def host_steps(stage: StageView, view: tuple[int, ...]) -> tuple[LayoutStep, ...]:
    """How the host reads the cells of an output. Raises BuildError for a storage map that no reshaping inverts."""
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} is in no user buffer"
    try:
        found = index_map(storage.axes, list(storage.indices), (), stage.name)
    except ScheduleError:
        found = None
    if found is None or found.shape != view:
        raise BuildError(
            f"Cannot unpack output {stage.name!r} on the host: its storage map {storage} is not a one-to-one map of "
            f"its axes, or of axes split by constants, onto a buffer of shape {view}. Store a copy of it instead, with "
            f"s.cache_write({stage.name}, 'dram').",
            kind="limit",
        ) from None
    return found.steps()
