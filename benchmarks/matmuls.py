"""Matmuls on `lathe16` with an ideal memory: square ones, and sixteen small ones in one program.

Square matmuls are requantised with a bias and a factor per column; the peak is one cycle per GEMM micro-op. The sixteen
are 16×16×16, shifted and stored as int8, on a bus of 128 bits: they transfer 12,288 bytes. Every output is compared
with NumPy. `python benchmarks/layers.py` prints them.
"""

from typing import Any

import numpy as np

import lathe as lt

SIZES = (512, 768, 1024)
LEAST_OF_PEAK = 0.96
MOST_CYCLES = 1100
PUBLISHED = (3405, 1499)
"""Published cycles of sixteen such matmuls on two accelerators with wider memories."""


def ideal(bus_bits: int = 64) -> lt.HardwareConfig:
    """`lathe16` with an ideal memory (latency 0) and a bus of ``bus_bits``."""
    return lt.load_config("lathe16").with_(**{"memory.latency": 0, "memory.bus_bits": bus_bits})


def cycles(outputs: list[lt.Tensor], given: dict[str, Any], config: lt.HardwareConfig) -> int:
    """The cycles of a program, whose outputs are compared with NumPy."""
    program = lt.build(outputs, [*lt.frontend.placeholders(outputs), *outputs], config)
    result = lt.simulate(program, given, trace=False)
    expected = lt.reference(outputs, given)
    for output in outputs:
        assert np.array_equal(result.outputs[output.name], expected[output.name]), "bits differ from NumPy"
    return result.cycles


def square(size: int) -> tuple[int, float]:
    """The cycles of a square matmul, and its cycles at the peak divided by them."""
    config, generator = ideal(), np.random.default_rng(size)
    A, B = (lt.placeholder((size, size), "int8", name=name) for name in "AB")
    P = lt.placeholder((size, 2), "int32", name="P")
    output = lt.requantise(lt.dense(A, B, name="C"), parameters=P, name="D")
    given: dict[str, Any] = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    given["P"] = lt.rescale_parameters(generator.uniform(0.5, 2, size) / (128 * np.sqrt(size)))
    taken = cycles([output], given, config)
    return taken, size**3 // (config.batch * config.block_in * config.block_out) / taken


def sixteen() -> int:
    """The cycles of sixteen 16×16×16 matmuls in one program."""
    generator = np.random.default_rng(16)
    outputs = []
    given = {}
    for number in range(16):
        A, B = (lt.placeholder((16, 16), "int8", name=f"{name}{number}") for name in "AB")
        C = lt.dense(A, B, name=f"C{number}")
        outputs.append(lt.compute(C.shape, lambda i, j, C=C: (C[i, j] >> 8).astype("int8"), name=f"D{number}"))
        given |= {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    return cycles(outputs, given, ideal(128))
