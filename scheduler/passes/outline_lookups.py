"""Outline table lookups: move lookups nested in other operations to stages of their own, on machines with tables.

The instruction RESCALE looks up its result; no other instruction reads at a data-dependent index::

    B[i, j] = M[uint8(L[uint8(D[i, j])])] + 1

    B.looked_up[i, j] = L[uint8(D[i, j])]
    B.looked_up2[i, j] = M[uint8(B.looked_up[i, j])]
    B[i, j] = B.looked_up2[i, j] + 1
"""

from dataclasses import replace

from lathe.configs.encoding import LOOKUP
from lathe.frontend import Axis, Computation, Tensor, substitute, walk
from lathe.frontend.expr.nodes import AxisRef, Read, axes_of
from lathe.scheduler.isel.select_rule import has_user_rule
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.match_rescale import table_index
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target


def outline_lookups(schedule: Edit, target: Target) -> None:
    """Outline the nested lookups of unscheduled stages, in place, if the machine has lookup tables."""
    if LOOKUP not in target.config.extensions:
        return
    for stage in list(schedule.stages):
        while (read := nested_lookup(stage)) is not None:
            _outline(stage, read)


def nested_lookup(stage: StageView) -> Read | None:
    """An unconditional lookup nested in the expression of an unscheduled stage, without lookups inside it; or None."""
    if not is_unscheduled(stage) or has_user_rule(stage.state):
        return None
    computation = stage.state.computation
    whole = {id(body) for body in computation.bodies}
    for access in computation.reads:
        read = access.node
        if id(read) in whole or access.guards or table_index(read) is None:
            continue
        axes = axes_of(read)
        inner_reads = (node for index in read.indices for node in walk(index) if isinstance(node, Read))
        if axes and all(axis.start == 0 for axis in axes) and all(table_index(each) is None for each in inner_reads):
            return read
    return None


def _outline(stage: EditedStage, read: Read) -> None:
    schedule, computation = stage.schedule, stage.state.computation
    used = set(axes_of(read))
    old = [axis for axis in (*computation.axes, *computation.reduce_axes) if axis in used]
    axes = tuple(Axis(axis.name, axis.extent) for axis in old)
    value = substitute(read, {axis: AxisRef(own) for axis, own in zip(old, axes, strict=True)})
    outlined = Computation(fresh_name(schedule, f"{stage.name}.looked_up"), axes, (), (value,))
    schedule.insert(initial_state(outlined), before=stage)
    tensor: Tensor = outlined.outputs[0]
    instead = Read(tensor, tuple(AxisRef(axis) for axis in old))
    bodies = tuple(transform(body, lambda node: instead if node is read else None) for body in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))
