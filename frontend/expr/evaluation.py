"""NumPy interpreter of expressions, vectorised over the values that axes are bound to.

It defines the semantics of the language. Addition and multiplication are those of NumPy's integer types, which wrap
around at their width as in ``lathe.isa.arithmetic``; shifts are taken from there, as NumPy's have no negative amounts.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Compare, Const, Not, Read, Reduce, Select, Undef
from lathe.isa.arithmetic import shift_left, shift_right, shift_right_to_even

Array: TypeAlias = npt.NDArray[Any]
Environment: TypeAlias = Mapping[Any, Array | int]
"""Bindings of axes to integers or arrays of them, and of tensors to arrays."""

_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip

_SHIFTS: Mapping[str, Callable[[Array, Array], Array]] = {
    "shr": shift_right, "shl": shift_left, "rounding_shift": shift_right_to_even,
}  # fmt: skip

_OPERATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "floordiv": np.floor_divide, "mod": np.remainder,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


POISON = 0x6B6B6B6B
"""The value of ``Undef``, chosen so that a program that depends on it gives a wrong result."""


def evaluate(expr: Expr, env: Environment) -> Array:
    """The value of ``expr`` where ``env`` binds its axes to integers and its tensors to arrays.

    Axes may be bound to integer arrays of any shapes that broadcast together; the result has the broadcast shape of
    the axes it depends on, and the NumPy dtype of the expression. Indices are clamped to the tensors' shapes, because
    both branches of a ``select`` are evaluated; reads that happen are in bounds, as ``compute`` has checked.
    A ``Reduce`` materialises all points of its axes at once.
    """
    return Evaluator(env).value(expr)


class Evaluator:
    """Evaluates nodes under one environment; a node shared by several parents is computed once."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._known: dict[Expr, Array] = {}

    def value(self, expr: Expr) -> Array:
        found = self._known.get(expr)
        if found is None:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                found = self._known[expr] = self._computed(expr)
        return found

    def _computed(self, expr: Expr) -> Array:
        match expr:
            case Const(value=value, dtype=dtype):
                return np.asarray(value, DTYPES[dtype].numpy)
            case AxisRef(axis=axis):
                return self.axis(axis)
            case Undef(dtype=dtype):
                return np.asarray(POISON, np.int64).astype(DTYPES[dtype].numpy)
            case Read():
                return self.read(expr)
            case Binary(op=("shr" | "shl" | "rounding_shift") as op, lhs=lhs, rhs=rhs):
                return _shifted(op, self.value(lhs), self.value(rhs))
            case Binary(op=op, lhs=lhs, rhs=rhs):
                # Operands of rank 0 make NumPy return scalars, which must stay arrays of the same dtype.
                return np.asarray(_OPERATIONS[op](self.value(lhs), self.value(rhs)), DTYPES[expr.dtype].numpy)
            case Compare(op=compare, lhs=lhs, rhs=rhs):
                return np.asarray(_COMPARISONS[compare](self.value(lhs), self.value(rhs)))
            case Not(operand=operand):
                return np.asarray(np.logical_not(self.value(operand)))
            case Select():
                return self.select(expr)
            case Cast(operand=operand, dtype=dtype):
                return self.value(operand).astype(DTYPES[dtype].numpy)
            case Reduce():
                return self.reduce(expr)
        raise AssertionError(f"no evaluation rule for {type(expr).__name__}")

    def axis(self, axis: Axis) -> Array:
        """The values that the axis is bound to."""
        return np.asarray(self.env[axis], np.int64)

    def read(self, read: Read) -> Array:
        """The elements read, gathered by index arrays."""
        array = np.asarray(self.env[read.tensor])
        indices = tuple(
            np.minimum(np.maximum(self.value(index), 0), extent - 1)
            for index, extent in zip(read.indices, array.shape, strict=True)
        )
        return np.asarray(array[indices])

    def select(self, expr: Select) -> Array:
        """Evaluates both branches and selects between them element by element."""
        return np.where(self.value(expr.condition), self.value(expr.then), self.value(expr.otherwise))

    def reduce(self, expr: Reduce) -> Array:
        """The reduction, evaluated with the points of its axes in new leading dimensions."""
        rank = max((np.ndim(bound) for key, bound in self.env.items() if isinstance(key, Axis)), default=0)
        inner = dict(self.env)
        for position, axis in enumerate(expr.axes):
            shape = [1] * (rank + len(expr.axes))
            shape[position] = axis.extent
            inner[axis] = np.arange(axis.start, axis.stop).reshape(shape)
        body = Evaluator(inner).value(expr.body)
        full = [axis.extent for axis in expr.axes]
        body = body.reshape([1] * (rank + len(full) - body.ndim) + list(body.shape))
        body = np.broadcast_to(body, (*full, *body.shape[len(full) :]))
        return np.asarray(REDUCTIONS[expr.kind].reduce(body, axis=tuple(range(len(full))), dtype=body.dtype))


def _shifted(op: str, value: Array, amount: Array) -> Array:
    """A shift; unsigned values are widened to int64, shifted and truncated."""
    shift = _SHIFTS[op]
    if value.dtype.kind == "u":
        return shift(value.astype(np.int64), amount.astype(np.int64)).astype(value.dtype)
    return shift(value, amount)


REDUCTIONS: Mapping[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
