"""Identity GEMM: move values to other lanes by multiplying a tensor with the identity matrix, or columns of it.

``T'[.., d, ..] = sum over k of T[.., k, ..] * I[k, d]`` equals ``T``, but in the vector layout of a GEMM result, which
may have lanes along other dimensions than the operands. Some columns of the identity select elements: from channels 24
on, which start at lane 8 of a vector, the GEMM makes a tensor that starts with a vector.
"""

from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Read, Reduce
from lathe.scheduler.rewriting.rewrite import replace_single_reads
from lathe.scheduler.rewriting.strided_access import StridedElements
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.stage import VectorLayout, initial_state


def insert_identity_gemm(
    schedule: Edit,
    consumer: EditedStage,
    reads: tuple[Read, ...],
    dim: int,
    selected: StridedElements,
    identity: Tensor,
    lanes: VectorLayout,
    on_alu: bool,
) -> None:
    """Redirect some reads of ``consumer``, all of one int8 tensor, to its product with columns of the identity.

    ``selected``: the elements along ``dim`` that the product has, with all that these reads need.
    """
    tensor = reads[0].tensor
    shape = (*tensor.shape[:dim], selected.count, *tensor.shape[dim + 1 :])
    axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(shape))
    inner = Axis("k", tensor.shape[dim], 0, "reduce")
    points: list[Expr] = [AxisRef(axis) for axis in axes]
    data = Read(tensor, tuple(AxisRef(inner) if n == dim else point for n, point in enumerate(points)))
    identity_read = Read(identity, (AxisRef(inner), points[dim]))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(identity_read, "int32")), (inner,))
    total = Computation(fresh_name(schedule, f"{tensor.name}.turned.sum"), axes, (inner,), (body,))
    value = Cast(Read(total.outputs[0], tuple(points)), "int8")
    copy = Computation(fresh_name(schedule, f"{tensor.name}.turned"), axes, (), (value,))
    schedule.insert(replace(initial_state(total), vector_layout=lanes, on_alu=on_alu), before=consumer)
    schedule.insert(initial_state(copy), before=consumer)
    converted = copy.outputs[0]

    def redirected(read: Read) -> Read:
        index = read.indices[dim]
        if selected.count < tensor.shape[dim]:
            index = simplified_index((index - selected.first) // selected.step)
        return Read(converted, (*read.indices[:dim], index, *read.indices[dim + 1 :]))

    replacements = {read: redirected(read) for read in reads}
    consumer.change(computation=replace_single_reads(consumer.state.computation, replacements))
