"""Values moved from lane to lane: a product with the identity matrix, put between a tensor and one that reads it.

``T'[.., d, ..] = sum over k of T[.., k, ..] * I[k, d]`` is ``T`` again, but its lanes are those of a matrix product's
result, which may run along other dimensions than those of its operands. Some columns of the identity select values: of
channels from 24 on, of which a block of lanes begins with the eighth, the product makes ones that begin with a block.
"""

from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Read, Reduce
from lathe.scheduler.rewriting.rewrite import reads_replaced
from lathe.scheduler.rewriting.strided_access import Elements
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import VectorLayout, initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name


def insert_identity_gemm(
    schedule: Edit,
    reader: EditedStage,
    reads: tuple[Read, ...],
    dim: int,
    selected: Elements,
    identity: Tensor,
    lanes: VectorLayout,
    on_alu: bool,
) -> None:
    """Let some reads of ``reader``, all of one tensor of int8, read its product with columns of the identity.

    ``selected``: the elements along ``dim`` that the product makes, all that these reads read among them.
    """
    tensor = reads[0].tensor
    shape = (*tensor.shape[:dim], selected.count, *tensor.shape[dim + 1 :])
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(shape))
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
    made = turned.outputs[0]

    def place(read: Read) -> Read:
        index = read.indices[dim]
        if selected.count < tensor.shape[dim]:
            index = simplified_index((index - selected.first) // selected.step)
        return Read(made, (*read.indices[:dim], index, *read.indices[dim + 1 :]))

    instead = {read: place(read) for read in reads}
    reader.change(computation=reads_replaced(reader.state.computation, instead))
