"""Convolutions: one in tiles, scheduled by hand, every stage with its rule; and layers of 8 bits."""

from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import conv2d, requantise
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


def conv(data: Tensor, kernel: int, filters: int = 16, name: str = "conv", **options: object) -> Tensor:
    """A layer, channels last: a convolution whose sums are shifted by 7 bits and cut to int8."""
    weights = placeholder((filters, kernel, kernel, data.shape[-1]), "int8", f"{name}.weights")
    return requantise(conv2d(data, weights, name=name, **options), 7, name=f"{name}.narrow")
