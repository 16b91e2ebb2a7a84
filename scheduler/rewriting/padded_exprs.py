"""Expressions of tensors in layouts with padding: elements as before, and the padding's values in added cells."""

from collections.abc import Sequence

from lathe.frontend import Axis
from lathe.frontend.arith.conditions import conjunction
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Compare, Const, Read, Reduce, Select, Undef
from lathe.scheduler.rewriting.rewrite import rewrite_indices, transform


def padded_body(body: Expr, live: Expr, added: Expr | None, old: Expr, old_axes: Sequence[Axis]) -> Expr:
    """``body`` where ``live`` holds, elsewhere ``added`` (None: undefined).

    ``added`` may read the tensor itself at indices of ``old_axes``; these reads are replaced by its expression there,
    ``old``. A reduction accumulates a constant once, in its first iteration.
    """
    value = Undef(body.dtype) if added is None else added

    def inlined(node: Read) -> Expr:
        """The expression of an element, in place of a read of it."""
        at: dict[Axis, Expr] = dict(zip(old_axes, node.indices, strict=True))
        inner = old.body if isinstance(old, Reduce) else old
        return rewrite_indices(substitute(inner, at), simplified_index)

    if not isinstance(body, Reduce):
        return Select(live, body.body if isinstance(body, Reduce) else body, transform(value, lambda _: None, inlined))
    if isinstance(value, Undef):
        return Reduce(body.kind, Select(live, body.body, Undef(body.body.dtype)), body.axes)
    return Reduce(body.kind, Select(live, body.body, _reduced(value, body, inlined)), body.axes)


def _reduced(value: Expr, body: Reduce, inlined: "object") -> Expr:
    """The operand of a reduction, at each of its points, that makes the reduction return a value."""
    assert callable(inlined)
    if isinstance(value, Read):
        result = inlined(value)
        assert isinstance(result, Expr)
        return result
    if isinstance(value, Select):
        return Select(value.condition, _reduced(value.then, body, inlined), _reduced(value.otherwise, body, inlined))
    if isinstance(value, Undef):
        return value
    unit = Const(neutral_element(body.kind, body.dtype), body.dtype)
    if isinstance(value, Const) and value.value == unit.value:
        return unit
    first = conjunction(Compare("le", AxisRef(axis), Const(axis.start, "index")) for axis in body.axes)
    assert first is not None, "a reduction over no axis"
    return Select(first, value, unit)
