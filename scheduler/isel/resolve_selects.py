"""Resolution of selects over loops in the printed loop nest, as instruction selection resolves them in chunks.

A partitioned nest may still contain selects over loops, such as those of padding. No instruction evaluates a condition
per element: code generation turns them into padding of the DMA, or peels the chunk (``peel_conditions.py``), at every
iteration of the outer loops. For printing, outer loops are split where the outcome changes, so that one printed chunk
stands for all iterations that are emitted alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lathe.frontend import evaluate, reads_data, walk
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.arith.loop_bounds import linear_index
from lathe.frontend.arith.strip_casts import constant_value, skip_casts
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Compare, Const, Reduce, Select, Undef, axes_of
from lathe.scheduler.isel.peel_conditions import Grid, constant_boxes, with_choices
from lathe.scheduler.isel.rules.border_fill import constants_around
from lathe.scheduler.isel.select_rule import has_user_rule, rule_for, rule_of
from lathe.scheduler.isel.statement import statement_of
from lathe.scheduler.loop_ir.nodes import Around, ChunkNode, DecidedChunk, Loop, Node
from lathe.scheduler.loop_ir.partition import Range, Sign, cut, same
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.memories import DRAM


def resolve_selects(nodes: Sequence[Node]) -> list[Node]:
    """Resolve all selects over loops of a partitioned nest, except in chunks of user-defined rules."""
    ranges: dict[LoopVariable, Range] = {}
    for node in nodes:
        ranges.update(_ranges(node))
    return _decide(nodes, ranges)


def _ranges(node: Node) -> Iterator[tuple[LoopVariable, Range]]:
    if isinstance(node, Loop):
        yield node.variable, (node.first, node.last)
        for inner in node.body:
            yield from _ranges(inner)
    elif isinstance(node, ChunkNode):
        yield from ((variable, (0, extent - 1)) for variable, extent in node.loops)


def _decide(nodes: Sequence[Node], box: dict[LoopVariable, Range]) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            inside = {**box, **dict(pair for inner in node.body for pair in _ranges(inner))}
            for segment in cut(node.variable, (node.first, node.last), _signs(node), inside):
                body = _decide(node.body, {**inside, node.variable: segment})
                if not body:
                    continue
                before = result[-1] if result else None
                joins = isinstance(before, Loop) and before.variable is node.variable
                if joins and isinstance(before, Loop) and before.last + 1 == segment[0] and _alike(before.body, body):
                    result[-1] = replace(before, last=segment[1])
                else:
                    result.append(replace(node, first=segment[0], last=segment[1], body=tuple(body)))
        elif isinstance(node, ChunkNode) and _conditions(node):
            result.extend(_parts(node, {v: first for v, (first, _) in box.items()}))
        else:
            result.append(node)
    return result


def with_rules(nodes: Sequence[Node]) -> list[Node]:
    """Annotate the chunks of a lowered schedule with the rules that take them."""
    return [
        replace(node, body=tuple(with_rules(node.body)))
        if isinstance(node, Loop)
        else _with_rule(node)
        if isinstance(node, ChunkNode)
        else node
        for node in nodes
    ]


def _with_rule(node: ChunkNode) -> DecidedChunk:
    stage = node.placement.stage
    rule = rule_for(statement_of(stage, "init")) if node.role == "init" else rule_of(stage)
    values: tuple[Expr, ...] = defined(stage.state.computation).bodies
    around: Around = ()
    padding = 0
    if isinstance(node, DecidedChunk):
        values, around, padding = node.values, node.around, node.padding
        if all(isinstance(skip_casts(value), Const) for value in values):
            rule = rule_for(replace(statement_of(stage), value=values[0]))
    return DecidedChunk(
        node.placement,
        node.role,
        node.loops,
        node.roots,
        node.whole_reduction,
        values=values,
        around=around,
        padding=padding,
        rule=rule,
    )


def _alike(left: Sequence[Node], right: Sequence[Node]) -> bool:
    return same(left, right) and list(_choices(left)) == list(_choices(right))


def _choices(nodes: Sequence[Node]) -> Iterator[object]:
    for node in nodes:
        if isinstance(node, Loop):
            yield from _choices(node.body)
        elif isinstance(node, DecidedChunk):
            yield node.choices, node.around, node.padding


def _conditions(node: ChunkNode) -> list[Select]:
    """The selects over loops of a chunk, if all their conditions are linear and its rule leaves them to peeling."""
    state = node.placement.state
    if node.role == "init" or has_user_rule(state):
        return []
    selects = [each for body in defined(state.computation).bodies for each in walk(body) if isinstance(each, Select)]
    over_loops = [each for each in selects if not reads_data(each.condition)]
    return over_loops if all(_linear(node, each.condition) is not None for each in over_loops) else []


def _linear(node: ChunkNode, condition: Expr) -> list[Linear] | None:
    """Linear functions whose signs determine a condition; None if it is not linear."""
    signs: list[Linear] = []
    for each in walk(condition):
        if isinstance(each, Compare):
            left, right = linear_index(each.lhs, node.roots), linear_index(each.rhs, node.roots)
            if left is None or right is None:
                return None
            more = left - right
            signs += {"ge": [more], "lt": [more], "gt": [more - 1], "le": [more - 1]}.get(each.op, [more, more - 1])
    return signs


def _signs(node: Node) -> list[Sign]:
    if isinstance(node, Loop):
        return list(dict.fromkeys(sign for inner in node.body for sign in _signs(inner)))
    if not isinstance(node, ChunkNode):
        return []
    return [(sign, False) for select in _conditions(node) for sign in _linear(node, select.condition) or ()]


def _parts(node: ChunkNode, outside: dict[LoopVariable, int]) -> list[Node]:
    """The boxes of a chunk without selects; a single one if it is a load and DMA padding implements the other boxes."""
    state = node.placement.state
    selects = _conditions(node)
    grids = _grids(node, selects)
    shape = np.broadcast_shapes(*(grid.shape for grid in grids.values()))
    conditions = [select.condition for select in selects]
    axes = {axis: _values(node.roots[axis], grids, outside) for axis in axes_of(*conditions)}
    truth = [np.broadcast_to(np.asarray(evaluate(each, axes), np.bool_), shape) for each in conditions]
    loops = [n for n, (v, _) in enumerate(node.loops) if v in grids]
    parts: list[tuple[list[Range], DecidedChunk]] = []
    for box, values in constant_boxes(truth, loops, [(0, extent - 1) for _, extent in node.loops], 0):
        chosen = dict(zip((id(select) for select in selects), values, strict=True))
        bodies = tuple(_resolved(body, chosen) for body in defined(state.computation).bodies)
        parts.append((box, _part(node, box, bodies, values)))
    if statement_of(node.placement.stage).is_load and state.scope != DRAM and len(parts) > 1:
        loaded = [(box, part) for box, part in parts if not _is_constant(part)]
        constants = {value for _, part in parts if _is_constant(part) for value in constants_around(part.values[0])}
        if len(loaded) == 1 and len(constants) == 1:
            box, part = loaded[0]
            ends = zip(node.loops, box, strict=True)
            sides = tuple((v, low, extent - 1 - high) for (v, extent), (low, high) in ends)
            whole = [(0, extent - 1) for _, extent in node.loops]
            around = tuple(each for each in sides if each[1] or each[2])
            return [_part(node, whole, part.values, part.choices, around, constants.pop())]
    return [part for _, part in parts if not _is_neutral(part) and not _is_undefined(part)]


def _grids(node: ChunkNode, selects: list[Select]) -> dict[LoopVariable, Grid]:
    """The iterations of the loops that some condition depends on, as arrays along one dimension each."""
    used = {v for axis in axes_of(*(each.condition for each in selects)) for v in node.roots[axis].variables()}
    own = [(v, extent) for v, extent in node.loops if v in used]
    forms = [[-1 if q == n else 1 for q in range(len(own))] for n in range(len(own))]
    return {v: np.arange(extent).reshape(form) for (v, extent), form in zip(own, forms, strict=True)}


def _values(linear: Linear, grids: Mapping[LoopVariable, Grid], outside: Mapping[LoopVariable, int]) -> Grid:
    total = np.asarray(linear.constant, np.int64)
    for atom, coefficient in linear.terms.items():
        if not isinstance(atom, LoopVariable):
            value = _values(atom.numerator, grids, outside) // atom.divisor
        else:
            value = grids[atom] if atom in grids else np.asarray(outside[atom], np.int64)
        total = total + coefficient * value
    return total


def _resolved(body: Expr, chosen: dict[int, bool]) -> Expr:
    if isinstance(body, Reduce):
        return Reduce(body.kind, with_choices(body.body, chosen), body.axes)
    return with_choices(body, chosen)


def _part(
    node: ChunkNode,
    box: list[Range],
    values: tuple[Expr, ...],
    choices: tuple[bool, ...],
    around: Around = (),
    padding: int = 0,
) -> DecidedChunk:
    shift = {v: Linear.of(v) + first for (v, _), (first, _) in zip(node.loops, box, strict=True) if first}
    roots = {axis: root.substitute(shift.get) for axis, root in node.roots.items()}
    loops = tuple((v, last - first + 1) for (v, _), (first, last) in zip(node.loops, box, strict=True))
    return DecidedChunk(
        node.placement,
        node.role,
        loops,
        roots,
        node.whole_reduction,
        values=values,
        around=around,
        padding=padding,
        choices=choices,
    )


def _is_constant(part: DecidedChunk) -> bool:
    return all(isinstance(skip_casts(body), Const) for body in part.values)


def _is_neutral(part: DecidedChunk) -> bool:
    """Whether the part only reduces neutral elements, and so changes nothing."""
    body = part.values[0]
    if not isinstance(body, Reduce):
        return False
    return constant_value(body.body) == neutral_element(body.kind, part.placement.state.tensor.dtype)


def _is_undefined(part: DecidedChunk) -> bool:
    """Whether the values of a chunk are undefined, so that it need not be emitted."""
    bodies = (value.body if isinstance(value, Reduce) else value for value in part.values)
    return all(isinstance(skip_casts(body), Undef) for body in bodies)
