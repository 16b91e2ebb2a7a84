"""Number of multiply-accumulates of a program, without those with zero padding."""

from math import prod

import numpy as np
import pytest

import lathe as lt
from lathe.frontend import placeholders, reduce_axis, select
from lathe.frontend.tensor.programs import topological
from lathe.scheduler.lower_bound.mac_counts import macs_of


def convolved(padding: int, stride: int = 1, dilation: int = 1, groups: int = 1, pad_value: int = 0) -> lt.Tensor:
    data = lt.placeholder((2, 6, 5, 4), "int8", name="data")
    weights = lt.placeholder((8, 3, 3, 4 // groups), "int8", name="weights")
    return lt.conv2d(
        data, weights, padding=padding, stride=stride, dilation=dilation, groups=groups, pad_value=pad_value
    )


@pytest.mark.parametrize(
    "output",
    [
        convolved(0), convolved(1), convolved(2, stride=2), convolved(3, dilation=2), convolved(1, groups=2),
        convolved(1, groups=4),
    ],
)  # fmt: skip
def test_a_convolution_of_ones_sums_to_its_number_of_macs(output: lt.Tensor) -> None:
    inputs = {each.name: np.ones(each.shape, np.int8) for each in placeholders([output])}
    assert macs_of([output]) == lt.reference(output, inputs).sum()


def test_padding_that_is_not_zero_counts() -> None:
    output = convolved(1, pad_value=3)
    assert macs_of([output]) == prod(output.shape) * 9 * 4


def test_macs_of_several_stages_are_added() -> None:
    first = lt.requantise(
        lt.dense(lt.placeholder((3, 5), "int8", name="A"), lt.placeholder((7, 5), "int8", name="B")), 4
    )
    output = lt.matmul(first, lt.placeholder((7, 2), "int8", name="C"))
    assert len(topological([output])) == 3
    assert macs_of([output]) == 3 * 7 * 5 + 3 * 2 * 7


def test_programs_without_products_of_two_tensors_have_no_macs() -> None:
    data = lt.placeholder((4, 4), "int8", name="data")
    assert macs_of([lt.relu(data)]) == macs_of([lt.max_pool2d(lt.placeholder((1, 4, 4, 4), "int8"), 2)]) == 0
    k = reduce_axis(4, "k")
    squares = lt.compute(4, lambda i: lt.sum(data[i, k].astype("int32") * 3, axis=k))
    assert macs_of([squares]) == 0


def test_macs_under_a_condition_count_where_it_holds() -> None:
    A, B = lt.placeholder((6, 6), "int8", name="A"), lt.placeholder((6,), "int8", name="B")
    k = reduce_axis(6, "k")
    product = lambda i: A[i, k].astype("int32") * B[k].astype("int32")  # noqa: E731
    lower = lt.compute(6, lambda i: lt.sum(select(k + 0 <= i, product(i), 0), axis=k))
    assert macs_of([lower]) == 21


def test_the_number_of_macs_does_not_depend_on_the_schedule() -> None:
    output = lt.requantise(convolved(1), 5, name="output")
    tensors = [*placeholders([output]), output]
    vta = lt.load_config("vta")
    schedule = lt.create_schedule(output)
    schedule[output].split(schedule[output].axis[1], factor=2)
    built, scheduled = lt.build(output, tensors, vta), lt.build(schedule, tensors, vta)
    assert built.products == scheduled.products == macs_of([output]) == lt.bound(output, vta).products
    result = lt.simulate(built, timing_only=True)
    assert result.efficiency == built.products / (result.cycles * 256)
