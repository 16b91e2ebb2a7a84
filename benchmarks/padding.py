"""The cost of padding with values other than zero: by LOAD (`lathe16`), filled by the ALU, or copied (`vta`).

    python benchmarks/padding.py [--json]

Max pools pad int8 images with -128, convolutions with a zero point. Three methods are measured for the pools: separate
chunks for data and border, zero padding to which the ALU adds the constant (the default on `vta`), and `pad_value` of
`lathe16`. On `vta` a convolution with a zero point other than 0 stores the padded image first. Every result is compared
with NumPy.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_most, one_core, report

import lathe as lt
from lathe.scheduler.isel.rules import RULES

POOLS = [(112, 64, 2), (28, 256, 1), (14, 512, 1)]  # pixels, channels, stride; windows of 3 by 3
CONVOLUTIONS = [(56, 64), (14, 256)]  # pixels, channels in and out; kernels of 3 by 3
ZERO_POINT = -7


def pool(pixels: int, channels: int, stride: int) -> tuple[lt.Tensor, list[lt.Tensor]]:
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    return lt.max_pool2d(data, 3, stride=stride, padding=1, name="output"), [data]


def convolution(pixels: int, channels: int, zero_point: int) -> tuple[lt.Tensor, list[lt.Tensor]]:
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((channels, 3, 3, channels), "int8", name="weights")
    product = lt.conv2d(data, weights, padding=1, pad_value=zero_point, name="conv")
    return lt.requantise(product, 9, name="output"), [data, weights]


@contextmanager
def copied_apart() -> Iterator[None]:
    """A context in which rule dma rejects chunks with guards, so that the border is split into separate chunks."""
    dma = RULES["dma"]

    def unconditional(chunk: lt.Chunk) -> object:
        if any(read.guards for read in chunk.reads):
            return lt.RuleMismatch("copies must not have guards")
        return dma(chunk)

    lt.emit_rule("dma", separate_init=True)(unconditional)  # type: ignore[arg-type]
    try:
        yield
    finally:
        lt.emit_rule("dma", separate_init=True)(dma)


def measured(output: lt.Tensor, inputs: list[lt.Tensor], machine: str) -> tuple[int, int, int, int]:
    """Cycles, instructions, and bytes of data read and written."""
    program = lt.build(output, [*inputs, output], lt.load_config(machine))
    generator = np.random.default_rng(0)
    values = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    result = lt.simulate(program, values)
    assert np.array_equal(result.outputs["output"], lt.reference(output, values)), "bits differ from NumPy"
    read, written = result.counters.bytes_read, result.counters.bytes_written
    data = sum(count for memory, count in read.items() if memory not in ("instructions", "uop"))
    return result.cycles, len(program.instructions), data, sum(written.values())


def figures_of(what: str, found: tuple[int, int, int, int]) -> list[Figure]:
    units = ("cycles", "instructions", "bytes read", "bytes written")
    return [Figure(what, value, unit) for value, unit in zip(found, units, strict=True)]


def main() -> None:
    one_core()
    figures: list[Figure] = []
    for shape in POOLS:
        output, inputs = pool(*shape)
        name = "max pool {0}×{0}×{1} / {2}".format(*shape)
        with copied_apart():
            apart = measured(output, inputs, "vta")
        filled, extended = measured(output, inputs, "vta"), measured(output, inputs, "lathe16")
        for way, found in (("copied apart", apart), ("ALU fill", filled), ("pad_value", extended)):
            figures += figures_of(f"{name}, {way}", found)
        figures.append(at_most(f"{name}, ALU fill vs copied apart", filled[0] / apart[0], "of its cycles", 1))
        figures.append(at_most(f"{name}, pad_value vs ALU fill", extended[0] / filled[0], "of its cycles", 1))
    for pixels, channels in CONVOLUTIONS:
        name = f"convolution {pixels}×{pixels}×{channels}"
        plain = measured(*convolution(pixels, channels, 0), "vta")
        stored = measured(*convolution(pixels, channels, ZERO_POINT), "vta")
        extended = measured(*convolution(pixels, channels, ZERO_POINT), "lathe16")
        ways = (("padded with 0", plain), ("padded image stored", stored), ("pad_value", extended))
        for way, found in ways:
            figures += figures_of(f"{name}, {way}", found)
        figures.append(at_most(f"{name}, pad_value vs stored", extended[0] / stored[0], "of its cycles", 1))
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
