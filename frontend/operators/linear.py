"""Matrix multiplication and fully connected layers."""

from lathe.frontend.expr.arithmetic import sum
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import checked_dtypes, checked_rank
from lathe.frontend.operators.elementwise import bias_add
from lathe.frontend.tensor.compute import compute, reduce_axis


def matmul(A: Tensor, B: Tensor, *, transpose_b: bool = False, name: str = "matmul") -> Tensor:
    """Multiply A (M, K) by B (K, N), or by (N, K) with ``transpose_b``; int8 or int32 in, int32 (M, N) out.

    C[i, j] = Σk A[i, k] · B[k, j], or B[j, k] with ``transpose_b``. Raises TensorError when shapes or dtypes don't fit.
    """
    where = f"matmul {name!r}"
    if not isinstance(transpose_b, bool):
        raise TensorError(f"transpose_b of {where} must be True or False, not {shown(transpose_b)}.")
    checked_rank(A, 2, f"A of {where}", "(M, K)")
    checked_rank(B, 2, f"B of {where}", "(N, K)" if transpose_b else "(K, N)")
    checked_dtypes(A, ("int8", "int32"), f"A of {where}")
    checked_dtypes(B, ("int8", "int32"), f"B of {where}")
    rows, inner = A.shape
    columns, other = B.shape if transpose_b else B.shape[::-1]
    if inner != other:
        raise TensorError(
            f"inner extents of {where} must be equal, not {inner} of A with the shape {A.shape} and {other} of B with "
            f"the shape {B.shape}. Pass transpose_b={not transpose_b} if B has its dimensions the other way round."
        )
    k = reduce_axis(inner, "k")
    return compute(
        (rows, columns),
        lambda i, j: sum(A[i, k].astype("int32") * (B[j, k] if transpose_b else B[k, j]).astype("int32"), axis=k),
        name,
        attrs={"operator": "matmul", "transpose_b": transpose_b},
    )


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, *, name: str = "dense") -> Tensor:
    """A fully connected layer: data (N, K) and weight (O, K), int8; int32 (N, O) out.

    C[n, o] = Σk data[n, k] · weight[o, k] (+ bias[o], int32, as a separate computation: that is named ``name``
    then, and the matmul ``name.product``). Raises TensorError when shapes or dtypes don't fit.
    """
    if bias is None:
        return matmul(data, weight, transpose_b=True, name=name)
    return bias_add(matmul(data, weight, transpose_b=True, name=f"{name}.product"), bias, name=name)
