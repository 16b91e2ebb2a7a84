"""Pass ``load-residual-via-gemm``: residuals in acc by identity GEMMs, from what the convolution has loaded."""

import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Load, MemoryType, Program
from lathe.scheduler.passes.load_residual_via_gemm import find_unlowered_residual
from lathe.scheduler.passes.pipeline import run_until
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target


def shortcut(kernel: int, *, shape=(1, 12, 12, 32), stride=1, padding=None, then=lambda added: added) -> lt.Tensor:
    """A convolution whose data are added to its result."""
    data = lt.placeholder(shape, "int8", name="data")
    before = lt.relu(data, name="before")
    weights = lt.placeholder((shape[-1], kernel, kernel, shape[-1]), "int8", name="weights")
    border = kernel // 2 if padding is None else padding
    branch = lt.requantise(lt.conv2d(before, weights, stride=stride, padding=border, name="conv"), 7, name="branch")
    return lt.requantise(then(lt.add(branch, before, name="added")), 1, name="sum")


def built(output: lt.Tensor, config: lt.HardwareConfig = VTA) -> Program:
    """The program; checks its outputs against NumPy."""
    return run(lt.create_schedule(output), config, random_inputs([output], seed=1))


def vectors_of_sum(program: Program, memory: MemoryType) -> int:
    """The vectors that the last layer loads."""
    labels = [program.labels[n] for n in program.label_of]
    pairs = zip(program.instructions, labels, strict=True)
    loads = [each for each, label in pairs if label == "sum" and isinstance(each, Load) and each.memory_type == memory]
    return sum(each.y_size * each.x_size for each in loads)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_residual_is_read_where_the_convolution_has_loaded_it(kernel):
    program = built(shortcut(kernel))
    assert vectors_of_sum(program, MemoryType.ACC8) == 0
    assert vectors_of_sum(program, MemoryType.INP) < 2 * 12 * 12 * 2  # only rows around a tile are loaded twice


def test_a_residual_that_the_convolution_does_not_read_is_loaded_for_a_gemm():
    data, other = (lt.placeholder((1, 12, 12, 32), "int8", name=name) for name in ("data", "other"))
    weights = lt.placeholder((32, 1, 1, 32), "int8", name="weights")
    branch = lt.requantise(lt.conv2d(data, weights, name="conv"), 7, name="branch")
    program = built(lt.requantise(lt.add(branch, other, name="added"), 1, name="sum"))
    assert vectors_of_sum(program, MemoryType.ACC8) == 0
    assert vectors_of_sum(program, MemoryType.INP) == 2 * 12 * 12 * 2


@pytest.mark.parametrize(("block", "brought"), [(16, True), (8, True), (4, False)])
def test_a_gemm_adds_where_it_takes_fewer_cycles(block, brought):
    """The ALU takes two cycles to add what a beat of 128 bits has loaded; the matrix core one per block of data."""
    small = {"wgt_buffer_bytes": 65536, "inp_buffer_bytes": 8192, "uop_buffer_bytes": 8192}
    config = VTA.with_(block_in=block, **small, **{"memory.bus_bits": 128})
    program = built(shortcut(1), config)
    assert (vectors_of_sum(program, MemoryType.ACC8) == 0) == brought


def test_the_padding_may_be_wider_than_the_kernel_needs_or_uneven():
    data = lt.placeholder((1, 9, 9, 16), "int8", name="data")
    before = lt.relu(data, name="before")
    spread = lt.compute(
        (1, 13, 12, 16),
        lambda n, y, x, c: lt.select((y >= 3) & (y < 12) & (x >= 1) & (x < 10), before[n, y - 3, x - 1, c], 0),
        name="spread",
    )
    weights = lt.placeholder((16, 5, 4, 16), "int8", name="weights")
    branch = lt.requantise(lt.conv2d(spread, weights, name="conv"), 7, name="branch")
    program = built(lt.requantise(lt.add(branch, before, name="added"), 1, name="sum"))
    assert vectors_of_sum(program, MemoryType.ACC8) == 0


def test_a_padding_without_some_pixels_is_not_the_residual():
    """The last column of the residual is not in what the convolution reads."""
    data = lt.placeholder((1, 9, 9, 16), "int8", name="data")
    before = lt.relu(data, name="before")
    cut = lt.compute(
        (1, 11, 11, 16),
        lambda n, y, x, c: lt.select((y >= 1) & (y < 10) & (x >= 1) & (x < 9), before[n, y - 1, x - 1, c], 0),
        name="cut",
    )
    weights = lt.placeholder((16, 3, 3, 16), "int8", name="weights")
    branch = lt.requantise(lt.conv2d(cut, weights, name="conv"), 7, name="branch")
    program = built(lt.requantise(lt.add(branch, before, name="added"), 1, name="sum"))
    assert vectors_of_sum(program, MemoryType.INP) >= 9 * 9 + 9 * 8


@pytest.mark.sample(1)
@pytest.mark.parametrize("kernel", [1, 3])
def test_unequal_blocks(kernel):
    for block_in, block_out in ((8, 16), (32, 16), (16, 8)):
        config = VTA.with_(block_in=block_in, block_out=block_out, wgt_buffer_bytes=65536, acc_buffer_bytes=65536)
        built(shortcut(kernel, shape=(2, 7, 9, 24), then=lt.relu), config)


def test_scratchpads_in_which_the_whole_group_has_no_tile():
    """The group is cut between convolution and addition; both load the padding."""
    built(shortcut(3, shape=(1, 6, 6, 16)), TINY)


def test_few_pixels_do_not_move_it_to_the_alu():
    """Vectors of ones take longer to load than so few pixels to compute, but the padding is in inp for both."""
    config = VTA.with_(batch=2, block_in=32, block_out=32, wgt_buffer_bytes=65536, inp_buffer_bytes=32768)
    for extensions in ((), ("gemm_begin",)):
        built(shortcut(3, shape=(1, 4, 3, 16)), config.with_(extensions=extensions, **{"memory.bus_bits": 64}))


@pytest.mark.parametrize("images", [1, 5])
def test_a_single_channel_is_no_gemm(images):
    """Regression: a block of one channel has no diagonal, and was refused with its ones in `acc`."""
    output = shortcut(3, shape=(images, 9, 9, 1))
    for config in (VTA, TINY):
        assert "ones.1" not in {each.name for each in built(output, config).segments}


def test_on_the_rtl():
    simulate_and_check(lt.create_schedule(shortcut(3, shape=(1, 5, 6, 8))))


def test_a_gemm_is_not_added_for_the_operand_onto_which_another_accumulates():
    """Loading one operand and accumulating the other takes as many cycles as two GEMMs: nothing is left to rewrite."""
    config = TINY.with_(extensions=("gemm_begin",), **{"memory.bus_bits": 32})
    first, second = (lt.placeholder((2, 9, 6, 4), "int8", name=name) for name in ("first", "second"))
    schedule = run_until(lt.create_schedule(lt.add(first, second, name="added")), config, "load-residual-via-gemm")
    assert [stage.name for stage in schedule.stages] == ["second.brought", "added"]
    assert find_unlowered_residual(Edit(schedule.state), Target(config)) is None
