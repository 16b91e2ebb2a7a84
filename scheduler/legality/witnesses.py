"""Construction of witnesses: the instances that show that a read does not find its value."""

from collections.abc import Mapping, Sequence

import islpy as isl

from lathe.frontend.arith.polyhedra import access_of, existing_cells
from lathe.frontend.expr.nodes import Axis, ReadAccess
from lathe.scheduler.errors import StorageWitness, Witness
from lathe.scheduler.loop_ir.instances import instances, values_of
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.loop_ir.timestamps import Occurrence
from lathe.scheduler.schedule_ir.schedule_state import StageView


def reads_missing(
    producer: StageRegion, consumer: StageRegion, reads: Sequence[ReadAccess], iteration: isl.Set, cell: isl.Set
) -> Witness:
    """The first instance of ``consumer``, in an iteration of its outer loops, that reads a cell of ``producer``.

    ``iteration`` and ``cell`` are single points.
    """
    computation = consumer.state.computation
    executed = instances(consumer)
    for level, value in enumerate(values_of(iteration)):
        executed = executed.fix_val(isl.dim_type.in_, level, isl.Val(value))
    inside = executed.range()
    points = isl.Set.empty(inside.get_space())
    for read in reads:
        access = access_of(computation, read, existing_cells(read.tensor, producer.state.computation))
        there = access.intersect_range(cell.set_tuple_name(read.tensor.name)).domain()
        points = points.union(inside.intersect(there))
    assert not points.is_empty(), f"{computation.name}: no instance reads {cell}"
    index = tuple(values_of(cell))
    point = dict(zip((*computation.axes, *computation.reduce_axes), values_of(points.lexmin()), strict=True))
    tensor = cell.get_tuple_name()
    return Witness(
        tensor, index, producer.stage.name, _value_at(producer.stage, index), computation.name, _named(point)
    )


def value_gone(
    buffer: str,
    cell: tuple[int, ...],
    needed: tuple[StageView, tuple[int, ...]],
    found: tuple[StageView, tuple[int, ...]],
    reader: Occurrence | None,
    time: int,
) -> Witness:
    """A read of a cell of a buffer at some time in a chunk, or, without one, by the host CPU at the end.

    It needs the value ``needed`` of a stage at an index, and finds another, or the same from another allocation.
    """
    stage, index = needed
    consumer, point = "", {}
    if reader is not None:
        computation = reader.chunk.placement.state.computation
        values = reader.instance_at(time)
        consumer = computation.name
        point = _named({axis: values[axis] for axis in (*computation.axes, *computation.reduce_axes)})
    instance = _value_at(stage, index)
    if needed == found:
        return Witness(buffer, cell, stage.name, instance, consumer, point)
    other, other_index = found
    return StorageWitness(
        buffer, cell, stage.name, instance, consumer, point, other.name, _value_at(other, other_index)
    )


def _value_at(stage: StageView, index: Sequence[int]) -> dict[str, int]:
    return {axis.name: value for axis, value in zip(stage.state.computation.axes, index, strict=True)}


def _named(point: Mapping[Axis, int]) -> dict[str, int]:
    return {axis.name: value for axis, value in point.items()}
