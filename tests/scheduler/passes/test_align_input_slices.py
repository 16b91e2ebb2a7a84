"""Passes ``align-input-slices`` and ``lower-concat-to-gemm``: slices and concats at unaligned channel offsets."""

import numpy as np
import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.frontend import placeholders
from lathe.isa import Gemm
from lathe.scheduler.passes.pipeline import run_until

IDEAL = lt.load_config("lathe16").with_(**{"memory.latency": 0})
BATCH = lt.load_config("batch4")
WIDE = lt.load_config("wide")


def image(channels: int, size: int = 6) -> lt.Tensor:
    return lt.placeholder((1, size, size, channels), "int8", name="data")


def conv(data: lt.Tensor, filters: int, name: str, kernel: int = 3) -> lt.Tensor:
    weights = lt.placeholder((filters, kernel, kernel, data.shape[-1]), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, padding=kernel // 2, name=name), 8, name=f"{name}.narrow")


def part(data: lt.Tensor, first: int, end: int, step: int = 1) -> lt.Tensor:
    count = -(-(end - first) // step)
    return lt.compute((*data.shape[:3], count), lambda n, y, x, c: data[n, y, x, c * step + first], name=f"part{first}")


def concatenated(*parts: lt.Tensor) -> lt.Tensor:
    ends = [sum(each.shape[3] for each in parts[: n + 1]) for n in range(len(parts))]

    def element(n, y, x, c):
        value = parts[-1][n, y, x, c - ends[-2]]
        for each, start, end in reversed(list(zip(parts[:-1], [0, *ends], ends[:-1], strict=False))):
            value = lt.select(c < end, each[n, y, x, c - start], value)
        return value

    return lt.compute((*parts[0].shape[:3], ends[-1]), element, name="concatenated")


def cycles(*outputs: lt.Tensor) -> int:
    """Cycles on an ideal memory; checks the outputs against NumPy, and each instruction."""
    named = list(outputs)
    program = lt.build(named, [*placeholders(named), *named], IDEAL, check=True)
    inputs = random_inputs(named, seed=1)
    result = lt.simulate(program, inputs)
    for each in named:
        expected = lt.reference(each, {own.name: inputs[own.name] for own in placeholders([each])})
        assert np.array_equal(result.outputs[each.name], expected)
    return result.cycles


@pytest.mark.sample(1)
@pytest.mark.parametrize(("first", "end"), [(32, 64), (16, 48), (40, 64), (5, 30)])
def test_a_slice_of_an_otherwise_dead_tensor(first, end):
    """Filters of dead channels are left out of the weights; a slice that ends within a vector is stored whole."""
    lower = cycles(part(conv(image(64), 64, "first"), 0, 32))
    assert cycles(part(conv(image(64), 64, "first"), first, end)) == pytest.approx(lower, rel=0.02)


def test_every_other_channel():
    """The other channels are not computed; the host packs the filters by the stride."""
    assert cycles(part(conv(image(32), 64, "first"), 1, 64, 2)) < cycles(conv(image(32), 64, "first")) * 0.65


@pytest.mark.sample(1)
@pytest.mark.parametrize("ends", [(32, 64), (16, 32, 48, 64), (24, 64), (10, 20, 30)])
def test_slices_for_a_convolution_each(ends):
    """Unaligned slices are selected by a GEMM, in less than a tenth of the cycles of the convolutions."""
    whole = conv(image(64), ends[-1], "first")
    parts = [conv(part(whole, first, end), 32, f"of{first}") for first, end in zip((0, *ends), ends, strict=False)]
    alone = [conv(image(end - first), 32, "one") for first, end in zip((0, *ends), ends, strict=False)]
    assert cycles(*parts) < 1.25 * (cycles(whole) + sum(map(cycles, alone)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("ends", [(32, 64), (24, 64), (10, 20, 30)])
def test_slices_of_an_input(ends):
    data = image(ends[-1])
    parts = [conv(part(data, first, end), 32, f"of{first}") for first, end in zip((0, *ends), ends, strict=False)]
    alone = [conv(image(end - first), 32, "one") for first, end in zip((0, *ends), ends, strict=False)]
    assert cycles(*parts) < 1.25 * sum(map(cycles, alone)) + 600


@pytest.mark.sample(1)
@pytest.mark.parametrize("sizes", [(32, 32), (16, 16, 16), (24, 40), (10, 10, 10)])
def test_concatenated_results(sizes):
    data = image(32)
    parts = [conv(data, size, f"of{n}") for n, size in enumerate(sizes)]
    assert cycles(conv(concatenated(*parts), 32, "last")) < 1.4 * (
        sum(map(cycles, parts)) + cycles(conv(image(sum(sizes)), 32, "last"))
    )


def test_slices_that_are_outputs():
    whole = conv(image(32), 30, "first")
    assert cycles(part(whole, 0, 10), part(whole, 10, 20), part(whole, 20, 30)) < 1.6 * cycles(whole)


@pytest.mark.sample(2)
@pytest.mark.parametrize("config", [VTA, TINY, BATCH, WIDE], ids=lambda config: config.name)
@pytest.mark.parametrize(("first", "end", "step"), [(4, 12, 1), (16, 32, 1), (7, 20, 1), (3, 30, 3)])
def test_slices_on_other_machines(config, first, end, step):
    whole = conv(image(12, 3), 32, "first", 1)
    some = part(whole, first, end, step)
    for output in (some, conv(some, 8, "last", 1), conv(part(whole, 0, 9), 8, "other", 1)):
        run(lt.create_schedule(output), config, random_inputs([output], seed=2))
    both = [conv(some, 8, "last", 1), conv(part(whole, 0, 9), 8, "other", 1)]
    run(lt.create_schedule(both), config, random_inputs(both, seed=3))


def test_concatenated_slices_on_the_rtl():
    data = image(5, 2)
    one, other = conv(data, 6, "one", 1), conv(data, 7, "other", 1)
    simulate_and_check(lt.create_schedule(part(concatenated(one, other), 3, 12)))


def test_gemms_on_slices_of_both_operands():
    """Unaligned rows and reduced elements of either operand; one of them is read twice."""
    A, B = lt.placeholder((9, 50), "int8", name="A"), lt.placeholder((40, 60), "int8", name="B")
    left = lt.compute((9, 24), lambda i, k: A[i, k + 5], name="left")
    right = lt.compute((20, 24), lambda j, k: B[j + 17, k + 30], name="right")
    again = lt.compute((9, 24), lambda i, k: A[i, k + 26], name="again")
    outputs = [
        lt.requantise(lt.matmul(each, right, transpose_b=True, name=f"of_{each.name}"), 8, name=f"out_{each.name}")
        for each in (left, again)
    ]
    for config in (VTA, BATCH, WIDE):
        run(lt.create_schedule(outputs), config, random_inputs(outputs, seed=4))


def test_an_input_with_a_user_layout():
    data = image(40, 4)
    output = conv(part(data, 20, 36), 16, "first", 1)
    schedule = lt.create_schedule(output)
    schedule.transform_layout(data, lambda n, y, x, c: [n, x, y, c])
    run(schedule, VTA, random_inputs([output], seed=5))


@pytest.mark.slow
def test_channels_chosen_by_a_condition_on_both_sides():
    """Operands with zeros between them, one of them twice."""
    data = image(16)
    one, other = conv(data, 20, "one"), conv(data, 12, "other")

    def element(n, y, x, c):
        behind = lt.select(c < 36, one[n, y, x, c - 16], other[n, y, x, c - 36])
        return lt.select(c < 12, other[n, y, x, c], lt.select(c < 16, 0, behind))

    output = lt.compute((1, 6, 6, 48), element, name="mixed")
    assert cycles(output) < 2 * (cycles(one) + cycles(other))


def test_no_gemm_where_no_value_changes_lanes():
    """Aligned operands are concatenated without a GEMM."""
    data = image(16)
    output = concatenated(conv(data, 16, "one", 1), conv(data, 16, "other", 1))
    names = [stage.name for stage in run_until(lt.create_schedule(output), VTA, "lower-concat-to-gemm").stages]
    assert not any("placed" in name for name in names)
    program = lt.build(output, [*placeholders([output]), output], VTA)
    assert sum(isinstance(each, Gemm) and not each.reset for each in program.instructions) <= 4
