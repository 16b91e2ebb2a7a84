"""The text form of the algorithm level."""

from lathe.frontend import compute, format_program, max, placeholder, reduce_axis, select, sum
from lathe.frontend.operators import bias_add, conv2d, flatten, max_pool2d, requantise


def test_text_of_a_matrix_product(golden):
    A, B = placeholder((64, 128), "int8", "A"), placeholder((96, 128), "int8", "B")
    k = reduce_axis((0, 128), "k")
    C = compute((64, 96), lambda i, j: sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), "C")
    golden(format_program(C))
    assert str(C.computation) in format_program(C)


def test_text_of_a_small_network(golden):
    D, W = placeholder((1, 8, 8, 4), "int8", "data"), placeholder((8, 3, 3, 4), "int8", "weight")
    B = placeholder((8,), "int32", "bias")
    layer = bias_add(conv2d(D, W, padding=1, name="conv"), B, name="conv.bias")
    golden(format_program(flatten(max_pool2d(requantise(layer, 5, low=0, name="conv.q"), 2, name="pool"))))


def test_text_of_several_outputs_and_nested_conditions(golden):
    A, M = placeholder((4, 6), "int32", "A"), placeholder((4, 6), "bool", "M")
    k = reduce_axis((1, 6), "k")
    low, high = compute(
        (4, 5),
        lambda y, x: (
            select(M[y, x] & (x > 0), A[y, x - 1] >> 2, select(~(y == 3), A[y + 1, x], -1)),
            (A[y, x] + 3) * 2 - A[y, x] // 3 % 5,
        ),
        "parts",
    )
    peak = compute((), lambda: max(high[k - k, k - 1], axis=k), "peak")
    golden(format_program([low, peak]))
