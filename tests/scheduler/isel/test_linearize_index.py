"""Linearised indices with divisions equal the expression at every iteration, or the chunk is split."""

from itertools import product

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.frontend import compute, placeholder
from lathe.frontend.arith.linear import Linear, LoopVariable, floor_divide
from lathe.scheduler import build, create_schedule
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.linearize_index import SplitNeeded, linearize_index


def test_a_step_larger_than_the_divisor_keeps_its_whole_quotient():
    """Regression: 3 * i % 2 over i in 0..2 is 0, 1, and was taken for 0, 3, so that a GEMM read another weight."""
    i = LoopVariable("i", 2)
    tripled = Linear.of(i, 3)
    halved = floor_divide(tripled, 2)
    index = linearize_index(tripled - halved * 2, [(i, range(2))], {})
    assert (index.constant, index.coefficients) == (0, (1,))


def random_value(rng: np.random.Generator, variables: list[LoopVariable], depth: int) -> Linear:
    value = Linear(int(rng.integers(-5, 20)))
    for variable in variables:
        value += Linear.of(variable, int(rng.integers(-7, 8)))
    for _ in range(depth):
        inner = random_value(rng, variables, depth - 1)
        value += floor_divide(inner, int(rng.integers(1, 8))) * int(rng.integers(-6, 7))
    return value


def value_at(value: Linear, point: dict[LoopVariable, int]) -> int:
    total = value.constant
    for atom, coefficient in value.terms.items():
        known = point[atom] if isinstance(atom, LoopVariable) else value_at(atom.numerator, point) // atom.divisor
        total += coefficient * known
    return total


def index_or_bend(value, loops, outer):
    try:
        return linearize_index(value, loops, outer)
    except SplitNeeded as bend:
        return bend


def test_random_indices_are_exact_or_the_chunk_is_split_within_a_loop():
    taken = 0
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        variables = [LoopVariable(name, 5) for name in "ijk"]
        value = random_value(rng, variables, int(rng.integers(0, 3)))
        outer = {variables[2]: int(rng.integers(0, 5))}
        loops = []
        for variable in variables[:2]:
            start = int(rng.integers(0, 3))
            loops.append((variable, range(start, start + int(rng.integers(1, 4)))))
        index = index_or_bend(value, loops, outer)
        if isinstance(index, SplitNeeded):
            assert 0 < index.count < len(loops[index.loop][1]), f"seed {seed}: {value} cannot be split there"
            continue
        taken += 1
        for counts in product(*(range(len(each)) for _, each in loops)):
            point = outer | {v: each[n] for (v, each), n in zip(loops, counts, strict=True)}
            found = index.constant + sum(c * n for c, n in zip(index.coefficients, counts, strict=True))
            assert found == value_at(value, point), f"seed {seed}: {value} at {counts}"
    assert taken > 400


def test_an_index_that_wraps_around_is_not_linear():
    """Regression: it was taken for 3 * i, and the program read rows that the algorithm does not."""
    A = placeholder((256, 16), "int32", "A")
    C = compute((96, 16), lambda i, j: A[(i.astype("uint8") * 3).astype("index"), j] + 1, "C")
    with pytest.raises(EmitError, match=r"index of A\.acc in stage C\.acc must be linear"):
        build(create_schedule(C), [A, C], load_config("vta"))
