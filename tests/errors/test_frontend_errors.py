"""Errors of invalid tensors, computations and inputs, with the names and values that their messages mention."""

# The parameters of these functions name axes, used or not.
# ruff: noqa: ARG005

import numpy as np
import pytest
from error_checks import raises
from mistaken_programs import A, B, M, Mistake, V, a8, check_message, computing, k, r, s

from lathe.frontend import (
    DomainError,
    InputError,
    TensorError,
    compute,
    max,
    placeholder,
    reduce_axis,
    reference,
    select,
    sum,
    topological,
)

copied = compute((8, 8), lambda i, j: A[i, j], "C")

# fmt: off
CASES = [
    Mistake("unknown_dtype", lambda: placeholder((4,), "float32", "A"), TensorError,
        ("'A'", "int8, int16, int32, int64, uint8, uint16, uint32, bool", "'float32'")),
    Mistake("index_tensor", lambda: placeholder((4,), "index", "A"), TensorError, ("'A'", "bool", "'index'")),
    Mistake("astype_unknown", computing(lambda i, j: A[i, j].astype("int4")), TensorError,
        ("A[i, j]", "bool, index", "'int4'")),
    Mistake("zero_extent", lambda: placeholder((4, 0), "int8", "A"), TensorError, ("dimension 1", "'A'", 0)),
    Mistake("negative_extent", computing(lambda i, j: A[i, j], (-1, 8)), TensorError, ("dimension 0", "'C'", -1)),
    Mistake("fraction_extent", lambda: placeholder((4, 2.5), "int8", "A"), TensorError, ("dimension 1", "'A'", 2.5)),
    Mistake("shape_text", lambda: placeholder("44", "int8", "A"), TensorError, ("shape", "'A'", "'44'")),
    Mistake("bad_name", lambda: placeholder((4,), "int8", "2A"), TensorError, ("name", "placeholder", "'2A'")),
    Mistake("empty_axis", lambda: reduce_axis((3, 3), "k"), TensorError, ("'k'", "start 3", "stop 3")),
    Mistake("axis_bounds", lambda: reduce_axis((3,), "k"), TensorError, ("'k'", "(start, stop)", "(3,)")),
    Mistake("params", computing(lambda i: A[i, i]), TensorError, ("parameters", "'C'", 2, 1)),
    Mistake("empty_tuple", computing(lambda i, j: ()), TensorError, ("'C'", "empty tuple")),
    Mistake("index_body", computing(lambda i, j: i * 8 + j), TensorError,
        ("'C'", "dtype", "index", "i * 8 + j", 'x.astype("int32")')),
    Mistake("const_body", computing(lambda i, j: 0), TensorError, ("'C'", "dtype", "index", 'const(value, "int32")')),
    Mistake("none_body", computing(lambda i, j: None), TensorError, ("'C'", "None")),
    Mistake("reduce_inside", computing(lambda i, j: sum(A[i, r], axis=r) + 1), TensorError,
        ("reduction", "'C'", "sum(A[i, r], axis=r)")),
    Mistake("free_reduce", computing(lambda i, j: A[i, r]), TensorError, ("'r'", "'C'", "A[i, r]", "sum(..., axis=r)")),
    Mistake("foreign_axis", computing(lambda i, j: A[copied.computation.axes[0], j]), TensorError,
        ("'i'", "'C'", "A[i, j]", "sum(..., axis=i)")),
    Mistake("different_reduce", computing(lambda i, j: (sum(A[i, r], axis=r), sum(A[i, k], axis=k))), TensorError,
        ("'C'", "(r)", "(k)")),
    Mistake("axis_names", computing(lambda i, r: sum(A[i, s], axis=s)), TensorError, ("'C'", "names", "'r'")),
    Mistake("reduce_data_axis", computing(lambda i, j: sum(A[i, j], axis=j)), TensorError,
        ("axis of sum", "j", 'reduce_axis((start, stop), name="k")')),
    Mistake("reduce_nothing", computing(lambda i, j: sum(A[i, j], axis=None)), TensorError,
        ("axis of sum", "None", 'reduce_axis((start, stop), name="k")')),
    Mistake("reduce_twice", computing(lambda i, j: sum(A[i, r], axis=(r, r))), TensorError, ("axes of sum", "r, r")),
    Mistake("reduce_bool", computing(lambda i, j: sum(M[i, r], axis=r)), TensorError,
        ("operand of sum", "bool", "M[i, r]", 'x.astype("int32")')),
    Mistake("reduce_index", computing(lambda i, j: max(r * 2, axis=r)), TensorError,
        ("operand of max", "index", "r * 2", 'x.astype("int32")')),
    Mistake("max_neither", computing(lambda i, j: max(A[i, j])), TensorError, ("max", "neither", "max(x, axis=k)")),
    Mistake("max_both", computing(lambda i, j: max(A[i, r], A[i, j], axis=r)), TensorError,
        ("max", "both", "max(x, axis=k)")),
    Mistake("dom_plain", computing(lambda i, j: A[i + 1, j]), DomainError,
        ("A[i + 1, j]", "'C'", "(8, 8)", "'A'", "A[8, 0]", "i = 7, j = 0", "select(condition, read, 0)")),
    Mistake("dom_guard", computing(lambda i, j: select(i < 8, A[i + 1, j], 0)), DomainError,
        ("A[i + 1, j]", "'C'", "(8, 8)", "'A'", "A[8, 0]", "i = 7, j = 0")),
    Mistake("dom_data_guard", computing(lambda i, j: select(A[i, j] > 0, A[i + 1, j], 0)), DomainError,
        ("A[i + 1, j]", "'C'", "(8, 8)", "'A'", "A[8, 0]", "i = 7, j = 0", "Conditions on data")),
    Mistake("dom_data_index", computing(lambda i, j: V[A[i, j]]), DomainError,
        ("index 0", "V[index(A[i, j])]", "'C'", "0 to 9", "(10,)", "'V'", "-128 to 127", "int8",
        "min(max(index, 0), 9)")),
    Mistake("dom_square", computing(lambda x, r: V[x * x + r], (4, 3)), DomainError,
        ("V[x * x + r]", "'C'", "(10,)", "'V'", "V[10]", "x = 3, r = 1")),
    Mistake("dom_undecided", computing(lambda y, x: V[y * x * x * x - y], (1 << 14, 1 << 14)), DomainError,
        ("index 0", "V[y * x * x * x - y]", "'C'", "0 to 9", "(10,)", "'V'", "-16383 to 72040003462430721", 268435456,
        "min(max(index, 0), 9)")),
    Mistake("dom_point", computing(lambda: V[10], ()), DomainError,
        ("read V[10]", "'C'", "(10,)", "'V'", "reach V[10]")),
    Mistake("notcallable", lambda: compute((4,), 3), TensorError, ("'compute'", "function", 3)),
    Mistake("dup_names",
        lambda: topological(compute((8, 8), lambda i, j: A[i, j] + placeholder((8, 8), "int8", "A")[i, j], "C")),
        TensorError, ("names", "'A'", "Tensor(A: int8[8, 8]) and Tensor(A: int8[8, 8])", "name=")),
    Mistake("outputs_none", lambda: topological([]), TensorError, ("outputs", "[]")),
    Mistake("outputs_bad", lambda: topological([A, 3]), TensorError, ("outputs", 3)),
    Mistake("in_missing",
        lambda: reference(compute((8, 8), lambda i, j: A[i, j].astype("int32") + B[i, j], "C"), {"A": a8}), InputError,
        ("inputs", "'B'", "missing", "'A', 'B'")),
    Mistake("in_unknown", lambda: reference(copied, {"A": a8, "X": a8}), InputError, ("inputs", "'X'", "'A'")),
    Mistake("in_shape", lambda: reference(copied, {"A": np.zeros((8, 7), np.int8)}), InputError,
        ("shape", "'A'", "(8, 8)", "(8, 7)")),
    Mistake("in_dtype", lambda: reference(copied, {"A": np.zeros((8, 8), np.int32)}), InputError,
        ("dtype", "'A'", "int8", "int32", 'array.astype("int8")')),
    Mistake("in_list", lambda: reference(copied, {"A": [[1]]}), InputError, ("shape", "'A'", "(8, 8)", "(1, 1)")),
    Mistake("in_ragged", lambda: reference(copied, {"A": [[1], [2, 3]]}), InputError,
        ("'A'", "int8", "[[1], [2, 3]]", "ragged")),
    Mistake("in_range", lambda: reference(copied, {"A": [[300] * 8] * 8}), InputError, ("'A'", "int8", 300)),
    Mistake("in_none", lambda: reference(copied, {"A": None}), InputError, ("'A'", "int8", "None")),
    Mistake("in_notdict", lambda: reference(copied, [0, 0]), InputError, ("inputs", "dictionary", "[0, 0]")),
]
# fmt: on


def unrolled_sum(terms):
    """A computation of an unrolled sum of ``terms`` reads."""

    def function(i, j):
        total = A[i, j]
        for _ in range(terms - 1):
            total = total + A[i, j]
        return total

    return computing(function)


def test_expressions_have_a_depth_limit():
    total = unrolled_sum(199)()
    assert np.array_equal(reference(total, {"A": a8 + 1}), np.full((8, 8), 199, np.uint8).astype(np.int8))
    raises(TensorError, unrolled_sum(5000), mentions=("'C'", 200, 5001, "reduction axis"))


def test_a_value_in_a_message_is_truncated_to_one_line():
    quoted = "[array([[0., 0., 0., ..., 0., 0., 0.], [0., 0., 0., ..., ...."
    error = raises(InputError, reference, copied, [np.zeros((100, 100))], mentions=("inputs", quoted))
    assert "\n" not in str(error)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case):
    check_message(case)
