"""A convolution in tiles, scheduled by hand, every stage with its rule."""

from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import conv2d
from lathe.scheduler import Schedule, create_schedule


def padded_convolution(rows: int) -> tuple[Schedule, list[Tensor]]:
    """14 rows with padding 1, in tiles of some rows."""
    A, W = placeholder((1, 14, 14, 16), "int8", "A"), placeholder((16, 3, 3, 16), "int8", "W")
    C = conv2d(A, W, padding=1, name="C")
    padded = C.computation.reads[0].tensor
    s = create_schedule(C)
    result, weights = s.cache_write(C, "acc"), s.cache_read(W, "wgt")
    yo, yi = s[C].split(s[C].axis[1], factor=rows)
    s[result].compute_at(s[C], yo)
    s[padded].set_scope("inp")
    s[padded].compute_at(s[C], yo)
    for T, rule in ((padded, "dma"), (weights, "dma"), (result, "gemm")):
        s[T].emit_insn(s[T].axis[0], rule)
    s[C].emit_insn(yi, "dma")
    return s, [A, W, C]
