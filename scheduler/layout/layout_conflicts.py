"""What stands in the way of lanes: reads of an element-wise stage that do not lead neighbours through as neighbours."""

from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor, as_affine, walk
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Compare, ReadAccess, Select, axes_of
from lathe.scheduler.layout.match_gemm import KnownLanes
from lathe.scheduler.layout.rescaling import is_in_the_way, own_operands
from lathe.scheduler.layout.vector_type import VectorType
from lathe.scheduler.schedule_ir.stage import StageState


def obstacles_of(state: StageState, known: KnownLanes, element: VectorType, config: HardwareConfig) -> list[Tensor]:
    """What an element-wise stage reads without leading its lanes through, a tensor for each obstacle."""
    lanes, computation = known[state.tensor], state.computation
    found: list[Tensor] = []
    blocks = ((lanes.cols, element.cols, "cols"), (lanes.rows, element.rows, "rows"))
    for access in computation.reads:
        if access.node in own_operands(computation, config):
            found += [access.tensor] * is_in_the_way(computation, access, lanes, element, config)
            continue
        for dim, block, side in blocks:
            if block == 1:
                continue
            mine = known.get(access.tensor)
            theirs = None if mine is None else getattr(mine, side)
            if dim is None:
                found += [access.tensor] * (theirs is not None)
                continue
            axis = computation.axes[dim]
            mentioning, through = _dimensions_along(access, axis, block)
            expected = through[0] if through else None
            lost = mentioning != through or len(through) > 1
            found += [access.tensor] * (lost or (mine is not None and theirs != expected))
    for dim, block, _ in blocks:
        if dim is not None and block > 1:
            found += [state.tensor] * _choices_within(computation, computation.axes[dim], block)
    return found


@lru_cache(maxsize=16384)  # lanes are planned again and again over the same reads
def _dimensions_along(access: ReadAccess, axis: Axis, block: int) -> tuple[list[int], list[int]]:
    """The dimensions of a read whose index has the axis in it, and those of them that lead its neighbours through."""
    mentioning = [dim for dim, index in enumerate(access.indices) if axis in axes_of(index)]
    return mentioning, [dim for dim in mentioning if _leads_through(access, dim, axis, block)]


@lru_cache(maxsize=4096)
def _choices_within(computation: Computation, axis: Axis, block: int) -> int:
    """Bodies in which it depends on the place within a block along an axis which of two values is taken."""
    conditions = ([node.condition for node in walk(body) if isinstance(node, Select)] for body in computation.bodies)
    return sum(any(not _is_alike_in_blocks(each, axis, block) for each in found) for found in conditions)


def _is_alike_in_blocks(condition: Expr, axis: Axis, block: int) -> bool:
    """Whether a condition holds for all of a block along an axis or for none: it compares with multiples of blocks."""
    if axis not in axes_of(condition):
        return True
    match condition:
        case Binary(op="and" | "or", lhs=lhs, rhs=rhs):
            return _is_alike_in_blocks(lhs, axis, block) and _is_alike_in_blocks(rhs, axis, block)
        case Compare(op="lt" | "ge", lhs=lhs, rhs=rhs):
            left, right = as_affine(lhs), as_affine(rhs)
            if left is None or right is None:
                return False
            difference = left.plus(right, -1)
            others = (c for other, c in difference.coefficients.items() if other is not axis and other.extent > 1)
            whole = difference.const % block == 0 and not any(c % block for c in others)
            return whole and difference.coefficients.get(axis, 0) == 1
    return False


def _leads_through(access: ReadAccess, dim: int, axis: Axis, block: int) -> bool:
    """Whether neighbours along an axis are neighbours in the same element of what is read."""
    affine = as_affine(access.indices[dim])
    if affine is None:
        return False
    others = {other: c for other, c in affine.coefficients.items() if other is not axis and other.extent > 1}
    if any(c % block for c in others.values()) or affine.const % block:
        return False
    return affine.coefficients.get(axis, 0) == 1 or axis.extent == 1
