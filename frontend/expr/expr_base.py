"""What may stand beside an operator, and what operators mean: the ground on which the nodes of the language stand.

Operators build nodes by typing rules that are written over these nodes, and texts are made of them by a printer. Both
stand above, so the operators here reach them through ``language``, which ``operator_hooks.py`` sets: the one late
binding.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NoReturn, TypeAlias, Union

from lathe.frontend.expr.errors import TensorError

BinaryOp: TypeAlias = Literal[
    "add", "sub", "mul", "min", "max", "shr", "shl", "rounding_shift", "floordiv", "mod", "and", "or"
]
CompareOp: TypeAlias = Literal["lt", "le", "gt", "ge", "eq", "ne"]
ReduceKind: TypeAlias = Literal["sum", "prod", "max", "min"]
Value: TypeAlias = Union["Operand", int]


class Language:
    """What operators and methods of nodes do."""

    expression: Callable[..., "Expr"]
    binary: Callable[[BinaryOp, object, object], "Expr"]
    comparison: Callable[[CompareOp, object, object], "Expr"]
    negation: Callable[[object], "Expr"]
    cast: Callable[[Value, str], "Expr"]
    extent: Callable[["Expr"], int]  # the integer that a formula of parameters typically is, and knows to be
    written: Callable[["Expr"], str]
    described: Callable[[Any], str]  # the text of a computation


language = Language()


class Operand:
    """What may stand beside an operator: an expression, an axis, or (with an error that helps) a bare tensor."""

    __slots__ = ()
    __hash__ = object.__hash__
    # NumPy's scalars and arrays leave the operator to this class.
    __array_ufunc__ = None

    def __add__(self, other: Value) -> "Expr":
        return language.binary("add", self, other)

    def __radd__(self, other: Value) -> "Expr":
        return language.binary("add", other, self)

    def __sub__(self, other: Value) -> "Expr":
        return language.binary("sub", self, other)

    def __rsub__(self, other: Value) -> "Expr":
        return language.binary("sub", other, self)

    def __mul__(self, other: Value) -> "Expr":
        return language.binary("mul", self, other)

    def __rmul__(self, other: Value) -> "Expr":
        return language.binary("mul", other, self)

    def __floordiv__(self, other: Value) -> "Expr":
        return language.binary("floordiv", self, other)

    def __rfloordiv__(self, other: Value) -> "Expr":
        return language.binary("floordiv", other, self)

    def __mod__(self, other: Value) -> "Expr":
        return language.binary("mod", self, other)

    def __rmod__(self, other: Value) -> "Expr":
        return language.binary("mod", other, self)

    def __truediv__(self, other: Value) -> NoReturn:
        raise TensorError("division of expressions must be written //, which rounds down, not /.")

    __rtruediv__ = __truediv__

    def __rshift__(self, other: Value) -> "Expr":
        return language.binary("shr", self, other)

    def __rrshift__(self, other: Value) -> "Expr":
        return language.binary("shr", other, self)

    def __lshift__(self, other: Value) -> "Expr":
        return language.binary("shl", self, other)

    def __rlshift__(self, other: Value) -> "Expr":
        return language.binary("shl", other, self)

    def __and__(self, other: Value) -> "Expr":
        return language.binary("and", self, other)

    def __rand__(self, other: Value) -> "Expr":
        return language.binary("and", other, self)

    def __or__(self, other: Value) -> "Expr":
        return language.binary("or", self, other)

    def __ror__(self, other: Value) -> "Expr":
        return language.binary("or", other, self)

    def __invert__(self) -> "Expr":
        return language.negation(self)

    def __neg__(self) -> "Expr":
        return language.binary("sub", 0, self)

    def __pos__(self) -> "Expr":
        return language.expression(self)

    def __lt__(self, other: Value) -> "Expr":
        return language.comparison("lt", self, other)

    def __le__(self, other: Value) -> "Expr":
        return language.comparison("le", self, other)

    def __gt__(self, other: Value) -> "Expr":
        return language.comparison("gt", self, other)

    def __ge__(self, other: Value) -> "Expr":
        return language.comparison("ge", self, other)

    def __eq__(self, other: Value) -> "Expr":  # type: ignore[override]
        return language.comparison("eq", self, other)

    def __ne__(self, other: Value) -> "Expr":  # type: ignore[override]
        return language.comparison("ne", self, other)

    def astype(self, dtype: str) -> "Expr":
        """The same number as ``dtype``; what does not fit wraps around, and to ``bool`` it is ``!= 0``.

        Raises TensorError for an unknown dtype.
        """
        return language.cast(self, dtype)


class Expr(Operand):
    """A node of an expression."""

    __slots__ = ()

    @property
    def dtype(self) -> str:
        raise NotImplementedError

    @property
    def children(self) -> "tuple[Expr, ...]":
        """The operands, left to right."""
        return ()

    def __bool__(self) -> NoReturn:
        raise TensorError(
            "truth of an expression must be left to select(condition, then, otherwise), not taken by if, and, or, not "
            f"or a chained comparison: {self} has a value at each point only. "
            "Write &, | and ~ for the logic, and Lathe's max and min for the larger and the smaller of two."
        )

    def __str__(self) -> str:
        return language.written(self)

    __repr__ = __str__


def walk(*roots: Expr) -> Iterator[Expr]:
    """Every node below and including the roots, each once, parents before children, left to right."""
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(reversed(node.children))


DEPTH_LIMIT = 200
"""How deep an expression may nest: everything that walks expressions recurses, and Python limits that."""


def depth(root: Expr) -> int:
    """How many nodes the longest path from the root down to a leaf has."""
    found: dict[Expr, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        children = node.children
        waiting = [child for child in children if child not in found]
        if waiting:
            stack += waiting
        else:
            stack.pop()
            found[node] = 1 + max(map(found.__getitem__, children), default=0)
    return found[root]
