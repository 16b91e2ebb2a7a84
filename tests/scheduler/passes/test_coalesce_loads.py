"""Pass ``coalesce-loads``, on machines whose stored vectors are wider than those of GEMM data."""

import pytest
from convolutions import conv
from random_programs import random_inputs
from small_machine import VTA, run, simulate_and_check

import lathe as lt
from lathe.isa import Load, MemoryType, Program

WIDE = VTA.with_(name="wide", block_in=8, block_out=32, wgt_buffer_bytes=65536)
SLOW = WIDE.with_(**{"memory.latency": 100})


def chain(channels=32, kernel=3, *, shape=(1, 9, 10), filters=16, border=None):
    data = lt.placeholder((*shape, channels), "int8", name="data")
    first = conv(data, 1, channels, "first")
    return conv(first, kernel, filters, "second", padding=kernel // 2 if border is None else border)


def rows(program: Program, label: str) -> set[int]:
    """The contiguous vectors in each row that a layer loads of its data."""
    labels = [program.labels[n] for n in program.label_of]
    pairs = zip(program.instructions, labels, strict=True)
    loads = [each for each, of in pairs if of == label and isinstance(each, Load) and each.y_size]
    return {each.x_size for each in loads if each.memory_type == MemoryType.INP}


def built(output: lt.Tensor, config: lt.HardwareConfig = WIDE) -> Program:
    return run(lt.create_schedule(output), config, random_inputs([output], seed=1))


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_row_of_pixels_is_one_load_row(kernel):
    """Ten pixels of 32 channels are 40 vectors of 8."""
    found = rows(built(chain(kernel=kernel), SLOW), "second.narrow")
    assert all(each % 4 == 0 for each in found)
    assert found


@pytest.mark.sample(1)
@pytest.mark.parametrize("channels", [8, 20, 24, 40, 64, 100])
@pytest.mark.parametrize("kernel", [1, 3])
def test_channels_that_fill_no_stored_vector(channels, kernel):
    for config in (WIDE, SLOW, WIDE.with_(extensions=("gemm_begin",))):
        built(chain(channels, kernel), config)


def test_padding_without_data():
    built(chain(shape=(1, 1, 1), kernel=5))
    built(chain(shape=(2, 3, 2), kernel=3, border=2))


def test_depthwise_convolutions():
    data = lt.placeholder((1, 9, 10, 48), "int8", name="data")
    first = conv(data, 1, 48, "first")
    weights = lt.placeholder((3, 3, 48), "int8", name="weights")
    output = lt.requantise(lt.depthwise_conv2d(first, weights, padding=1, name="depthwise"), 7, name="output")
    program = built(output, SLOW)
    assert all(each > 1 for each in rows(program, "output"))


def test_groups():
    data = lt.placeholder((1, 9, 10, 64), "int8", name="data")
    weights = lt.placeholder((64, 3, 3, 16), "int8", name="weights")
    second = lt.conv2d(conv(data, 1, 64, "first"), weights, padding=1, groups=4, name="second")
    built(lt.requantise(second, 7, name="output"))


def test_a_transposed_convolution():
    data = lt.placeholder((1, 5, 6, 32), "int8", name="data")
    weights = lt.placeholder((16, 3, 3, 32), "int8", name="weights")
    first = conv(data, 1, 32, "first")
    spread = lt.compute(
        (1, 11, 13, 32),
        lambda n, y, x, c: lt.select((y % 2 == 1) & (x % 2 == 1), first[n, y // 2, x // 2, c], 0),
        name="spread",
    )
    second = lt.conv2d(spread, weights, name="second")
    built(lt.requantise(second, 7, name="output"))


def test_a_residual_connection():
    data = lt.placeholder((1, 9, 10, 32), "int8", name="data")
    first = conv(data, 1, 32, "first")
    added = lt.add(conv(first, 3, 32, "second", padding=1), first, name="added")
    built(lt.requantise(added, 1, name="output"), WIDE.with_(**{"memory.bus_bits": 64}))


def test_a_slice_of_the_channels():
    """Channels 16 to 47 of an input start within a stored vector: the host lays it out so that they do not."""
    data = lt.placeholder((10, 64), "int8", name="data")
    weights = lt.placeholder((16, 32), "int8", name="weights")
    first = lt.relu(data, name="first")
    for start in (16, 32):
        part = lt.compute((10, 32), lambda i, j, start=start: first[i, j + start], name="part")
        output = lt.requantise(lt.dense(part, weights, name="product"), 7, name="output")
        program = built(output)
        assert min(rows(program, "output")) > 1


def test_scratchpads_that_fit_only_parts_of_stored_vectors():
    tight = WIDE.with_(inp_buffer_bytes=16 * 8, wgt_buffer_bytes=16 * 256)
    for kernel in (1, 3):
        built(chain(40, kernel, shape=(1, 3, 4)), tight)


def test_loops_scheduled_by_the_user():
    """A reduction over 8 channels at a time loads single vectors; over 32 at a time, whole stored vectors."""
    data, weights = (lt.placeholder((16, 64), "int8", name=name) for name in ("data", "weights"))
    product = lt.dense(lt.relu(data, name="first"), weights, name="product")
    for size, adjoin in ((8, False), (32, True)):
        schedule = lt.create_schedule(product)
        sums = schedule.cache_write(product, "acc")
        i, o = schedule[sums].op.axis
        outer, inner = schedule[sums].split(schedule[sums].op.reduce_axis[0], size)
        schedule[sums].reorder(outer, i, o, inner)
        read = next(each.tensor for each in schedule[sums].op.reads if each.tensor.name == "first")
        loaded = schedule.cache_read(read, "inp", [sums])
        schedule[loaded].compute_at(schedule[sums], outer)
        program = run(schedule, WIDE, random_inputs([product], seed=1))
        assert (min(rows(program, "product")) > 1) == adjoin


def test_on_the_rtl():
    simulate_and_check(lt.create_schedule(chain(24, 3, shape=(1, 3, 4))), WIDE)
