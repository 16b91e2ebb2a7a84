"""Values moved from lane to lane: a product with the identity matrix, put between a tensor and one that reads it.

``T'[.., d, ..] = sum over k of T[.., k, ..] * I[k, d]`` is ``T`` again, but its lanes are those of a matrix product's
result, which may run along other dimensions than those of its operands.
"""

from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.nodes import AxisRef, Binary, Cast, Read, Reduce
from lathe.frontend.operand import Expr
from lathe.scheduler.algorithm.rewrite import reads_redirected
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.stage import Lanes, initial_state


def insert_turn(
    schedule: Edit,
    reader: EditedStage,
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
    schedule.insert(replace(initial_state(total), lanes=lanes, on_alu=on_alu), before=reader)
    schedule.insert(initial_state(turned), before=reader)
    instead = dict.fromkeys(reads, turned.outputs[0])
    reader.change(computation=reads_redirected(reader.state.computation, instead))
