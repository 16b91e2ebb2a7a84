"""Construction of programs: placeholders, reduction axes, and computations, which are checked when created."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import overload

from lathe.configs.integers import integer
from lathe.frontend.arith.parameters import Extent, at_values, formula, parameters_of, symbolic_axis, typical_values
from lathe.frontend.expr.arithmetic import binary, expression
from lathe.frontend.expr.dtypes import INDEX, checked_dtype
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.expr_base import DEPTH_LIMIT, Expr, Value, depth, walk
from lathe.frontend.expr.names import checked_name
from lathe.frontend.expr.nodes import Axis, AxisRef, Computation, Reduce, Template, Tensor, axes_of
from lathe.frontend.tensor.bounds_checks import check_reads
from lathe.frontend.tensor.domains import simplified_where
from lathe.frontend.tensor.symbolic_checks import check_positive, check_reads_for_all

MOST_ELEMENTS = 1 << 62


def placeholder(shape: Value | Sequence[Value], dtype: str = "int8", name: str = "placeholder") -> Tensor:
    """An input of the program: an array of ``shape`` (positive extents) and ``dtype`` that the caller provides.

    Raises TensorError for a wrong shape, dtype or name.
    """
    checked_name(name, "a placeholder")
    where = f"placeholder {name!r}"
    return Tensor(name, checked_shape(shape, where), checked_dtype(dtype, where))


def reduce_axis(bounds: Value | tuple[Value, Value], name: str = "k") -> Axis:
    """A reduction axis over the half-open range from ``start`` to ``stop``, given as ``(start, stop)`` or ``stop``.

    Raises TensorError for an empty range.
    """
    checked_name(name, "a reduction axis")
    ends_given = bounds if isinstance(bounds, Sequence) else (0, bounds)
    if len(ends_given) == 2 and any(formula(end) is not None for end in ends_given):
        return _symbolic_reduction(name, *ends_given)
    pair = (0, bounds) if integer(bounds) is not None else bounds
    ends = [integer(end) for end in pair] if isinstance(pair, Sequence) else []
    start, stop = ends if len(ends) == 2 else (None, None)
    if start is None or stop is None:
        raise TensorError(f"bounds of reduction axis {name!r} must be two integers (start, stop), not {shown(bounds)}.")
    if stop <= start:
        raise TensorError(
            f"bounds of reduction axis {name!r} must contain at least one value, not start {start} and stop {stop}. "
            "The stop is exclusive."
        )
    return Axis(name, stop - start, start, "reduce")


def _symbolic_reduction(name: str, start: Value, stop: Value) -> Axis:
    extent = binary("sub", stop, start)
    if formula(extent) is not None:
        check_positive(extent, f"extent of reduction axis {name!r}")
    return symbolic_axis(name, extent, start, "reduce")


@overload
def compute(
    shape: Value | Sequence[Value],
    fcompute: Callable[..., tuple[Value, ...]],
    name: str = ...,
    *,
    where: Callable[..., Value] | None = ...,
    attrs: Mapping[str, object] | None = ...,
) -> tuple[Tensor, ...]: ...


@overload
def compute(
    shape: Value | Sequence[Value],
    fcompute: Callable[..., Value],
    name: str = ...,
    *,
    where: Callable[..., Value] | None = ...,
    attrs: Mapping[str, object] | None = ...,
) -> Tensor: ...


def compute(
    shape: Value | Sequence[Value],
    fcompute: Callable[..., Value | tuple[Value, ...]],
    name: str = "compute",
    *,
    where: Callable[..., Value] | None = None,
    attrs: Mapping[str, object] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """A tensor of ``shape`` whose element at each point is the value of the expression that ``fcompute`` returns.

    ``fcompute`` is called once with one index expression per dimension; the axes take the names of its parameters
    (``i0``, ``i1``, … for ``*indices``). When it returns a tuple of expressions, the computation has several outputs
    over the same points and a tuple of tensors is returned. A reduction (``sum``, ``max``, ``min`` with ``axis=``)
    must be the outermost operation of the expression.

    ``where``, a function of the same indices, returns a condition on data axes that restricts the domain, as
    ``where=lambda i, j: j <= i`` for a triangle. It need not be affine (``i * j < 20``) and may depend on data
    (``A[i] > 3``). Elements outside the domain may not be read, and are 0 in an output of the program.

    Raises TensorError for an invalid expression or a ``where`` that holds nowhere, DomainError for a read outside the
    domain of a tensor. The interface is that of Halide and TVM; domains other than boxes are Tiramisu's.
    """
    checked_name(name, "a computation")
    extents = checked_shape(shape, f"computation {name!r}")
    if not callable(fcompute):
        raise TensorError(
            f"expression of computation {name!r} must be given as a function of its axes, as in lambda i, j: ..., "
            f"not {shown(fcompute)}."
        )
    axes = tuple(
        symbolic_axis(axis_name, extent)
        for axis_name, extent in zip(_axis_names(fcompute, len(extents), name), extents, strict=True)
    )
    value = fcompute(*(AxisRef(axis) for axis in axes))
    values = value if isinstance(value, tuple) else (value,)
    if not values:
        raise TensorError(f"expressions of computation {name!r} must be one or more, not an empty tuple.")
    bodies = tuple(expression(each, f"expression of computation {name!r}") for each in values)
    reduce_axes = _checked_bodies(name, axes, bodies)
    condition = None if where is None else _checked_where(name, axes, where)
    if attrs is not None and not isinstance(attrs, Mapping):
        raise TensorError(f"attrs of computation {name!r} must be a mapping, not {shown(attrs)}.")
    computation = Computation(name, axes, reduce_axes, bodies, dict(attrs or {}), condition)
    if _depends_on_parameters(computation):
        computation = _at_typical_values(computation)
    check_reads(computation)
    if condition is not None:
        computation = replace(computation, where=simplified_where(computation))
    return computation.outputs if isinstance(value, tuple) else computation.outputs[0]


def _depends_on_parameters(computation: Computation) -> bool:
    """Whether a computation, or the shape of something that it reads, depends on parameters."""
    exprs = computation.bodies if computation.where is None else (*computation.bodies, computation.where)
    axes = (*computation.axes, *computation.reduce_axes)
    read = (extent for each in computation.reads for extent in each.tensor.shape)
    return bool(parameters_of(*exprs)) or any(a.symbolic for a in axes) or any(isinstance(e, Extent) for e in read)


def _at_typical_values(computation: Computation) -> Computation:
    """Check the computation for all values of its parameters, and replace them by typical values."""
    template = Template(computation.bodies, computation.where)
    check_reads_for_all(computation, template)
    exprs = computation.bodies if computation.where is None else (*computation.bodies, computation.where)
    values = typical_values(exprs)
    return replace(computation.mapped(lambda expr: at_values(expr, values)), template=template)


def _checked_where(name: str, axes: tuple[Axis, ...], where: object) -> Expr:
    """The domain condition, checked against the rules of the language."""
    if not callable(where):
        raise TensorError(
            f"where of computation {name!r} must be given as a function of its axes, as in lambda i, j: j <= i, not "
            f"{shown(where)}."
        )
    _axis_names(where, len(axes), name, "where")
    condition = expression(where(*(AxisRef(axis) for axis in axes)), f"where of computation {name!r}")
    if condition.dtype != "bool":
        raise TensorError(
            f"where of computation {name!r} must be bool, not {condition.dtype}: {condition}. Compare first, as in "
            "x != 0."
        )
    for node in walk(condition):
        if isinstance(node, Reduce):
            raise TensorError(
                f"where of computation {name!r} must be a condition without a reduction, not {condition}. Move the "
                "reduction into a computation of its own and read its result here."
            )
    for axis in axes_of(condition):
        if axis not in axes:
            raise TensorError(
                f"where of computation {name!r} must be a condition on its data axes "
                f"({', '.join(each.name for each in axes)}), not on {axis.name!r}: {condition}. Conditions on "
                "reduction axes belong to the reduction, as in sum(x, axis=k, where=k <= i)."
            )
    return condition


def parameters_taken(function: Callable[..., object], where: str) -> list[inspect.Parameter]:
    """The parameters of a function. Raises TensorError if its signature cannot be inspected."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise TensorError(
            f"{where} must be a function whose signature can be inspected, not {shown(function)}. Write a lambda."
        ) from None


def check_takes(function: Callable[..., object], count: int, where: str) -> None:
    """Raise TensorError unless a function can be called with ``count`` indices."""
    parameters_taken(function, where)
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        raise TensorError(f"{where} must take one index per dimension ({count}), but does not.") from None


def _axis_names(fcompute: Callable[..., object], count: int, name: str, what: str = "the function") -> list[str]:
    parameters = parameters_taken(fcompute, f"{what} of computation {name!r}")
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    required = [each for each in positional if each.default is each.empty]
    if len(required) > count or (len(positional) < count and not rest):
        raise TensorError(
            f"number of parameters of {what} of computation {name!r} must be {count}, one per dimension, not "
            f"{len(required)}. Write lambda *indices to take any number."
        )
    names = [each.name for each in positional[:count]]
    return names + [f"i{position}" for position in range(len(names), count)]


def _checked_bodies(name: str, axes: tuple[Axis, ...], bodies: tuple[Expr, ...]) -> tuple[Axis, ...]:
    """The reduction axes of the bodies, which are checked against the rules of the language."""
    reduce_axes = bodies[0].axes if isinstance(bodies[0], Reduce) else ()
    for body in bodies:
        levels = depth(body)
        if levels > DEPTH_LIMIT:
            raise TensorError(
                f"expression of computation {name!r} must be at most {DEPTH_LIMIT} levels deep, not {levels}. Sum over "
                "a reduction axis instead of unrolling the terms, or split the computation into several."
            )
        own = body.axes if isinstance(body, Reduce) else ()
        if own != reduce_axes:
            raise TensorError(
                f"expressions of computation {name!r} must all reduce over the same axes, not over "
                f"({', '.join(a.name for a in reduce_axes)}) and ({', '.join(a.name for a in own)}). Split the "
                "computation into two."
            )
        inside = body.body if isinstance(body, Reduce) else body
        for node in walk(inside):
            if isinstance(node, Reduce):
                raise TensorError(
                    f"reduction of computation {name!r} must be the outermost operation of its expression, not nested: "
                    f"{node}. Move the reduction into a computation of its own and read its result here."
                )
        for axis in axes_of(inside):
            if axis not in axes and axis not in reduce_axes:
                raise TensorError(
                    f"axis {axis.name!r} of computation {name!r} must be a data axis of the computation or be reduced "
                    f"over, not free: {body}. Write sum(..., axis={axis.name}), max or min around the expression."
                )
        if body.dtype == INDEX:
            raise TensorError(
                f"expression of computation {name!r} must have a tensor dtype, not index: {body}. "
                'Convert it, as in x.astype("int32"), or write const(value, "int32").'
            )
    names = [axis.name for axis in (*axes, *reduce_axes)]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise TensorError(
            f"axes of computation {name!r} must have different names, not {twice!r} twice. "
            "The data axes are named by the function's parameters."
        )
    return reduce_axes


def checked_shape(shape: object, where: str) -> tuple[int, ...]:
    """``shape`` as a tuple of positive integers; one integer is a shape of one dimension."""
    single = integer(shape)
    given = (shape,) if single is not None or formula(shape) is not None else shape
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TensorError(f"shape of {where} must be an integer or a sequence of integers, not {shown(shape)}.")
    extents = [_symbolic_extent(extent, position, where) or integer(extent) for position, extent in enumerate(given)]
    for position, (extent, value) in enumerate(zip(extents, given, strict=True)):
        if extent is None or extent < 1:
            raise TensorError(
                f"extent of dimension {position} of {where} must be a positive integer, not {shown(value)}. "
                "A tensor has at least one element."
            )
    dims = tuple(extent for extent in extents if extent is not None)
    if prod(int(extent) for extent in dims) > MOST_ELEMENTS:
        raise TensorError(
            f"shape of {where} must have at most {MOST_ELEMENTS} elements (64-bit indices), not be {shown(dims)}."
        )
    return dims


def _symbolic_extent(value: object, position: int, where: str) -> Extent | None:
    """An extent that is a formula of parameters; None for any other value."""
    expr = formula(value)
    if expr is None:
        return None
    check_positive(expr, f"extent of dimension {position} of {where}")
    return Extent(expr)
