"""The expressions of the tensor language: frozen trees over axes, constants and reads of tensors.

Nodes are compared by identity, because ``==`` on them builds a comparison. A node may be shared by several parents.
Every node has a ``dtype``; the rules are in ``arithmetic.py``, which is what the operators here call.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, Union

from lathe.frontend.dtypes import BOOL, INDEX
from lathe.frontend.errors import TensorError

if TYPE_CHECKING:
    from lathe.frontend.tensors import Tensor

BinaryOp: TypeAlias = Literal["add", "sub", "mul", "min", "max", "shr", "shl", "floordiv", "mod", "and", "or"]
CompareOp: TypeAlias = Literal["lt", "le", "gt", "ge", "eq", "ne"]
ReduceKind: TypeAlias = Literal["sum", "prod", "max", "min"]
Value: TypeAlias = Union["Operand", int]


class Operand:
    """What may stand beside an operator: an expression, an axis, or (with an error that helps) a bare tensor."""

    __slots__ = ()
    __hash__ = object.__hash__
    # NumPy's scalars and arrays leave the operator to this class.
    __array_ufunc__ = None

    def __add__(self, other: Value) -> "Expr":
        return arithmetic.binary("add", self, other)

    def __radd__(self, other: Value) -> "Expr":
        return arithmetic.binary("add", other, self)

    def __sub__(self, other: Value) -> "Expr":
        return arithmetic.binary("sub", self, other)

    def __rsub__(self, other: Value) -> "Expr":
        return arithmetic.binary("sub", other, self)

    def __mul__(self, other: Value) -> "Expr":
        return arithmetic.binary("mul", self, other)

    def __rmul__(self, other: Value) -> "Expr":
        return arithmetic.binary("mul", other, self)

    def __floordiv__(self, other: Value) -> "Expr":
        return arithmetic.binary("floordiv", self, other)

    def __rfloordiv__(self, other: Value) -> "Expr":
        return arithmetic.binary("floordiv", other, self)

    def __mod__(self, other: Value) -> "Expr":
        return arithmetic.binary("mod", self, other)

    def __rmod__(self, other: Value) -> "Expr":
        return arithmetic.binary("mod", other, self)

    def __truediv__(self, other: Value) -> NoReturn:
        raise TensorError("division of expressions must be written //, which rounds down, not /.")

    __rtruediv__ = __truediv__

    def __rshift__(self, other: Value) -> "Expr":
        return arithmetic.binary("shr", self, other)

    def __rrshift__(self, other: Value) -> "Expr":
        return arithmetic.binary("shr", other, self)

    def __lshift__(self, other: Value) -> "Expr":
        return arithmetic.binary("shl", self, other)

    def __rlshift__(self, other: Value) -> "Expr":
        return arithmetic.binary("shl", other, self)

    def __and__(self, other: Value) -> "Expr":
        return arithmetic.binary("and", self, other)

    def __rand__(self, other: Value) -> "Expr":
        return arithmetic.binary("and", other, self)

    def __or__(self, other: Value) -> "Expr":
        return arithmetic.binary("or", self, other)

    def __ror__(self, other: Value) -> "Expr":
        return arithmetic.binary("or", other, self)

    def __invert__(self) -> "Expr":
        return arithmetic.negation(self)

    def __neg__(self) -> "Expr":
        return arithmetic.binary("sub", 0, self)

    def __pos__(self) -> "Expr":
        return arithmetic.expression(self)

    def __lt__(self, other: Value) -> "Expr":
        return arithmetic.comparison("lt", self, other)

    def __le__(self, other: Value) -> "Expr":
        return arithmetic.comparison("le", self, other)

    def __gt__(self, other: Value) -> "Expr":
        return arithmetic.comparison("gt", self, other)

    def __ge__(self, other: Value) -> "Expr":
        return arithmetic.comparison("ge", self, other)

    def __eq__(self, other: Value) -> "Expr":  # type: ignore[override]
        return arithmetic.comparison("eq", self, other)

    def __ne__(self, other: Value) -> "Expr":  # type: ignore[override]
        return arithmetic.comparison("ne", self, other)

    def astype(self, dtype: str) -> "Expr":
        """The same number as ``dtype``; what does not fit wraps around, and to ``bool`` it is ``!= 0``.

        Raises TensorError for an unknown dtype.
        """
        return arithmetic.cast(self, dtype)


@dataclass(frozen=True, eq=False)
class Axis(Operand):
    """One dimension of an iteration domain: the integers from ``start`` to ``start + extent - 1``.

    An axis is itself and nothing else: two axes of the same name and range are different. Two axes are therefore
    compared with ``is`` or ``==`` alike; everything else on an axis (``i + 1``, ``i < 3``) builds an expression.
    """

    name: str
    extent: int
    start: int = 0
    kind: Literal["data", "reduce"] = "data"
    symbolic: "tuple[Expr, Expr] | None" = None  # start and extent as formulas of the program's parameters

    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        if type(self.extent) is not int:  # an extent with a formula: what is computed from axes has none
            object.__setattr__(self, "extent", int(self.extent))

    @property
    def stop(self) -> int:
        return self.start + self.extent

    def __eq__(self, other: object) -> "bool | Expr":  # type: ignore[override]
        if isinstance(other, Axis) or not isinstance(other, Operand | int):
            return self is other
        return arithmetic.comparison("eq", self, other)

    def __ne__(self, other: object) -> "bool | Expr":  # type: ignore[override]
        if isinstance(other, Axis) or not isinstance(other, Operand | int):
            return self is not other
        return arithmetic.comparison("ne", self, other)


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
        return text.format_expr(self)

    __repr__ = __str__


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Const(Expr):
    """An integer of a given dtype, within its range."""

    value: int
    dtype: str


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Undef(Expr):
    """Any value at all: what a cell holds that nobody relies on. Only schedules write it; programs have none."""

    dtype: str


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Parameter(Expr):
    """A number that a program leaves open until it is built: an integer from ``minimum`` to ``maximum``.

    It stands in templates of computations only, never in what a schedule works on.
    """

    name: str
    minimum: int
    maximum: int
    typical: int

    @property
    def dtype(self) -> str:
        return INDEX


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class AxisRef(Expr):
    """The value of an axis at a point; its dtype is ``index``."""

    axis: Axis

    @property
    def dtype(self) -> str:
        return INDEX


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Read(Expr):
    """The element of ``tensor`` at ``indices``, all of dtype ``index``."""

    tensor: "Tensor"
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.indices


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Binary(Expr):
    """An operation on two operands of one dtype, which is also the dtype of the result.

    ``shr`` rounds down, ``shl`` is its inverse, and negative amounts shift the other way; ``floordiv`` and ``mod``
    round down as Python's, and dividing by zero gives 0; ``and`` and ``or`` are logical, on ``bool``.
    """

    op: BinaryOp
    lhs: Expr
    rhs: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        assert self.lhs.dtype == self.rhs.dtype, (self.op, self.lhs.dtype, self.rhs.dtype)
        object.__setattr__(self, "dtype", self.lhs.dtype)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.lhs, self.rhs)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Compare(Expr):
    """A comparison of two operands of one dtype; the result is ``bool``."""

    op: CompareOp
    lhs: Expr
    rhs: Expr

    @property
    def dtype(self) -> str:
        return BOOL

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.lhs, self.rhs)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Not(Expr):
    """Logical negation of a ``bool``."""

    operand: Expr

    @property
    def dtype(self) -> str:
        return BOOL

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Select(Expr):
    """``then`` where the condition holds, else ``otherwise``; reads in the branch not taken do not happen."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: str = field(init=False)

    def __post_init__(self) -> None:
        assert self.then.dtype == self.otherwise.dtype, (self.then.dtype, self.otherwise.dtype)
        object.__setattr__(self, "dtype", self.then.dtype)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.condition, self.then, self.otherwise)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Cast(Expr):
    """The operand converted to ``dtype``, wrapping around; to ``bool`` it is ``!= 0``."""

    operand: Expr
    dtype: str

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Reduce(Expr):
    """Sum, product, maximum or minimum of ``body`` over all points of ``axes``; only at the top of a body."""

    kind: ReduceKind
    body: Expr
    axes: tuple[Axis, ...]

    @property
    def dtype(self) -> str:
        return self.body.dtype

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.body,)


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


def depth(root: Expr) -> int:
    """How many nodes the longest path from the root down to a leaf has."""
    found: dict[Expr, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [child for child in node.children if child not in found]
        if waiting:
            stack += waiting
        else:
            stack.pop()
            found[node] = 1 + max((found[child] for child in node.children), default=0)
    return found[root]


def axes_of(*roots: Expr) -> tuple[Axis, ...]:
    """The axes that the expressions refer to, each once, in order of first mention."""
    return tuple(dict.fromkeys(node.axis for node in walk(*roots) if isinstance(node, AxisRef)))


def reads_data(expr: Expr) -> bool:
    """Whether the expression depends on the elements of a tensor."""
    return any(isinstance(node, Read) for node in walk(expr))


# The rules and the printer are written over the nodes above; the operators above call them.
from lathe.frontend import arithmetic, text  # noqa: E402
