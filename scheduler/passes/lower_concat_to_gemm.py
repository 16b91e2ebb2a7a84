"""Lower concatenation to GEMM: concat at unaligned channel offsets becomes a sum of GEMMs with 0/1 selection matrices.

When 24 and 40 channels are concatenated, the second ones have to move by 8 lanes, and one vector holds some of both.
The matrix core moves values between lanes, and gives zeros where an operand has no value::

    joined[.., k] = select(k < 24, a[.., k], b[.., k - 24])

    a.placed[.., k] = sum over j of a[.., j] * A[j, k]     with A[j, k] = 1 where k is j, and 0 elsewhere
    b.placed[.., k] = sum over j of b[.., j] * B[j, k]     with B[j, k] = 1 where k is j + 24
    joined[.., k] = int8(a.placed[.., k] + b.placed[.., k])

Operands at vector boundaries need no GEMM, only conditions and addresses, and inputs only another host layout.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Axis, Computation, Tensor, evaluate
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Const, Read, Reduce, Select, axes_of, reads_data
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.vector_type import largest_block
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.resolve_layout_conflicts import LARGEST_SELECTION
from lathe.scheduler.rewriting.rewrite import rewrite
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class ConcatPart:
    """An operand of a concatenation: its read, the dimension that is concatenated, and its index by result position."""

    read: Read
    dim: int
    moves: dict[int, int]

    @property
    def matrix(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The extent of the operand, and the positions of the ones in its selection matrix."""
        return self.read.tensor.shape[self.dim], tuple((source, position) for position, source in self.moves.items())


def lower_concat_to_gemm(schedule: Edit, target: Target) -> None:
    """Rewrite, in place, unscheduled concatenations that move computed values to other lanes as sums of GEMMs."""
    matrices: dict[object, tuple[Tensor, NDArray[Any]]] = {}
    for stage in list(schedule.stages):
        for operands in [concat_operands(stage)] if is_unscheduled(stage) else []:
            if operands and _is_unaligned(schedule, operands, target):
                _lower(schedule, stage, operands, matrices)
    added = dict(matrices.values())
    schedule.update(constants={**schedule.state.constants, **added})


def concat_operands(stage: EditedStage) -> list[ConcatPart]:
    """The operands of a stage that only concatenates int8 tensors along its last axis; [] if it does anything else."""
    computation = stage.state.computation
    if computation.reduce_axes or len(computation.bodies) > 1 or computation.where is not None or not computation.axes:
        return []
    body, axis = computation.bodies[0], computation.axes[-1]
    if computation.outputs[0].dtype != "int8" or not isinstance(skip_value_preserving_casts(body), Select):
        return []
    for node in walk(body):
        if isinstance(node, Select) and (reads_data(node.condition) or set(axes_of(node.condition)) != {axis}):
            return []
    found: dict[Read, ConcatPart] = {}
    for position in range(axis.extent):
        value = skip_value_preserving_casts(body)
        while isinstance(value, Select):
            holds = bool(evaluate(value.condition, {axis: np.asarray(position)}))
            value = skip_value_preserving_casts(value.then if holds else value.otherwise)
        if isinstance(value, Const) and value.value == 0:
            continue
        operand = found.get(value) if isinstance(value, Read) else None
        if operand is None:
            operand = _operand_of(value, axis)
            if operand is None:
                return []
            found[operand.read] = operand
        operand.moves[position] = int(evaluate(operand.read.indices[operand.dim], {axis: np.asarray(position)}))
    return list(found.values())


def _operand_of(value: Expr, axis: Axis) -> ConcatPart | None:
    """The operand that a value is read from, with the axis in one index, by itself; None if it is no such int8 read."""
    if not isinstance(value, Read) or value.dtype != "int8" or any(map(reads_data, value.indices)):
        return None
    along = [dim for dim, index in enumerate(value.indices) if axis in axes_of(index)]
    if len(along) != 1 or set(axes_of(value.indices[along[0]])) != {axis}:
        return None
    return ConcatPart(value, along[0], {})


def _is_unaligned(schedule: Edit, operands: list[ConcatPart], target: Target) -> bool:
    """Whether values change lanes, of operands computed with lanes along the concatenation and small selections."""
    step, known = largest_block(target.config), assign_layouts(schedule, target.config).layouts
    computed = all(each.read.tensor in known and known[each.read.tensor].cols == each.dim for each in operands)
    small = sum(each.read.tensor.shape[each.dim] for each in operands) <= LARGEST_SELECTION
    unaligned = any((position - source) % step for each in operands for position, source in each.moves.items())
    return computed and small and unaligned


def _lower(
    schedule: Edit, stage: EditedStage, operands: list[ConcatPart], matrices: dict[object, tuple[Tensor, NDArray[Any]]]
) -> None:
    computation = stage.state.computation
    total: Expr | None = None
    for operand in operands:
        key = operand.matrix, computation.axes[-1].extent
        if key not in matrices:
            values = np.zeros((key[0][0], key[1]), np.int8)
            for source, position in key[0][1]:
                values[source, position] = 1
            matrices[key] = Tensor(fresh_name(schedule, f"places{len(matrices)}"), values.shape, "int8"), values
        moved = _move_by_gemm(schedule, stage, operand, matrices[key][0])
        value = Read(moved, tuple(AxisRef(axis) for axis in computation.axes))
        total = value if total is None else Binary("add", total, value)
    assert total is not None, f"{stage.name} concatenates no operands"
    stage.change(computation=replace(computation, bodies=(Cast(total, "int8"),)))


def _move_by_gemm(schedule: Edit, stage: EditedStage, operand: ConcatPart, matrix: Tensor) -> Tensor:
    """Insert the GEMM that moves an operand to its positions in the result, and return its result."""
    computation = stage.state.computation
    axes = tuple(Axis(axis.name, axis.extent) for axis in computation.axes)
    inner = Axis("k", operand.read.tensor.shape[operand.dim], 0, "reduce")
    points: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
    others = [rewrite(index, axes=points) for index in operand.read.indices]
    data = Read(operand.read.tensor, (*others[: operand.dim], AxisRef(inner), *others[operand.dim + 1 :]))
    selection = Read(matrix, (AxisRef(inner), AxisRef(axes[-1])))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(selection, "int32")), (inner,))
    product = Computation(fresh_name(schedule, f"{operand.read.tensor.name}.placed"), axes, (inner,), (body,))
    schedule.insert(initial_state(product), before=stage)
    return product.outputs[0]
