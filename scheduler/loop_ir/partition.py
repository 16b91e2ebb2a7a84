"""Loop partitioning: turns a nest with conditions into a nest of boxes without conditions.

Every condition, and every choice between the arguments of a ``min`` or ``max``, depends on the sign of a linear
expression. From the outermost loop inwards, each loop's range is cut where such a sign changes for all values of the
other variables; values for which the sign still depends on inner loops become ranges of their own, for which the inner
loops are cut next. The result is boxes on which no sign changes, in the order of the original loops. Peeling body and
tail with the same pragma is TVM's idea; here it is exact for any conjunction of linear conditions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from lathe.frontend.arith.linear import Bound, Box, Extremum, FloorDivision, Linear, LoopVariable, bound_range, extremum
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.delinearize_loops import delinearize_loops
from lathe.scheduler.loop_ir.nodes import (
    AdvanceWindow,
    Alloc,
    ChunkNode,
    Free,
    Guard,
    Loop,
    Node,
    StatementBlock,
    SyncNode,
)

Range = tuple[int, int]
Sign = tuple[Linear, bool]
"""An expression whose sign matters, and whether zero may count as either (it chooses between equal arguments)."""
Signs = dict[int, list[Sign]]


def partition(nodes: Sequence[Node], box: Box | None = None) -> list[Node]:
    """The same nest with constant loop ranges and ``ChunkNode`` in place of ``StatementBlock``."""
    result: list[Node] = []
    for node in nodes:  # each by itself: nodes outside it do not have its variables
        whole = {variable: (0, variable.extent - 1) for variable in _variables(node)}
        result += _partition([node], {**whole, **(box or {})}, {})
    return delinearize_loops(result)


def _variables(node: Node) -> Sequence[LoopVariable]:
    if isinstance(node, Loop):
        return [node.variable, *(v for inner in node.body for v in _variables(inner))]
    if isinstance(node, Guard):
        return [v for inner in node.body for v in _variables(inner)]
    return node.variables if isinstance(node, StatementBlock) else []


def _partition(nodes: Sequence[Node], box: dict[LoopVariable, Range], known: Signs) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            whole = (node.first, node.last)
            for segment in cut(node.variable, whole, _signs(node, known), box):
                inside = {**box, node.variable: segment}
                if any(bound_range(constraint, inside)[1] < 0 for constraint in node.constraints):
                    continue
                body = _partition(node.body, inside, known)
                if all(isinstance(inner, Alloc | Free | AdvanceWindow | SyncNode) for inner in body):
                    continue
                before = result[-1] if result else None
                if continues(before, node.variable, segment[0]) and same(before.body, body):
                    result[-1] = replace(before, last=segment[1])  # the cut makes no difference here
                    continue
                result.append(replace(node, first=segment[0], last=segment[1], body=tuple(body), constraints=()))
        elif isinstance(node, StatementBlock):
            result.extend(_chunks(node, box, known))
        elif isinstance(node, Guard):
            if all(bound_range(constraint, box)[0] >= 0 for constraint in node.constraints):
                result.extend(_partition(node.body, box, known))
            else:
                assert any(bound_range(each, box)[1] < 0 for each in node.constraints), f"{node} is undecided"
        elif isinstance(node, Alloc | AdvanceWindow):
            low = [resolved(each, box) for each in node.low]
            fixed = {v: Linear(first) for v, (first, last) in box.items() if first == last}
            extent = [resolved(each, box).substitute(fixed.get) for each in node.extent]
            extent = [Linear(0) if each.range(box)[1] <= 0 else each for each in extent]  # an empty box
            result.append(replace(node, low=tuple(low), extent=tuple(extent)))
        else:
            result.append(node)
    return result


def continues(node: Node | None, variable: LoopVariable, first: int) -> TypeGuard[Loop]:
    """Whether a node is a loop of the variable that ends just before ``first``."""
    return isinstance(node, Loop) and node.variable is variable and node.last + 1 == first


def same(left: Sequence[Node], right: Sequence[Node]) -> bool:
    """Whether two partitioned nests are equal, with identical loop variables."""
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        match a, b:
            case Loop(), Loop():
                if (a.variable, a.first, a.last) != (b.variable, b.first, b.last) or not same(a.body, b.body):
                    return False
            case Alloc() | AdvanceWindow(), Alloc() | AdvanceWindow():
                if type(a) is not type(b) or a.placement is not b.placement or (a.low, a.extent) != (b.low, b.extent):
                    return False
            case ChunkNode(), ChunkNode():
                if a.placement is not b.placement or (a.role, a.loops, a.roots) != (b.role, b.loops, b.roots):
                    return False
            case SyncNode(), SyncNode():
                if a.placement is not b.placement or a.signal is not b.signal:
                    return False
            case Free(), Free():
                if a.placement is not b.placement:
                    return False
            case _:
                return False
    return True


def _chunks(block: StatementBlock, box: dict[LoopVariable, Range], known: Signs) -> list[Node]:
    signs = _signs(block, known)
    boxes: list[dict[LoopVariable, Range]] = [dict(box)]
    inner = {variable: (0, variable.extent - 1) for variable in block.variables}
    for position, variable in enumerate(block.variables):
        deeper = {v: inner[v] for v in block.variables[position + 1 :]}
        boxes = [
            {**each, variable: segment}
            for each in boxes
            for segment in cut(variable, inner[variable], signs, {**each, **deeper})
        ]
    pieces: list[_Piece] = []
    for each in boxes:
        if any(bound_range(constraint, each)[1] < 0 for constraint in block.constraints):
            continue
        pieces.append(_Piece(each, {axis: resolved(value, each) for axis, value in block.roots.items()}))
    for variable in reversed(block.variables):
        pieces = _merged(pieces, variable, block.variables)
    chunks: list[Node] = []
    for piece in pieces:
        loops = tuple((v, piece.box[v][1] - piece.box[v][0] + 1) for v in block.variables)
        shift = {v: Linear.of(v) + piece.box[v][0] for v in block.variables if piece.box[v][0]}
        roots = {axis: value.substitute(shift.get) for axis, value in piece.roots.items()}
        chunks.append(ChunkNode(block.placement, block.role, loops, roots, block.whole_reduction))
    return chunks


@dataclass(frozen=True)
class _Piece:
    """A box of a block's loops on which the axes are the linear expressions ``roots``."""

    box: dict[LoopVariable, Range]
    roots: dict[Axis, Linear]


def _merged(pieces: list[_Piece], variable: LoopVariable, variables: Sequence[LoopVariable]) -> list[_Piece]:
    """Pieces with neighbours along one loop merged where their axes are the same linear expressions."""
    result: list[_Piece] = []
    for piece in pieces:
        before = result[-1] if result else None
        if (
            before is not None
            and before.box[variable][1] + 1 == piece.box[variable][0]
            and all(before.box[v] == piece.box[v] for v in variables if v is not variable)
            and before.roots == piece.roots
        ):
            whole = (before.box[variable][0], piece.box[variable][1])
            result[-1] = _Piece({**before.box, variable: whole}, before.roots)
        else:
            result.append(piece)
    return result


def cut(variable: LoopVariable, whole: Range, signs: Iterable[Sign], box: Box) -> list[Range]:
    """The range of a loop cut into pieces on which the signs of linear expressions do not depend on it.

    >>> io, ii = LoopVariable("io", 4), LoopVariable("ii", 16)
    >>> room = Linear(59, {io: -16, ii: -1})   # 59 - 16*io - ii >= 0
    >>> cut(io, (0, 3), [(room, False)], {ii: (0, 15)})
    [(0, 2), (3, 3)]
    """
    first, last = whole
    starts = {first}
    full = {**box, variable: whole}
    for sign, zero_is_either in signs:
        coefficient = sign.terms.get(variable, 0)
        divided = any(isinstance(atom, FloorDivision) and variable in atom.numerator.variables() for atom in sign.terms)
        if not coefficient and not divided:
            continue
        low, high = sign.range(full)
        if low >= 0 or high < 0 or (zero_is_either and high == 0):
            continue
        if divided:
            starts.update(range(first, last + 1))
            break
        rest_low, rest_high = (sign - Linear.of(variable, coefficient)).range(box)
        if coefficient > 0:  # negative below ``never``, >= 0 from ``always`` on
            never, always = -(rest_high // coefficient), -(rest_low // coefficient)
        else:  # >= 0 below ``always``, negative from ``never`` on
            always, never = rest_low // -coefficient + 1, rest_high // -coefficient + 1
        begin, end = sorted((never, always))
        starts.update(value for value in range(max(begin, first), min(end, last) + 1))
    ordered = sorted(starts)
    return [(start, stop - 1) for start, stop in zip(ordered, [*ordered[1:], last + 1], strict=True)]


def resolved(bound: Bound, box: Box) -> Linear:
    """The one linear expression that a bound equals on a box of the partitioned nest."""
    if isinstance(bound, Linear):
        return bound
    chosen = extremum(bound.kind, [resolved(inner, box) for inner in bound.bounds], box)
    assert isinstance(chosen, Linear), f"{bound} is undecided on {dict(box)}"
    return chosen


def _signs(node: Node, known: Signs) -> list[Sign]:
    """The linear expressions whose signs the node depends on."""
    cached = known.get(id(node))
    if cached is None:
        signs: dict[Sign, None] = {}
        if isinstance(node, Loop | Guard):
            for inner in node.body:
                signs.update(dict.fromkeys(_signs(inner, known)))
        if isinstance(node, Loop | StatementBlock | Guard):
            for constraint in node.constraints:
                signs.update(dict.fromkeys((leaf, False) for leaf in _leaves(constraint)))
        if isinstance(node, StatementBlock):
            for value in node.roots.values():
                signs.update(dict.fromkeys(_choices(value)))
        elif isinstance(node, Alloc | AdvanceWindow):
            for value in (*node.low, *node.extent):
                signs.update(dict.fromkeys(_choices(value)))
        cached = known[id(node)] = list(signs)
    return cached


def _leaves(bound: Bound) -> list[Linear]:
    if isinstance(bound, Linear):
        return [bound]
    return [leaf for inner in bound.bounds for leaf in _leaves(inner)]


def _choices(bound: Bound) -> list[Sign]:
    """The differences whose signs decide which argument an extremum equals."""
    if not isinstance(bound, Extremum):
        return []
    leaves = _leaves(bound)
    return [(a - b, True) for index, a in enumerate(leaves) for b in leaves[index + 1 :]]
