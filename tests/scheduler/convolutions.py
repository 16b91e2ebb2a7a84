"""Convolutions: one tiled by a manual schedule that sets every stage's rule, and int8 layers."""

from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import conv2d, requantise
from lathe.scheduler import Schedule, create_schedule


def padded_convolution(rows: int) -> tuple[Schedule, list[Tensor]]:
    """A convolution of 14×14 pixels with padding 1, in tiles of ``rows`` rows, and its tensors."""
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
    """An NHWC layer: a convolution, requantised to int8 by a shift of 7 bits."""
    weights = placeholder((filters, kernel, kernel, data.shape[-1]), "int8", f"{name}.weights")
    return requantise(conv2d(data, weights, name=name, **options), 7, name=f"{name}.narrow")
