"""Reuse buffers checked against NumPy, and against rings of the inferred size filled cell by cell."""

from math import prod

from executions import Gone, Instance, cell_of, execution
from meanings import check_values
from random_programs import random_inputs

from lathe.frontend import Tensor
from lathe.scheduler import Schedule, interpret
from lathe.scheduler.loop_ir.compute_locations import place_stages


def reads_of(s: Schedule) -> dict[str, int]:
    """How often each tensor is read; fails if the schedule differs from NumPy, or a ring holds a wrong value."""
    inputs = random_inputs(list(s.program), seed=1)
    reads: dict[str, int] = {}
    check_values(interpret(s, inputs, reads=reads), list(s.program), inputs)
    check_rings(s)
    return reads


def check_rings(s: Schedule) -> None:
    """Execute instance by instance with rings of the inferred size; fail where a read finds another cell's value."""
    placed = place_stages(s)
    windows = {stage.tensor: placed[stage].window for stage in s.stages if stage.state.reuse}
    rings: dict[Tensor, dict[tuple[int, ...], tuple[int, ...]]] = {tensor: {} for tensor in windows}

    def place(tensor: Tensor, cell: tuple[int, ...]) -> tuple[int, ...]:
        window = windows[tensor]
        assert window is not None
        d = window.dimension
        return (*cell[:d], cell[d] % window.shape[d], *cell[d + 1 :])

    for event in execution(s):
        if isinstance(event, Gone):
            for tensor in event.tensors:
                rings.get(tensor, {}).clear()
            continue
        assert isinstance(event, Instance)
        state = event.node.placement.state
        if event.node.role != "init":
            for read in state.computation.reads:
                cell = cell_of(read, event.point)
                if read.tensor in rings and cell is not None:
                    found = rings[read.tensor].get(place(read.tensor, cell))
                    assert found == cell, f"{state.computation.name} finds {found} at {event.point}, not {cell}"
        if state.tensor in rings:
            cell = tuple(event.point[axis] for axis in state.computation.axes)
            rings[state.tensor][place(state.tensor, cell)] = cell
            window = windows[state.tensor]
            assert window is not None
            assert len(rings[state.tensor]) <= prod(window.shape)
