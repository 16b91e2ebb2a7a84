"""Index expressions in their simplest form, against their values at every point."""

import random

import numpy as np
import pytest

from lathe.frontend import Axis, as_affine, evaluate, walk
from lathe.frontend.expressions import AxisRef, Binary, Const, Expr
from lathe.frontend.indices.simplify import simplified_index

I, J = Axis("i", 6), Axis("j", 20)


def values(expr: Expr, axes: list[Axis]) -> list[int]:
    grids = dict(zip(axes, np.indices([axis.extent for axis in axes], np.int64, sparse=True), strict=True))
    return np.broadcast_to(evaluate(expr, grids), [axis.extent for axis in axes]).ravel().tolist()


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((I * 20 + J) // 60, "i // 3"),
        ((I * 20 + J) // 20, "i"),
        ((I * 20 + J) // 20 % 3, "i % 3"),
        ((I * 20 + J) // 5 % 4, "j // 5"),
        ((I * 20 + J) % 5, "j % 5"),
        ((I * 20 + J) % 60, "i % 3 * 20 + j"),
        ((I * 20 + J + 40) // 20, "i + 2"),
    ],
    ids=str,
)
def test_divisions_come_apart(expr, expected):
    simple = simplified_index(expr)
    assert str(simple) == expected
    assert values(simple, [I, J]) == values(expr, [I, J])


def test_random_expressions_keep_their_values():
    generator = random.Random(5)
    axes = [Axis(name, generator.randint(1, 9)) for name in "abc"]

    def grown(depth: int) -> Expr:
        if depth == 0:
            return AxisRef(generator.choice(axes))
        inner = grown(depth - 1)
        op = generator.choice(["floordiv", "mod", "mul", "add"])
        if op == "add":
            return Binary("add", inner, grown(depth - 1))
        return Binary(op, inner, Const(generator.choice([1, 2, 3, 4, 6, 12, 20]), "index"))

    changed = 0
    for _ in range(400):
        expr = grown(generator.randint(1, 5))
        simple = simplified_index(expr)
        assert values(simple, axes) == values(expr, axes), str(expr)
        changed += as_affine(simple) is None and len(list(walk(simple))) < len(list(walk(expr)))
    assert changed > 10
