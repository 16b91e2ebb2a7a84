"""Symbolic parameters of a program, bound to numbers when it is built.

A parameter is an expression of dtype ``index`` that can be used in shapes, bounds of reductions and indices. Until it
is bound, everything that needs a number uses its ``typical`` value and also keeps the formula: a shape consists of
``Extent``, integers with a formula, and a computation has a ``Template``. (As in Tiramisu and isl, parameters are
those of the whole program.)
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lathe.configs.integers import integer
from lathe.frontend.arith.substitution import rewritten, with_children
from lathe.frontend.expr.arithmetic import binary
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.errors import ParameterError, TensorError, shown
from lathe.frontend.expr.expr_base import Expr, Operand, walk
from lathe.frontend.expr.names import checked_name
from lathe.frontend.expr.nodes import Axis, Binary, Const, Parameter, axes_of, reads_data

LARGEST = (1 << 31) - 1
"""The largest maximum of a parameter, and its default."""


def parameter(name: str, minimum: int = 1, maximum: int | None = None, *, typical: int | None = None) -> Parameter:
    """A symbolic parameter: an integer from ``minimum`` to ``maximum`` (None: any that fits 31 bits).

    It may be used, with ``+``, ``-``, ``*``, and ``//`` and ``%`` by constants, in the shapes of placeholders and
    computations, in bounds of reductions and in indices and conditions. ``typical`` is the value that schedule commands
    are checked with until it is bound (default: 99 more than the minimum). ``build``, ``reference`` and the like take
    ``parameters={name: value}``.

    Raises TensorError for a wrong name or range.
    """
    checked_name(name, "a parameter")
    low, high = integer(minimum), LARGEST if maximum is None else integer(maximum)
    if low is None or high is None or not 0 <= low <= high <= LARGEST:
        raise TensorError(
            f"range of parameter {name!r} must be two integers from 0 to {LARGEST}, the minimum first, not "
            f"{shown(minimum)} and {shown(maximum)}."
        )
    value = min(low + 99, high) if typical is None else integer(typical)
    if value is None or not low <= value <= high:
        raise TensorError(
            f"typical value of parameter {name!r} must be an integer from {low} to {high}, not {shown(typical)}."
        )
    return Parameter(name, low, high, value)


class Extent(int):
    """A symbolic extent: an integer with its typical value, and its formula in expressions and shapes."""

    expr: Expr

    def __new__(cls, expr: Expr) -> "Extent":
        extent = super().__new__(cls, value_of(expr, typical_values([expr])))
        extent.expr = expr
        return extent

    def __add__(self, other: Any) -> Any:
        return _combined("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _combined("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _combined("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _combined("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _combined("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _combined("mul", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _combined("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _combined("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return _combined("mod", self, other)

    def __neg__(self) -> Any:
        return _combined("sub", 0, self)

    def __repr__(self) -> str:
        return str(self.expr)

    __str__ = __repr__


def _combined(op: Any, left: object, right: object) -> Any:
    if isinstance(left, Operand) or isinstance(right, Operand) or integer(left) is None or integer(right) is None:
        return NotImplemented
    a, b = (each.expr if isinstance(each, Extent) else each for each in (left, right))
    return Extent(binary(op, a, b))


def parameters_of(*exprs: Expr) -> tuple[Parameter, ...]:
    """The parameters in expressions, without duplicates."""
    return tuple(dict.fromkeys(node for node in walk(*exprs) if isinstance(node, Parameter)))


def formula(value: object) -> Expr | None:
    """A parameter, an ``Extent`` or arithmetic on parameters as an expression; None for anything else."""
    if isinstance(value, Extent):
        return value.expr
    if not isinstance(value, Expr) or value.dtype != INDEX or axes_of(value) or reads_data(value):
        return None
    return value if parameters_of(value) else None


def typical_values(exprs: Iterable[Expr]) -> dict[Parameter, int]:
    """The typical value of each parameter in some expressions."""
    return {each: each.typical for each in parameters_of(*exprs)}


def at_values(expr: Expr, values: Mapping[Parameter, int]) -> Expr:
    """The expression with numbers for parameters; constant index arithmetic is folded."""

    def leaf(node: Expr) -> Expr | None:
        return Const(values[node], INDEX) if isinstance(node, Parameter) and node in values else None

    def over(node: Expr, children: tuple[Expr, ...]) -> Expr:
        new = with_children(node, children)
        return binary(new.op, *children) if isinstance(new, Binary) and new is not node and new.dtype == INDEX else new

    return rewritten(expr, leaf, over)


def value_of(expr: Expr, values: Mapping[Parameter, int]) -> int:
    """The value of an extent for given values of the parameters."""
    result = at_values(expr, values)
    assert isinstance(result, Const), f"{expr} depends on more than parameters"
    return result.value


def checked_values(parameters: Iterable[Parameter], given: object, where: str) -> dict[Parameter, int]:
    """The value of each parameter of a program, from what the user gives by name.

    Raises ParameterError for a missing value, an unknown parameter, a non-integer, or a value out of range.
    """
    needed: dict[str, Parameter] = {}
    for each in parameters:
        known = needed.setdefault(each.name, each)
        if known is not each:
            raise ParameterError(
                f"parameters of a program must have different names, not {each.name!r} twice. Create the parameter "
                "once and use it everywhere."
            )
    names = ", ".join(map(repr, needed)) or "none"
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"parameters of {where} must be numbers by name, as in parameters={{'N': 100}}, not {shown(given)}."
        )
    unknown = next((name for name in given if name not in needed), None)
    if unknown is not None:
        raise ParameterError(f"parameters of {where} must be those of the program ({names}), not {unknown!r}.")
    values: dict[Parameter, int] = {}
    for name, each in needed.items():
        if name not in given:
            raise ParameterError(
                f"parameters of {where} must hold a value for {name!r}, which is missing. The program has {names}; "
                f"write parameters={{{name!r}: {each.typical}}}, for example."
            )
        value = integer(given[name])
        if value is None:
            raise ParameterError(f"parameter {name!r} of {where} must be an integer, not {shown(given[name])}.")
        if value < each.minimum or value > each.maximum:
            limit = f"at least {each.minimum}" if value < each.minimum else f"at most {each.maximum}"
            raise ParameterError(f"parameter {name!r} of {where} must be {limit}, not {value}.")
        values[each] = value
    return values


def format_values(values: Mapping[Parameter, int]) -> str:
    """Parameter values for a message, as ``N = 100 and M = 3``."""
    return " and ".join(f"{each.name} = {value}" for each, value in values.items())


def symbolic_axis(name: str, extent: object, start: object = 0, kind: Any = "data") -> Axis:
    """An axis whose extent and start may be formulas."""
    formulas = tuple(formula(each) for each in (start, extent))
    if not any(each is not None for each in formulas):
        return Axis(name, _number(extent), _number(start), kind)
    symbolic = tuple(
        each if each is not None else Const(_number(given), INDEX)
        for each, given in zip(formulas, (start, extent), strict=True)
    )
    first, size = symbolic
    return Axis(name, int(Extent(size)), int(Extent(first)), kind, (first, size))


def _number(value: object) -> int:
    number = integer(value)
    assert number is not None, f"{value!r} is not an integer"
    return number
