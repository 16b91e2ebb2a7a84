"""The values of cells that a layout adds to a tensor (padding), after TVM's RFC 0077.

By default, they must not be read. With ``undef``, they may be read, but have any value. A constant, or a function of
the new indices, is a contract: the producer of the tensor writes it there, and consumers may rely on it.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.integers import integer
from lathe.frontend import Axis, Tensor, TensorError, evaluate
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.arithmetic import cast, expression, fits
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import shown
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import AxisRef, Binary, Compare, Const, Read, Select, Undef, axes_of
from lathe.isa.layout_steps import Filling, LayoutStep
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.rewriting.index_maps import IndexMap
from lathe.scheduler.rewriting.rewrite import rewrite, transform

Array = NDArray[Any]


class Undefined:
    """The value of a cell that may be read, but not relied on."""

    def __repr__(self) -> str:
        return "undef"


undef = Undefined()
"""Any value: as ``pad_value`` of ``transform_layout``, or returned by a function given there."""


@dataclass(frozen=True, eq=False)
class AddedCells:
    """The value of the cells that a map adds: an expression over ``axes``, the map's new indices; None: not readable.

    It may read elements of the tensor itself, at old indices.
    """

    axes: tuple[Axis, ...]
    value: Expr | None

    @property
    def constant(self) -> int | None:
        """The number that all added cells hold; None if they differ or hold none."""
        return self.value.value if isinstance(self.value, Const) else None

    def __str__(self) -> str:
        return "forbidden" if self.value is None else str(self.value)


def pad_of(tensor: Tensor, new: IndexMap, pad_value: object) -> AddedCells:
    """The contract that a ``pad_value`` describes for the cells that ``new`` adds to ``tensor``.

    Raises ScheduleError for a number that the dtype cannot hold, and for a function with other parameters or results,
    or that reads padding.
    """
    axes = tuple(Axis(name, extent) for name, extent in zip(new.names([]), new.shape, strict=True))
    value = pad_value
    where = f"pad_value of transform_layout of {tensor.name}"
    if callable(pad_value):
        value = _called(tensor, new, pad_value, axes, where)
    if value is None:
        return AddedCells(axes, None)
    if isinstance(value, Undefined):
        return AddedCells(axes, Undef(tensor.dtype))
    if not isinstance(value, Expr):
        number = integer(value)
        if number is None or not fits(number, tensor.dtype):
            raise ScheduleError(
                f"{where} must be None, lt.undef, an integer that {tensor.dtype} holds, or a function of the new "
                f"indices, not {shown(value)}.",
                kind="argument",
            )
        return AddedCells(axes, Const(number, tensor.dtype))
    foreign = next((axis for axis in axes_of(value) if axis not in axes), None)
    if foreign is not None:
        raise ScheduleError(
            f"{where} must be an expression of the new indices, not of axis {foreign.name!r}.", kind="argument"
        )
    _check_held(tensor, new, axes, value, where)
    expr = cast(value, tensor.dtype)
    if isinstance(skip_casts(expr), Const):
        return AddedCells(axes, Const(int(evaluate(expr, {})), tensor.dtype))
    pad = AddedCells(axes, expr)
    filling(tensor, new, pad, 0)  # raises if a cell has no value
    return pad


def _check_held(tensor: Tensor, new: IndexMap, axes: tuple[Axis, ...], value: Expr, where: str) -> None:
    """Raises ScheduleError, with a cell, if the implicit conversion to the tensor's dtype would change a value.

    A value that reads cells of the tensor has its dtype, or is refused elsewhere.
    """
    if value.dtype == tensor.dtype or any(isinstance(node, Read) for node in walk(value)):
        return
    cells = added_cells(new)
    bound: dict[Any, Array] = dict(zip(axes, cells, strict=True))
    values = np.broadcast_to(np.asarray(evaluate(value, bound), np.int64), cells[0].shape)
    limits = DTYPES[tensor.dtype]
    outside = (values < limits.minimum) | (values > limits.maximum)
    if outside.any():
        n = int(outside.argmax())
        cell = tuple(int(each[n]) for each in cells)
        raise ScheduleError(
            f"{where} must be a number that {tensor.dtype} holds, {limits.minimum} to {limits.maximum}, not "
            f"{int(values[n])} for cell {cell}. Write .astype({tensor.dtype!r}) to store its low bits.",
            kind="argument",
        )


def _called(tensor: Tensor, new: IndexMap, function: Callable[..., Any], axes: tuple[Axis, ...], where: str) -> object:
    """The value that the function returns, with its reads of the tensor at indices from before the map."""
    padded = Tensor(tensor.name, new.shape, tensor.dtype)
    arguments: list[object] = [AxisRef(axis) for axis in axes]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ScheduleError(
            f"{where} must be a function with a signature, not {shown(function)}. Write a lambda.", kind="argument"
        ) from None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    if not rest and len(positional) == len(axes) + 1:
        arguments.append(padded)
    elif not rest and len(positional) != len(axes):
        raise ScheduleError(
            f"parameters of {where} must be the {len(axes)} new indices, optionally followed by the tensor in its new "
            f"layout, not {len(positional)} parameters.",
            kind="argument",
        )
    try:
        result = function(*arguments)
        if result is None or isinstance(result, Undefined) or integer(result) is not None:
            return result
        value = expression(result, where)
    except TensorError as error:
        raise ScheduleError(f"{where} must return the value of a cell, but failed: {error}", kind="argument") from None

    def read(node: Read) -> Expr:
        if node.tensor is tensor:
            return node
        if node.tensor is not padded:
            raise ScheduleError(
                f"{where} must read only {tensor.name} itself, not {node.tensor.name}: a layout cannot make one tensor "
                "depend on another.",
                kind="argument",
            )
        names = tuple(Axis(f"p{n}", extent) for n, extent in enumerate(new.shape))
        values: dict[Axis, Expr] = dict(zip(names, node.indices, strict=True))
        inverse = new.inverse(names)
        return Read(tensor, tuple(rewrite(inverse[axis], axes=values) for axis in new.axes))

    return transform(value, lambda _: None, read)


def live_conditions(
    maps: Sequence[tuple[IndexMap, AddedCells | None]], axes: Sequence[Axis]
) -> list[tuple[Expr, Expr | None]]:
    """For each map that adds cells, last first: where cells of the layout are not padding, and the padding's value."""
    found: list[tuple[Expr, Expr | None]] = []
    now: list[Expr] = [AxisRef(axis) for axis in axes]
    for each, pad in reversed(maps):
        new = [Axis(f"p{n}", extent) for n, extent in enumerate(each.shape)]
        onto: dict[Axis, Expr] = dict(zip(new, now, strict=True))
        live = each.live(new)
        if live is not None and pad is not None:
            value = pad.value
            if value is not None:
                value = substitute(value, dict(zip(pad.axes, now, strict=True)))
            found.append((_simplified(substitute(live, onto)), value))
        inverse = each.inverse(new)
        now = [simplified_index(substitute(inverse[old], onto)) for old in each.axes]
    return found


def _simplified(condition: Expr) -> Expr:
    match condition:
        case Binary(op="and" | "or" as op, lhs=lhs, rhs=rhs):
            return Binary(op, _simplified(lhs), _simplified(rhs))
        case Compare(op=relation, lhs=lhs, rhs=rhs):
            return Compare(relation, simplified_index(lhs), simplified_index(rhs))
    return condition


def added_cells(new: IndexMap) -> tuple[Array, ...]:
    """The cells that a map adds, as arrays of indices, one per dimension."""
    axes = tuple(Axis(f"p{n}", extent) for n, extent in enumerate(new.shape))
    live = new.live(axes)
    if live is None:
        return tuple(np.zeros(0, np.int64) for _ in new.shape)
    grids: dict[Any, Array] = dict(zip(axes, np.indices(new.shape, np.int64, sparse=True), strict=True))
    outside = ~np.broadcast_to(np.asarray(evaluate(live, grids), np.bool_), new.shape)
    return tuple(np.nonzero(outside))


def filling(tensor: Tensor, new: IndexMap, pad: AddedCells, poison: int) -> Filling | None:
    """The step that fills added cells with values that differ by cell; None where all hold the same.

    Raises ScheduleError if an added cell would copy a cell that is no element of the tensor.
    """
    if pad.value is None or isinstance(pad.value, Const | Undef):
        return None
    cells = added_cells(new)
    bound: dict[Any, Array] = dict(zip(pad.axes, cells, strict=True))
    sources, values = _Resolved(tensor, new, bound, cells, poison).of(pad.value)
    flat = np.ravel_multi_index(cells, new.shape)
    return Filling(int(np.prod(new.shape)), tuple(flat.tolist()), tuple(sources.tolist()), tuple(values.tolist()))


@dataclass(frozen=True)
class _Resolved:
    """For each added cell, the row-major position of the cell that it copies, or −1 and a value."""

    tensor: Tensor
    new: IndexMap
    bound: dict[Any, Array]
    cells: tuple[Array, ...]
    poison: int

    def of(self, expr: Expr) -> tuple[Array, Array]:
        count = len(self.cells[0])
        where = f"pad_value of transform_layout of {self.tensor.name}"
        if isinstance(expr, Select) and not any(isinstance(node, Read) for node in walk(expr.condition)):
            chosen = np.broadcast_to(evaluate(expr.condition, self.bound), (count,))
            then, other = self.of(expr.then), self.of(expr.otherwise)
            return np.where(chosen, then[0], other[0]), np.where(chosen, then[1], other[1])
        if isinstance(expr, Undef):
            return np.full(count, -1), np.full(count, self.poison)
        if isinstance(expr, Read):
            return self.copied(expr, where), np.zeros(count, np.int64)
        if any(isinstance(node, Read) for node in walk(expr)):
            raise ScheduleError(
                f"{where} must be a number, an expression of the new indices, an element of {self.tensor.name}, or a "
                f"select of these, not {expr}.",
                kind="argument",
            )
        return np.full(count, -1), np.broadcast_to(evaluate(expr, self.bound), (count,)).astype(np.int64)

    def copied(self, read: Read, where: str) -> Array:
        """The row-major positions of the cells of the elements read."""
        tensor = self.tensor
        index = [np.broadcast_to(evaluate(each, self.bound), self.cells[0].shape) for each in read.indices]
        outside = np.zeros(self.cells[0].shape, np.bool_)
        for each, extent in zip(index, tensor.shape, strict=True):
            outside |= (each < 0) | (each >= extent)
        if outside.any():
            n = int(np.argmax(outside))
            at, cell = [int(each[n]) for each in index], tuple(int(each[n]) for each in self.cells)
            raise ScheduleError(
                f"{where} must copy elements of {tensor.name}, not {tensor.name}{at} into cell {cell}: {tensor.name} "
                f"has shape {tensor.shape}.",
                kind="argument",
            )
        values: dict[Any, Array] = dict(zip(self.new.axes, index, strict=True))
        placed = [np.broadcast_to(evaluate(each, values), outside.shape) for each in self.new.indices]
        return np.asarray(np.ravel_multi_index(tuple(placed), self.new.shape))


def layout_steps(tensor: Tensor, new: IndexMap, pad: AddedCells | None, poison: int = 0) -> tuple[LayoutStep, ...]:
    """The steps that pack an array into the layout of one map, with ``poison`` in cells of undefined value."""
    if pad is None:
        return new.steps()
    if pad.value is None or isinstance(pad.value, Undef):
        wrapped = int(np.asarray(poison, np.int64).astype(DTYPES[tensor.dtype].numpy))
        return new.steps(wrapped)
    found = filling(tensor, new, pad, poison)
    return (*new.steps(pad.constant), found) if found is not None else new.steps(pad.constant)
