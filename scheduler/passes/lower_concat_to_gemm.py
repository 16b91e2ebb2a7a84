"""Tensors joined along their lanes at places within blocks: products with columns of identities, added up.

Of 24 and 40 channels behind each other the second ones would have to move by 8 lanes, and one block holds some of both.
The matrix core moves values from lane to lane, and leaves zeros where a part has none::

    joined[.., k] = select(k < 24, a[.., k], b[.., k - 24])

    a.placed[.., k] = sum over j of a[.., j] * A[j, k]     with A[j, k] = 1 where k is j, and 0 elsewhere
    b.placed[.., k] = sum over j of b[.., j] * B[j, k]     with B[j, k] = 1 where k is j + 24
    joined[.., k] = int8(a.placed[.., k] + b.placed[.., k])

What begins with blocks, conditions and addresses decide, and what comes from the host alone, its layout.
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
from lathe.scheduler.layout.vector_type import whole_elements
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.resolve_layout_conflicts import LARGEST_SELECTION
from lathe.scheduler.rewriting.rewrite import rewrite
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target


@dataclass(frozen=True)
class JoinedPart:
    """What is joined: the read, the dimension along which it is, and which of its elements goes where."""

    read: Read
    dim: int
    moves: dict[int, int]

    @property
    def matrix(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """The extent of the part, and the elements of the matrix that are 1."""
        return self.read.tensor.shape[self.dim], tuple((source, place) for place, source in self.moves.items())


def lower_concat_to_gemm(schedule: Edit, target: Target) -> None:
    """Make sums of products, in place, of untouched stages that join computed tensors within blocks of channels."""
    matrices: dict[object, tuple[Tensor, NDArray[Any]]] = {}
    for stage in list(schedule.stages):
        for parts in [parts_joined(stage)] if is_unscheduled(stage) else []:
            if parts and _moves_within_blocks(schedule, parts, target):
                _join(schedule, stage, parts, matrices)
    added = dict(matrices.values())
    schedule.update(constants={**schedule.state.constants, **added})


def parts_joined(stage: EditedStage) -> list[JoinedPart]:
    """The parts of a tensor of int8 that a stage only joins along its last axis; none where it does anything else."""
    computation = stage.state.computation
    if computation.reduce_axes or len(computation.bodies) > 1 or computation.where is not None or not computation.axes:
        return []
    body, axis = computation.bodies[0], computation.axes[-1]
    if computation.outputs[0].dtype != "int8" or not isinstance(skip_value_preserving_casts(body), Select):
        return []
    for node in walk(body):
        if isinstance(node, Select) and (reads_data(node.condition) or set(axes_of(node.condition)) != {axis}):
            return []
    found: dict[Read, JoinedPart] = {}
    for place in range(axis.extent):
        value = skip_value_preserving_casts(body)
        while isinstance(value, Select):
            holds = bool(evaluate(value.condition, {axis: np.asarray(place)}))
            value = skip_value_preserving_casts(value.then if holds else value.otherwise)
        if isinstance(value, Const) and value.value == 0:
            continue
        part = found.get(value) if isinstance(value, Read) else None
        if part is None:
            part = _part_of(value, axis)
            if part is None:
                return []
            found[part.read] = part
        part.moves[place] = int(evaluate(part.read.indices[part.dim], {axis: np.asarray(place)}))
    return list(found.values())


def _part_of(value: Expr, axis: Axis) -> JoinedPart | None:
    """The part that an element is of, which one index alone leads through; None where it is none of bytes."""
    if not isinstance(value, Read) or value.dtype != "int8" or any(map(reads_data, value.indices)):
        return None
    along = [dim for dim, index in enumerate(value.indices) if axis in axes_of(index)]
    if len(along) != 1 or set(axes_of(value.indices[along[0]])) != {axis}:
        return None
    return JoinedPart(value, along[0], {})


def _moves_within_blocks(schedule: Edit, parts: list[JoinedPart], target: Target) -> bool:
    """Whether values have to change their lanes, all parts being made in lanes of what is joined."""
    step, known = whole_elements(target.config), assign_layouts(schedule, target.config).known
    made = all(each.read.tensor in known and known[each.read.tensor].cols == each.dim for each in parts)
    small = sum(each.read.tensor.shape[each.dim] for each in parts) <= LARGEST_SELECTION
    moved = any((place - source) % step for each in parts for place, source in each.moves.items())
    return made and small and moved


def _join(
    schedule: Edit, stage: EditedStage, parts: list[JoinedPart], matrices: dict[object, tuple[Tensor, NDArray[Any]]]
) -> None:
    computation = stage.state.computation
    total: Expr | None = None
    for part in parts:
        key = part.matrix, computation.axes[-1].extent
        if key not in matrices:
            values = np.zeros((key[0][0], key[1]), np.int8)
            for source, place in key[0][1]:
                values[source, place] = 1
            matrices[key] = Tensor(fresh_name(schedule, f"places{len(matrices)}"), values.shape, "int8"), values
        placed = _placed(schedule, stage, part, matrices[key][0])
        value = Read(placed, tuple(AxisRef(axis) for axis in computation.axes))
        total = value if total is None else Binary("add", total, value)
    assert total is not None, f"{stage.name} is made of nothing"
    stage.change(computation=replace(computation, bodies=(Cast(total, "int8"),)))


def _placed(schedule: Edit, stage: EditedStage, part: JoinedPart, matrix: Tensor) -> Tensor:
    """The product that brings a part to its places."""
    computation = stage.state.computation
    axes = tuple(Axis(axis.name, axis.extent) for axis in computation.axes)
    inner = Axis("k", part.read.tensor.shape[part.dim], 0, "reduce")
    points: dict[Axis, Expr] = {old: AxisRef(new) for old, new in zip(computation.axes, axes, strict=True)}
    others = [rewrite(index, axes=points) for index in part.read.indices]
    data = Read(part.read.tensor, (*others[: part.dim], AxisRef(inner), *others[part.dim + 1 :]))
    unit = Read(matrix, (AxisRef(inner), AxisRef(axes[-1])))
    body = Reduce("sum", Binary("mul", Cast(data, "int32"), Cast(unit, "int32")), (inner,))
    made = Computation(fresh_name(schedule, f"{part.read.tensor.name}.placed"), axes, (inner,), (body,))
    schedule.insert(initial_state(made), before=stage)
    return made.outputs[0]
