"""Peeling (index-set splitting): a chunk with selects is split into boxes on which every condition is constant.

No instruction evaluates a condition per element. If a rule cannot implement a ``select`` itself (as the DMA implements
zero padding), the loops of the chunk are split where a condition over them changes, each select is replaced by the
branch taken in the box, and each box is emitted by the rule that takes what remains. A padding with −128 becomes copies
for the interior and constants for the border.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import evaluate, reads_data, walk
from lathe.frontend.arith.strip_casts import constant_value, skip_casts
from lathe.frontend.arith.substitution import with_children
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Guard, Read, Select, Undef, axes_of
from lathe.scheduler.isel.chunk import Chunk, Operand
from lathe.scheduler.isel.chunk_slicing import restricted

Range = tuple[int, int]  # first and last iteration
Grid = NDArray[np.int64]


def has_conditions(chunk: Chunk) -> bool:
    """Whether the chunk's expression has selects whose conditions depend on loops only."""
    return bool(_selects(chunk.expression))


def peeled(chunk: Chunk) -> Iterator[Chunk]:
    """Peel a chunk into boxes without conditions on loops, without those that contribute nothing to a reduction."""
    selects = _selects(chunk.expression)
    for box, values in _decided(chunk, selects):
        decided = dict(zip((id(select) for select in selects), values, strict=True))
        part = _part(chunk, box, decided)
        if not _is_neutral(part) and not isinstance(skip_casts(part.expression), Undef):
            yield part


def decided_boxes(chunk: Chunk) -> list[tuple[list[Range], tuple[bool, ...], Expr]]:
    """The boxes of a chunk on which its conditions on loops are constant, with their values and the expression."""
    selects = _selects(chunk.expression)
    return [
        (box, values, with_choices(chunk.expression, dict(zip(map(id, selects), values, strict=True))))
        for box, values in _decided(chunk, selects)
    ]


def _decided(chunk: Chunk, selects: list[Select]) -> Iterator[tuple[list[Range], tuple[bool, ...]]]:
    loops = _loops_of(chunk, [select.condition for select in selects])
    truth = [_holds(chunk, select.condition, loops) for select in selects]
    whole: list[Range] = [(0, loop.extent - 1) for loop in chunk.loops]
    return constant_boxes(truth, loops, whole, 0)


def _selects(expr: Expr) -> list[Select]:
    return [node for node in walk(expr) if isinstance(node, Select) and not reads_data(node.condition)]


def _loops_of(chunk: Chunk, conditions: list[Expr]) -> list[int]:
    """The loops that some condition depends on."""
    used: set[int] = set()
    for axis in axes_of(*conditions):
        coefficients = chunk.axes[axis].coefficients
        used |= {n for n, c in enumerate(coefficients) if c and chunk.loops[n].extent > 1}
    return sorted(used)


def _holds(chunk: Chunk, condition: Expr, loops: list[int]) -> NDArray[np.bool_]:
    """The values of a condition, as an array over the given loops."""
    shape = tuple(chunk.loops[n].extent for n in loops)
    grids: dict[int, Grid] = {}
    for position, n in enumerate(loops):
        grids[n] = np.arange(shape[position]).reshape([-1 if q == position else 1 for q in range(len(loops))])
    values: dict[Axis, Grid] = {}
    for axis in axes_of(condition):
        index = chunk.axes[axis]
        moved = sum((c * grids[n] for n, c in enumerate(index.coefficients) if c and n in grids), np.int64(0))
        values[axis] = np.asarray(index.constant + moved, np.int64)
    return np.broadcast_to(np.asarray(evaluate(condition, values), np.bool_), shape)


def constant_boxes(
    truth: list[NDArray[np.bool_]], loops: list[int], box: list[Range], depth: int
) -> Iterator[tuple[list[Range], tuple[bool, ...]]]:
    """Split a box into boxes on which all conditions are constant, in lexicographic order of the given loops."""
    if depth == len(loops):
        yield list(box), tuple(bool(each) for each in truth)
        return
    extent = box[loops[depth]][1] + 1
    keys = [b"".join(each[n].tobytes() for each in truth) for n in range(extent)]
    for _, run in groupby(range(extent), key=lambda n: keys[n]):
        values = list(run)
        box[loops[depth]] = (values[0], values[-1])
        yield from constant_boxes([each[values[0]] for each in truth], loops, box, depth + 1)
    box[loops[depth]] = (0, extent - 1)


def _part(chunk: Chunk, box: list[Range], decided: dict[int, bool]) -> Chunk:
    """The chunk restricted to a box, with its selects resolved."""
    expression = with_choices(chunk.expression, decided)
    remaining = {id(node) for node in walk(expression) if isinstance(node, Read)}
    decisions = {id(node.condition) for node in _selects(chunk.expression)}

    def operand(each: Operand) -> Operand:
        guards: tuple[Guard, ...] = tuple(guard for guard in each.guards if id(guard[0]) not in decisions)
        return replace(each, guards=guards)

    part = restricted(chunk, box)
    reads = tuple(operand(each) for each in part.reads if each.read is not None and id(each.read) in remaining)
    return replace(part, expression=expression, reads=reads)


def with_choices(expr: Expr, decided: dict[int, bool]) -> Expr:
    """The expression with selects replaced by the branch taken; nodes without a select below stay the same objects."""
    if isinstance(expr, Select) and id(expr) in decided:
        return with_choices(expr.then if decided[id(expr)] else expr.otherwise, decided)
    if isinstance(expr, Read):
        return expr
    children = tuple(with_choices(child, decided) for child in expr.children)
    same = all(new is old for new, old in zip(children, expr.children, strict=True))
    return expr if same else with_children(expr, children)


def _is_neutral(chunk: Chunk) -> bool:
    """Whether the chunk only reduces neutral elements, and so changes nothing."""
    value = constant_value(chunk.expression)
    return chunk.role == "update" and value == neutral_element(chunk.reduction or "sum", chunk.write.tensor.dtype)
