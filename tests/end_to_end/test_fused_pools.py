"""Max-pooling without overlap is fused with its producer: nothing is stored and loaded in between."""

import pytest
from checking import check_program
from shaped_machines import machine

import lathe as lt
from lathe.frontend import placeholders


def pooled(size: tuple[int, int], window: int, stride: int, channels: int = 16) -> lt.Tensor:
    """A requantised convolution, and a max pool of it."""
    data = lt.placeholder((2, *size, channels), "int8", name="data")
    weights = lt.placeholder((channels, 3, 3, channels), "int8", name="weights")
    sums = lt.conv2d(data, weights, padding=1, name="conv")
    return lt.max_pool2d(lt.requantise(sums, 8, name="bytes"), window, stride=stride, name="pool")


def loads_of_acc(result: lt.Result) -> int:
    """Bytes that the compute unit has loaded into acc."""
    return result.counters.bytes_read["acc8"] + result.counters.bytes_read["acc"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(1, 16, 16), (2, 16, 16), (1, 8, 16), (1, 16, 4), (2, 8, 16)])
@pytest.mark.parametrize(("size", "window", "stride"), [((6, 8), 2, 2), ((7, 9), 2, 2), ((9, 6), 3, 3), ((8, 7), 2, 3)])
def test_windows_apart(size, window, stride, shape):
    result = check_program(pooled(size, window, stride), machine(*shape))
    assert loads_of_acc(result) == 0


def test_windows_that_overlap_are_loaded():
    result = check_program(pooled((7, 7), 3, 2), machine(1, 16, 16))
    assert loads_of_acc(result) > 0


def test_two_pools_in_turn():
    result = check_program(lt.max_pool2d(pooled((8, 12), 2, 2), 2, stride=2, name="again"), machine(1, 16, 16))
    assert loads_of_acc(result) == 0


def test_what_others_read_is_stored():
    data = lt.placeholder((1, 6, 6, 16), "int8", name="data")
    weights = lt.placeholder((16, 1, 1, 16), "int8", name="weights")
    made = lt.requantise(lt.conv2d(data, weights, name="conv"), 7, name="bytes")
    check_program([lt.max_pool2d(made, 2, stride=2, name="pool"), made], machine(1, 16, 16))


def test_values_behind_the_last_window_are_not_made():
    """Dead-element elimination: of 7 rows and columns, windows of 2 read 6."""
    result = check_program(pooled((7, 7), 2, 2), machine(1, 16, 16))
    assert result.counters.gemm_operations <= 2 * 6 * 6 * 9


def test_little_room_parts_them():
    config = machine(1, 16, 16)
    config = config.with_(acc_buffer_bytes=8 * config.acc_element_bytes)
    check_program(pooled((9, 9), 3, 3), config)


def test_what_is_built_is_what_is_meant():
    output = pooled((7, 9), 2, 2, channels=20)
    lt.build(output, [*placeholders([output]), output], machine(1, 16, 16), check=True)
