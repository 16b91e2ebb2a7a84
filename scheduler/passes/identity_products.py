"""Values moved from lane to lane: a product with the identity matrix, put between a tensor and one that reads it.

``T'[.., d, ..] = sum over k of T[.., k, ..] * I[k, d]`` is ``T`` again, but its lanes are those of a matrix product's
result, which may run along other dimensions than those of its operands.
"""

from typing import TYPE_CHECKING

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.expressions import AxisRef, Binary, Cast, Expr, Read, Reduce
from lathe.scheduler.algorithm.rewrite import reads_redirected
from lathe.scheduler.stage import Stage
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.stage import initial_state, replace
from lathe.scheduler.target.elements import Lanes

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule


def insert_turn(
    schedule: "Schedule",
    reader: Stage,
    reads: tuple[Read, ...],
    dim: int,
    identity: Tensor,
    lanes: Lanes,
    on_alu: bool,
) -> None:
    """Let some reads of ``reader``, all of one tensor of int8, read its product with the identity along ``dim``."""
    tensor = reads[0].tensor
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(tensor.shape))
    inner = Axis("k", tensor.shape[dim], 0, "reduce")
    points: list[Expr] = [AxisRef(axis) for axis in axes]
    data = Read(tensor, tuple(AxisRef(inner) if n == dim else point for n, point in enumerate(points)))
    unit = Read(identity, (AxisRef(inner), points[dim]))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(unit, "int32")), (inner,))
    total = Computation(fresh_name(schedule, f"{tensor.name}.turned.sum"), axes, (inner,), (body,))
    value = Cast(Read(total.outputs[0], tuple(points)), "int8")
    turned = Computation(fresh_name(schedule, f"{tensor.name}.turned"), axes, (), (value,))
    position = schedule.stages.index(reader)
    schedule.stages[position:position] = [
        Stage(schedule, replace(initial_state(total), lanes=lanes, on_alu=on_alu)),
        Stage(schedule, initial_state(turned)),
    ]
    instead = dict.fromkeys(reads, turned.outputs[0])
    reader.state = replace(reader.state, computation=reads_redirected(reader.state.computation, instead))
