"""Which dimensions become rows and columns of elements: found from the matrix products, spread along element-wise use.

A product ``D[.., j] += X[.., k] * W[j, k]`` says it all: columns of D are rows of W (j), columns of X are columns of W
(k), rows of D are rows of X. Element-wise computations and copies keep lanes, so the rest follows from their indices.
Where nothing is said the last dimension becomes the columns and the first the rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor
from lathe.frontend.accesses import ReadAccess
from lathe.frontend.expressions import Axis, AxisRef, Binary, Cast, Const, Expr, Read, Reduce
from lathe.scheduler.physical import Lanes

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule


@dataclass(frozen=True)
class Product:
    """A matrix product in a computation: operands, and the axes that become lanes (None: of one value only)."""

    data: Read
    weight: Read
    row: Axis | None
    column: Axis | None
    inner: Axis | None


def bare(expr: Expr) -> Expr:
    """The expression without the casts around it."""
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def plain_axis(index: Expr) -> Axis | None:
    """The axis that an index is, if it is nothing but an axis."""
    index = bare(index)
    while isinstance(index, Binary) and index.op == "add":
        if isinstance(index.rhs, Const) and index.rhs.value == 0:
            index = bare(index.lhs)
        elif isinstance(index.lhs, Const) and index.lhs.value == 0:
            index = bare(index.rhs)
        else:
            return None
    return index.axis if isinstance(index, AxisRef) else None


def dimension_of(read: Read, axis: Axis | None) -> int | None:
    """The dimension of a read that an axis alone indexes, the last such."""
    if axis is None:
        return None
    found = [dim for dim, index in enumerate(read.indices) if plain_axis(index) is axis]
    return found[-1] if found else None


def origin(tensor: Tensor) -> Tensor:
    """The tensor that a chain of plain copies begins with."""
    while tensor.computation is not None and isinstance(tensor.computation.bodies[0], Read):
        tensor = tensor.computation.bodies[0].tensor
    return tensor


def scope_in(schedule: "Schedule", tensor: Tensor) -> str:
    """The memory in which a tensor lives."""
    for stage in schedule.stages:
        if tensor in stage.state.tensors:
            return stage.state.scope
    return "dram"


def matrix_product(
    computation: Computation, config: HardwareConfig, schedule: "Schedule | None" = None
) -> Product | None:
    """The matrix product that a computation is, with lanes chosen to leave the fewest empty, or None.

    The operand that has a lane axis of the output which the other lacks is the weight; a computed tensor is the data,
    because no store lays elements out as weights.
    """
    if len(computation.bodies) != 1:
        return None
    body = computation.bodies[0]
    if not isinstance(body, Reduce) or body.kind != "sum":
        return None
    product = bare(body.body)
    if not isinstance(product, Binary) or product.op != "mul":
        return None
    first, second = bare(product.lhs), bare(product.rhs)
    if not isinstance(first, Read) or not isinstance(second, Read):
        return None
    found: list[tuple[float, Product]] = []
    for order, (data, weight) in enumerate(((first, second), (second, first))):
        columns = _lanes(computation.axes, weight, data)
        inners = [a for a in _mentioned(computation.reduce_axes, data) if dimension_of(weight, a) is not None]
        rows = _lanes(computation.axes, data, weight)
        column = _fullest(columns, config.block_out)
        inner = _fullest(inners, config.block_in)
        row = _fullest(rows, config.batch)
        filled = _filled(column, config.block_out) * _filled(inner, config.block_in) * _filled(row, config.batch)
        if schedule is not None and scope_in(schedule, weight.tensor) == "inp":
            continue
        if schedule is not None and scope_in(schedule, data.tensor) == "wgt":
            continue
        if origin(weight.tensor).computation is not None and origin(data.tensor).computation is None:
            continue
        found.append((filled - 1e-6 * order, Product(data, weight, row, column, inner)))
    return max(found, key=lambda each: each[0])[1] if found else None


def _mentioned(axes: Iterable[Axis], read: Read) -> list[Axis]:
    return [axis for axis in axes if dimension_of(read, axis) is not None]


def _lanes(axes: Iterable[Axis], operand: Read, other: Read) -> list[Axis]:
    """Axes that index one operand plainly and the other not at all."""
    from lathe.frontend.expressions import axes_of

    elsewhere = set(axes_of(*other.indices))
    return [axis for axis in _mentioned(axes, operand) if axis not in elsewhere]


def _filled(axis: Axis | None, block: int) -> float:
    if axis is None:
        return 1 / block
    return axis.extent / (-(-axis.extent // block) * block)


def _fullest(axes: list[Axis], block: int) -> Axis | None:
    """The axis that leaves the fewest lanes empty; among equals the innermost."""
    return max(reversed(axes), key=lambda axis: _filled(axis, block), default=None)


def assign_lanes(schedule: "Schedule", config: HardwareConfig) -> dict[Tensor, Lanes]:
    """Lanes of every tensor that a stage makes; placeholders follow their readers (``lanes_through``)."""
    known: dict[Tensor, Lanes] = {}
    stages = [stage.state for stage in schedule.stages]
    products = {id(state): matrix_product(state.computation, config, schedule) for state in stages}
    for state in stages:
        product = products[id(state)]
        if product is None:
            continue
        positions = {axis: dim for dim, axis in enumerate(state.computation.axes)}
        output = Lanes(_position(positions, product.row, config.batch), _position(positions, product.column, 2))
        for tensor in state.tensors:
            known.setdefault(tensor, output)
        if product.data.tensor.computation is not None:
            known.setdefault(product.data.tensor, lanes_of_operand(product, "data", config))
        if product.weight.tensor.computation is not None:
            known.setdefault(product.weight.tensor, lanes_of_operand(product, "weight", config))
    made = {tensor for state in stages for tensor in state.tensors}
    while True:
        before = len(known)
        for state in (*stages, *reversed(stages)):
            if products[id(state)] is not None:
                continue
            for access in state.computation.reads:
                for tensor in state.tensors:
                    if tensor in known and access.tensor in made and access.tensor not in known:
                        known[access.tensor] = lanes_through(state.computation, access, known[tensor])
                    elif tensor not in known and access.tensor in known:
                        backwards = _lanes_back(state.computation, access, known[access.tensor])
                        if backwards is not None:
                            known[tensor] = backwards
        if len(known) == before:
            open_ = [tensor for state in reversed(stages) for tensor in state.tensors if tensor not in known]
            if not open_:
                return known
            known[open_[0]] = default_lanes(open_[0], config)


def default_lanes(tensor: Tensor, config: HardwareConfig) -> Lanes:
    """Columns from the last dimension, rows from the first of several if the machine has a batch."""
    return Lanes(0 if tensor.ndim > 1 and config.batch > 1 else None, tensor.ndim - 1)


def _position(positions: dict[Axis, int], axis: Axis | None, size: int) -> int | None:
    return None if axis is None or size == 1 else positions.get(axis)


def lanes_of_operand(product: Product, operand: str, config: HardwareConfig) -> Lanes:
    """Lanes of an operand of a matrix product: ``data`` or ``weight``."""
    inner = product.inner
    if operand == "data":
        row = dimension_of(product.data, product.row) if config.batch > 1 else None
        return Lanes(row, dimension_of(product.data, inner))
    return Lanes(dimension_of(product.weight, product.column), dimension_of(product.weight, inner))


def lanes_through(computation: Computation, access: ReadAccess, lanes: Lanes) -> Lanes:
    """Lanes of a tensor that a computation reads element-wise, from those of what it writes."""

    def follow(dim: int | None) -> int | None:
        return None if dim is None else dimension_of(access.node, computation.axes[dim])

    shifted = _shifted_dimensions(computation, access)
    rows, cols = follow(lanes.rows), follow(lanes.cols)
    if cols is None and lanes.cols is not None:
        cols = shifted.get(lanes.cols)
    if rows is None and lanes.rows is not None:
        rows = shifted.get(lanes.rows)
    return Lanes(rows, cols)


def _shifted_dimensions(computation: Computation, access: ReadAccess) -> dict[int, int]:
    """Dimensions of the output and of the read whose index is the output's axis plus something else."""
    from lathe.frontend import as_affine

    found: dict[int, int] = {}
    for dim, index in enumerate(access.indices):
        affine = as_affine(index)
        for position, axis in enumerate(computation.axes):
            if affine is not None and affine.coefficients.get(axis) == 1:
                found.setdefault(position, dim)
    return found


def _lanes_back(computation: Computation, access: ReadAccess, lanes: Lanes) -> Lanes | None:
    """Lanes of what a computation writes, from those of a tensor it reads; None where the read does not tell all."""
    positions = {axis: dim for dim, axis in enumerate(computation.axes)}

    def follow(dim: int | None) -> int | None:
        if dim is None:
            return None
        axis = plain_axis(access.indices[dim])
        return None if axis is None else positions.get(axis)

    result = Lanes(follow(lanes.rows), follow(lanes.cols))
    if (result.rows is None) != (lanes.rows is None) or (result.cols is None) != (lanes.cols is None):
        return None
    return result if len(access.indices) == len(computation.axes) else None
