"""Random index expressions and conditions, in all dtypes that they may be computed in, and their values in NumPy."""

import random
from collections.abc import Mapping, Sequence

import numpy as np

from lathe.frontend import Axis, AxisRef, Binary, Cast, Compare, Const, Expr, Not, Select, evaluate

NUMBERS = [-6, -3, -1, 1, 2, 3, 4, 6, 8, 16]


def random_axes(rng: random.Random) -> list[Axis]:
    return [Axis(name, rng.randint(1, 8), rng.choice([0, 0, 0, -2, 1])) for name in "abc"]


def random_index(rng: random.Random, axes: Sequence[Axis], depth: int, dtype: str = "index") -> Expr:
    """An expression of some dtype; in dtypes other than ``index`` it may overflow."""

    def part(of: str = dtype) -> Expr:
        return random_index(rng, axes, depth - 1, of)

    def number() -> Expr:
        return Const(rng.choice([n for n in NUMBERS if n > 0 or dtype != "uint8"]), dtype)

    if depth == 0 or rng.random() < 0.1:
        leaf = Const(rng.randint(0, 20), "index") if rng.random() < 0.2 else AxisRef(rng.choice(axes))
        return leaf if dtype == "index" else Cast(leaf, dtype)
    match rng.choices(
        ["sum", "times", "divided", "extremum", "free", "shift", "choice", "cast"], [6, 4, 7, 2, 1, 1, 1, 3]
    ):
        case ["sum"]:
            return Binary(rng.choice(["add", "sub"]), part(), part())
        case ["times"]:
            return Binary("mul", *rng.sample([part(), number()], 2))
        case ["divided"]:
            return Binary(rng.choice(["floordiv", "mod"]), part(), number())
        case ["extremum"]:
            return Binary(rng.choice(["min", "max"]), part(), part())
        case ["free"]:
            return Binary(rng.choice(["mul", "mod", "floordiv"]), part(), part())
        case ["shift"]:
            return Binary(rng.choice(["shl", "shr"]), part(), Const(rng.randint(0, 3), dtype))
        case ["choice"]:
            return Select(random_condition(rng, axes, depth - 1), part(), part())
    return Cast(part(rng.choice(["int8", "uint8", "int32"]) if dtype == "index" else "index"), dtype)


def random_condition(rng: random.Random, axes: Sequence[Axis], depth: int) -> Expr:
    if depth > 0 and rng.random() < 0.4:
        left = random_condition(rng, axes, depth - 1)
        return rng.choice([Not(left), Binary(rng.choice(["and", "or"]), left, random_condition(rng, axes, depth - 1))])
    dtype = rng.choice(["index", "index", "index", "int8"])
    left, right = (random_index(rng, axes, rng.randint(0, max(depth, 1)), dtype) for _ in range(2))
    return Compare(rng.choice(["lt", "le", "gt", "ge", "eq", "ne"]), left, right)


def points_of_box(axes: Sequence[Axis]) -> list[dict[Axis, int]]:
    """All points of the box of some axes."""
    grid = np.indices([axis.extent for axis in axes]).reshape(len(axes), -1)
    return [{axis: int(n) + axis.start for axis, n in zip(axes, point, strict=True)} for point in grid.T]


def values(expr: Expr, points: Sequence[Mapping[Axis, int]]) -> list[int]:
    """NumPy's values of an expression at some points."""
    env = {axis: np.array([point[axis] for point in points]) for axis in points[0]}
    return [int(value) for value in np.broadcast_to(evaluate(expr, env), len(points))]
