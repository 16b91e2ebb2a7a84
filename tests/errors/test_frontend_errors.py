"""Every mistake in tensors, computations and their inputs gives its own whole message."""

# The parameters of these functions name axes, used or not.
# ruff: noqa: ARG005

import numpy as np
import pytest
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
        "dtype of placeholder 'A' must be one of int8, int16, int32, int64, uint8, uint16, uint32, bool, not "
        "'float32'."),
    Mistake("index_tensor", lambda: placeholder((4,), "index", "A"), TensorError,
        "dtype of placeholder 'A' must be one of int8, int16, int32, int64, uint8, uint16, uint32, bool, not 'index'."),
    Mistake("astype_unknown", computing(lambda i, j: A[i, j].astype("int4")), TensorError,
        "dtype of the conversion of A[i, j] must be one of int8, int16, int32, int64, uint8, uint16, uint32, bool, "
        "index, not 'int4'."),
    Mistake("zero_extent", lambda: placeholder((4, 0), "int8", "A"), TensorError,
        "extent of dimension 1 of placeholder 'A' must be a positive integer, not 0. A tensor has at least one "
        "element."),
    Mistake("negative_extent", computing(lambda i, j: A[i, j], (-1, 8)), TensorError,
        "extent of dimension 0 of computation 'C' must be a positive integer, not -1. A tensor has at least one "
        "element."),
    Mistake("fraction_extent", lambda: placeholder((4, 2.5), "int8", "A"), TensorError,
        "extent of dimension 1 of placeholder 'A' must be a positive integer, not 2.5. A tensor has at least one "
        "element."),
    Mistake("shape_text", lambda: placeholder("44", "int8", "A"), TensorError,
        "shape of placeholder 'A' must be an integer or a sequence of integers, not '44'."),
    Mistake("bad_name", lambda: placeholder((4,), "int8", "2A"), TensorError,
        "name of a placeholder must start with a letter or _ and consist of letters, digits, _ and inner dots, not "
        "'2A'."),
    Mistake("empty_axis", lambda: reduce_axis((3, 3), "k"), TensorError,
        "bounds of reduction axis 'k' must hold at least one point, not start 3 and stop 3. The stop is the first "
        "value after the last."),
    Mistake("axis_bounds", lambda: reduce_axis((3,), "k"), TensorError,
        "bounds of reduction axis 'k' must be two integers (start, stop), not (3,)."),
    Mistake("params", computing(lambda i: A[i, i]), TensorError,
        "parameters of the function of computation 'C' must be 2, one per dimension, not 1. Write lambda *indices to "
        "take any number."),
    Mistake("empty_tuple", computing(lambda i, j: ()), TensorError,
        "expressions of computation 'C' must be one or more, not an empty tuple."),
    Mistake("index_body", computing(lambda i, j: i * 8 + j), TensorError,
        "expression of computation 'C' must have a tensor dtype, not index: i * 8 + j. Convert it, as in "
        'x.astype("int32"), or write const(value, "int32").'),
    Mistake("const_body", computing(lambda i, j: 0), TensorError,
        "expression of computation 'C' must have a tensor dtype, not index: 0. Convert it, as in "
        'x.astype("int32"), or write const(value, "int32").'),
    Mistake("none_body", computing(lambda i, j: None), TensorError,
        "expression of computation 'C' must be an expression, an axis or an integer, not None."),
    Mistake("reduce_inside", computing(lambda i, j: sum(A[i, r], axis=r) + 1), TensorError,
        "reduction of computation 'C' must stand at the top of its expression, not inside another: sum(A[i, r], "
        "axis=r). Give the reduction a computation of its own and read its result here."),
    Mistake("free_reduce", computing(lambda i, j: A[i, r]), TensorError,
        "axis 'r' of computation 'C' must be one of its own axes or be reduced over, not used freely: A[i, r]. Write "
        "sum(..., axis=r), max or min around the expression."),
    Mistake("foreign_axis", computing(lambda i, j: A[copied.computation.axes[0], j]), TensorError,
        "axis 'i' of computation 'C' must be one of its own axes or be reduced over, not used freely: A[i, j]. Write "
        "sum(..., axis=i), max or min around the expression."),
    Mistake("different_reduce", computing(lambda i, j: (sum(A[i, r], axis=r), sum(A[i, k], axis=k))), TensorError,
        "expressions of computation 'C' must all reduce over the same axes, not over (r) and (k). Split it into two "
        "computations."),
    Mistake("axis_names", computing(lambda i, r: sum(A[i, s], axis=s)), TensorError,
        "axes of computation 'C' must have different names, not 'r' twice. The data axes are named by the function's "
        "parameters."),
    Mistake("reduce_data_axis", computing(lambda i, j: sum(A[i, j], axis=j)), TensorError,
        "axis of sum must be a reduction axis or a sequence of them, not j. Make one with reduce_axis((start, stop), "
        'name="k").'),
    Mistake("reduce_nothing", computing(lambda i, j: sum(A[i, j], axis=None)), TensorError,
        "axis of sum must be a reduction axis or a sequence of them, not None. Make one with reduce_axis((start, "
        'stop), name="k").'),
    Mistake("reduce_twice", computing(lambda i, j: sum(A[i, r], axis=(r, r))), TensorError,
        "axes of sum must be different, not r, r."),
    Mistake("reduce_bool", computing(lambda i, j: sum(M[i, r], axis=r)), TensorError,
        "operand of sum must be integers of a tensor dtype, not bool: M[i, r]. Convert it first, as in "
        'x.astype("int32").'),
    Mistake("reduce_index", computing(lambda i, j: max(r * 2, axis=r)), TensorError,
        "operand of max must be integers of a tensor dtype, not index: r * 2. Convert it first, as in "
        'x.astype("int32").'),
    Mistake("max_neither", computing(lambda i, j: max(A[i, j])), TensorError,
        "max must be given either a second expression or axis=, not neither: max(x, y) is element-wise, max(x, "
        "axis=k) reduces."),
    Mistake("max_both", computing(lambda i, j: max(A[i, r], A[i, j], axis=r)), TensorError,
        "max must be given either a second expression or axis=, not both: max(x, y) is element-wise, max(x, axis=k) "
        "reduces."),
    Mistake("dom_plain", computing(lambda i, j: A[i + 1, j]), DomainError,
        "read A[i + 1, j] of computation 'C' must stay inside the shape (8, 8) of tensor 'A', not reach A[8, 0] at i "
        "= 7, j = 0. Shrink the domain, or guard the read with select(condition, read, 0)."),
    Mistake("dom_guard", computing(lambda i, j: select(i < 8, A[i + 1, j], 0)), DomainError,
        "read A[i + 1, j] of computation 'C' must stay inside the shape (8, 8) of tensor 'A', not reach A[8, 0] at i "
        "= 7, j = 0. Shrink the domain, or guard the read with select(condition, read, 0)."),
    Mistake("dom_data_guard", computing(lambda i, j: select(A[i, j] > 0, A[i + 1, j], 0)), DomainError,
        "read A[i + 1, j] of computation 'C' must stay inside the shape (8, 8) of tensor 'A', not reach A[8, 0] at i "
        "= 7, j = 0. A condition that reads data cannot keep a read inside. Shrink the domain, or guard the read "
        "with select(condition, read, 0)."),
    Mistake("dom_data_index", computing(lambda i, j: V[A[i, j]]), DomainError,
        "index 0 of read V[index(A[i, j])] of computation 'C' must lie within 0 to 9 for the shape (10,) of tensor "
        "'V', not -128 to 127: A[i, j] may be any int8. Limit it, as in min(max(index, 0), 9)."),
    Mistake("dom_square", computing(lambda x, r: V[x * x + r], (4, 3)), DomainError,
        "read V[x * x + r] of computation 'C' must stay inside the shape (10,) of tensor 'V', not reach V[10] at x = "
        "3, r = 1. Shrink the domain, or guard the read with select(condition, read, 0)."),
    Mistake("dom_undecided", computing(lambda y, x: V[y * x * x * x - y], (1 << 14, 1 << 14)), DomainError,
        "index 0 of read V[y * x * x * x - y] of computation 'C' must be shown to lie within 0 to 9 for the shape "
        "(10,) of tensor 'V', not within -16383 to 72040003462430721, which is all that its form tells: it is not "
        "affine, and 268435456 points are too many to visit. Limit it, as in min(max(index, 0), 9)."),
    Mistake("dom_point", computing(lambda: V[10], ()), DomainError,
        "read V[10] of computation 'C' must stay inside the shape (10,) of tensor 'V', not reach V[10] at its only "
        "point. Shrink the domain, or guard the read with select(condition, read, 0)."),
    Mistake("notcallable", lambda: compute((4,), 3), TensorError,
        "expression of computation 'compute' must be given as a function of its axes, as in lambda i, j: ..., not 3."),
    Mistake("dup_names",
        lambda: topological(compute((8, 8), lambda i, j: A[i, j] + placeholder((8, 8), "int8", "A")[i, j], "C")),
        TensorError,
        "names of the tensors of a program must be different, not 'A' twice: Tensor(A: int8[8, 8]) and Tensor(A: "
        "int8[8, 8]). Pass name= to one of them."),
    Mistake("outputs_none", lambda: topological([]), TensorError,
        "outputs of a program must be one tensor or several, not []."),
    Mistake("outputs_bad", lambda: topological([A, 3]), TensorError, "outputs of a program must be tensors, not 3."),
    Mistake("in_missing",
        lambda: reference(compute((8, 8), lambda i, j: A[i, j].astype("int32") + B[i, j], "C"), {"A": a8}), InputError,
        "inputs of the program must hold an array for 'B', which is missing. It needs 'A', 'B'."),
    Mistake("in_unknown", lambda: reference(copied, {"A": a8, "X": a8}), InputError,
        "inputs of the program must be its placeholders only, not 'X'. It needs 'A'."),
    Mistake("in_shape", lambda: reference(copied, {"A": np.zeros((8, 7), np.int8)}), InputError,
        "shape of input 'A' must be (8, 8), not (8, 7)."),
    Mistake("in_dtype", lambda: reference(copied, {"A": np.zeros((8, 8), np.int32)}), InputError,
        "dtype of input 'A' must be int8, not int32. Convert it, as in array.astype(\"int8\")."),
    Mistake("in_list", lambda: reference(copied, {"A": [[1]]}), InputError,
        "shape of input 'A' must be (8, 8), not (1, 1)."),
    Mistake("in_ragged", lambda: reference(copied, {"A": [[1], [2, 3]]}), InputError,
        "input 'A' must be an array of int8, not [[1], [2, 3]], which is ragged."),
    Mistake("in_range", lambda: reference(copied, {"A": [[300] * 8] * 8}), InputError,
        "input 'A' must be an array of int8, not a list with 300, which int8 does not hold."),
    Mistake("in_none", lambda: reference(copied, {"A": None}), InputError,
        "input 'A' must be an array of int8, not None."),
    Mistake("in_notdict", lambda: reference(copied, [0, 0]), InputError,
        "inputs of the program must be a dictionary of arrays by name, not [0, 0]."),
]
# fmt: on


def written_out(terms):
    """An expression of ``terms`` reads, one added to the sum of the others."""

    def function(i, j):
        total = A[i, j]
        for _ in range(terms - 1):
            total = total + A[i, j]
        return total

    return computing(function)


def test_expressions_have_a_depth_limit():
    total = written_out(199)()
    assert np.array_equal(reference(total, {"A": a8 + 1}), np.full((8, 8), 199, np.uint8).astype(np.int8))
    with pytest.raises(TensorError) as caught:
        written_out(5000)()
    assert str(caught.value) == (
        "expression of computation 'C' must be at most 200 levels deep, not 5001. "
        "Sum over a reduction axis instead of writing the terms out, or split it into several computations."
    )


def test_the_value_that_a_message_quotes_is_cut_to_one_line():
    with pytest.raises(InputError) as caught:
        reference(copied, [np.zeros((100, 100))])
    assert str(caught.value) == (
        "inputs of the program must be a dictionary of arrays by name, not "
        "[array([[0., 0., 0., ..., 0., 0., 0.], [0., 0., 0., ..., ...."
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case):
    check_message(case)
