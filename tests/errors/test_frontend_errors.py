"""Every mistake that a tensor program can hold gives its own whole message."""

# The parameters of these functions name axes, used or not.
# ruff: noqa: ARG005

import builtins
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from lathe.configs.errors import LatheError
from lathe.frontend import (
    DomainError,
    InputError,
    TensorError,
    compute,
    const,
    max,
    placeholder,
    reduce_axis,
    reference,
    select,
    sum,
    topological,
)
from lathe.frontend.operators import (
    add,
    avg_pool2d,
    bias_add,
    clip,
    conv2d,
    flatten,
    matmul,
    max_pool2d,
    pad2d,
    relu,
    requantise,
    reshape,
)

A, B = placeholder((8, 8), "int8", "A"), placeholder((8, 8), "int32", "B")
M, V = placeholder((8, 8), "bool", "M"), placeholder((10,), "int8", "V")
D, W = placeholder((1, 8, 8, 4), "int8", "D"), placeholder((8, 3, 3, 4), "int8", "W")
I, bias = placeholder((1, 8, 8, 4), "int32", "I"), placeholder((3,), "int32", "bias")
k, r, s = reduce_axis((0, 4), "k"), reduce_axis((0, 8), "r"), reduce_axis((0, 8), "r")
a8 = np.zeros((8, 8), np.int8)
copied = compute((8, 8), lambda i, j: A[i, j], "C")


@dataclass(frozen=True)
class Case:
    name: str
    mistake: Callable[[], object]
    error: type[LatheError]
    message: str


def computing(function, shape=(8, 8), name="C"):
    return lambda: compute(shape, function, name)


CASES = [
    Case(
        "unknown_dtype",
        lambda: placeholder((4,), "float32", "A"),
        TensorError,
        "dtype of placeholder 'A' must be one of int8, int16, int32, int64, uint8, uint16, uint32, bool, "
        "not 'float32'.",
    ),
    Case(
        "index_tensor",
        lambda: placeholder((4,), "index", "A"),
        TensorError,
        "dtype of placeholder 'A' must be one of int8, int16, int32, int64, uint8, uint16, uint32, bool, not 'index'.",
    ),
    Case(
        "astype_unknown",
        computing(lambda i, j: A[i, j].astype("int4")),
        TensorError,
        "dtype of the conversion of A[i, j] must be one of int8, int16, int32, int64, uint8, uint16, "
        "uint32, bool, index, not 'int4'.",
    ),
    Case(
        "zero_extent",
        lambda: placeholder((4, 0), "int8", "A"),
        TensorError,
        "extent of dimension 1 of placeholder 'A' must be a positive integer, not 0. A tensor has at "
        "least one element.",
    ),
    Case(
        "negative_extent",
        computing(lambda i, j: A[i, j], (-1, 8)),
        TensorError,
        "extent of dimension 0 of computation 'C' must be a positive integer, not -1. A tensor has at "
        "least one element.",
    ),
    Case(
        "fraction_extent",
        lambda: placeholder((4, 2.5), "int8", "A"),
        TensorError,
        "extent of dimension 1 of placeholder 'A' must be a positive integer, not 2.5. A tensor has at "
        "least one element.",
    ),
    Case(
        "shape_text",
        lambda: placeholder("44", "int8", "A"),
        TensorError,
        "shape of placeholder 'A' must be an integer or a sequence of integers, not '44'.",
    ),
    Case(
        "bad_name",
        lambda: placeholder((4,), "int8", "2A"),
        TensorError,
        "name of a placeholder must start with a letter or _ and consist of letters, digits, _ and inner "
        "dots, not '2A'.",
    ),
    Case(
        "empty_axis",
        lambda: reduce_axis((3, 3), "k"),
        TensorError,
        "bounds of reduction axis 'k' must hold at least one point, not start 3 and stop 3. The stop is "
        "the first value after the last.",
    ),
    Case(
        "axis_bounds",
        lambda: reduce_axis((3,), "k"),
        TensorError,
        "bounds of reduction axis 'k' must be two integers (start, stop), not (3,).",
    ),
    Case(
        "mixed",
        computing(lambda i, j: A[i, j] + B[i, j]),
        TensorError,
        "operands of A[i, j] + B[i, j] must have one dtype, not int8 and int32. Convert one of them, as "
        'in A[i, j].astype("int32").',
    ),
    Case(
        "mixed_index",
        computing(lambda i, j: B[i, j] * j),
        TensorError,
        "operands of B[i, j] * j must have one dtype, not int32 and index. Convert one of them, as in "
        'j.astype("int32").',
    ),
    Case(
        "mixed_select",
        computing(lambda i, j: select(M[i, j], A[i, j], B[i, j])),
        TensorError,
        "operands of select(A[i, j], B[i, j]) must have one dtype, not int8 and int32. Convert one of "
        'them, as in A[i, j].astype("int32").',
    ),
    Case(
        "mixed_max",
        computing(lambda i, j: max(A[i, j], B[i, j])),
        TensorError,
        "operands of max(A[i, j], B[i, j]) must have one dtype, not int8 and int32. Convert one of them, "
        'as in A[i, j].astype("int32").',
    ),
    Case(
        "const_range",
        computing(lambda i, j: A[i, j] + 300),
        TensorError,
        "constant of A[i, j] + 300 must fit int8, -128 to 127, not 300. Convert the other operand first, "
        'as in A[i, j].astype("int16").',
    ),
    Case(
        "const_clip",
        computing(lambda i, j: max(A[i, j], -129)),
        TensorError,
        "constant of max(A[i, j], -129) must fit int8, -128 to 127, not -129. Convert the other operand "
        'first, as in A[i, j].astype("int16").',
    ),
    Case(
        "const_value",
        lambda: const(256, "uint8"),
        TensorError,
        "value of a constant of dtype uint8 must be 0 to 255, not 256.",
    ),
    Case(
        "const_type",
        lambda: const("7", "uint8"),
        TensorError,
        "value of a constant must be an integer, not '7'.",
    ),
    Case(
        "bool_arith",
        computing(lambda i, j: M[i, j] + M[j, i]),
        TensorError,
        'operands of M[i, j] + M[j, i] must be integers, not bool. Convert first, as in x.astype("int32").',
    ),
    Case(
        "bool_int",
        computing(lambda i, j: M[i, j] + 1),
        TensorError,
        "operands of M[i, j] + 1 must have one dtype, not bool and an integer. Convert the truth value "
        'first, as in M[i, j].astype("int32").',
    ),
    Case(
        "and_int",
        computing(lambda i, j: A[i, j] & A[j, i]),
        TensorError,
        "operands of A[i, j] & A[j, i] must be bool, not int8. Compare first, as in x != 0.",
    ),
    Case(
        "not_int",
        computing(lambda i, j: ~A[i, j]),
        TensorError,
        "operand of ~A[i, j] must be bool, not int8. Compare first, as in x != 0.",
    ),
    Case(
        "less_bool",
        computing(lambda i, j: M[i, j] < M[j, i]),
        TensorError,
        "operands of M[i, j] < M[j, i] must be integers, not bool.",
    ),
    Case(
        "select_cond",
        computing(lambda i, j: select(A[i, j], A[i, j], 0)),
        TensorError,
        "condition of select must be bool, not int8: select(A[i, j], A[i, j], 0). Compare first, as in x != 0.",
    ),
    Case(
        "select_pybool",
        computing(lambda i, j: select(r == k, A[i, j], 0)),
        TensorError,
        'condition of select must be an expression, not the Python value False. Write const(True, "bool")'
        " for a constant truth value; comparing two axes needs an index expression on one side, as in i +"
        " 0 == j.",
    ),
    Case(
        "whole_tensor",
        computing(lambda i, j: A + A[i, j]),
        TensorError,
        "operand of + must be an expression, not the whole tensor 'A'. Read an element of it, as in A[i, "
        "j] inside compute().",
    ),
    Case(
        "two_tensors",
        lambda: A + B,
        TensorError,
        "operand of + must be an expression, not the whole tensor 'A'. Read an element of it, as in A[i, "
        "j] inside compute().",
    ),
    Case(
        "string",
        computing(lambda i, j: A[i, j] + "1"),
        TensorError,
        "operand of + must be an expression, an axis or an integer, not '1'.",
    ),
    Case(
        "truth",
        computing(lambda i, j: A[i, j] if i < 3 else 0),
        TensorError,
        "truth of an expression must be left to select(condition, then, otherwise), not taken by if, and,"
        " or, not or a chained comparison: i < 3 has a value at each point only. Write &, | and ~ for the"
        " logic, and Lathe's max and min for the larger and the smaller of two.",
    ),
    Case(
        "truediv",
        computing(lambda i, j: A[i, j] / 2),
        TensorError,
        "division of expressions must be written //, which rounds down, not /.",
    ),
    Case(
        "div0",
        computing(lambda i, j: A[i, j] // 0),
        TensorError,
        "divisor of A[i, j] // 0 must be a number other than zero, not 0.",
    ),
    Case(
        "index_overflow",
        computing(lambda i, j: A[i, const(2**62, "index") * 4]),
        TensorError,
        "value of 4611686018427387904 * 4 must fit 64 bits, not be 18446744073709551616.",
    ),
    Case(
        "indices_count",
        computing(lambda i, j: A[i]),
        TensorError,
        "indices of tensor 'A' must be 2, one per dimension of its shape (8, 8), not 1.",
    ),
    Case(
        "slice",
        computing(lambda i, j: A[i, :]),
        TensorError,
        "index of tensor 'A' must be an integer, an axis or an expression, not a slice. Read one element "
        "and let compute() range over the axes.",
    ),
    Case(
        "bool_index",
        computing(lambda i, j: A[i, j < 3]),
        TensorError,
        "index of tensor 'A' must be an integer, not the bool j < 3. Convert it first, as in x.astype(\"index\").",
    ),
    Case(
        "params",
        computing(lambda i: A[i, i]),
        TensorError,
        "parameters of the function of computation 'C' must be 2, one per dimension, not 1. Write lambda "
        "*indices to take any number.",
    ),
    Case(
        "empty_tuple",
        computing(lambda i, j: ()),
        TensorError,
        "expressions of computation 'C' must be one or more, not an empty tuple.",
    ),
    Case(
        "index_body",
        computing(lambda i, j: i * 8 + j),
        TensorError,
        "expression of computation 'C' must have a tensor dtype, not index: i * 8 + j. Convert it, as in "
        'x.astype("int32"), or write const(value, "int32").',
    ),
    Case(
        "const_body",
        computing(lambda i, j: 0),
        TensorError,
        "expression of computation 'C' must have a tensor dtype, not index: 0. Convert it, as in "
        'x.astype("int32"), or write const(value, "int32").',
    ),
    Case(
        "none_body",
        computing(lambda i, j: None),
        TensorError,
        "expression of computation 'C' must be an expression, an axis or an integer, not None.",
    ),
    Case(
        "reduce_inside",
        computing(lambda i, j: sum(A[i, r], axis=r) + 1),
        TensorError,
        "reduction of computation 'C' must stand at the top of its expression, not inside another: "
        "sum(A[i, r], axis=r). Give the reduction a computation of its own and read its result here.",
    ),
    Case(
        "free_reduce",
        computing(lambda i, j: A[i, r]),
        TensorError,
        "axis 'r' of computation 'C' must be one of its own axes or be reduced over, not used freely: "
        "A[i, r]. Write sum(..., axis=r), max or min around the expression.",
    ),
    Case(
        "foreign_axis",
        computing(lambda i, j: A[copied.computation.axes[0], j]),
        TensorError,
        "axis 'i' of computation 'C' must be one of its own axes or be reduced over, not used freely: "
        "A[i, j]. Write sum(..., axis=i), max or min around the expression.",
    ),
    Case(
        "different_reduce",
        computing(lambda i, j: (sum(A[i, r], axis=r), sum(A[i, k], axis=k))),
        TensorError,
        "expressions of computation 'C' must all reduce over the same axes, not over (r) and (k). Split "
        "it into two computations.",
    ),
    Case(
        "axis_names",
        computing(lambda i, r: sum(A[i, s], axis=s)),
        TensorError,
        "axes of computation 'C' must have different names, not 'r' twice. The data axes are named by the"
        " function's parameters.",
    ),
    Case(
        "reduce_data_axis",
        computing(lambda i, j: sum(A[i, j], axis=j)),
        TensorError,
        "axis of sum must be a reduction axis or a sequence of them, not j. Make one with "
        'reduce_axis((start, stop), name="k").',
    ),
    Case(
        "reduce_nothing",
        computing(lambda i, j: sum(A[i, j], axis=None)),
        TensorError,
        "axis of sum must be a reduction axis or a sequence of them, not None. Make one with "
        'reduce_axis((start, stop), name="k").',
    ),
    Case(
        "reduce_twice",
        computing(lambda i, j: sum(A[i, r], axis=(r, r))),
        TensorError,
        "axes of sum must be different, not r, r.",
    ),
    Case(
        "reduce_bool",
        computing(lambda i, j: sum(M[i, r], axis=r)),
        TensorError,
        "operand of sum must be integers of a tensor dtype, not bool: M[i, r]. Convert it first, as in "
        'x.astype("int32").',
    ),
    Case(
        "reduce_index",
        computing(lambda i, j: max(r * 2, axis=r)),
        TensorError,
        "operand of max must be integers of a tensor dtype, not index: r * 2. Convert it first, as in "
        'x.astype("int32").',
    ),
    Case(
        "max_neither",
        computing(lambda i, j: max(A[i, j])),
        TensorError,
        "max must be given either a second expression or axis=, not neither: max(x, y) is element-wise, "
        "max(x, axis=k) reduces.",
    ),
    Case(
        "max_both",
        computing(lambda i, j: max(A[i, r], A[i, j], axis=r)),
        TensorError,
        "max must be given either a second expression or axis=, not both: max(x, y) is element-wise, "
        "max(x, axis=k) reduces.",
    ),
    Case(
        "dom_plain",
        computing(lambda i, j: A[i + 1, j]),
        DomainError,
        "read A[i + 1, j] of computation 'C' must stay inside the shape (8, 8) of tensor 'A', not reach "
        "A[8, 0] at i = 7, j = 0. Shrink the domain, or guard the read with select(condition, read, 0).",
    ),
    Case(
        "dom_guard",
        computing(lambda i, j: select(i < 8, A[i + 1, j], 0)),
        DomainError,
        "read A[i + 1, j] of computation 'C' must stay inside the shape (8, 8) of tensor 'A', not reach "
        "A[8, 0] at i = 7, j = 0. Shrink the domain, or guard the read with select(condition, read, 0).",
    ),
    Case(
        "dom_data_guard",
        computing(lambda i, j: select(A[i, j] > 0, A[i + 1, j], 0)),
        DomainError,
        "read A[i + 1, j] of computation 'C' must stay inside the shape (8, 8) of tensor 'A', not reach "
        "A[8, 0] at i = 7, j = 0. A condition that reads data cannot keep a read inside. Shrink the "
        "domain, or guard the read with select(condition, read, 0).",
    ),
    Case(
        "dom_data_index",
        computing(lambda i, j: V[A[i, j]]),
        DomainError,
        "index 0 of read V[index(A[i, j])] of computation 'C' must lie within 0 to 9 for the shape (10,) "
        "of tensor 'V', not -128 to 127: A[i, j] may be any int8. Limit it, as in min(max(index, 0), 9).",
    ),
    Case(
        "dom_square",
        computing(lambda x, r: V[x * x + r], (4, 3)),
        DomainError,
        "read V[x * x + r] of computation 'C' must stay inside the shape (10,) of tensor 'V', not reach "
        "V[10] at x = 3, r = 1. Shrink the domain, or guard the read with select(condition, read, 0).",
    ),
    Case(
        "dom_undecided",
        computing(lambda y, x: V[y * x * x * x - y], (1 << 14, 1 << 14)),
        DomainError,
        "index 0 of read V[y * x * x * x - y] of computation 'C' must be shown to lie within 0 to 9 for "
        "the shape (10,) of tensor 'V', not within -16383 to 72040003462430721, which is all that its "
        "form tells: it is not affine, and 268435456 points are too many to visit. Limit it, as in "
        "min(max(index, 0), 9).",
    ),
    Case(
        "dom_point",
        computing(lambda: V[10], ()),
        DomainError,
        "read V[10] of computation 'C' must stay inside the shape (10,) of tensor 'V', not reach V[10] at"
        " its only point. Shrink the domain, or guard the read with select(condition, read, 0).",
    ),
    Case(
        "mixed_sum",
        computing(lambda i, j: (A[i, j] + A[j, i]) * B[i, j]),
        TensorError,
        "operands of (A[i, j] + A[j, i]) * B[i, j] must have one dtype, not int8 and int32. Convert one "
        'of them, as in (A[i, j] + A[j, i]).astype("int32").',
    ),
    Case(
        "np_array",
        computing(lambda i, j: a8 + A[i, j]),
        TensorError,
        "operand of + must be an expression, an axis or an integer, not array([[0, 0, 0, 0, 0, 0, 0, 0], "
        "[0, 0, 0, 0, 0, 0, 0, 0]....",
    ),
    Case(
        "iter",
        lambda: list(V),
        TensorError,
        "elements of tensor 'V' must be read one by one, as in V[i, j], not iterated over. Reduce over "
        "them with Lathe's sum, max or min and a reduction axis.",
    ),
    Case(
        "builtin_max",
        computing(lambda i, j: builtins.max(A[i, j], 0)),
        TensorError,
        "truth of an expression must be left to select(condition, then, otherwise), not taken by if, and,"
        " or, not or a chained comparison: A[i, j] < 0 has a value at each point only. Write &, | and ~ "
        "for the logic, and Lathe's max and min for the larger and the smaller of two.",
    ),
    Case(
        "builtin_sum",
        lambda: builtins.sum(V),
        TensorError,
        "elements of tensor 'V' must be read one by one, as in V[i, j], not iterated over. Reduce over "
        "them with Lathe's sum, max or min and a reduction axis.",
    ),
    Case(
        "notcallable",
        lambda: compute((4,), 3),
        TensorError,
        "expression of computation 'compute' must be given as a function of its axes, as in lambda i, j: ..., not 3.",
    ),
    Case(
        "relu_arr",
        lambda: relu(a8),
        TensorError,
        "data of relu 'relu' must be a tensor, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]....",
    ),
    Case(
        "flat_arr",
        lambda: flatten(a8),
        TensorError,
        "data of flatten 'flatten' must be a tensor, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]....",
    ),
    Case(
        "dup_names",
        lambda: topological(compute((8, 8), lambda i, j: A[i, j] + placeholder((8, 8), "int8", "A")[i, j], "C")),
        TensorError,
        "names of the tensors of a program must be different, not 'A' twice: Tensor(A: int8[8, 8]) and "
        "Tensor(A: int8[8, 8]). Pass name= to one of them.",
    ),
    Case(
        "outputs_none",
        lambda: topological([]),
        TensorError,
        "outputs of a program must be one tensor or several, not [].",
    ),
    Case(
        "outputs_bad",
        lambda: topological([A, 3]),
        TensorError,
        "outputs of a program must be tensors, not 3.",
    ),
    Case(
        "in_missing",
        lambda: reference(compute((8, 8), lambda i, j: A[i, j].astype("int32") + B[i, j], "C"), {"A": a8}),
        InputError,
        "inputs of the program must hold an array for 'B', which is missing. It needs 'A', 'B'.",
    ),
    Case(
        "in_unknown",
        lambda: reference(copied, {"A": a8, "X": a8}),
        InputError,
        "inputs of the program must be its placeholders only, not 'X'. It needs 'A'.",
    ),
    Case(
        "in_shape",
        lambda: reference(copied, {"A": np.zeros((8, 7), np.int8)}),
        InputError,
        "shape of input 'A' must be (8, 8), not (8, 7).",
    ),
    Case(
        "in_dtype",
        lambda: reference(copied, {"A": np.zeros((8, 8), np.int32)}),
        InputError,
        "dtype of input 'A' must be int8, not int32. Convert it, as in array.astype(\"int8\").",
    ),
    Case(
        "in_list",
        lambda: reference(copied, {"A": [[1]]}),
        InputError,
        "input 'A' must be a NumPy array, not list.",
    ),
    Case(
        "in_notdict",
        lambda: reference(copied, [0, 0]),
        InputError,
        "inputs of the program must be a dictionary of arrays by name, not [0, 0].",
    ),
    Case(
        "mm_rank",
        lambda: matmul(V, A),
        TensorError,
        "A of matmul 'matmul' must have 2 dimensions, (M, K), not the shape (10,).",
    ),
    Case(
        "mm_inner",
        lambda: matmul(A, placeholder((4, 8), "int8", "B")),
        TensorError,
        "inner extents of matmul 'matmul' must be equal, not 8 of A with the shape (8, 8) and 4 of B with"
        " the shape (4, 8). Pass transpose_b=True if B has its dimensions the other way round.",
    ),
    Case(
        "mm_dtype",
        lambda: matmul(A, M),
        TensorError,
        "dtype of B of matmul 'matmul' must be int8 or int32, not bool.",
    ),
    Case(
        "mm_tensor",
        lambda: matmul(a8, A),
        TensorError,
        "A of matmul 'matmul' must be a tensor, not array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]....",
    ),
    Case(
        "add_shape",
        lambda: add(A, V),
        TensorError,
        "shapes of add 'add' must be equal, not (8, 8) of A and (10,) of B.",
    ),
    Case(
        "bias_shape",
        lambda: bias_add(I, bias),
        TensorError,
        "shape of the bias of bias_add 'bias_add' must be (4,), the extent of axis -1 of its data, not (3,).",
    ),
    Case(
        "bias_axis",
        lambda: bias_add(I, bias, axis=4),
        TensorError,
        "axis of bias_add 'bias_add' must be -4 to 3, not 4.",
    ),
    Case(
        "bias_dtype",
        lambda: bias_add(D, bias),
        TensorError,
        "dtype of data of bias_add 'bias_add' must be int32, not int8.",
    ),
    Case(
        "clip_range",
        lambda: clip(A, -129, 5),
        TensorError,
        "low of clip 'clip' must be an integer from -128 to 127, as int8 is, not -129.",
    ),
    Case(
        "clip_order",
        lambda: clip(A, 6, 5),
        TensorError,
        "low of clip 'clip' must be at most its high, 5, not 6.",
    ),
    Case(
        "relu_dtype",
        lambda: relu(M),
        TensorError,
        "dtype of data of relu 'relu' must be int8 or int16 or int32 or int64, not bool.",
    ),
    Case(
        "rq_shift",
        lambda: requantise(I, 32),
        TensorError,
        "shift of requantise 'requantise' must be an integer from 0 to 31, not 32.",
    ),
    Case(
        "rq_dtype",
        lambda: requantise(D, 3),
        TensorError,
        "dtype of data of requantise 'requantise' must be int32, not int8.",
    ),
    Case(
        "rq_low",
        lambda: requantise(I, 3, low=-200),
        TensorError,
        "low of requantise 'requantise' must be an integer from -128 to 127, as int8 is, not -200.",
    ),
    Case(
        "conv_layout",
        lambda: conv2d(D, W, layout="CHWN"),
        TensorError,
        "layout of conv2d 'conv2d' must be NHWC or NCHW, not 'CHWN'.",
    ),
    Case(
        "conv_klayout",
        lambda: conv2d(D, W, kernel_layout="IOHW"),
        TensorError,
        "kernel_layout of conv2d 'conv2d' must be OHWI, OIHW or HWIO, not 'IOHW'.",
    ),
    Case(
        "conv_rank",
        lambda: conv2d(A, W),
        TensorError,
        "data of conv2d 'conv2d' must have 4 dimensions, one for each letter of NHWC, not the shape (8, 8).",
    ),
    Case(
        "conv_dtype",
        lambda: conv2d(I, W),
        TensorError,
        "dtype of data of conv2d 'conv2d' must be int8, not int32.",
    ),
    Case(
        "conv_stride",
        lambda: conv2d(D, W, stride=0),
        TensorError,
        "stride of conv2d 'conv2d' must be a positive integer or a pair of them, not 0.",
    ),
    Case(
        "conv_dil",
        lambda: conv2d(D, W, dilation=(1, 2, 3)),
        TensorError,
        "dilation of conv2d 'conv2d' must be a positive integer or a pair of them, not (1, 2, 3).",
    ),
    Case(
        "conv_pad",
        lambda: conv2d(D, W, padding=-1),
        TensorError,
        "padding of conv2d 'conv2d' must be an integer of at least 0, a pair (vertical, horizontal) or "
        "((top, bottom), (left, right)), not -1.",
    ),
    Case(
        "conv_groups",
        lambda: conv2d(D, W, groups=3),
        TensorError,
        "groups of conv2d 'conv2d' must divide its 4 input channels, not be 3.",
    ),
    Case(
        "conv_groups0",
        lambda: conv2d(D, W, groups=0),
        TensorError,
        "groups of conv2d 'conv2d' must be a positive integer, not 0.",
    ),
    Case(
        "conv_channels",
        lambda: conv2d(D, placeholder((8, 3, 3, 3), "int8", "W")),
        TensorError,
        "input channels of the weight of conv2d 'conv2d' must be 4, 4 of the data in 1 group, not 3.",
    ),
    Case(
        "conv_group_channels",
        lambda: conv2d(D, W, groups=2),
        TensorError,
        "input channels of the weight of conv2d 'conv2d' must be 2, 4 of the data in 2 groups, not 4.",
    ),
    Case(
        "conv_big",
        lambda: conv2d(D, placeholder((8, 9, 9, 4), "int8", "W")),
        TensorError,
        "height of conv2d 'conv2d' must be at least 9 with its padding, the reach of the kernel, not 8. "
        "Add padding or take a smaller kernel.",
    ),
    Case(
        "pool_big",
        lambda: max_pool2d(D, 9),
        TensorError,
        "height of max_pool2d 'max_pool2d' must be at least 9 with its padding, the window's, not 8.",
    ),
    Case(
        "pool_pad",
        lambda: max_pool2d(D, 2, padding=2),
        TensorError,
        "padding of max_pool2d 'max_pool2d' must be smaller than its window (2, 2), not 2: a window would"
        " hold nothing but padding.",
    ),
    Case(
        "pool_dtype",
        lambda: avg_pool2d(I, 2),
        TensorError,
        "dtype of data of avg_pool2d 'avg_pool2d' must be int8, not int32.",
    ),
    Case(
        "pad_value",
        lambda: pad2d(D, 1, value=200),
        TensorError,
        "value of a constant of dtype int8 must be -128 to 127, not 200.",
    ),
    Case(
        "flat",
        lambda: flatten(V),
        TensorError,
        "data of flatten 'flatten' must have a batch dimension and others, not the shape (10,).",
    ),
    Case(
        "reshape",
        lambda: reshape(A, (3, 5)),
        TensorError,
        "shape of reshape 'reshape' must have 64 elements, as (8, 8) has, not 15, as (3, 5) has.",
    ),
    Case(
        "reshape_neg",
        lambda: reshape(A, (-1, 8)),
        TensorError,
        "extent of dimension 0 of reshape 'reshape' must be a positive integer, not -1. A tensor has at "
        "least one element.",
    ),
]


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case):
    with pytest.raises(LatheError) as caught:
        case.mistake()
    assert type(caught.value) is case.error
    assert str(caught.value) == case.message


def test_the_value_that_a_message_quotes_is_cut_to_one_line():
    with pytest.raises(InputError) as caught:
        reference(copied, [np.zeros((100, 100))])
    assert str(caught.value) == (
        "inputs of the program must be a dictionary of arrays by name, not "
        "[array([[0., 0., 0., ..., 0., 0., 0.], [0., 0., 0., ..., ...."
    )
