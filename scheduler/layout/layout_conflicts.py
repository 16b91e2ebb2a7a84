"""Layout conflicts: reads of an element-wise stage through which its vector layout cannot be propagated."""

from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor, as_affine, walk
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Compare, ReadAccess, Select, axes_of
from lathe.scheduler.layout.match_gemm import KnownLanes
from lathe.scheduler.layout.rescaling import is_in_the_way, own_operands
from lathe.scheduler.layout.vector_type import VectorType
from lathe.scheduler.schedule_ir.stage import StageState


def layout_obstacles(state: StageState, known: KnownLanes, element: VectorType, config: HardwareConfig) -> list[Tensor]:
    """The layout conflicts of an element-wise stage: for each, the tensor read with another layout than it needs.

    A condition that differs between the lanes of a vector counts as one too, with the tensor of the stage itself.
    """
    lanes, computation = known[state.tensor], state.computation
    conflicts: list[Tensor] = []
    blocks = ((lanes.cols, element.cols, "cols"), (lanes.rows, element.rows, "rows"))
    for access in computation.reads:
        if access.node in own_operands(computation, config):
            conflicts += [access.tensor] * is_in_the_way(computation, access, lanes, element, config)
            continue
        for dim, block, side in blocks:
            if block == 1:
                continue
            layout = known.get(access.tensor)
            actual = None if layout is None else getattr(layout, side)
            if dim is None:
                conflicts += [access.tensor] * (actual is not None)
                continue
            axis = computation.axes[dim]
            mentioning, preserving = _dimensions_along(access, axis, block)
            expected = preserving[0] if preserving else None
            lost = mentioning != preserving or len(preserving) > 1
            conflicts += [access.tensor] * (lost or (layout is not None and actual != expected))
    for dim, block, _ in blocks:
        if dim is not None and block > 1:
            conflicts += [state.tensor] * _divergent_selects(computation, computation.axes[dim], block)
    return conflicts


@lru_cache(maxsize=16384)  # layouts are assigned again and again over the same reads
def _dimensions_along(access: ReadAccess, axis: Axis, block: int) -> tuple[list[int], list[int]]:
    """The dimensions of a read whose index mentions the axis, and those of them that preserve its vectors."""
    mentioning = [dim for dim, index in enumerate(access.indices) if axis in axes_of(index)]
    return mentioning, [dim for dim in mentioning if _preserves_vectors(access, dim, axis, block)]


@lru_cache(maxsize=4096)
def _divergent_selects(computation: Computation, axis: Axis, block: int) -> int:
    """The number of bodies with a select whose condition differs within a block of lanes along the axis."""
    conditions = ([node.condition for node in walk(body) if isinstance(node, Select)] for body in computation.bodies)
    return sum(any(not _is_uniform_in_blocks(each, axis, block) for each in body) for body in conditions)


def _is_uniform_in_blocks(condition: Expr, axis: Axis, block: int) -> bool:
    """Whether a condition is the same for all lanes of a block along an axis: it compares with multiples of blocks."""
    if axis not in axes_of(condition):
        return True
    match condition:
        case Binary(op="and" | "or", lhs=lhs, rhs=rhs):
            return _is_uniform_in_blocks(lhs, axis, block) and _is_uniform_in_blocks(rhs, axis, block)
        case Compare(op="lt" | "ge", lhs=lhs, rhs=rhs):
            left, right = as_affine(lhs), as_affine(rhs)
            if left is None or right is None:
                return False
            difference = left.plus(right, -1)
            others = (c for other, c in difference.coefficients.items() if other is not axis and other.extent > 1)
            whole = difference.const % block == 0 and not any(c % block for c in others)
            return whole and difference.coefficients.get(axis, 0) == 1
    return False


def _preserves_vectors(access: ReadAccess, dim: int, axis: Axis, block: int) -> bool:
    """Whether an aligned block of an axis reads one aligned block of a dimension, lane by lane."""
    affine = as_affine(access.indices[dim])
    if affine is None:
        return False
    others = {other: c for other, c in affine.coefficients.items() if other is not axis and other.extent > 1}
    if any(c % block for c in others.values()) or affine.const % block:
        return False
    return affine.coefficients.get(axis, 0) == 1 or axis.extent == 1
