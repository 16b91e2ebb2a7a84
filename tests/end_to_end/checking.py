"""Build a tensor program, run it on random inputs, and check its outputs, verifier findings and GEMM operations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

import lathe as lt
from lathe.frontend import placeholders


@dataclass(frozen=True)
class Product:
    """Matmuls of (rows, inner) and (inner, columns), ``times`` of them (taps of a kernel, pixels, groups).

    ``beside`` of these meet only padding, and may be skipped. Several ``groups`` may be merged into one matmul each.
    """

    rows: int
    inner: int
    columns: int
    times: int = 1
    either: bool = False  # whether either operand may be the weight, as for two inputs
    pixels: tuple[int, ...] = ()  # extents within ``times`` that may be rows of the matmul instead
    beside: int = 0
    groups: int = 1

    def merged(self) -> "list[Product]":
        """The alternatives, one for each number of groups that may be merged into one."""
        counts = [count for count in range(1, self.groups + 1) if self.groups % count == 0]
        return [
            replace(
                self,
                inner=self.inner * count,
                columns=self.columns * count,
                times=self.times // count,
                beside=self.beside // count,
            )
            for count in counts
        ]

    def least(self, config: lt.HardwareConfig) -> int:
        """GEMM operations if those that only meet padding are skipped."""
        return -(-self.operations(config) * (self.times - self.beside) // self.times)

    def operations(self, config: lt.HardwareConfig) -> int:
        """GEMM operations if no value is computed twice."""

        def blocks(rows: int, columns: int) -> int:
            return ceil(rows / config.batch) * ceil(self.inner / config.block_in) * ceil(columns / config.block_out)

        fewest = blocks(self.rows, self.columns)
        if self.either:
            fewest = min(fewest, blocks(self.columns, self.rows))
        exchanged = (blocks(extent, self.columns) * self.times * self.rows // extent for extent in self.pixels)
        return min([fewest * self.times, *exchanged])


def random_array(tensor: lt.Tensor, generator: np.random.Generator) -> NDArray[np.generic]:
    """Random values of the whole range of the dtype."""
    if tensor.dtype == "bool":
        return generator.integers(0, 2, tensor.shape).astype(np.bool_)
    limits = np.iinfo(tensor.dtype)
    return generator.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)


def check_program(
    outputs: lt.Tensor | Sequence[lt.Tensor],
    config: lt.HardwareConfig,
    *,
    products: Sequence[Product] | None = None,
    constants: Mapping[str, NDArray[np.generic]] | None = None,
    seed: int = 0,
) -> lt.Result:
    """The result of the default schedule, after checks of outputs, verifier findings, and number of GEMM operations."""
    wanted = [outputs] if isinstance(outputs, lt.Tensor) else list(outputs)
    inputs = list(placeholders(wanted))
    generator = np.random.default_rng(seed)
    arrays = {tensor.name: random_array(tensor, generator) for tensor in inputs}
    fixed = dict(constants or {})
    program = lt.build(wanted, [*inputs, *wanted], config, constants=fixed)
    assert lt.verify(program) == []
    given = {name: array for name, array in arrays.items() if name not in fixed}
    result = lt.simulate(program, given)
    expected = lt.reference(wanted, {**given, **fixed})
    for tensor in wanted:
        values = expected[tensor.name] if isinstance(expected, dict) else expected
        found = result.outputs[tensor.name]
        assert found.dtype == values.dtype
        assert found.shape == values.shape
        wrong = np.argwhere(found != values)
        assert not len(wrong), f"{tensor.name}: {len(wrong)} of {prod(values.shape)} differ, first at {wrong[0]}"
    if products is not None:
        most = [max(each.operations(config) for each in product.merged()) for product in products]
        least = [min(each.least(config) for each in product.merged()) for product in products]
        assert sum(least) <= result.counters.gemm_operations <= sum(most)
    return result
