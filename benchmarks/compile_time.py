"""Scaling of compile time and instance counting on `vta`: long chains, whole networks, large matmuls, large extents.

    python benchmarks/compile_time.py [--json]

Each row is compiled or counted once, and measured in CPU time.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_most, one_core, report

import lathe as lt
from lathe.frontend import placeholders

CHAINS = {8: None, 16: None, 32: None, 64: 6.0, 128: None, 256: None}
"""The number of convolutions, and the limit in seconds."""
BLOCKS = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))
"""Convolutions and channels of each block of VGG-19, with pooling between blocks (Simonyan and Zisserman, 2014)."""


def requantised(data: lt.Tensor, channels: int, number: int) -> lt.Tensor:
    """A 3×3 convolution, requantised to int8."""
    weights = lt.placeholder((channels, 3, 3, data.shape[-1]), "int8", name=f"w{number}")
    return lt.requantise(lt.conv2d(data, weights, padding=1, name=f"conv{number}"), 8, name=f"out{number}")


def chain(length: int) -> lt.Tensor:
    """A chain of 14×14 convolutions, 64 channels to 64."""
    data = lt.placeholder((1, 14, 14, 64), "int8", name="data")
    for number in range(length):
        data = requantised(data, 64, number)
    return data


def residual_blocks(number: int) -> lt.Tensor:
    """Residual blocks of two such convolutions each."""
    data = lt.placeholder((1, 14, 14, 64), "int8", name="data")
    for block in range(number):
        made = requantised(requantised(data, 64, 2 * block), 64, 2 * block + 1)
        data = lt.requantise(lt.add(data, made, name=f"add{block}"), 1, name=f"sum{block}")
    return data


def sixteen_convolutions(size: int = 224) -> lt.Tensor:
    """VGG-19 without its dense layers."""
    data, number = lt.placeholder((1, size, size, 3), "int8", name="data"), 0
    for block, (count, channels) in enumerate(BLOCKS):
        if block:
            data = lt.max_pool2d(data, 2, name=f"pool{block}")
        for _ in range(count):
            data, number = requantised(data, channels, number), number + 1
    return data


def square_matmul(size: int) -> lt.Tensor:
    """A requantised matmul of square matrices."""
    a, b = (lt.placeholder((size, size), "int8", name=name) for name in ("A", "B"))
    return lt.requantise(lt.matmul(a, b, transpose_b=True, name="C"), 8, name="D")


def tiled(images: int, size: int, channels: int, halo: int) -> lt.Schedule:
    """Two stages, the first computed at 28×28 tiles of the second; ``halo``: extra rows and columns of each tile."""
    A = lt.placeholder((images, size + halo, size + halo, channels), "int8", name="A")
    P = lt.compute(A.shape, lambda n, y, x, c: A[n, y, x, c] >> 1, name="P")
    C = lt.compute(
        (images, size, size, channels),
        lambda n, y, x, c: lt.max(P[n, y, x, c], P[n, y + halo, x + halo, c]) if halo else P[n, y, x, c] << 1,
        name="C",
    )
    s = lt.create_schedule(C)
    n, y, x, c = s[C].axis
    _, xo, _, _ = s[C].tile(y, x, 28, 28)
    s[P].compute_at(s[C], xo)
    return s


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU time of one call in seconds."""
    start = process_time()
    work()
    return process_time() - start


def main() -> None:
    one_core()
    config = lt.load_config("vta")

    def built(output: lt.Tensor) -> float:
        return cpu_seconds(lambda: lt.build(output, [*placeholders(output), output], config))

    built(chain(1))  # imports modules that are loaded lazily
    figures: list[Figure] = []

    def row(name: str, seconds: float, limit: float | None) -> None:
        figures.append(Figure(name, round(seconds, 3), "s") if limit is None else at_most(name, seconds, "s", limit))

    for length, limit in CHAINS.items():
        row(f"chain of {length} convolutions", built(chain(length)), limit)
    for number in (16, 64):
        row(f"{number} residual blocks", built(residual_blocks(number)), None)
    row("sixteen convolutions and four pools", built(sixteen_convolutions()), 12)
    row("product of 4096^3", built(square_matmul(4096)), 10)
    for halo in (0, 2):
        for images, size, channels in ((1, 56, 16), (64, 224, 64), (64, 1792, 64)):
            s = tiled(images, size, channels, halo)
            row(f"count, {images}×{size}×{size}×{channels} in tiles, {halo} rows shared", cpu_seconds(s.count), 0.5)
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
