"""Errors of invalid expressions, with the names and values that their messages mention."""

# The parameters of these functions name axes, used or not.
# ruff: noqa: ARG005

import builtins

import pytest
from mistaken_programs import A, B, M, Mistake, V, a8, check_message, computing, k, r

from lathe.frontend import (
    TensorError,
    const,
    max,
    select,
)

# fmt: off
CASES = [
    Mistake("mixed", computing(lambda i, j: A[i, j] + B[i, j]), TensorError,
        ("A[i, j] + B[i, j]", "int8 and int32", 'A[i, j].astype("int32")')),
    Mistake("mixed_index", computing(lambda i, j: B[i, j] * j), TensorError,
        ("B[i, j] * j", "int32 and index", 'j.astype("int32")')),
    Mistake("mixed_select", computing(lambda i, j: select(M[i, j], A[i, j], B[i, j])), TensorError,
        ("select(A[i, j], B[i, j])", "int8 and int32", 'A[i, j].astype("int32")')),
    Mistake("mixed_max", computing(lambda i, j: max(A[i, j], B[i, j])), TensorError,
        ("max(A[i, j], B[i, j])", "int8 and int32", 'A[i, j].astype("int32")')),
    Mistake("const_range", computing(lambda i, j: A[i, j] + 300), TensorError,
        ("A[i, j] + 300", "int8", "-128 to 127", "not 300", 'A[i, j].astype("int16")')),
    Mistake("const_clip", computing(lambda i, j: max(A[i, j], -129)), TensorError,
        ("max(A[i, j], -129)", "int8", "-128 to 127", "not -129", 'A[i, j].astype("int16")')),
    Mistake("const_value", lambda: const(256, "uint8"), TensorError, ("constant", "uint8", "0 to 255", 256)),
    Mistake("const_type", lambda: const("7", "uint8"), TensorError, ("constant", "'7'")),
    Mistake("bool_arith", computing(lambda i, j: M[i, j] + M[j, i]), TensorError,
        ("M[i, j] + M[j, i]", "bool", 'x.astype("int32")')),
    Mistake("bool_int", computing(lambda i, j: M[i, j] + 1), TensorError,
        ("M[i, j] + 1", "bool", "integer", 'M[i, j].astype("int32")')),
    Mistake("and_int", computing(lambda i, j: A[i, j] & A[j, i]), TensorError,
        ("A[i, j] & A[j, i]", "bool", "int8", "x != 0")),
    Mistake("not_int", computing(lambda i, j: ~A[i, j]), TensorError, ("~A[i, j]", "bool", "int8", "x != 0")),
    Mistake("less_bool", computing(lambda i, j: M[i, j] < M[j, i]), TensorError, ("M[i, j] < M[j, i]", "bool")),
    Mistake("select_cond", computing(lambda i, j: select(A[i, j], A[i, j], 0)), TensorError,
        ("condition", "bool", "int8", "select(A[i, j], A[i, j], 0)", "x != 0")),
    Mistake("select_pybool", computing(lambda i, j: select(r == k, A[i, j], 0)), TensorError,
        ("condition of select", "False", 'const(True, "bool")', "i + 0 == j")),
    Mistake("whole_tensor", computing(lambda i, j: A + A[i, j]), TensorError, ("operand of +", "'A'", "A[i, j]")),
    Mistake("two_tensors", lambda: A + B, TensorError, ("operand of +", "'A'", "A[i, j]")),
    Mistake("string", computing(lambda i, j: A[i, j] + "1"), TensorError, ("operand of +", "'1'")),
    Mistake("truth", computing(lambda i, j: A[i, j] if i < 3 else 0), TensorError,
        ("i < 3", "select(condition, then, otherwise)", "&, | and ~", "max and min")),
    Mistake("truediv", computing(lambda i, j: A[i, j] / 2), TensorError, ("division", "//", "not /")),
    Mistake("div0", computing(lambda i, j: A[i, j] // 0), TensorError, ("divisor", "A[i, j] // 0")),
    Mistake("index_overflow", computing(lambda i, j: A[i, const(2**62, "index") * 4]), TensorError,
        ("4611686018427387904 * 4", "64 bits", 18446744073709551616)),
    Mistake("indices_count", computing(lambda i, j: A[i]), TensorError, ("indices", "'A'", 2, "(8, 8)", 1)),
    Mistake("slice", computing(lambda i, j: A[i, :]), TensorError, ("index", "'A'", "slice")),
    Mistake("bool_index", computing(lambda i, j: A[i, j < 3]), TensorError,
        ("index", "'A'", "bool", "j < 3", 'x.astype("index")')),
    Mistake("mixed_sum", computing(lambda i, j: (A[i, j] + A[j, i]) * B[i, j]), TensorError,
        ("(A[i, j] + A[j, i]) * B[i, j]", "int8 and int32", '(A[i, j] + A[j, i]).astype("int32")')),
    Mistake("np_array", computing(lambda i, j: a8 + A[i, j]), TensorError, ("operand of +", "array([[0, 0, 0")),
    Mistake("iter", lambda: list(V), TensorError, ("iterate", "'V'", "V[i, j]", "sum, prod, max or min")),
    Mistake("builtin_max", computing(lambda i, j: builtins.max(A[i, j], 0)), TensorError,
        ("A[i, j] < 0", "select(condition, then, otherwise)", "max and min")),
    Mistake("builtin_sum", lambda: builtins.sum(V), TensorError, ("iterate", "'V'", "sum, prod, max or min")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case):
    check_message(case)
