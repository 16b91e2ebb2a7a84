"""Pad values that let consumers run without a branch, by backward analysis from consumers to producers.

The neutral value of a reduction has no effect: 0 in a sum, 1 in a product, the minimum of the dtype in a maximum. The
analysis goes backwards through the operand of a reduction and through element-wise computations: for the sum of ``B``
with ``B = A + 1``, ``A`` needs -1. (RFC 0077: constraints flow from consumer to producer.)
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lathe.configs.html_repr import repr_html
from lathe.frontend import Tensor, evaluate, reads_data
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Binary, Cast, Const, Read, Reduce, Select, Undef
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.padding_dataflow import Unknown, Value, combined
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView

FEW = 256
"""For dtypes with at most this many values all are tried; for others, only likely candidates."""


@dataclass(frozen=True)
class PaddingNeeded:
    """``value`` is the required padding of ``tensor``, None: any; ``by`` has the requirement of each consumer.

    A consumer requires "anything", a number, or "a branch" if no number will do.
    """

    tensor: str
    value: int | None
    by: tuple[tuple[str, str], ...]

    _repr_html_ = repr_html

    def __str__(self) -> str:
        needs = ", ".join(f"{need} for {stage}" for stage, need in self.by) or "no consumers"
        return f"{self.tensor}: {'undef' if self.value is None else self.value} ({needs})"


Accepted = frozenset[int] | None
"""The acceptable values; None: any."""


def padding_needed(schedule: ScheduleView, tensor: Tensor) -> PaddingNeeded:
    """The value that the padding of a tensor must have so that every consumer can run over it without a branch.

    0 for a sum, 1 for a product, the minimum of the dtype for a maximum and the maximum for a minimum, or what leads to
    these through other computations and contracts of layouts. Pass it as ``pad_value`` to ``transform_layout``, and
    ``overcompute`` can rely on it. Nothing is changed.

    Raises ScheduleError for a tensor without consumers, or if two of them need different values, naming both.
    """
    current = schedule.current(tensor)
    if not isinstance(current, Tensor) or not schedule.consumers(current):
        raise ScheduleError(
            f"tensor of padding_needed must be one that a stage reads, not {getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    together: Accepted = None
    needs: list[tuple[StageView, Accepted]] = []
    for stage in schedule.consumers(current):
        accepted = _accepted(schedule, stage, current, {})
        if accepted == frozenset():
            needs.append((stage, accepted))  # a branch, whatever the padding holds
            continue
        both = accepted if together is None else together if accepted is None else together & accepted
        if both == frozenset():
            other, theirs = next((s, a) for s, a in needs if a and accepted is not None and not a & accepted)
            raise ScheduleError(
                f"padding of {current.name} must have one value for all consumers, not {_described(theirs)} for "
                f"{other.name} ({_kind(other)}) and {_described(accepted)} for {stage.name} ({_kind(stage)}). Keep the "
                "branch of one of them, or let it read a copy (cache_read) with padding of its own.",
                kind="legality",
            )
        together = both
        needs.append((stage, accepted))
    value = None if together is None else _preferred(together)
    return PaddingNeeded(current.name, value, tuple((stage.name, _described(accepted)) for stage, accepted in needs))


def solve_padding(schedule: ScheduleView) -> dict[str, PaddingNeeded]:
    """``padding_needed`` of every tensor that a stage reads, by name, consumers first."""
    found: dict[str, PaddingNeeded] = {}
    for stage in reversed(schedule.stages):
        for read in stage.state.computation.reads:
            if read.tensor.name not in found:
                found[read.tensor.name] = padding_needed(schedule, read.tensor)
    return found


def _preferred(values: frozenset[int]) -> int:
    return min(values, key=lambda value: (abs(value), value))


def _described(accepted: Accepted) -> str:
    if accepted is None:
        return "anything"
    return str(_preferred(accepted)) if accepted else "a branch"


def _kind(stage: StageView) -> str:
    body = stage.state.computation.bodies[0]
    return body.kind if isinstance(body, Reduce) else "element-wise"


def _accepted(schedule: ScheduleView, stage: StageView, tensor: Tensor, known: dict[Tensor, Accepted]) -> Accepted:
    """The pad values of a tensor that do not change a consumer's results."""
    together: Accepted = None
    for result, body in zip(stage.state.tensors, stage.state.computation.bodies, strict=True):
        inner = body.body if isinstance(body, Reduce) else body
        if isinstance(body, Reduce):
            required: Accepted = frozenset([neutral_element(body.kind, body.dtype)])
        else:
            required = _required(schedule, result, known)
        if required is None:
            continue
        inner = _unguarded(inner)
        found = {v for v in _candidates(tensor, inner, required) if _value(inner, tensor, v) in required}
        together = frozenset(found) if together is None else together & found
    return together


def _required(schedule: ScheduleView, tensor: Tensor, known: dict[Tensor, Accepted]) -> Accepted:
    """The acceptable pad values of a computed tensor, given its consumers and its own contract."""
    if tensor in known:
        return known[tensor]
    known[tensor] = None
    layout = schedule.layouts.get(tensor)
    if layout is not None and layout.padding_count:
        numbers = {pad.constant for pad in layout.pads if pad is not None}
        known[tensor] = None if None in numbers else frozenset(number for number in numbers if number is not None)
        return known[tensor]
    together: Accepted = None
    for consumer in schedule.consumers(tensor):
        accepted = _accepted(schedule, consumer, tensor, known)
        if accepted:
            together = accepted if together is None else together & accepted
    known[tensor] = together
    return together


def _unguarded(expr: Expr) -> Expr:
    """The expression inside outer conditions on loops."""
    while isinstance(expr, Select) and not reads_data(expr.condition) and isinstance(expr.otherwise, Const | Undef):
        expr = expr.then
    return expr


def _candidates(tensor: Tensor, expr: Expr, required: Iterable[int]) -> list[int]:
    limits = DTYPES[tensor.dtype]
    if limits.maximum - limits.minimum < FEW:
        return list(range(limits.minimum, limits.maximum + 1))
    constants = [node.value for node in walk(expr) if isinstance(node, Const)]
    found = {0, 1, -1, limits.minimum, limits.maximum, *required}
    found |= {sign * (a - b) for a in (*required, 0) for b in constants for sign in (1, -1)}
    found |= {a // b for a in required for b in constants if b}
    return sorted(value for value in found if limits.minimum <= value <= limits.maximum)


def _value(expr: Expr, tensor: Tensor, value: int) -> Value:
    """The value of an expression if every element of ``tensor`` is ``value`` and all others are unknown."""
    match expr:
        case Const(value=number):
            return number
        case Undef():
            return Unknown.UNDEFINED
        case Read(tensor=read):
            return value if read is tensor else Unknown.UNKNOWN
        case Cast(operand=operand, dtype=dtype):
            inner = _value(operand, tensor, value)
            return int(evaluate(Cast(Const(inner, operand.dtype), dtype), {})) if isinstance(inner, int) else inner
        case Binary():
            return combined(expr, _value(expr.lhs, tensor, value), _value(expr.rhs, tensor, value))
        case Select(then=then, otherwise=otherwise):
            both = {_value(then, tensor, value), _value(otherwise, tensor, value)}
            return both.pop() if len(both) == 1 else Unknown.UNKNOWN
    return Unknown.UNKNOWN
