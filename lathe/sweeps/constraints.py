"""What must hold of a machine in a sweep: expressions over its numbers, worked out by simpleeval.

Names are the keys of a machine ("block_in", "memory.latency"), the numbers that follow from them ("inp_depth",
"multipliers"), and the sweep's own "clock_mhz". An expression is never Python to be run: simpleeval knows operators,
and the functions named here. It speaks of numbers alone, none of which grows beyond ``MOST_BITS``, so that whatever
stands in a file takes little time and room.
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
"""Characters of an expression."""
MOST_BITS = 1024
"""Whole numbers are no longer, as floating-point ones are not."""
SPOKEN = (
    ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Call, ast.Name, ast.Attribute, ast.Constant,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip
"""What expressions are made of: no texts, lists, indices, assignments or functions of their own."""
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
    """What is wrong with a text that should be a constraint; ``name`` is the name in it that nothing has."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        super().__init__(reason)
        self.name = name


@dataclass(frozen=True)
class Constraint:
    """An expression that is true or false of a machine."""

    text: str

    @classmethod
    def of(cls, text: object) -> "Constraint":
        """Raises NoConstraintError for what is no expression of numbers, or one with other names."""
        if not isinstance(text, str) or not text.strip():
            raise NoConstraintError(f"it is {shown(text)}")
        if len(text) > LONGEST:
            raise NoConstraintError(f"it has {len(text)} characters, more than {LONGEST}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
            for name in _names(tree.body):
                if name not in NAMES and name not in FUNCTIONS:
                    raise NoConstraintError(f"nothing is named {name!r}", name)
            _check_numbers(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NoConstraintError(error.msg if isinstance(error, SyntaxError) else "it cannot be read") from None
        return cls(text.strip())

    def holds(self, machine: Machine) -> bool:
        """Whether it does. Raises NoConstraintError where the expression has no truth on this machine."""
        evaluator = SimpleEval(operators=OPERATORS, names=_values(machine), functions=FUNCTIONS)
        try:
            found = evaluator.eval(self.text, previously_parsed=self._parsed)
        except (InvalidExpression, ArithmeticError, TypeError, ValueError, KeyError, RecursionError) as error:
            raise NoConstraintError(" ".join(str(error).split()).rstrip(".") or type(error).__name__) from None
        if not isinstance(found, bool):
            raise NoConstraintError(f"it is {found!r} on machine {machine.config.name!r}, neither true nor false")
        return found

    @cached_property
    def _parsed(self) -> Any:
        return SimpleEval.parse(self.text)


def first_broken(constraints: tuple[Constraint, ...], machine: Machine) -> str | None:
    """The first constraint that does not hold of a machine; None where all do.

    Raises SweepError for one that is neither true nor false.
    """
    for each in constraints:
        try:
            if not each.holds(machine):
                return each.text
        except NoConstraintError as error:
            raise SweepError(f"The constraint {each.text!r} must be true or false of every machine; {error}.") from None
    return None


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return [f"{node.value.id}.{node.attr}"]
    if isinstance(node, ast.Name):
        return [node.id]
    return [name for child in ast.iter_child_nodes(node) for name in _names(child)]


def _check_numbers(tree: ast.AST) -> None:
    """Raise NoConstraintError for what is more than numbers, names, operators and the functions named here."""
    for node in ast.walk(tree):
        if not isinstance(node, SPOKEN) or (isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name)):
            raise NoConstraintError(f"it has {shown(ast.unparse(node))}, which is no number")
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float):
                raise NoConstraintError(f"it has {shown(node.value)}, which is no number")
            _bounded(node.value)
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise NoConstraintError(
                f"it calls {shown(ast.unparse(node.func))}, which is none of {', '.join(FUNCTIONS)}"
            )


def _bounded(value: Any) -> Any:
    """A number that is none too large. Raises NoConstraintError."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise NoConstraintError(f"it has a whole number of more than {MOST_BITS} bits")
    return value


def _within(work: Callable[..., Any]) -> Callable[..., Any]:
    """An operator whose result is bounded; of numbers that are, all but powers and shifts take hardly any time."""
    return lambda *operands: _bounded(work(*operands))


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0 and abs(base) > 1:
        # A number of n bits is at least 2 to the power of n - 1.
        _bounded(1 << min((abs(base).bit_length() - 1) * exponent, MOST_BITS))
    return _bounded(base**exponent)


def _shifted(base: Any, places: Any) -> Any:
    if isinstance(base, int) and isinstance(places, int) and base and places > MOST_BITS:
        _bounded(1 << MOST_BITS)
    return _bounded(base << places)


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
