"""Printer of loop nests, before and after partitioning."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lathe.frontend.arith.linear import Bound, Extremum, Linear, LoopVariable
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Reduce
from lathe.frontend.expr.text import format_expr
from lathe.scheduler.loop_ir.nodes import (
    AdvanceWindow,
    Alloc,
    ChunkNode,
    DecidedChunk,
    Free,
    Guard,
    Loop,
    Node,
    StatementBlock,
    SyncNode,
)
from lathe.scheduler.loop_ir.sliding_windows import buffer_shape
from lathe.scheduler.rewriting.rewrite import rewrite
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.stage import StageState, SyncOp


class Line(NamedTuple):
    """A printed line; the name of its stage ("" for none or several, as a loop); the number of its instruction."""

    text: str
    stage: str = ""
    instruction: int = -1


def format_nest(nodes: Sequence[Node]) -> str:
    """The text of a nest: a line for each loop, statement and buffer; nested loops of one name get primes."""
    return "".join(f"{line.text}\n" for line in nest_lines(nodes))


def nest_lines(nodes: Sequence[Node]) -> list[Line]:
    """The lines of ``format_nest``, each with its stage."""
    return _Formatter().lines(nodes, 0)


class _Formatter:
    def __init__(self) -> None:
        self.names: dict[LoopVariable, str] = {}

    def lines(self, nodes: Sequence[Node], depth: int) -> list[Line]:
        indent = "  " * depth
        result: list[Line] = []
        for node in nodes:
            if isinstance(node, Loop):
                outer = set(self.names.values())
                name = self._name(node.variable, outer)
                threads = f" in {node.threads} threads" if node.threads > 1 else ""
                result.append(Line(f"{indent}for {name} in {node.first}..{node.last + 1}{threads}:"))
                result += self.lines(node.body, depth + 1)
                del self.names[node.variable]
            elif isinstance(node, Guard):
                result.append(Line(f"{indent}if {' and '.join(self.condition(each) for each in node.constraints)}:"))
                result += self.lines(node.body, depth + 1)
            elif isinstance(node, Alloc) and node.stored is not None:
                stored = node.stored
                result.append(Line(f"{indent}buffer {stored.buffer.name} in {stored.scope}: {list(stored.shape)}"))
            elif isinstance(node, Free) and node.stored is not None:
                result.append(Line(f"{indent}free {node.stored.buffer.name}"))
            elif isinstance(node, Alloc) and node.placement.window is not None:
                window, state = node.placement.window, node.placement.state
                form = f"{state.reuse} along {state.computation.axes[window.dimension].name}"
                shape = list(buffer_shape(window.shape))
                text = f"{indent}buffer {state.tensor.name} in {state.scope}{slots_text(state)}: {shape}, {form}"
                result.append(Line(text, state.computation.name))
            elif isinstance(node, Alloc | AdvanceWindow):
                shifts = node.placement.state.reuse == "shift"
                verb = "buffer" if isinstance(node, Alloc) else "shift" if shifts else "keep"
                box = ", ".join(
                    f"{self.text(low)} + {self.text(extent)}" for low, extent in zip(node.low, node.extent, strict=True)
                )
                state = node.placement.state
                where = f" in {state.scope}{slots_text(state)}" if isinstance(node, Alloc) else ""
                result.append(Line(f"{indent}{verb} {state.tensor.name}{where}: [{box}]", state.computation.name))
            elif isinstance(node, SyncNode):
                name = node.placement.state.computation.name
                result.append(Line(f"{indent}{signal_text(name, node.signal)}", name))
            elif isinstance(node, Free):
                state = node.placement.state
                result.append(Line(f"{indent}free {state.tensor.name}", state.computation.name))
            else:
                assert isinstance(node, StatementBlock | ChunkNode), f"{type(node).__name__} in a printed nest"
                name = node.placement.state.computation.name
                result += [Line(text, name) for text in self.statement(node, indent)]
        return result

    def statement(self, node: StatementBlock | ChunkNode, indent: str) -> list[str]:
        state = node.placement.state
        pairs = [(v, v.extent) for v in node.variables] if isinstance(node, StatementBlock) else list(node.loops)
        added: list[LoopVariable] = []
        loops = []
        for variable, extent in pairs:
            name = self._name(variable, set(self.names.values()))
            added.append(variable)
            loops.append(f"{name} in 0..{extent}")
        rule = node.rule if isinstance(node, DecidedChunk) and node.rule else state.pragma or "chunk"
        pragma = f"{rule}({', '.join(loops)}): " if loops else ""
        condition = ""
        if isinstance(node, StatementBlock) and node.constraints:
            condition = " while " + " and ".join(self.condition(each) for each in node.constraints)
        result = []
        bodies = node.values if isinstance(node, DecidedChunk) else defined(state.computation).bodies
        if isinstance(node, DecidedChunk) and node.around:
            constant = str(node.padding) if node.padding else "zeros"
            condition = f", {constant} around " + ", ".join(f"{self.names[v]} ({a}, {b})" for v, a, b in node.around)
        for tensor, body in zip(state.tensors, bodies, strict=True):
            values = {axis: self.text(value) for axis, value in node.roots.items()}
            target = f"{tensor.name}[{', '.join(values[axis] for axis in state.computation.axes)}]"
            if node.role == "init":
                assert isinstance(body, Reduce)
                start = {"sum": "0", "prod": "1", "max": "minimum", "min": "maximum"}[body.kind]
                statement = f"{target} = {start}"
            elif isinstance(body, Reduce):
                operator = {"sum": "+", "prod": "*"}.get(body.kind, body.kind)
                statement = f"{target} {operator}= {_with_axes(body.body, values)}"
            else:
                statement = f"{target} = {_with_axes(body, values)}"
            result.append(f"{indent}{pragma}{statement}{condition}")
        for variable in added:
            del self.names[variable]
        return result

    def _name(self, variable: LoopVariable, taken: set[str]) -> str:
        name = variable.name
        while name in taken:
            name += "'"
        self.names[variable] = name
        return name

    def condition(self, bound: Bound) -> str:
        """``bound >= 0`` without negative coefficients: ``16*io + ii < 60``."""
        if isinstance(bound, Extremum):
            if bound.kind == "min":
                return " and ".join(self.condition(inner) for inner in bound.bounds)
            return f"{self.text(bound)} >= 0"
        left = Linear(0, {atom: -c for atom, c in bound.terms.items() if c < 0})
        right = Linear(0, {atom: c for atom, c in bound.terms.items() if c > 0})
        if right.is_constant:
            return f"{self.text(left)} < {bound.constant + 1}"
        if left.is_constant:
            return f"{self.text(right)} >= {-bound.constant}"
        return f"{self.text(left)} <= {self.text(right + bound.constant)}"

    def text(self, bound: Bound) -> str:
        if isinstance(bound, Linear):
            renamed = {v: LoopVariable(self.names.get(v, v.name), v.extent, v.kind) for v in bound.variables()}
            return str(bound.substitute(lambda v: Linear.of(renamed[v])))
        return f"{bound.kind}({', '.join(self.text(inner) for inner in bound.bounds)})"


_OPEN, _CLOSE = "\x02", "\x03"
_MARKED = re.compile(f"([-*/%] |-)?{_OPEN}([^{_CLOSE}]*){_CLOSE}( [*/%])?")


def _with_axes(expr: Expr, values: dict[Axis, str]) -> str:
    """An expression's text with axes replaced by their values, in parentheses where precedence requires them."""

    def substituted(match: re.Match[str]) -> str:
        before, value, after = match.group(1) or "", match.group(2), match.group(3) or ""
        binds = (before or after) and not value.isidentifier()
        return f"{before}({value}){after}" if binds else f"{before}{value}{after}"

    named: dict[Axis, Expr] = {
        axis: AxisRef(Axis(f"{_OPEN}{text}{_CLOSE}", axis.extent, axis.start)) for axis, text in values.items()
    }
    return _MARKED.sub(substituted, format_expr(rewrite(expr, axes=named)))


def signal_text(stage: str, signal: SyncOp) -> str:
    """The text of a barrier, or of a token with its sender or receiver."""
    if signal.kind == "barrier":
        return "barrier"
    if signal.kind == "send":
        return f"{stage} sends to {signal.other}"
    return f"{stage} receives from {signal.other}{f', {signal.ahead} ahead' if signal.ahead else ''}"


def slots_text(state: StageState) -> str:
    """The number of slots of a double-buffered or multi-buffered stage; "" if the schedule does not set it."""
    return "" if state.buffer_count is None else f" × {state.buffer_count}"
