"""Pass ``lower-sum-to-gemm``: int8 sums on the matrix core, with ones as weights, and sums that stay on the ALU."""

import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Alu, AluOp, Program
from lathe.scheduler import create_schedule


def sums(program: Program) -> list[Alu]:
    """The additions of two tensors on the ALU."""
    found = [each for each in program.instructions if isinstance(each, Alu)]
    return [each for each in found if each.alu_opcode == AluOp.ADD and not each.use_imm]


def built(output: lt.Tensor | list[lt.Tensor], config: lt.HardwareConfig = VTA) -> tuple[Program, lt.Result]:
    """The program and its simulation; checks the outputs against NumPy."""
    s = create_schedule(output)
    inputs = random_inputs(output if isinstance(output, list) else [output], seed=1)
    program = run(s, config, inputs)
    return program, lt.simulate(program, inputs)


@pytest.mark.parametrize(
    ("window", "stride", "padding"),
    [(2, 2, 0), (3, 1, 0), (3, 2, 1), (12, 12, 0)],
    ids=["2×2 by 2", "3×3", "with a border", "all pixels"],
)
def test_an_average_is_a_gemm_for_each_tap(window, stride, padding):
    data = lt.placeholder((1, 12, 12, 32), "int8", name="data")
    output = lt.avg_pool2d(data, window, stride=stride, padding=padding, name="average")
    program, ran = built(output)
    assert not sums(program)
    size = output.shape[1]
    met = size * window  # pairs of a result and a tap along one dimension
    found = ran.counters.gemm_operations
    if padding:  # one of them reads only padding, and is skipped where that takes no more instructions
        assert 2 * (met - 1) ** 2 <= found < 2 * met**2
    else:
        assert found == 2 * met**2


def test_outermost_channels_are_lanes_too():
    data = lt.placeholder((1, 32, 9, 9), "int8", name="data")
    output = lt.avg_pool2d(data, 3, stride=3, layout="NCHW", name="average")
    program, _ = built(output)
    assert not sums(program)


def test_averages_of_a_layer_are_gemms_on_its_stored_result():
    data, weights = (
        lt.placeholder(shape, "int8", name=n) for shape, n in (((1, 8, 8, 16), "d"), ((16, 3, 3, 16), "w"))
    )
    layer = lt.requantise(lt.conv2d(data, weights, padding=1, name="conv"), 7, name="layer")
    program, _ = built(lt.avg_pool2d(layer, 8, name="average"))
    assert not sums(program)


def layer_of(shape: tuple[int, ...], filters: int, padding: tuple[tuple[int, int], tuple[int, int]]) -> lt.Tensor:
    """A convolution with a kernel of 2×1 pixels."""
    data, weights = (
        lt.placeholder(shape, "int8", name="data"),
        lt.placeholder((filters, 2, 1, shape[-1]), "int8", "w"),
    )
    return lt.requantise(lt.conv2d(data, weights, padding=padding, name="conv"), 7, name="layer")


def test_averages_of_a_layer_keep_its_channels_in_lanes():
    """Images would fill more lanes than two channels, but then the layer would load its pixels as weights."""
    machine = VTA.with_(name="four", batch=4)
    output = lt.avg_pool2d(layer_of((3, 5, 4, 17), 2, ((2, 0), (0, 2))), 3, name="average")
    program, ran = built(output, machine)
    assert not sums(program)
    assert ran.counters.bytes_read["wgt"] < ran.counters.bytes_read["inp"]


def test_averages_of_an_input_have_the_layout_that_a_layer_reads():
    """Columns of pixels are longer than four channels, but the next layer reduces over the channels."""
    data, weights = lt.placeholder((1, 9, 12, 4), "int8", name="data"), lt.placeholder((8, 1, 1, 4), "int8", name="w")
    average = lt.avg_pool2d(data, (1, 2), name="average")
    output = lt.requantise(lt.conv2d(average, weights, name="conv"), 7, name="layer")
    program, _ = built(output, TINY)
    assert not sums(program)


def test_averages_of_few_channels_in_wide_vectors_stay_on_the_alu():
    """A GEMM would load vectors of 16 channels: for each vector of four the layer would store three more."""
    machine = TINY.with_(name="wide", block_in=16, acc_buffer_bytes=8192)
    program, _ = built(lt.avg_pool2d(layer_of((1, 10, 8, 4), 4, ((0, 1), (0, 0))), (2, 1), name="average"), machine)
    assert sums(program)
    program, _ = built(lt.avg_pool2d(layer_of((1, 10, 8, 4), 16, ((0, 1), (0, 0))), (2, 1), name="average"), machine)
    assert not sums(program)


def test_wide_values_are_added_by_the_alu():
    data = lt.placeholder((1, 8, 8, 16), "int32", name="data")
    y, x = lt.reduce_axis(2, "y"), lt.reduce_axis(2, "x")
    output = lt.compute(
        (1, 4, 4, 16), lambda n, i, j, c: lt.sum(data[n, 2 * i + y, 2 * j + x, c], axis=(y, x)), name="sums"
    )
    program, _ = built(output)
    assert sums(program)


def test_a_single_channel_stays_on_the_alu():
    data = lt.placeholder((1, 6, 6, 1), "int8", name="data")
    program, _ = built(lt.avg_pool2d(data, 2, stride=2, name="average"))
    assert sums(program)


def test_a_consumer_in_user_loops_keeps_its_sum_on_the_alu():
    """Its loop over channels does not allow the vector layout of a GEMM."""
    data = lt.placeholder((1, 9, 7, 17), "int8", name="data")
    average = lt.avg_pool2d(data, (9, 7), stride=2, name="average")
    s = create_schedule(average)
    s.cache_write(average.computation.reads[0].tensor, "dram")
    s[average].reorder(*reversed(s[average].axis))
    (total,) = (stage for stage in s.stages if stage.name == "average.sum")
    total.compute_at(s[average], s[average].axis[2])
    run(s, VTA, random_inputs([average], seed=1))


@pytest.mark.parametrize("kind", [lt.sum, lt.max], ids=["sum", "max"])
def test_lower_bounds_of_reductions_by_whole_blocks(kind):
    """A tap that moves by whole blocks does not change lanes."""
    data, r = lt.placeholder((9216,), "int8", name="data"), lt.reduce_axis(64, "r")
    strided = lt.compute((256,), lambda c: kind(data[c + 16 * r].astype("int32"), axis=r), name="strided")
    apart = lt.compute((16,), lambda c: kind(data[64 * c + r].astype("int32"), axis=r), name="apart")
    for output in (strided, apart):
        _, ran = built(output)
        assert lt.bound(output, VTA).cycles <= ran.cycles


def test_lower_bounds_of_averages():
    for window, stride in ((2, 2), (3, 1), (3, 2)):
        data = lt.placeholder((2, 12, 12, 32), "int8", name="data")
        output = lt.avg_pool2d(data, window, stride=stride, name="average")
        for config in (VTA, lt.load_config("batch4"), lt.load_config("lathe16")):
            _, ran = built(output, config)
            assert lt.bound(output, config).cycles <= ran.cycles


def test_averages_on_the_rtl():
    data = lt.placeholder((1, 5, 6, 9), "int8", name="data")
    simulate_and_check(create_schedule(lt.avg_pool2d(data, 3, stride=2, name="average")), TINY)


def test_explain_counts_two_alu_cycles_for_an_addition():
    data = lt.placeholder((1, 12, 12, 16), "int8", name="data")
    output = lt.avg_pool2d(data, 3, stride=3, name="average")
    told = str(lt.explain(output, VTA.with_(**{"memory.latency": 0})))
    cells, taps, handling = 4 * 4, 9, 2 * 20
    assert f"ALU about {cells * taps * 2 + 12 * 12 * 16 // 8 + 2 + handling:,}" in told


def test_a_sum_that_moves_back_to_the_alu_has_no_ones():
    """The next layer reads groups of channels in a layout that no GEMM produces, and no other pass resolves that.

    Its weights have a second consumer, so that groups are not merged.
    """
    machine = lt.load_config("batch4").with_(name="eights", block_in=8)
    data = lt.placeholder((2, 9, 6, 4), "int8", name="data")
    weights = lt.placeholder((36, 1, 2, 1), "int8", name="weights")
    average = lt.avg_pool2d(data, (1, 2), name="average")
    layer = lt.requantise(lt.conv2d(average, weights, padding=1, groups=4, name="conv"), 7, name="layer")
    program, _ = built([layer, lt.relu(weights, name="positive")], machine)
    assert sums(program)
    alu = [each for each in program.instructions if isinstance(each, Alu) and not each.use_imm]
    assert not [each for each in alu if each.alu_opcode == AluOp.MUL]
    assert not [segment for segment in program.segments if "ones" in segment.name]


def test_the_summed_tensor_is_never_the_weights():
    """The layout of a one-channel convolution rules out diagonal weights for a sum before it: the ALU computes that."""
    data, weights = (lt.placeholder(shape, "int8", name=n) for shape, n in (((3, 7, 6, 1), "d"), ((10, 3, 2, 1), "w")))
    average = lt.avg_pool2d(data, (1, 2), stride=(1, 2), name="average")
    program, ran = built(lt.conv2d(average, weights, padding=((0, 2), (1, 0)), name="conv"))
    assert sums(program)
    assert ran.counters.bytes_read["wgt"] == 3 * 2 * 16 * 16, "an element for each tap"
