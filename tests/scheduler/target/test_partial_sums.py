"""Products summed over less than a tensor has: lanes behind the last are no zeros, so others run along them."""

import pytest
from machine import run
from random_programs import random_inputs

import lathe as lt

MACHINES = [lt.load_config(name) for name in ("tiny", "vta", "batch4")]


def halved(tensor, name):
    return lt.compute(tensor.shape, lambda *i: (tensor[i] >> 1).astype("int8"), name=name)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each.name)
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("computed", ["", "A", "W", "AW"])
def test_a_part_of_a_dimension_is_summed(computed, first, machine):
    A, W = lt.placeholder((4, 9), "int8", name="A"), lt.placeholder((20, 9), "int8", name="W")
    data, weight = (halved(each, f"{each.name}2") if each.name in computed else each for each in (A, W))
    k = lt.reduce_axis(5, name="k")
    B = lt.compute(
        (4, 20), lambda i, j: lt.sum(data[i, k + first].astype("int32") * weight[j, k].astype("int32"), axis=k), "B"
    )
    run(lt.create_schedule(B), machine, random_inputs([B], seed=4))


@pytest.mark.parametrize(("block_in", "block_out"), [(8, 2), (4, 2), (8, 4), (2, 8)])
def test_taps_of_computed_weights(block_in, block_out):
    """Two taps along rows of three pixels."""
    machine = lt.load_config("tiny").with_(block_in=block_in, block_out=block_out)
    data, given = lt.placeholder((1, 4, 3, 16), "int8", name="data"), lt.placeholder((1, 2, 16, 3), "int8", name="w")
    output = lt.depthwise_conv2d(data, halved(given, "weight"), stride=(1, 2), name="output")
    run(lt.create_schedule(output), machine, random_inputs([output], seed=5))
