"""Constraints on the machines of a sweep: Boolean expressions over machine parameters, evaluated by simpleeval.

Names are the keys of a machine ("block_in", "memory.latency"), the parameters derived from them ("inp_depth",
"multipliers"), and the sweep's "clock_mhz". Expressions are not executed as Python: only operators, numbers and the
functions listed here are allowed, and integers have at most ``MOST_BITS`` bits, which bounds time and memory.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from lathe.configs import HardwareConfig, MemoryConfig, TimingConfig
from lathe.configs.errors import shown
from lathe.configs.parameters import MachineParameters
from lathe.sweeps.errors import SweepError
from lathe.sweeps.machines import CLOCK, Machine

FUNCTIONS = {"min": min, "max": max, "abs": abs}
LONGEST = 1000
"""The maximum number of characters of an expression."""
MOST_BITS = 1024
"""The maximum length of an integer, as of a float's exponent range."""
ALLOWED = (
    ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Call, ast.Name, ast.Attribute, ast.Constant,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip
"""The node types of expressions: no strings, lists, subscripts, assignments or lambdas."""
DERIVED = tuple(name for name, value in vars(MachineParameters).items() if isinstance(value, property))
OWN = tuple(each.name for each in fields(HardwareConfig) if each.type in ("int", int))
SECTIONS = {"memory": MemoryConfig, "timing": TimingConfig}
NAMES = (
    *OWN,
    *DERIVED,
    *(f"{section}.{each.name}" for section, kind in SECTIONS.items() for each in fields(kind)),
    CLOCK,
)


class NoConstraintError(Exception):
    """Why a text is no valid constraint; ``name``: the unknown name in it, if that is the reason."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.name = name


@dataclass(frozen=True)
class Constraint:
    """A Boolean expression over the parameters of a machine."""

    text: str

    @classmethod
    def of(cls, text: object) -> "Constraint":
        """Parse a constraint. Raises NoConstraintError if it is no numeric expression, or has unknown names."""
        if not isinstance(text, str) or not text.strip():
            raise NoConstraintError(f"{shown(text)} is not a non-empty string")
        if len(text) > LONGEST:
            raise NoConstraintError(f"the constraint has {len(text)} characters, more than {LONGEST}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
            for name in _names(tree.body):
                if name not in NAMES and name not in FUNCTIONS:
                    raise NoConstraintError(f"the name {name!r} is unknown", name)
            _check_numbers(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NoConstraintError(error.msg if isinstance(error, SyntaxError) else "text cannot be parsed") from None
        return cls(text.strip())

    def holds(self, machine: Machine) -> bool:
        """Whether the machine satisfies it. Raises NoConstraintError if it has no Boolean value on the machine."""
        evaluator = SimpleEval(operators=OPERATORS, names=_values(machine), functions=FUNCTIONS)
        try:
            value = evaluator.eval(self.text, previously_parsed=self._parsed)
        except (InvalidExpression, ArithmeticError, TypeError, ValueError, KeyError, RecursionError) as error:
            raise NoConstraintError(" ".join(str(error).split()).rstrip(".") or type(error).__name__) from None
        if not isinstance(value, bool):
            raise NoConstraintError(f"value {value!r} on machine {machine.config.name!r} is neither true nor false")
        return value

    @cached_property
    def _parsed(self) -> Any:
        return SimpleEval.parse(self.text)


def first_broken(constraints: tuple[Constraint, ...], machine: Machine) -> str | None:
    """The first constraint that a machine violates, or None. Raises SweepError for one without a Boolean value."""
    for each in constraints:
        try:
            if not each.holds(machine):
                return each.text
        except NoConstraintError as error:
            raise SweepError(f"Cannot evaluate the constraint {each.text!r}: {error}.") from None
    return None


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return [f"{node.value.id}.{node.attr}"]
    if isinstance(node, ast.Name):
        return [node.id]
    return [name for child in ast.iter_child_nodes(node) for name in _names(child)]


def _check_numbers(tree: ast.AST) -> None:
    """Raise NoConstraintError for anything but numbers, names, operators and calls of ``FUNCTIONS``."""
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED) or (isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name)):
            raise NoConstraintError(f"the constraint contains {shown(ast.unparse(node))}, which is no number")
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float):
                raise NoConstraintError(f"the constraint contains {shown(node.value)}, which is no number")
            _bounded(node.value)
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise NoConstraintError(
                f"the constraint calls {shown(ast.unparse(node.func))}, which is none of {', '.join(FUNCTIONS)}"
            )


def _bounded(value: Any) -> Any:
    """The value itself. Raises NoConstraintError for an integer of more than ``MOST_BITS`` bits."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise NoConstraintError(f"the constraint has an integer of more than {MOST_BITS} bits")
    return value


def _within(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator with a bounded result; on bounded operands only powers and shifts could take long."""
    return lambda *operands: _bounded(function(*operands))


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        # An integer of n bits is at least 2 to the power of n - 1.
        _bounded(1 << min((abs(base).bit_length() - 1) * exponent, MOST_BITS))
    return _bounded(base**exponent)


def _shifted(base: Any, amount: Any) -> Any:
    if isinstance(base, int) and isinstance(amount, int) and base and amount > MOST_BITS:
        _bounded(1 << MOST_BITS)
    return _bounded(base << amount)


OPERATORS: dict[Any, Callable[..., Any]] = {
    ast.Add: _within(operator.add),
    ast.Sub: _within(operator.sub),
    ast.Mult: _within(operator.mul),
    ast.Div: operator.truediv,
    ast.FloorDiv: _within(operator.floordiv),
    ast.Mod: _within(operator.mod),
    ast.Pow: _power,
    ast.LShift: _shifted,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Invert: operator.invert,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _values(machine: Machine) -> Mapping[str, Any]:
    config = machine.config
    own = {name: getattr(config, name) for name in (*OWN, *DERIVED)}
    sections = {section: asdict(getattr(config, section)) for section in SECTIONS}
    return {**own, **sections, CLOCK: machine.clock_mhz}
