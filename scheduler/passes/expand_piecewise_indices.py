"""Expand piecewise indices: a read at ``max``, ``min`` or ``select`` of indices becomes a ``select`` of two reads.

Instructions have linear addresses only. Conditions on loops are removed by partitioning, so edge padding such as
``B[max(i - 1, 0)]`` becomes ``select(i - 1 >= 0, B[i - 1], B[0])``: a chunk for the first row and one for the others.
"""

from collections.abc import Callable
from dataclasses import replace

from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Binary, Compare, Read, Select, reads_data
from lathe.scheduler.isel.select_rule import has_user_rule
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target


def expand_piecewise_indices(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Expand the reads of stages, in place, except those with a user rule."""
    for stage in schedule.stages:
        computation = stage.state.computation
        bodies = tuple(transform(body, _keep, _expanded) for body in computation.bodies)
        if not has_user_rule(stage.state) and any(map(_differ, bodies, computation.bodies)):
            stage.change(computation=replace(computation, bodies=bodies))


def has_linear_pieces(stage: StageView) -> bool:
    """Whether no read of a stage without a user rule has a piecewise index."""
    reads = (read.node for read in stage.state.computation.reads)
    return has_user_rule(stage.state) or all(_piecewise(read) is None for read in reads)


def _keep(_: Expr) -> None:
    return None


def _differ(new: Expr, old: Expr) -> bool:
    return new is not old


def _piecewise(read: Read) -> Expr | None:
    """The outermost ``max``, ``min`` or ``select`` in the indices of a read; None if they depend on data."""
    if any(map(reads_data, read.indices)):
        return None
    nodes = walk(*read.indices)
    return next((n for n in nodes if isinstance(n, Select) or (isinstance(n, Binary) and n.op in ("max", "min"))), None)


def _expanded(read: Read) -> Expr:
    """The read, or the select of its pieces."""
    node = _piecewise(read)
    if node is None:
        return read
    if isinstance(node, Select):
        condition, pieces = node.condition, (node.then, node.otherwise)
    else:
        assert isinstance(node, Binary)
        condition, pieces = Compare("ge" if node.op == "max" else "le", node.lhs, node.rhs), (node.lhs, node.rhs)
    return Select(condition, *(_expanded(_with(read, _instead(node, piece))) for piece in pieces))


def _with(read: Read, leaf: Callable[[Expr], Expr | None]) -> Read:
    return Read(read.tensor, tuple(transform(index, leaf) for index in read.indices))


def _instead(node: Expr, piece: Expr) -> Callable[[Expr], Expr | None]:
    return lambda each: piece if each is node else None
