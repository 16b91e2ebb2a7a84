"""Products on `lathe16` with an ideal memory: square ones, and sixteen small ones in one program.

Square products are brought to 8 bits with a bias and a factor for each column; peak is a step for each block of
products. The sixteen are of 16×16×16, shifted and stored as int8, on a bus of 128 bits: they move 12,288 bytes. Every
output is compared with NumPy. `python benchmarks/layers.py` prints them.
"""

from typing import Any

import numpy as np

import lathe as lt

SIZES = (512, 768, 1024)
LEAST_OF_PEAK = 0.96
MOST_CYCLES = 1100
PUBLISHED = (3405, 1499)
"""Cycles of sixteen such products as published for two accelerators on wider memories."""


def ideal(bus_bits: int = 64) -> lt.HardwareConfig:
    """`lathe16` with a memory that never waits, behind a bus of so many bits."""
    return lt.load_config("lathe16").with_(**{"memory.latency": 0, "memory.bus_bits": bus_bits})


def cycles(outputs: list[lt.Tensor], given: dict[str, Any], config: lt.HardwareConfig) -> int:
    """The cycles of a program, whose outputs are NumPy's."""
    program = lt.build(outputs, [*lt.frontend.placeholders(outputs), *outputs], config)
    result = lt.simulate(program, given, trace=False)
    right = lt.reference(outputs, given)
    for output in outputs:
        assert np.array_equal(result.outputs[output.name], right[output.name]), "bits differ from NumPy"
    return result.cycles


def square(size: int) -> tuple[int, float]:
    """Cycles of a square product, and the share of them that its products would take at the peak."""
    config, generator = ideal(), np.random.default_rng(size)
    A, B = (lt.placeholder((size, size), "int8", name=name) for name in "AB")
    P = lt.placeholder((size, 2), "int32", name="P")
    output = lt.requantise(lt.dense(A, B, name="C"), parameters=P, name="D")
    given: dict[str, Any] = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    given["P"] = lt.rescale_parameters(generator.uniform(0.5, 2, size) / (128 * np.sqrt(size)))
    taken = cycles([output], given, config)
    return taken, size**3 // (config.batch * config.block_in * config.block_out) / taken


def sixteen() -> int:
    """Cycles of sixteen products of 16×16×16 in one program."""
    generator = np.random.default_rng(16)
    outputs = []
    given = {}
    for number in range(16):
        A, B = (lt.placeholder((16, 16), "int8", name=f"{name}{number}") for name in "AB")
        C = lt.dense(A, B, name=f"C{number}")
        outputs.append(lt.compute(C.shape, lambda i, j, C=C: (C[i, j] >> 8).astype("int8"), name=f"D{number}"))
        given |= {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    return cycles(outputs, given, ideal(128))
