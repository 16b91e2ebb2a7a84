"""Every mistake that an expression can hold gives its own whole message."""

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
        "operands of A[i, j] + B[i, j] must have one dtype, not int8 and int32. Convert one of them, as in A[i, "
        'j].astype("int32").'),
    Mistake("mixed_index", computing(lambda i, j: B[i, j] * j), TensorError,
        "operands of B[i, j] * j must have one dtype, not int32 and index. Convert one of them, as in "
        'j.astype("int32").'),
    Mistake("mixed_select", computing(lambda i, j: select(M[i, j], A[i, j], B[i, j])), TensorError,
        "operands of select(A[i, j], B[i, j]) must have one dtype, not int8 and int32. Convert one of them, as in "
        'A[i, j].astype("int32").'),
    Mistake("mixed_max", computing(lambda i, j: max(A[i, j], B[i, j])), TensorError,
        "operands of max(A[i, j], B[i, j]) must have one dtype, not int8 and int32. Convert one of them, as in A[i, "
        'j].astype("int32").'),
    Mistake("const_range", computing(lambda i, j: A[i, j] + 300), TensorError,
        "constant of A[i, j] + 300 must fit int8, -128 to 127, not 300. Convert the other operand first, as in A[i, "
        'j].astype("int16").'),
    Mistake("const_clip", computing(lambda i, j: max(A[i, j], -129)), TensorError,
        "constant of max(A[i, j], -129) must fit int8, -128 to 127, not -129. Convert the other operand first, as in "
        'A[i, j].astype("int16").'),
    Mistake("const_value", lambda: const(256, "uint8"), TensorError,
        "value of a constant of dtype uint8 must be 0 to 255, not 256."),
    Mistake("const_type", lambda: const("7", "uint8"), TensorError,
        "value of a constant must be an integer, not '7'."),
    Mistake("bool_arith", computing(lambda i, j: M[i, j] + M[j, i]), TensorError,
        'operands of M[i, j] + M[j, i] must be integers, not bool. Convert first, as in x.astype("int32").'),
    Mistake("bool_int", computing(lambda i, j: M[i, j] + 1), TensorError,
        "operands of M[i, j] + 1 must have one dtype, not bool and an integer. Convert the truth value first, as in "
        'M[i, j].astype("int32").'),
    Mistake("and_int", computing(lambda i, j: A[i, j] & A[j, i]), TensorError,
        "operands of A[i, j] & A[j, i] must be bool, not int8. Compare first, as in x != 0."),
    Mistake("not_int", computing(lambda i, j: ~A[i, j]), TensorError,
        "operand of ~A[i, j] must be bool, not int8. Compare first, as in x != 0."),
    Mistake("less_bool", computing(lambda i, j: M[i, j] < M[j, i]), TensorError,
        "operands of M[i, j] < M[j, i] must be integers, not bool."),
    Mistake("select_cond", computing(lambda i, j: select(A[i, j], A[i, j], 0)), TensorError,
        "condition of select must be bool, not int8: select(A[i, j], A[i, j], 0). Compare first, as in x != 0."),
    Mistake("select_pybool", computing(lambda i, j: select(r == k, A[i, j], 0)), TensorError,
        'condition of select must be an expression, not the Python value False. Write const(True, "bool") for a '
        "constant truth value; comparing two axes needs an index expression on one side, as in i + 0 == j."),
    Mistake("whole_tensor", computing(lambda i, j: A + A[i, j]), TensorError,
        "operand of + must be an expression, not the whole tensor 'A'. Read an element of it, as in A[i, j] inside "
        "compute()."),
    Mistake("two_tensors", lambda: A + B, TensorError,
        "operand of + must be an expression, not the whole tensor 'A'. Read an element of it, as in A[i, j] inside "
        "compute()."),
    Mistake("string", computing(lambda i, j: A[i, j] + "1"), TensorError,
        "operand of + must be an expression, an axis or an integer, not '1'."),
    Mistake("truth", computing(lambda i, j: A[i, j] if i < 3 else 0), TensorError,
        "truth of an expression must be left to select(condition, then, otherwise), not taken by if, and, or, not or "
        "a chained comparison: i < 3 has a value at each point only. Write &, | and ~ for the logic, and Lathe's "
        "max and min for the larger and the smaller of two."),
    Mistake("truediv", computing(lambda i, j: A[i, j] / 2), TensorError,
        "division of expressions must be written //, which rounds down, not /."),
    Mistake("div0", computing(lambda i, j: A[i, j] // 0), TensorError,
        "divisor of A[i, j] // 0 must be a number other than zero, not 0."),
    Mistake("index_overflow", computing(lambda i, j: A[i, const(2**62, "index") * 4]), TensorError,
        "value of 4611686018427387904 * 4 must fit 64 bits, not be 18446744073709551616."),
    Mistake("indices_count", computing(lambda i, j: A[i]), TensorError,
        "indices of tensor 'A' must be 2, one per dimension of its shape (8, 8), not 1."),
    Mistake("slice", computing(lambda i, j: A[i, :]), TensorError,
        "index of tensor 'A' must be an integer, an axis or an expression, not a slice. Read one element and let "
        "compute() range over the axes."),
    Mistake("bool_index", computing(lambda i, j: A[i, j < 3]), TensorError,
        "index of tensor 'A' must be an integer, not the bool j < 3. Convert it first, as in x.astype(\"index\")."),
    Mistake("mixed_sum", computing(lambda i, j: (A[i, j] + A[j, i]) * B[i, j]), TensorError,
        "operands of (A[i, j] + A[j, i]) * B[i, j] must have one dtype, not int8 and int32. Convert one of them, as "
        'in (A[i, j] + A[j, i]).astype("int32").'),
    Mistake("np_array", computing(lambda i, j: a8 + A[i, j]), TensorError,
        "operand of + must be an expression, an axis or an integer, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, "
        "0, 0, 0, 0, 0]...."),
    Mistake("iter", lambda: list(V), TensorError,
        "elements of tensor 'V' must be read one by one, as in V[i, j], not iterated over. Reduce over them with "
        "Lathe's sum, prod, max or min and a reduction axis."),
    Mistake("builtin_max", computing(lambda i, j: builtins.max(A[i, j], 0)), TensorError,
        "truth of an expression must be left to select(condition, then, otherwise), not taken by if, and, or, not or "
        "a chained comparison: A[i, j] < 0 has a value at each point only. Write &, | and ~ for the logic, and "
        "Lathe's max and min for the larger and the smaller of two."),
    Mistake("builtin_sum", lambda: builtins.sum(V), TensorError,
        "elements of tensor 'V' must be read one by one, as in V[i, j], not iterated over. Reduce over them with "
        "Lathe's sum, prod, max or min and a reduction axis."),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case):
    check_message(case)
