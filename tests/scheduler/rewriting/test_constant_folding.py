"""Folded expressions have the same value, exact in every dtype, and the expected form for each identity."""

from random import Random

import numpy as np
import pytest
from random_expressions import TYPES, expression_of_constants
from seeds import check_each, event

from lathe.frontend import Expr, const, evaluate, max, min, placeholder, select, walk
from lathe.frontend.expr.nodes import Binary, Read
from lathe.scheduler.rewriting.constant_folding import fold_expr

X, Y = placeholder(4, "int32", "x"), placeholder(4, "int32", "y")
B = placeholder(4, "int8", "b")
x, y, b = X[0], Y[0], B[0]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (x + 0, x),
        (0 + x, x),
        (x - 0, x),
        (x * 1, x),
        (1 * x, x),
        (x >> 0, x),
        (x << 0, x),
        (x // 1, x),
        ((x + 0) * 1 >> 0, x),
        (max(x, -(1 << 31)), x),
        (min((1 << 31) - 1, x), x),
        (max(b, -128), b),
        (max(b.astype("int32"), -128).astype("int8"), b),
        (b.astype("int32").astype("int8"), b),
        (select(x > 0, x, x), x),
        (select(const(True, "bool"), x, y), None),  # would drop y
        (x + y * 0, None),
        (x * 0, None),
        (x % 1, None),
        (max(x, (1 << 31) - 1), None),
        (x - 0 * x, x),
        (0 - x, None),
        (0 >> x, None),
        (x + 1, None),
        (x - x, None),  # left to rule "alu"
        (max(b, -127), None),
        (x.astype("int8").astype("int32"), None),
        (b.astype("uint8").astype("int8"), None),
    ],
    ids=str,
)
def test_what_an_expression_is_folded_to(expr: Expr, expected: Expr | None) -> None:
    assert fold_expr(expr) is (expr if expected is None else expected)


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (const(100, "int8") + const(100, "int8"), -56),
        (const(-128, "int8") * const(-1, "int8"), -128),
        (const(-7, "int32") // const(2, "int32"), -4),
        (const(-7, "int32") % const(5, "int32"), 3),
        (const(1, "int32") << const(31, "int32"), -(1 << 31)),
        (const(1, "int32") << const(32, "int32"), 0),
        (const(300, "int32").astype("uint8"), 44),
        (select(const(3, "int32") > const(2, "int32"), const(5, "int32"), const(6, "int32")), 5),
    ],
    ids=str,
)
def test_constants_are_computed_as_their_dtype_has_them(expr: Expr, value: int) -> None:
    assert str(fold_expr(x.astype(expr.dtype) * expr)) == str(x.astype(expr.dtype) * value)


def check_expression(seed: int) -> None:
    random, numbers = Random(seed), np.random.default_rng(seed)
    tensors = {dtype: placeholder(64, dtype, f"t_{dtype}") for dtype in TYPES}
    expr = expression_of_constants(random, {dtype: [tensor[0]] for dtype, tensor in tensors.items()})
    found = fold_expr(expr)
    env = {}
    for tensor in tensors.values():
        ends = np.iinfo(tensor.dtype)
        env[tensor] = numbers.integers(ends.min, ends.max, 64, tensor.dtype, endpoint=True)
        env[tensor][0] = random.choice([0, 1, ends.min, ends.max, env[tensor][0]])
    value, wanted = evaluate(found, env), evaluate(expr, env)
    assert (value, value.dtype, found.dtype) == (wanted, wanted.dtype, expr.dtype), f"{expr}\n{found}"
    assert fold_expr(found) is found
    tensors_of = [{node.tensor for node in walk(each) if isinstance(node, Read)} for each in (expr, found)]
    assert tensors_of[0] == tensors_of[1]
    operations = [len({node for node in walk(each) if isinstance(node, Binary)}) for each in (expr, found)]
    assert operations[1] <= operations[0]
    if operations[1] < operations[0]:
        event("saved")


@pytest.mark.seeds(60, slow=3240)
def test_random_expressions_keep_their_values(seeds):
    assert check_each(seeds, check_expression)["saved"] > 0
