"""Reductions over a slice of a tensor: the pad lanes are not zero then, so other axes must be in the lanes."""

import pytest
from random_programs import random_inputs
from small_machine import run

import lathe as lt

MACHINES = [lt.load_config(name) for name in ("tiny", "vta", "batch4")]


def halved(tensor, name):
    return lt.compute(tensor.shape, lambda *i: (tensor[i] >> 1).astype("int8"), name=name)


@pytest.mark.sample(7)
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


def first_of(tensor, count, start=0, name="part"):
    """A slice of the columns of a tensor, each value halved."""
    return lt.compute((tensor.shape[0], count), lambda i, k: (tensor[i, k + start] >> 1).astype("int8"), name=name)


def product_of(data, weight, count, name):
    k = lt.reduce_axis(count, name=f"{name}.k")
    rows = data.shape[0], weight.shape[0]
    return lt.compute(
        rows, lambda i, j: lt.sum(data[i, k].astype("int32") * weight[j, k].astype("int32"), axis=k), name
    )


@pytest.mark.sample(9)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each.name)
@pytest.mark.parametrize("wide", ["A", "W", "AW"])
@pytest.mark.parametrize("start", [0, 4, 16])
def test_a_slice_computed_by_the_alu_has_the_other_columns_in_its_pad_lanes(wide, start, machine):
    """Arithmetic computes all lanes of vectors, including the columns outside of the slice."""
    A, W = (
        lt.placeholder((rows, 21 if name in wide else 5), "int8", name=name) for name, rows in (("A", 4), ("W", 20))
    )
    data, weight = (first_of(each, 5, start, f"{each.name}2") if each.name in wide else each for each in (A, W))
    B = product_of(data, weight, 5, "B")
    run(lt.create_schedule(B), machine, random_inputs([B], seed=6))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each.name)
@pytest.mark.parametrize("computed", [False, True])
def test_a_gemm_with_a_slice_of_weight_rows_has_the_others_in_its_pad_lanes(computed, machine):
    A, W = lt.placeholder((4, 16), "int8", name="A"), lt.placeholder((9, 16), "int8", name="W")
    V = lt.placeholder((20, 9), "int8", name="V")
    k = lt.reduce_axis(16, name="k")
    B = lt.compute((4, 5), lambda i, j: lt.sum(A[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), "B")
    C = product_of(lt.requantise(B, 4, name="narrow"), first_of(V, 5, name="V2") if computed else V, 5, "C")
    run(lt.create_schedule(C), machine, random_inputs([C], seed=7))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each.name)
def test_copies_of_a_slice_have_the_other_columns_in_their_pad_lanes(machine):
    A, W = lt.placeholder((4, 9), "int8", name="A"), lt.placeholder((20, 9), "int8", name="W")
    parts = [
        lt.compute((each.shape[0], 5), lambda i, k, each=each: each[i, k], name=f"{each.name}2") for each in (A, W)
    ]
    B = product_of(*parts, 5, "B")
    run(lt.create_schedule(B), machine, random_inputs([B], seed=8))
    schedule = lt.create_schedule(B)
    for part, scope in zip(parts, ("inp", "wgt"), strict=True):
        schedule[part].set_scope(scope)
    with pytest.raises(lt.EmitError, match="reduction must cover whole blocks"):
        lt.build(schedule, [A, W, B], machine)
