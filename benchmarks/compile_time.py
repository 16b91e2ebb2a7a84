"""How builds and counts grow with a program, on `vta`: longer chains, whole networks, long products, large extents.

    python benchmarks/compile_time.py [--json]

Each row is built or counted once; its figure is the time of the processor that this takes.
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
"""How many convolutions, and at most how many seconds."""
BLOCKS = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))
"""VGG-19's convolutions and their channels, with a pool between two blocks: Simonyan and Zisserman, 2014, table 1."""


def requantised(data: lt.Tensor, channels: int, number: int) -> lt.Tensor:
    """A 3×3 convolution, back in int8."""
    weights = lt.placeholder((channels, 3, 3, data.shape[-1]), "int8", name=f"w{number}")
    return lt.requantise(lt.conv2d(data, weights, padding=1, name=f"conv{number}"), 8, name=f"out{number}")


def chain(length: int) -> lt.Tensor:
    """Convolutions of 14×14, 64 channels to 64, one after the other."""
    data = lt.placeholder((1, 14, 14, 64), "int8", name="data")
    for number in range(length):
        data = requantised(data, 64, number)
    return data


def residual_blocks(number: int) -> lt.Tensor:
    """Blocks of two such convolutions each, whose result is added to what they begin with."""
    data = lt.placeholder((1, 14, 14, 64), "int8", name="data")
    for block in range(number):
        made = requantised(requantised(data, 64, 2 * block), 64, 2 * block + 1)
        data = lt.requantise(lt.add(data, made, name=f"add{block}"), 1, name=f"sum{block}")
    return data


def sixteen_convolutions(size: int = 224) -> lt.Tensor:
    """The convolutions and pools of VGG-19 up to where its dense layers begin."""
    data, number = lt.placeholder((1, size, size, 3), "int8", name="data"), 0
    for block, (count, channels) in enumerate(BLOCKS):
        if block:
            data = lt.max_pool2d(data, 2, name=f"pool{block}")
        for _ in range(count):
            data, number = requantised(data, channels, number), number + 1
    return data


def product(size: int) -> lt.Tensor:
    """A product of square matrices, requantised."""
    a, b = (lt.placeholder((size, size), "int8", name=name) for name in ("A", "B"))
    return lt.requantise(lt.matmul(a, b, transpose_b=True, name="C"), 8, name="D")


def tiled(images: int, size: int, channels: int, halo: int) -> lt.Schedule:
    """Two stages of which the first is computed at the second's tiles of 28×28; ``halo`` more rows and columns each."""
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


def once(work: Callable[[], object]) -> float:
    """Seconds of the processor."""
    start = process_time()
    work()
    return process_time() - start


def main() -> None:
    one_core()
    config = lt.load_config("vta")

    def built(output: lt.Tensor) -> float:
        return once(lambda: lt.build(output, [*placeholders(output), output], config))

    built(chain(1))  # what is loaded late
    figures: list[Figure] = []

    def row(name: str, seconds: float, limit: float | None) -> None:
        figures.append(Figure(name, round(seconds, 3), "s") if limit is None else at_most(name, seconds, "s", limit))

    for length, limit in CHAINS.items():
        row(f"chain of {length} convolutions", built(chain(length)), limit)
    for number in (16, 64):
        row(f"{number} residual blocks", built(residual_blocks(number)), None)
    row("sixteen convolutions and four pools", built(sixteen_convolutions()), 12)
    row("product of 4096^3", built(product(4096)), 10)
    for halo in (0, 2):
        for images, size, channels in ((1, 56, 16), (64, 224, 64), (64, 1792, 64)):
            s = tiled(images, size, channels, halo)
            row(f"count, {images}×{size}×{size}×{channels} in tiles, {halo} rows shared", once(s.count), 0.5)
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
