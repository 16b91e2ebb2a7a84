"""Pass ``lower-constant-division``: exact quotients and remainders by constants, with operations that the ALU has."""

import numpy as np
import pytest
from random_programs import Choice
from seeds import check_each, note
from small_machine import TINY, VTA, run

import lathe as lt
from lathe.frontend.expr.nodes import Binary, Const
from lathe.scheduler.passes.lower_constant_division import _quotient, multiplier
from lathe.scheduler.passes.pipeline import run_until

OPERATIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "shr": np.right_shift, "shl": np.left_shift,
    "min": np.minimum, "max": np.maximum, "mod": np.mod,
}  # fmt: skip
WORD = np.iinfo(np.int32)
X = lt.placeholder((1,), "int32", name="X")


def evaluated(expr, values: np.ndarray, known: dict) -> np.ndarray:
    """The expression with int32 operations that wrap around."""
    if expr not in known:
        match expr:
            case Const(value=value):
                known[expr] = np.int32(value)
            case Binary(op=op, lhs=lhs, rhs=rhs):
                with np.errstate(over="ignore"):
                    known[expr] = OPERATIONS[op](evaluated(lhs, values, known), evaluated(rhs, values, known))
            case _:
                return values
    return known[expr]


def check_quotient(seed: int) -> None:
    choice = Choice(seed)
    divisor = choice.pick([choice.number(3, 40), choice.number(2, 2 ** choice.number(2, 31) - 1)])
    bits = choice.number(3, 31)
    low, high = sorted(choice.number(-(2**bits), 2**bits - 1) for _ in range(2))
    low, high = choice.pick([(low, high), (min(low, 0), max(high, 0)), (int(WORD.min), int(WORD.max))])
    note(f"{low} <= x <= {high}, divisor {divisor}")
    generator = np.random.default_rng(seed)
    multiples = generator.integers(low // divisor, high // divisor + 2, 300) * divisor
    values = np.concatenate([[low, high], *(multiples + n for n in (-1, 0, 1)), generator.integers(low, high + 1, 300)])
    values = np.clip(values, low, high)
    found = evaluated(_quotient(X[0], low, high, divisor), values.astype(np.int32), {})
    assert np.array_equal(np.broadcast_to(found, values.shape), values // divisor)


@pytest.mark.seeds(200, slow=5000)
def test_quotients_are_exact(seeds):
    check_each(seeds, check_quotient)


@pytest.mark.parametrize(("most", "divisor"), [(255, 3), (510, 7), (20000, 25), (1000, 999), (40000, 3)])
def test_a_multiplier_is_exact_for_every_dividend(most, divisor):
    found = multiplier(most, divisor)
    assert found is not None
    factor, shift = found
    x = np.arange(most + 1)
    assert np.array_equal((x * factor) >> shift, x // divisor)
    assert most * factor <= WORD.max


@pytest.mark.sample(4)
@pytest.mark.parametrize("divisor", [3, 7, 25, 100, 60000])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("remainder", [False, True])
@pytest.mark.parametrize("config", [TINY, VTA], ids=lambda config: config.name)
def test_the_machine_divides_like_numpy(config, remainder, dtype, divisor):
    limits = np.iinfo(dtype)
    divisor = min(divisor, int(limits.max) - 1)
    data = lt.placeholder((4, 16), dtype, name="data")
    result = lt.compute((4, 16), lambda i, j: data[i, j] % divisor if remainder else data[i, j] // divisor, "result")
    values = np.random.default_rng(divisor).integers(limits.min, int(limits.max) + 1, (4, 16)).astype(dtype)
    values.flat[:4] = limits.min, limits.max, -divisor if limits.min < 0 else divisor, divisor - 1
    run(lt.create_schedule(result), config, {"data": values})


def test_powers_of_two_and_rules_of_users_are_left():
    data = lt.placeholder((4, 16), "int32", name="data")
    result = lt.compute((4, 16), lambda i, j: data[i, j] // 8 + data[i, j] % 4, "result")
    schedule = lt.create_schedule(result)
    after = run_until(schedule, VTA, "lower-constant-division")
    assert after[result].state.computation is schedule[result].state.computation
