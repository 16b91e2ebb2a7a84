"""How operators build expressions: dtypes, weak integers, identity, folding of index arithmetic."""

import numpy as np
import pytest

from lathe.frontend import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Compare,
    Const,
    Not,
    Reduce,
    Select,
    axes_of,
    compute,
    const,
    format_expr,
    max,
    min,
    placeholder,
    reads_data,
    reduce_axis,
    select,
    sum,
    walk,
)

A = placeholder((8, 8), "int8", "A")
B = placeholder((8, 8), "int32", "B")
M = placeholder((8, 8), "bool", "M")
i, j = AxisRef(Axis("i", 8)), AxisRef(Axis("j", 8))


def test_a_python_integer_takes_the_dtype_of_the_other_operand():
    left = A[i, j] + 5
    right = 5 - B[i, j]
    assert isinstance(left, Binary)
    assert isinstance(left.rhs, Const)
    assert (left.dtype, left.rhs.dtype, left.rhs.value) == ("int8", "int8", 5)
    assert isinstance(right, Binary)
    assert (right.dtype, right.lhs.dtype) == ("int32", "int32")


def test_numpy_integers_are_python_integers():
    node = A[i, np.int64(3)] + np.int16(7)
    assert format_expr(node) == "A[i, 3] + 7"
    assert node.dtype == "int8"


def test_a_constant_may_be_converted_from_another():
    node = const(const(127, "int32"), "int8")
    assert isinstance(node, Const)
    assert (node.dtype, node.value) == ("int8", 127)


@pytest.mark.parametrize(
    ("text", "expr", "kind", "dtype"),
    [
        ("A[i, j] < 3", A[i, j] < 3, Compare, "bool"),
        ("A[i, j] == 3", A[i, j] == 3, Compare, "bool"),
        ("A[i, j] != A[j, i]", A[i, j] != A[j, i], Compare, "bool"),
        ("not i < 3", ~(i < 3), Not, "bool"),
        ("i < 3 and M[i, j]", (i < 3) & M[i, j], Binary, "bool"),
        ("i < 3 or M[i, j]", (i < 3) | M[i, j], Binary, "bool"),
        ("min(A[i, j], 3)", min(A[i, j], 3), Binary, "int8"),
        ("max(3, A[i, j])", max(3, A[i, j]), Binary, "int8"),
        ("select(i < 3, A[i, j], 0)", select(i < 3, A[i, j], 0), Select, "int8"),
        ("int32(A[i, j])", A[i, j].astype("int32"), Cast, "int32"),
        ("B[i, j] >> 3", B[i, j] >> 3, Binary, "int32"),
        ("B[i, j] << B[j, i]", B[i, j] << B[j, i], Binary, "int32"),
        ("B[i, j] // 3 % 5", B[i, j] // 3 % 5, Binary, "int32"),
        ("0 - B[i, j]", -B[i, j], Binary, "int32"),
        ("true", const(True, "bool"), Const, "bool"),
    ],
)
def test_operators_build_nodes_of_the_right_kind_and_dtype(text, expr, kind, dtype):
    assert isinstance(expr, kind)
    assert expr.dtype == dtype
    assert format_expr(expr) == text


def test_conversion_to_the_same_dtype_is_the_operand_itself():
    read = B[i, j]
    assert read.astype("int32") is read


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (i + 0, "i"),
        (0 + i, "i"),
        (i * 1, "i"),
        (1 * i, "i"),
        (i * 0, "0"),
        (i // 1, "i"),
        (i % 1, "0"),
        (i >> 2, "i // 4"),
        (i << 2, "i * 4"),
        (const(7, "index") // 2 - 5, "-2"),
        (i + -1, "i - 1"),
        ((i + 1) * 2, "(i + 1) * 2"),
        (i - (j - 1), "i - (j - 1)"),
        (i // 2 * 2, "i // 2 * 2"),
        (i * (j // 2), "i * (j // 2)"),
    ],
)
def test_index_arithmetic_is_folded_and_printed_with_the_parentheses_it_needs(built, text):
    assert format_expr(built) == text


def test_data_arithmetic_is_not_folded():
    assert format_expr(A[i, j] + 0) == "A[i, j] + 0"


def test_printed_expressions_are_python_expressions_of_the_same_value():
    built = ((i + 3) * (j - 2) - (i - (j - 7))) % 5 + (i + j >> 1) * 2 - (i // 2) * (j % 3)
    for x in range(8):
        for y in range(8):
            text = format_expr(built).replace("i", str(x)).replace("j", str(y))
            assert eval(text) == ((x + 3) * (y - 2) - (x - (y - 7))) % 5 + ((x + y) >> 1) * 2 - (x // 2) * (y % 3)


def test_axes_are_equal_only_to_themselves_and_otherwise_build_comparisons():
    k, same_name = Axis("k", 4), Axis("k", 4)
    assert k == k
    assert k != same_name
    assert len({k, same_name}) == 2
    assert k is not None
    assert (k == None) is False  # noqa: E711
    assert isinstance(k == 3, Compare)
    assert isinstance(k != i, Compare)
    assert isinstance(k + 1, Binary)


def test_tensors_are_equal_only_to_themselves():
    other = placeholder((8, 8), "int8", "A")
    assert A == A
    assert other != A
    assert {A: 1, other: 2}[A] == 1


def test_walk_visits_a_shared_node_once():
    shared = A[i, j] * A[i, j]
    expr = shared + shared
    assert len(list(walk(expr))) == len({id(node) for node in walk(expr)})
    assert axes_of(expr) == (i.axis, j.axis)
    assert reads_data(expr)
    assert not reads_data(i * 3)


def test_deeply_shared_expressions_stay_cheap():
    expr = A[i, j]
    for _ in range(200):
        expr = expr + expr
    assert len(list(walk(expr))) == 203
    assert len(compute((8, 8), lambda y, x: A[y, x] + A[y, x]).computation.reads) == 2


def test_reductions_keep_the_axes_as_given():
    r, c = reduce_axis((0, 3), "r"), reduce_axis((2, 5), "c")
    node = sum(A[r, c].astype("int32"), axis=(r, c))
    assert isinstance(node, Reduce)
    assert node.axes == (r, c)
    assert (c.start, c.extent, c.stop, c.kind) == (2, 3, 5, "reduce")
    assert format_expr(node) == "sum(int32(A[r, c]), axis=(r, c))"
    assert format_expr(max(A[r, 0], axis=r)) == "max(A[r, 0], axis=r)"
    assert format_expr(min(A[r, 0], axis=[r])) == "min(A[r, 0], axis=r)"


def test_axes_are_named_by_the_functions_parameters():
    assert [a.name for a in compute((4, 4), lambda y, x: A[y, x]).computation.axes] == ["y", "x"]
    assert [a.name for a in compute((4, 4), lambda *p: A[p]).computation.axes] == ["i0", "i1"]
    assert [a.name for a in compute((4, 4), lambda n, *rest: A[(n, *rest)]).computation.axes] == ["n", "i1"]
    step = 2
    assert [a.name for a in compute(4, lambda n, step=step: A[n * step, 0]).computation.axes] == ["n"]


def test_a_tuple_of_expressions_gives_a_tuple_of_tensors_over_the_same_points():
    low, high = compute((8, 8), lambda y, x: (min(A[y, x], 0), A[y, x].astype("int32") >> 1), "parts")
    assert (low.name, low.dtype, low.output_index) == ("parts.0", "int8", 0)
    assert (high.name, high.dtype, high.output_index) == ("parts.1", "int32", 1)
    assert low.computation is high.computation
    assert low.computation.outputs == (low, high)
    (single,) = compute((8, 8), lambda y, x: (A[y, x],), "single")
    assert single.name == "single"


def test_reads_have_the_guards_around_them():
    C = compute((8, 8), lambda y, x: select((y > 0) & M[y, x], A[y - 1, x], select(x < 7, A[y, x + 1], 0)), "C")
    shown = [
        (format_expr(r.node), [(format_expr(c), holds) for c, holds in r.guards], r.body_index)
        for r in C.computation.reads
    ]
    outer = "y > 0 and M[y, x]"
    assert shown == [
        ("M[y, x]", [], 0),
        ("A[y - 1, x]", [(outer, True)], 0),
        ("A[y, x + 1]", [(outer, False), ("x < 7", True)], 0),
    ]
