"""Groups of channels are an outer dimension in memory, so that the pixels of one group are contiguous."""

import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Load, MemoryType
from lathe.scheduler import create_schedule
from lathe.scheduler.layout.physical_layout import split_dims_of
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir.stage import VectorLayout


def grouped(data: lt.Tensor, groups: int, filters: int, name: str) -> lt.Tensor:
    weights = lt.placeholder((filters, 3, 3, data.shape[-1] // groups), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, padding=1, groups=groups, name=f"{name}.sums"), 6, name=name)


def test_each_group_of_an_input_is_loaded_in_one_piece():
    s = create_schedule(grouped(lt.placeholder((1, 6, 6, 128), "int8", name="data"), 8, 128, "layer"))
    program = run(s, VTA, random_inputs(list(s.program), seed=1))
    found = [each for each in program.instructions if isinstance(each, Load) and each.memory_type == MemoryType.INP]
    assert sum(each.y_size * each.x_size for each in found) == 6 * 6 * 8
    assert len(found) == 8


@pytest.mark.parametrize("second", [2, 4, 8])
def test_chains_of_groups_that_overlap(second):
    layer = grouped(lt.placeholder((1, 5, 7, 24), "int8", name="data"), 4, 32, "first")
    s = create_schedule(grouped(layer, second, 16, "second"))
    run(s, VTA, random_inputs(list(s.program), seed=2))


@pytest.mark.sample(1)
@pytest.mark.parametrize("machine", ["vta", "lathe16", "batch4"])
def test_an_addend_of_a_grouped_convolution_has_the_same_order(machine):
    """Stages that alias each other's buffers have the same address order, including those that passes insert."""
    data = lt.placeholder((1, 6, 6, 32), "int8", name="data")
    first = grouped(data, 4, 32, "first")
    added = lt.requantise(lt.add(grouped(first, 4, 32, "second"), first, name="added"), 1, name="sum")
    s = create_schedule(lt.avg_pool2d(added, 2, stride=2, name="average"))
    run(s, lt.load_config(machine), random_inputs(list(s.program), seed=3))


def test_converted_layouts_have_one_order_for_all_consumers():
    """Space-to-depth of an image, on a machine that needs layout conversions."""
    pair = VTA.with_(name="pair", batch=2, block_in=8, block_out=16)
    data = lt.placeholder((1, 2, 8, 8), "int8", name="data")
    apart = lt.compute(
        (1, 1, 4, 32), lambda n, y, x, k: data[n, y * 2 + k // 8 // 2, x * 2 + k // 8 % 2, k % 8], name="apart"
    )
    out = lt.conv2d(apart, lt.placeholder((2, 1, 2, 32), "int8", name="weights"), stride=2, name="out")
    lt.build(out, [data, out.computation.reads[1].tensor, out], pair, check=True)


def test_only_the_axis_of_the_columns_is_split():
    layer = grouped(lt.placeholder((1, 5, 5, 64), "int8", name="data"), 4, 64, "first")
    schedule = run_pipeline(create_schedule(layer), VTA)
    assert split_dims_of(schedule, (1, 5, 5, 4, 16), VectorLayout(None, 4)) == (3,)
    assert split_dims_of(schedule, (1, 5, 5, 4, 16), VectorLayout(None, 1)) == ()
    assert split_dims_of(schedule, (1, 5, 5, 4, 16), VectorLayout(None, None)) == ()
    assert split_dims_of(schedule, (1, 5, 5, 64), VectorLayout(None, 3)) == ()


def test_groups_on_the_rtl():
    simulate_and_check(create_schedule(grouped(lt.placeholder((1, 3, 4, 8), "int8", name="data"), 2, 8, "layer")), TINY)


def test_padded_and_cropped_buffers_have_the_order_of_the_input():
    """In a buffer with other rows and columns than the input, groups are outermost too: one LOAD per group."""
    data = lt.placeholder((2, 9, 8, 8), "int8", name="data")
    weights = lt.placeholder((14, 2, 3, 4), "int8", name="weights")
    sums = lt.conv2d(data, weights, stride=(2, 2), padding=((0, 1), (1, 1)), groups=2, name="sums")
    machine = TINY.with_(name="pair", batch=2, block_in=4, block_out=4)
    s = create_schedule(lt.requantise(sums, 6, name="out"))
    program = run(s, machine, random_inputs(list(s.program), seed=4))
    found = [each for each in program.instructions if isinstance(each, Load) and each.memory_type == MemoryType.INP]
    assert len(found) == len([each for each in found if each.y_size > 1])


@pytest.mark.parametrize("machine", ["vta", "lathe16", "batch4"])
@pytest.mark.parametrize("first", [2, 5])
def test_a_slice_of_a_grouped_tensor_does_not_alias_it(machine, first):
    """The first rows of an image, which a GEMM reads as its last columns."""
    data = lt.placeholder((6, 7, 6), "int8", name="data")
    behind = lt.compute((6, 7 - first, 6), lambda i, j, k: data[i, j + first, k], name="behind")
    before = lt.compute((6, first, 6), lambda i, j, k: data[i, j, k], name="before")
    joined = lt.compute(
        (6, 7, 6), lambda i, j, k: lt.select(j < 7 - first, behind[i, j, k], before[i, j - (7 - first), k]),
        name="joined",
    )  # fmt: skip
    flat = lt.compute((6, 42), lambda i, j: joined[i, j // 6, j % 6], name="flat")
    weights = lt.placeholder((11, 42), "int8", name="weights")
    s = create_schedule(lt.matmul(flat, weights, transpose_b=True, name="sums"))
    run(s, lt.load_config(machine), random_inputs(list(s.program), seed=4))
