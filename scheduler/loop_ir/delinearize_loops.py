"""Delinearisation: a loop that an index divides is split into a loop of the quotient and one of the remainder.

Where ``spread[x]`` is ``data[x // 2]`` at odd ``x``, as in a transposed convolution, no chunk with more than two values
of ``x`` has linear indices. With ``x = 2 * xo + xi`` the index is ``xo``, and one chunk covers all values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd, lcm

from lathe.frontend import Computation, walk
from lathe.frontend.arith.linear import FloorDivision, Linear, LoopVariable
from lathe.frontend.arith.loop_bounds import linear_index
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.expr.nodes import Binary, Select
from lathe.scheduler.loop_ir.nodes import ChunkNode, Loop, Node
from lathe.scheduler.schedule_ir.memories import INP
from lathe.scheduler.schedule_ir.stage import StageState

_Digits = dict[tuple[LoopVariable, int], tuple[LoopVariable, LoopVariable]]


def delinearize_loops(nodes: Sequence[Node]) -> list[Node]:
    """Delinearise the loops of the chunks without reduction in a partitioned nest.

    The iterations after the last whole quotient become a chunk of their own. Where GEMM data exists at one remainder
    only, each remainder becomes a chunk instead, so that all data is loaded by one chunk.
    """
    return _delinearized(nodes, {})


def _delinearized(nodes: Sequence[Node], digits: _Digits) -> list[Node]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            result.append(replace(node, body=tuple(_delinearized(node.body, digits))))
        elif isinstance(node, ChunkNode) and node.role == "map" and _has_division(node.placement.state.computation):
            result += _chunks(node, digits)
        else:
            result.append(node)
    return result


@lru_cache(maxsize=4096)
def _has_division(computation: Computation) -> bool:
    indices = (index for read in computation.reads for index in read.indices)
    return any(isinstance(node, Binary) and node.op in ("floordiv", "mod") for each in indices for node in walk(each))


def _chunks(node: ChunkNode, digits: _Digits) -> Iterator[ChunkNode]:
    """The chunks that a chunk becomes when the loops that its indices divide are split, one after the other."""
    own = {variable: extent for variable, extent in node.loops if extent > 1}
    steps: dict[LoopVariable, int] = {}
    for read in node.placement.state.computation.reads:
        for index in read.indices:
            value = linear_index(index, dict(node.roots))
            for division in () if value is None else _divisions(value):
                for atom, coefficient in division.numerator.terms.items():
                    step = division.divisor // gcd(coefficient, division.divisor)
                    if isinstance(atom, LoopVariable) and 1 < step < own.get(atom, 0):
                        steps[atom] = lcm(steps.get(atom, 1), step)
    variable = next((each for each, step in steps.items() if step < own[each]), None)
    if variable is None:
        yield node
        return
    step, extent = steps[variable], own[variable]
    if (variable, step) not in digits:
        quotients = LoopVariable(f"{variable.name}//{step}", -(-variable.extent // step), variable.kind)
        digits[variable, step] = quotients, LoopVariable(f"{variable.name}%{step}", step, variable.kind)
    outer, inner = digits[variable, step]
    whole = extent // step
    if extent % step and _holds_one_remainder(node.placement.state):
        for first in range(step):
            count = (extent - first + step - 1) // step
            yield from _chunks(_replaced(node, variable, [(outer, count)], [step], first), digits)
        return
    yield from _chunks(_replaced(node, variable, [(outer, whole), (inner, step)], [step, 1], 0), digits)
    if extent % step:
        yield from _chunks(_replaced(node, variable, [(inner, extent % step)], [1], whole * step), digits)


def _holds_one_remainder(state: StageState) -> bool:
    """Whether a stage loads GEMM data that exists at one remainder only, into a buffer without cells for the others."""
    if state.scope != INP or state.storage is not None or state.reuse is not None:
        return False
    bodies = [skip_casts(body) for body in state.computation.bodies]
    conditions = [body.condition for body in bodies if isinstance(body, Select)]
    return any(isinstance(node, Binary) and node.op == "mod" for each in conditions for node in walk(each))


def _divisions(value: Linear) -> Iterator[FloorDivision]:
    for atom in value.terms:
        if isinstance(atom, FloorDivision):
            yield atom
            yield from _divisions(atom.numerator)


def _replaced(
    node: ChunkNode, variable: LoopVariable, loops: list[tuple[LoopVariable, int]], weights: list[int], start: int
) -> ChunkNode:
    value = Linear(start, {loop: weight for (loop, _), weight in zip(loops, weights, strict=True)})
    position = [each for each, _ in node.loops].index(variable)
    return replace(
        node,
        loops=(*node.loops[:position], *loops, *node.loops[position + 1 :]),
        roots={axis: root.substitute({variable: value}.get) for axis, root in node.roots.items()},
    )
