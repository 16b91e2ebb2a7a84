"""Fit vector layouts to storage: choose layouts whose vectors the map of a user buffer (store_in) keeps contiguous."""

from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.storage_layout import buffer_layout
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.target.target import Target


def fit_layout_to_storage(schedule: Edit, target: Target) -> None:
    """Set, in place, another vector layout (or the scalar one) where the storage map would split vectors."""
    stored = [
        stage for stage in schedule.stages if stage.state.storage is not None and stage.state.vector_layout is None
    ]
    if not stored:
        return
    known = assign_layouts(schedule, target.config).layouts
    for stage in stored:
        storage = stage.state.storage
        assert storage is not None
        element = target.vector_type_in(stage.state.scope)
        if buffer_layout(storage, known[stage.tensor], element) is not None:
            continue
        dims = range(stage.tensor.ndim)
        candidates = (VectorLayout(None, dim) for dim in sorted(dims, key=lambda dim: -stage.tensor.shape[dim]))
        fitting = (lanes for lanes in candidates if buffer_layout(storage, lanes, element) is not None)
        stage.change(vector_layout=next(fitting, VectorLayout(None, None)))
