"""Transfer functions of layout assignment: the layout of an operand from that of the result, and the reverse."""

from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, as_affine
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.layout.rescaling import lanes_of_own_operand, own_operands
from lathe.scheduler.rewriting.matchers import dim_indexed_by
from lathe.scheduler.schedule_ir.stage import VectorLayout


def operand_layout(
    computation: Computation, access: ReadAccess, lanes: VectorLayout, config: HardwareConfig
) -> VectorLayout:
    """The layout of an operand of a computation that is no GEMM, from the layout of the result."""
    scope = own_operands(computation, config).get(access.node)
    if scope is not None:
        return lanes_of_own_operand(computation, access, scope, lanes, config)
    return elementwise_operand_layout(computation, access, lanes)


def elementwise_operand_layout(computation: Computation, access: ReadAccess, lanes: VectorLayout) -> VectorLayout:
    """The layout of an operand that is read element-wise, from the layout of the result."""

    def follow(dim: int | None) -> int | None:
        return None if dim is None else dim_indexed_by(access.node, computation.axes[dim])

    shifted = _shifted_dimensions(computation, access)
    if lanes.is_diagonal:
        return VectorLayout(*(follow(lanes.cols),) * 2)
    rows, cols = follow(lanes.rows), follow(lanes.cols)
    if cols is None and lanes.cols is not None:
        cols = shifted.get(lanes.cols)
    if rows is None and lanes.rows is not None:
        rows = shifted.get(lanes.rows)
    return VectorLayout(None if rows == cols else rows, cols, lanes.conversions or None)


@lru_cache(maxsize=4096)
def _shifted_dimensions(computation: Computation, access: ReadAccess) -> dict[int, int]:
    """Output dimensions, each with the first dimension of the read whose index is its axis plus other terms."""
    shifted: dict[int, int] = {}
    for dim, index in enumerate(access.indices):
        affine = as_affine(index)
        for position, axis in enumerate(computation.axes):
            if affine is not None and affine.coefficients.get(axis) == 1:
                shifted.setdefault(position, dim)
    return shifted


def lanes_back(computation: Computation, access: ReadAccess, lanes: VectorLayout) -> VectorLayout | None:
    """The layout of the result, from the layout of an operand; None where the read does not determine it."""
    positions = {axis: dim for dim, axis in enumerate(computation.axes)}

    def follow(dim: int | None) -> int | None:
        if dim is None:
            return None
        axis = as_bare_axis(access.indices[dim])
        return None if axis is None else positions.get(axis)

    result = VectorLayout(follow(lanes.rows), follow(lanes.cols))
    if (result.rows is None) != (lanes.rows is None) or (result.cols is None) != (lanes.cols is None):
        return None
    return result if result.cols is not None or len(access.indices) == len(computation.axes) else None
