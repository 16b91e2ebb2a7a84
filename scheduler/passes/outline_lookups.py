"""Look-ups within other expressions become stages of their own: the machine looks up what it has computed.

An element of a table is what RESCALE leaves behind; nothing else reads at places that depend on data::

    B[i, j] = M[uint8(L[uint8(D[i, j])])] + 1

    B.looked_up[i, j] = L[uint8(D[i, j])]
    B.looked_up2[i, j] = M[uint8(B.looked_up[i, j])]
    B[i, j] = B.looked_up2[i, j] + 1
"""

from dataclasses import replace

from lathe.configs.encoding import LOOKUP
from lathe.frontend import Axis, Computation, Tensor, substitute, walk
from lathe.frontend.expr.nodes import AxisRef, Read, axes_of
from lathe.scheduler.isel.select_rule import has_own_rule
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.match_rescale import table_index
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target


def outline_lookups(schedule: Edit, target: Target) -> None:
    """Put look-ups that are part of what an untouched stage does in stages of their own, on machines with tables."""
    if LOOKUP not in target.config.extensions:
        return
    for stage in list(schedule.stages):
        while (read := inner_lookup(stage)) is not None:
            _separate(stage, read)


def inner_lookup(stage: StageView) -> Read | None:
    """A look-up of plain values within what an untouched stage computes, on no condition; or None."""
    if not is_unscheduled(stage) or has_own_rule(stage.state):
        return None
    computation = stage.state.computation
    whole = {id(body) for body in computation.bodies}
    for access in computation.reads:
        read = access.node
        if id(read) in whole or access.guards or table_index(read) is None:
            continue
        axes = axes_of(read)
        within = (node for index in read.indices for node in walk(index) if isinstance(node, Read))
        if axes and all(axis.start == 0 for axis in axes) and all(table_index(each) is None for each in within):
            return read
    return None


def _separate(stage: EditedStage, read: Read) -> None:
    schedule, computation = stage.schedule, stage.state.computation
    used = set(axes_of(read))
    old = [axis for axis in (*computation.axes, *computation.reduce_axes) if axis in used]
    axes = tuple(Axis(axis.name, axis.extent) for axis in old)
    value = substitute(read, {axis: AxisRef(own) for axis, own in zip(old, axes, strict=True)})
    made = Computation(fresh_name(schedule, f"{stage.name}.looked_up"), axes, (), (value,))
    schedule.insert(initial_state(made), before=stage)
    tensor: Tensor = made.outputs[0]
    instead = Read(tensor, tuple(AxisRef(axis) for axis in old))
    bodies = tuple(transform(body, lambda node: instead if node is read else None) for body in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))
