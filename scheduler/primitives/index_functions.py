"""User functions that map indices of a tensor to other indices, called with axes."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lathe.frontend import Axis, Tensor, TensorError
from lathe.frontend.expr.arithmetic import cast, expression
from lathe.frontend.expr.errors import shown
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, axes_of, reads_data
from lathe.scheduler.errors import ScheduleError


def called(tensor: Tensor, function: Callable[..., Any], command: str) -> tuple[tuple[Axis, ...], Sequence[Any]]:
    """An axis for each dimension of the tensor, and the list that the function returns for them.

    Raises ScheduleError if the function takes another number of indices, fails, or returns no list.
    """
    names = _parameters(tensor, function, command)
    axes = tuple(Axis(name, extent) for name, extent in zip(names, tensor.shape, strict=True))
    try:
        result = function(*(AxisRef(axis) for axis in axes))
    except TensorError as error:
        raise ScheduleError(
            f"function of {command} of {tensor.name} must return index expressions, but failed: {error}",
            kind="argument",
        ) from None
    if not isinstance(result, Sequence) or isinstance(result, str) or not result:
        raise ScheduleError(
            f"function of {command} of {tensor.name} must return a list of index expressions, not "
            f"{shown(result)}. Return the new index, as in [i // 4, i % 4].",
            kind="argument",
        )
    return axes, result


def _parameters(tensor: Tensor, function: Callable[..., Any], command: str) -> list[str]:
    """The names of the function's parameters, one for each dimension."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # not callable, or a built-in without a signature
        raise ScheduleError(
            f"function of {command} of {tensor.name} must take an index and return the new one, not be "
            f"{shown(function)}. Pass it as in lambda i, j: [j, i].",
            kind="argument",
        ) from None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    required = [each for each in positional if each.default is each.empty]
    if len(required) > tensor.ndim or (len(positional) < tensor.ndim and not rest):
        raise ScheduleError(
            f"number of parameters of the function of {command} of {tensor.name} must be {tensor.ndim}, one per axis "
            f"of its present layout {tensor.shape}, not {len(required)}. Write lambda *indices to take any number.",
            kind="argument",
        )
    names = [each.name for each in positional[: tensor.ndim]]
    if tensor.computation is not None and tensor.computation.shape == tensor.shape:
        others = [axis.name for axis in tensor.computation.axes]
    else:
        others = [f"i{position}" for position in range(tensor.ndim)]
    return names + others[len(names) :]


def index_given(tensor: Tensor, axes: tuple[Axis, ...], given: object, command: str) -> Expr:
    """One of the returned values as an index expression."""
    where = f"index in the list that the function of {command} of {tensor.name} returns"
    try:
        value = expression(given, where)
        if value.dtype == "bool" or reads_data(value):
            raise TensorError("")
        index = cast(value, "index")
    except TensorError:
        raise ScheduleError(
            f"{where} must be an expression of the function's parameters, not {shown(given)}.", kind="argument"
        ) from None
    strange = next((axis for axis in axes_of(index) if axis not in axes), None)
    if strange is not None:
        raise ScheduleError(
            f"{where} must be an expression of the function's parameters, not of another axis, {strange.name!r}.",
            kind="argument",
        )
    return index
