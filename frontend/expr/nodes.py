"""The nodes of the tensor language: expressions, tensors, and the computations that make tensors of expressions.

Expressions are frozen trees over axes, constants and reads of tensors. Nodes are compared by identity, because ``==``
on them builds a comparison. A node may be shared by several parents. Every node has a ``dtype``; the rules are in
``arithmetic.py``. Nothing here says in which order points are computed, or where values lie in memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Literal, NoReturn, TypeAlias

from lathe.configs.html_repr import repr_html
from lathe.frontend.expr.dtypes import BOOL, INDEX
from lathe.frontend.expr.errors import TensorError
from lathe.frontend.expr.expr_base import BinaryOp, CompareOp, Expr, Operand, ReduceKind, Value, language, walk


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
        return language.comparison("eq", self, other)

    def __ne__(self, other: object) -> "bool | Expr":  # type: ignore[override]
        if isinstance(other, Axis) or not isinstance(other, Operand | int):
            return self is not other
        return language.comparison("ne", self, other)


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

    ``shr`` rounds down, ``rounding_shift`` to the nearest, halves to even, ``shl`` is the inverse of both, and negative
    amounts shift the other way; ``floordiv`` and ``mod`` round down as Python's, and dividing by zero gives 0; ``and``
    and ``or`` are logical, on ``bool``.
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


def axes_of(*roots: Expr) -> tuple[Axis, ...]:
    """The axes that the expressions refer to, each once, in order of first mention."""
    return tuple(dict.fromkeys(node.axis for node in walk(*roots) if isinstance(node, AxisRef)))


def reads_data(expr: Expr) -> bool:
    """Whether the expression depends on the elements of a tensor."""
    return any(isinstance(node, Read) for node in walk(expr))


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(Operand):
    """An array of ``dtype`` and ``shape``: an input (``computation`` is None) or an output of a computation.

    ``A[i, j]`` reads an element inside the expression of a computation.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    computation: "Computation | None" = None
    output_index: int = 0
    is_state: ClassVar[bool] = False
    """Whether the tensor is declared before it is defined."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return self is other

    def __ne__(self, other: object) -> bool:  # type: ignore[override]
        return self is not other

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def op(self) -> "Computation | None":
        """The computation that makes the tensor, under the name that TVM's users know."""
        return self.computation

    def __getitem__(self, indices: Value | tuple[Value, ...]) -> Read:
        """The element at ``indices``: one integer, axis or expression per dimension; data is converted to ``index``.

        Raises TensorError for a wrong number of indices, a slice, or an index that is no integer.
        """
        given: tuple[object, ...] = indices if isinstance(indices, tuple) else (indices,)
        if any(index is ... or isinstance(index, slice) for index in given):
            raise TensorError(
                f"index of tensor {self.name!r} must be an integer, an axis or an expression, not a slice. "
                "Read one element and let compute() range over the axes."
            )
        if len(given) != len(self.shape):
            raise TensorError(
                f"indices of tensor {self.name!r} must be {len(self.shape)}, one per dimension of its shape "
                f"{self.shape}, not {len(given)}."
            )
        where = f"index of tensor {self.name!r}"
        exprs = tuple(language.expression(index, where) for index in given)
        for expr in exprs:
            if expr.dtype == "bool":
                raise TensorError(
                    f"index of tensor {self.name!r} must be an integer, not the bool {expr}. "
                    'Convert it first, as in x.astype("index").'
                )
        return Read(self, tuple(language.cast(expr, INDEX) for expr in exprs))

    def __iter__(self) -> NoReturn:
        raise TensorError(
            f"elements of tensor {self.name!r} must be read one by one, as in {self.name}[i, j], not iterated over. "
            "Reduce over them with Lathe's sum, prod, max or min and a reduction axis."
        )

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"


Guard: TypeAlias = tuple[Expr, bool]
"""A ``select`` condition on the way to a read, and whether it must hold (``then``) or not (``otherwise``)."""


@dataclass(frozen=True, eq=False)
class ReadAccess:
    """One read: the tensor, its index expressions, the guards from the outside in, and the body it stands in.

    Reads of the condition on the domain stand in none: their ``body_index`` is one more than the last.
    """

    tensor: Tensor
    indices: tuple[Expr, ...]
    guards: tuple[Guard, ...]
    body_index: int
    node: Read


def reads_of(bodies: Sequence[Expr], where: Expr | None = None) -> tuple[ReadAccess, ...]:
    """Every read in the bodies, in the order in which they are written, and then those of the condition ``where``.

    A node that is reached twice under the same guards is one read. A read inside a condition or inside another read's
    index is under the guards around that condition or read. All that bodies read they read where ``where`` holds.
    """
    found: list[ReadAccess] = []
    around: tuple[Guard, ...] = () if where is None else ((where, True),)
    roots = [(body, around) for body in bodies]
    roots += [] if where is None else [(where, ())]
    for body_index, root in enumerate(roots):
        seen: set[tuple[int, tuple[int, ...]]] = set()
        stack: list[tuple[Expr, tuple[Guard, ...], tuple[int, ...]]] = [(*root, ())]  # and numbers that name the guards
        while stack:
            node, guards, named = stack.pop()
            key = (id(node), named)
            if key in seen:
                continue
            seen.add(key)
            if isinstance(node, Read):
                found.append(ReadAccess(node.tensor, node.indices, guards, body_index, node))
            if isinstance(node, Select):
                condition = node.condition
                stack.append((node.otherwise, (*guards, (condition, False)), (*named, ~id(condition))))
                stack.append((node.then, (*guards, (condition, True)), (*named, id(condition))))
                stack.append((condition, guards, named))
            else:
                for child in reversed(node.children):
                    stack.append((child, guards, named))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Template:
    """What a computation says before its parameters are bound: expressions over the same axes."""

    bodies: tuple[Expr, ...]
    where: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class Computation:
    """What the elements of one tensor, or of several over the same points, are.

    The iteration domain is the box of ``axes`` (one per output dimension, each from 0) and ``reduce_axes``, or that
    part of it where ``where``, a condition on data axes, holds: elsewhere there are no instances, nothing may be read,
    and an output of the program holds 0. Each body is an expression over the axes; when there are reduction axes every
    body is a ``Reduce`` over all of them. ``attrs`` tells what an operator was called with and never changes the
    meaning.
    """

    name: str
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    attrs: Mapping[str, object] = field(default_factory=dict)
    where: Expr | None = None
    template: Template | None = None  # what it says before the program's parameters are bound, if it has any

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, MappingProxyType):
            object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    _repr_html_ = repr_html

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(language.extent(axis.symbolic[1]) if axis.symbolic else axis.extent for axis in self.axes)

    @property
    def axis(self) -> tuple[Axis, ...]:
        """The data axes, under the name that TVM's users know."""
        return self.axes

    @property
    def reduce_axis(self) -> tuple[Axis, ...]:
        """The reduction axes, under the name that TVM's users know."""
        return self.reduce_axes

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """One tensor per body; a single one bears the computation's name, several ``name.0``, ``name.1``, …"""
        several = len(self.bodies) > 1
        return tuple(
            Tensor(f"{self.name}.{index}" if several else self.name, self.shape, body.dtype, self, index)
            for index, body in enumerate(self.bodies)
        )

    @cached_property
    def reads(self) -> tuple[ReadAccess, ...]:
        """Every read, with the guards on the way to it; ``where`` is the first of them."""
        return reads_of(self.bodies, self.where)

    def mapped(self, change: Callable[[Expr], Expr]) -> "Computation":
        """The same computation with every expression, the condition on the domain included, changed by ``change``."""
        where = None if self.where is None else change(self.where)
        return replace(self, bodies=tuple(change(body) for body in self.bodies), where=where)

    def __str__(self) -> str:
        return language.described(self)

    def __repr__(self) -> str:
        return f"Computation({', '.join(repr(tensor) for tensor in self.outputs)})"
