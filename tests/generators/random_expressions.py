"""Random expressions with shared subexpressions, and with neutral and extreme constants."""

from collections.abc import Callable
from random import Random

from lathe.frontend import Expr, const, max, min, select
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.nodes import Cast

OPERATIONS = ("add", "sub", "mul", "min", "max", "shr", "shl", "floordiv", "mod", "square", "narrow")


def expression_of_shared_parts(generator: Random, parts: list[Expr]) -> Expr:
    """An expression whose operands are picked from earlier ones, so that many are shared."""
    for _ in range(generator.randint(2, 9)):
        lhs, rhs = generator.choice(parts), generator.choice([*parts, parts[-1]])
        match generator.choice(OPERATIONS):
            case "add":
                part = lhs + rhs
            case "sub":
                part = lhs - generator.choice([rhs, rhs, 5])
            case "mul":
                part = lhs * rhs
            case "min":
                part = min(lhs, generator.choice([rhs, 40000, -3]))
            case "max":
                part = max(lhs, generator.choice([rhs, 100, -70000]))
            case "shr":
                part = lhs >> generator.choice([3, rhs])
            case "shl":
                part = lhs << generator.choice([2, rhs])
            case "floordiv":
                part = lhs // 8
            case "mod":
                part = lhs % 8
            case "square":
                part = lhs * lhs
            case _:
                part = lhs.astype(generator.choice(["int8", "int16"])).astype("int32")
        parts.append(part)
    return parts[-1]


TYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64")
OPERATORS: list[Callable[[Expr, Expr], Expr]] = [
    lambda p, q: p + q,
    lambda p, q: p - q,
    lambda p, q: p * q,
    lambda p, q: p >> q,
    lambda p, q: p << q,
    lambda p, q: max(p, q),
    lambda p, q: min(p, q),
    lambda p, q: select(p > q, p, q),
    lambda p, q: select((p > q) & (q <= p), q, q),
]


def expression_of_constants(random: Random, parts: dict[str, list[Expr]]) -> Expr:
    """An expression with many neutral and extreme constants, over shared subexpressions."""
    made = parts["int32"][0]
    for _ in range(random.randint(2, 12)):
        dtype = random.choice(TYPES)
        ends = DTYPES[dtype].minimum, DTYPES[dtype].maximum
        constant = const(random.choice([0, 0, 1, 1, 2, 7, *ends]), dtype)
        operands = [random.choice(parts[dtype]), random.choice([constant, constant, random.choice(parts[dtype])])]
        random.shuffle(operands)
        divided = random.random() < 0.2
        made = operands[0] // 3 % 1 if divided else random.choice(OPERATORS)(operands[0], operands[1])
        parts[dtype].append(made)
        other = random.choice(TYPES)
        if other != dtype:
            made = Cast(made, other)
            parts[other].append(made)
    return made
