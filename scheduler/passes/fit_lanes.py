"""Lanes for stages whose storage takes blocks of values apart."""

from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.stage import Lanes
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.lanes_of_cells import lanes_of_cells
from lathe.scheduler.target.target import Target


def fit_lanes(schedule: Edit, target: Target) -> None:
    """Give stages whose storage takes blocks of their lanes apart other lanes, or none, where nothing else is said."""
    stored = [stage for stage in schedule.stages if stage.state.storage is not None and stage.state.lanes is None]
    if not stored:
        return
    known = plan_lanes(schedule, target.config).known
    for stage in stored:
        storage = stage.state.storage
        assert storage is not None
        element = target.element_in(stage.state.scope)
        if lanes_of_cells(storage, known[stage.tensor], element) is not None:
            continue
        dims = range(stage.tensor.ndim)
        wanted = (Lanes(None, dim) for dim in sorted(dims, key=lambda dim: -stage.tensor.shape[dim]))
        fitting = (lanes for lanes in wanted if lanes_of_cells(storage, lanes, element) is not None)
        stage.change(lanes=next(fitting, Lanes(None, None)))
