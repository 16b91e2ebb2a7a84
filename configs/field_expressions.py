"""Integer expressions over an instruction's fields: written once, evaluated on numbers, on columns and in hardware.

An expression is independent of the type of the fields. A :class:`FieldReader` supplies them: Python integers of one
instruction, NumPy columns of a stream, or Amaranth values of an instruction word, whose operators evaluate it. Rows of
the instruction table and the constraints of :mod:`lathe.isa.constraints` consist of expressions.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class FieldReader(Protocol):
    """The source of field values that an expression is evaluated on."""

    def field(self, name: str) -> Any:
        """The value of an instruction's field, or of an index that its micro-ops compute."""
        ...

    def named(self, name: str, value: Callable[[], Any]) -> Any:
        """The value of a named expression; hardware gives it a signal of that name."""
        ...


class Expression:
    """An integer or a truth value. Operators build larger expressions; comparisons give 0 or 1."""

    def evaluate(self, reader: FieldReader) -> Any:
        """The value on what the reader reads."""
        raise NotImplementedError(type(self).__name__)

    def text(self) -> str:
        """The expression as the manual prints it."""
        raise NotImplementedError(type(self).__name__)

    def fields(self) -> frozenset[str]:
        """The names of the fields that the value depends on."""
        return frozenset()

    def __add__(self, other: "Expression | int") -> "Expression":
        return Operation("+", self, expression(other))

    def __mul__(self, other: "Expression | int") -> "Expression":
        return Operation("*", self, expression(other))

    def __gt__(self, other: "Expression | int") -> "Expression":
        return Operation(">", self, expression(other))

    def __ge__(self, other: "Expression | int") -> "Expression":
        return Operation(">=", self, expression(other))

    def __and__(self, other: "Expression") -> "Expression":
        return Operation("and", self, other)

    def __or__(self, other: "Expression") -> "Expression":
        return Operation("or", self, other)

    # `==` compares expressions structurally, because constraints are compared and put into sets.
    def equals(self, other: int) -> "Expression":
        """Whether the value equals ``other``."""
        return Operation("==", self, expression(other))

    def differs(self, other: int) -> "Expression":
        """Whether the value differs from ``other``."""
        return Operation("!=", self, expression(other))


_FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "*": operator.mul,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
}

# Precedence: an operand that binds more weakly than its operator is printed in parentheses.
_STRENGTH = {"or": 0, "and": 1, ">": 2, ">=": 2, "==": 2, "!=": 2, "+": 3, "*": 4}


@dataclass(frozen=True)
class Number(Expression):
    """A constant."""

    value: int

    def evaluate(self, reader: FieldReader) -> int:  # noqa: ARG002 - a constant is the same for every reader
        """The number."""
        return self.value

    def text(self) -> str:
        """Its digits."""
        return str(self.value)


@dataclass(frozen=True)
class MachineNumber(Expression):
    """A number derived from the machine, which the reader has as its ``config``."""

    name: str
    of: Callable[[Any], int] = field(compare=False)

    def evaluate(self, reader: Any) -> int:
        """The number on the reader's machine."""
        return self.of(reader.config)

    def text(self) -> str:
        """Its name."""
        return self.name


@dataclass(frozen=True)
class FieldValue(Expression):
    """A field of the instruction, or an index of a micro-op."""

    name: str

    def evaluate(self, reader: FieldReader) -> Any:
        """What the reader reads."""
        return reader.field(self.name)

    def text(self) -> str:
        """Its name."""
        return self.name

    def fields(self) -> frozenset[str]:
        """Itself."""
        return frozenset((self.name,))


@dataclass(frozen=True)
class Operation(Expression):
    """A binary operation on two expressions."""

    sign: str
    left: Expression
    right: Expression

    def evaluate(self, reader: FieldReader) -> Any:
        """The operator applied to both values."""
        return _FUNCTIONS[self.sign](self.left.evaluate(reader), self.right.evaluate(reader))

    def text(self) -> str:
        """Both operands around the operator, in parentheses where they bind more weakly."""
        sides = []
        for side in (self.left, self.right):
            weaker = isinstance(side, Operation) and _STRENGTH[side.sign] < _STRENGTH[self.sign]
            sides.append(f"({side.text()})" if weaker else side.text())
        return f"{sides[0]} {self.sign} {sides[1]}"

    def fields(self) -> frozenset[str]:
        """The fields of both operands."""
        return self.left.fields() | self.right.fields()


@dataclass(frozen=True)
class Named(Expression):
    """An expression with a name, which other expressions print instead of it."""

    name: str
    meaning: Expression

    def evaluate(self, reader: FieldReader) -> Any:
        """The value of the definition, under its name."""
        return reader.named(self.name, lambda: self.meaning.evaluate(reader))

    def text(self) -> str:
        """The name."""
        return self.name

    def fields(self) -> frozenset[str]:
        """The fields of the definition."""
        return self.meaning.fields()


def expression(value: Expression | int) -> Expression:
    """The value itself, or an integer as a :class:`Number`."""
    return value if isinstance(value, Expression) else Number(value)
