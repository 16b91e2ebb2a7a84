"""Tensors and computations under the names that users of other systems look for."""

from lathe.frontend import Tensor, compute, placeholder, reduce_axis, sum, topological


def test_computations_answer_to_the_names_of_tvm() -> None:
    A = placeholder((4, 8), "int32", name="A")
    k = reduce_axis((0, 8), name="k")
    C = compute((4,), lambda i: sum(A[i, k], axis=k), name="C")
    assert isinstance(C, Tensor)
    assert C.op is C.computation
    assert A.op is None
    assert C.op is not None
    assert [axis.name for axis in C.op.axis] == ["i"]
    assert C.op.reduce_axis == (k,)
    assert topological(C.op) == (C.op,)
