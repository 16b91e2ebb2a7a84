"""The expression IR: expressions, tensors, and the computations that define tensors by expressions.

Expressions are immutable DAGs over axes, constants and reads of tensors. Nodes are compared by identity, because ``==``
on them builds a comparison. Every node has a ``dtype``; the typing rules are in ``arithmetic.py``. The IR fixes neither
the order in which points are computed nor where values are stored.
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

    Axes are compared by identity: two of the same name and range are different, and ``==`` between two axes means
    ``is``. Every other operation on an axis (``i + 1``, ``i < 3``) builds an expression.
    """

    name: str
    extent: int
    start: int = 0
    kind: Literal["data", "reduce"] = "data"
    symbolic: "tuple[Expr, Expr] | None" = None  # start and extent as formulas of the program's parameters

    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        if type(self.extent) is not int:  # a symbolic extent: its formula is in ``symbolic``
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
    """An undefined value, on which no result depends. Only schedules create it; programs have none."""

    dtype: str


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Parameter(Expr):
    """A symbolic parameter of a program: an integer from ``minimum`` to ``maximum``, bound when the program is built.

    It occurs in templates of computations only; schedules work on its typical or bound value.
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

    ``shr`` rounds down, ``rounding_shift`` rounds to nearest with ties to even, and ``shl`` shifts left; negative
    amounts shift the other way. ``floordiv`` and ``mod`` round down as Python's, and division by zero gives 0. ``and``
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
    """Sum, product, maximum or minimum of ``body`` over all points of ``axes``; only the root of a body."""

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
    """The axes that the expressions refer to, without duplicates, in order of first use."""
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
    """Whether the tensor is the state of a recurrence, which is declared before it is defined."""

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
        """The computation that produces the tensor (TVM's name for ``computation``)."""
        return self.computation

    def __getitem__(self, indices: Value | tuple[Value, ...]) -> Read:
        """The element at ``indices``: one integer, axis or expression per dimension; data is converted to ``index``.

        Raises TensorError for a wrong number of indices, a slice, or an index that is not an integer.
        """
        given: tuple[object, ...] = indices if isinstance(indices, tuple) else (indices,)
        if any(index is ... or isinstance(index, slice) for index in given):
            raise TensorError(
                f"index of tensor {self.name!r} must be an integer, an axis or an expression, not a slice. "
                "Read one element and let compute() range over the axes."
            )
        if len(given) != len(self.shape):
            raise TensorError(
                f"number of indices of tensor {self.name!r} must be {len(self.shape)}, one per dimension of its shape "
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
            f"Cannot iterate over tensor {self.name!r}: only single elements can be read, as in {self.name}[i, j]. "
            "Reduce over them with Lathe's sum, prod, max or min and a reduction axis."
        )

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"


Guard: TypeAlias = tuple[Expr, bool]
"""A condition around a read, and whether it must hold (as in a ``then`` branch) or fail (``otherwise``)."""


@dataclass(frozen=True, eq=False)
class ReadAccess:
    """One read: the tensor, its indices, the guards from outermost to innermost, and the index of its body.

    Reads of the domain condition are in no body: their ``body_index`` is the number of bodies.
    """

    tensor: Tensor
    indices: tuple[Expr, ...]
    guards: tuple[Guard, ...]
    body_index: int
    node: Read


def reads_of(bodies: Sequence[Expr], where: Expr | None = None) -> tuple[ReadAccess, ...]:
    """Every read in the bodies, in source order, followed by those in the domain condition ``where``.

    A node that is reached twice under the same guards is one read. A read inside a condition or an index is under the
    guards around that condition or index. ``where`` guards all reads in the bodies.
    """
    reads: list[ReadAccess] = []
    outer: tuple[Guard, ...] = () if where is None else ((where, True),)
    roots = [(body, outer) for body in bodies]
    roots += [] if where is None else [(where, ())]
    for body_index, root in enumerate(roots):
        seen: set[tuple[int, tuple[int, ...]]] = set()
        stack: list[tuple[Expr, tuple[Guard, ...], tuple[int, ...]]] = [(*root, ())]  # and ids of guards
        while stack:
            node, guards, guard_ids = stack.pop()
            key = (id(node), guard_ids)
            if key in seen:
                continue
            seen.add(key)
            if isinstance(node, Read):
                reads.append(ReadAccess(node.tensor, node.indices, guards, body_index, node))
            if isinstance(node, Select):
                condition = node.condition
                stack.append((node.otherwise, (*guards, (condition, False)), (*guard_ids, ~id(condition))))
                stack.append((node.then, (*guards, (condition, True)), (*guard_ids, id(condition))))
                stack.append((condition, guards, guard_ids))
            else:
                for child in reversed(node.children):
                    stack.append((child, guards, guard_ids))
    return tuple(reads)


@dataclass(frozen=True, eq=False)
class Template:
    """The symbolic form of a computation, before its parameters are bound: expressions over the same axes."""

    bodies: tuple[Expr, ...]
    where: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class Computation:
    """The definition of one tensor, or of several tensors over the same points.

    The iteration domain is the box of ``axes`` (one per output dimension, each from 0) and ``reduce_axes``, restricted
    to points where ``where``, a condition on data axes, holds: elsewhere nothing is computed, no element may be read,
    and an output of the program holds 0. Each body is an expression over the axes; with reduction axes, every body is a
    ``Reduce`` over all of them. ``attrs`` records the arguments of an operator and never changes the semantics.
    """

    name: str
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    bodies: tuple[Expr, ...]
    attrs: Mapping[str, object] = field(default_factory=dict)
    where: Expr | None = None
    template: Template | None = None  # the symbolic form, if the program has parameters

    def __post_init__(self) -> None:
        if not isinstance(self.attrs, MappingProxyType):
            object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    _repr_html_ = repr_html

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(language.extent(axis.symbolic[1]) if axis.symbolic else axis.extent for axis in self.axes)

    @property
    def axis(self) -> tuple[Axis, ...]:
        """The data axes (TVM's name for ``axes``)."""
        return self.axes

    @property
    def reduce_axis(self) -> tuple[Axis, ...]:
        """The reduction axes (TVM's name for ``reduce_axes``)."""
        return self.reduce_axes

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """One tensor per body, named after the computation; several are ``name.0``, ``name.1``, …"""
        several = len(self.bodies) > 1
        return tuple(
            Tensor(f"{self.name}.{index}" if several else self.name, self.shape, body.dtype, self, index)
            for index, body in enumerate(self.bodies)
        )

    @cached_property
    def reads(self) -> tuple[ReadAccess, ...]:
        """Every read with its guards; ``where`` is the outermost of them."""
        return reads_of(self.bodies, self.where)

    def mapped(self, change: Callable[[Expr], Expr]) -> "Computation":
        """The computation with ``change`` applied to every expression, including the domain condition."""
        where = None if self.where is None else change(self.where)
        return replace(self, bodies=tuple(change(body) for body in self.bodies), where=where)

    def __str__(self) -> str:
        return language.format_computation(self)

    def __repr__(self) -> str:
        return f"Computation({', '.join(repr(tensor) for tensor in self.outputs)})"
