"""Four slots for weights, if loads are nearly the bottleneck and four divides the number of reduction tiles."""

import pytest
from random_programs import random_inputs
from small_machine import VTA, buffers, run

import lathe as lt

QUICK = VTA.with_(**{"memory.latency": 0})


def parts_of_channels(pixels: int, channels: int) -> lt.Schedule:
    """A GEMM of ``pixels`` and 32 filters, in reduction tiles of 16 channels, whose weights load in 32 cycles each."""
    data, weights = (
        lt.placeholder((pixels, channels), "int8", "data"),
        lt.placeholder((32, channels), "int8", "weights"),
    )
    s = lt.create_schedule(lt.requantise(total := lt.dense(data, weights, name="total"), 8, name="output"))
    s[total].set_scope("acc")
    s.cache_write(s.outputs[0], "acc")
    loaded = s.cache_read(weights, "wgt", [total])
    s.cache_read(data, "inp", [total])
    outer, _ = s[total].split(s[total].reduce_axis[0], factor=16)
    s[total].reorder(outer, *s[total].axis)
    s[loaded].compute_at(s[total], outer)
    return s


@pytest.mark.parametrize(
    ("pixels", "channels", "slots"),
    [(48, 64, 4), (48, 128, 4), (48, 96, 2), (48, 112, 2), (80, 64, 2), (20, 64, 2)],
    ids=["four parts", "eight parts", "six parts", "seven parts", "loads take less than half", "loads take longer"],
)
def test_number_of_slots(pixels, channels, slots):
    s = parts_of_channels(pixels, channels)
    assert buffers(s, QUICK)["weights.wgt"].slots == slots
    run(s, QUICK, random_inputs(list(s.program), seed=1))


def test_two_slots_if_four_do_not_fit():
    config = QUICK.with_(name="narrow", wgt_buffer_bytes=4 * 256)
    assert buffers(parts_of_channels(48, 64), config)["weights.wgt"].slots == 2


def test_a_number_that_the_user_requests_is_kept():
    s = parts_of_channels(48, 64)
    loaded = next(stage for stage in s.stages if stage.name == "weights.wgt")
    loaded.double_buffer(2)
    assert buffers(s, QUICK)["weights.wgt"].slots == 2
