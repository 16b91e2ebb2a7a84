"""What must hold of a machine in a sweep: expressions over its numbers, worked out by simpleeval.

Names are the keys of a machine ("block_in", "memory.latency"), the numbers that follow from them ("inp_depth",
"multipliers"), and the sweep's own "clock_mhz". An expression is never Python to be run: simpleeval knows operators,
and the functions named here.
"""

import ast
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from lathe.configs import HardwareConfig, MemoryConfig, TimingConfig
from lathe.configs.parameters import MachineParameters
from lathe.sweeps.errors import SweepError
from lathe.sweeps.machines import CLOCK, Machine

FUNCTIONS = {"min": min, "max": max, "abs": abs}
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
        """Raises NoConstraintError for what is no expression, or one with other names."""
        if not isinstance(text, str) or not text.strip():
            raise NoConstraintError(f"it is {text!r}")
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NoConstraintError(error.msg if isinstance(error, SyntaxError) else "it cannot be read") from None
        for name in _names(tree.body):
            if name not in NAMES and name not in FUNCTIONS:
                raise NoConstraintError(f"nothing is named {name!r}", name)
        return cls(text.strip())

    def holds(self, machine: Machine) -> bool:
        """Whether it does. Raises NoConstraintError where the expression has no truth on this machine."""
        evaluator = SimpleEval(names=_values(machine), functions=FUNCTIONS)
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


def _values(machine: Machine) -> Mapping[str, Any]:
    config = machine.config
    own = {name: getattr(config, name) for name in (*OWN, *DERIVED)}
    sections = {section: asdict(getattr(config, section)) for section in SECTIONS}
    return {**own, **sections, CLOCK: machine.clock_mhz}
