"""Base classes of expression nodes, with their overloaded operators.

Operators build nodes under the typing rules (``arithmetic.py``), and ``str`` calls the printer (``text.py``). Both
import the nodes, so the operators here reach them through ``language``, which ``operator_hooks.py`` fills in.
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
    """The functions that operators and methods of nodes call."""

    expression: Callable[..., "Expr"]
    binary: Callable[[BinaryOp, object, object], "Expr"]
    comparison: Callable[[CompareOp, object, object], "Expr"]
    negation: Callable[[object], "Expr"]
    cast: Callable[[Value, str], "Expr"]
    extent: Callable[["Expr"], int]  # a formula of parameters as an ``Extent``
    format_expr: Callable[["Expr"], str]
    format_computation: Callable[[Any], str]  # of a ``Computation``


language = Language()


class Operand:
    """Base class of operands: expressions, axes, and tensors (which operators refuse with a helpful error)."""

    __slots__ = ()
    __hash__ = object.__hash__
    # Makes NumPy's scalars and arrays defer to the operators of this class.
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
        """The value converted to ``dtype``, wrapping around; conversion to ``bool`` is ``!= 0``.

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
            f"Cannot convert {self} to a Python bool: an expression has a value only at each point. Use "
            "select(condition, then, otherwise) instead of if; &, | and ~ instead of and, or, not and chained "
            "comparisons; and Lathe's max and min instead of Python's."
        )

    def __str__(self) -> str:
        return language.format_expr(self)

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
"""Maximum depth of an expression: passes over expressions are recursive, and Python limits recursion."""


def depth(root: Expr) -> int:
    """The depth of an expression: the number of nodes on its longest path from the root to a leaf."""
    depths: dict[Expr, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        children = node.children
        pending = [child for child in children if child not in depths]
        if pending:
            stack += pending
        else:
            stack.pop()
            depths[node] = 1 + max(map(depths.__getitem__, children), default=0)
    return depths[root]
