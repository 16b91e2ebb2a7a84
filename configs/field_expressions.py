"""Integer expressions over an instruction's fields: written once, worked out on numbers, on columns and in hardware.

An expression is a value that knows nothing of what its fields are. A reader gives it the fields: Python integers of one
instruction, NumPy columns of a stream, or Amaranth values of a word; their own operators do the rest. Rows of
instructions are made of them, and the rules of :mod:`lathe.isa.constraints`.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class FieldReader(Protocol):
    """What expressions are worked out on."""

    def field(self, name: str) -> Any:
        """The value of an instruction's field, or of an index that its micro-ops make."""
        ...

    def named(self, name: str, value: Callable[[], Any]) -> Any:
        """The value of an expression that has a name; a place for hardware to make one signal of it."""
        ...


class Expression:
    """An integer or a truth value; operators make larger ones. Comparisons give 0 or 1."""

    def on(self, reader: FieldReader) -> Any:
        """The value for what the reader reads."""
        raise NotImplementedError(type(self).__name__)

    def text(self) -> str:
        """The expression for the manual."""
        raise NotImplementedError(type(self).__name__)

    def fields(self) -> frozenset[str]:
        """The names of the fields that its value depends on."""
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

    # `==` stays the equality of values, for rules are compared and kept in sets.
    def equals(self, other: int) -> "Expression":
        """Whether the value is a number."""
        return Operation("==", self, expression(other))

    def differs(self, other: int) -> "Expression":
        """Whether the value is another than a number."""
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

# What binds stronger is written without parentheses inside what binds weaker.
_STRENGTH = {"or": 0, "and": 1, ">": 2, ">=": 2, "==": 2, "!=": 2, "+": 3, "*": 4}


@dataclass(frozen=True)
class Number(Expression):
    """A number, the same on every machine."""

    value: int

    def on(self, reader: FieldReader) -> int:  # noqa: ARG002 - a number is the same for every reader
        """The number."""
        return self.value

    def text(self) -> str:
        """Its digits."""
        return str(self.value)


@dataclass(frozen=True)
class MachineNumber(Expression):
    """A number that follows from the machine, which the reader knows as its ``config``."""

    name: str
    of: Callable[[Any], int] = field(compare=False)

    def on(self, reader: Any) -> int:
        """The number on the reader's machine."""
        return self.of(reader.config)

    def text(self) -> str:
        """Its name."""
        return self.name


@dataclass(frozen=True)
class FieldValue(Expression):
    """A field of the instruction, or an index of a micro-op."""

    name: str

    def on(self, reader: FieldReader) -> Any:
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
    """Two expressions joined by an operator."""

    sign: str
    left: Expression
    right: Expression

    def on(self, reader: FieldReader) -> Any:
        """The operator applied to both values."""
        return _FUNCTIONS[self.sign](self.left.on(reader), self.right.on(reader))

    def text(self) -> str:
        """Both sides around the sign, in parentheses where they bind weaker."""
        sides = []
        for side in (self.left, self.right):
            weaker = isinstance(side, Operation) and _STRENGTH[side.sign] < _STRENGTH[self.sign]
            sides.append(f"({side.text()})" if weaker else side.text())
        return f"{sides[0]} {self.sign} {sides[1]}"

    def fields(self) -> frozenset[str]:
        """Those of both sides."""
        return self.left.fields() | self.right.fields()


@dataclass(frozen=True)
class Named(Expression):
    """An expression with a name, which stands for it in other expressions' text."""

    name: str
    meaning: Expression

    def on(self, reader: FieldReader) -> Any:
        """The meaning's value, under its name."""
        return reader.named(self.name, lambda: self.meaning.on(reader))

    def text(self) -> str:
        """The name."""
        return self.name

    def fields(self) -> frozenset[str]:
        """Those of the meaning."""
        return self.meaning.fields()


def expression(value: Expression | int) -> Expression:
    """The value itself, or a number as an expression."""
    return value if isinstance(value, Expression) else Number(value)
