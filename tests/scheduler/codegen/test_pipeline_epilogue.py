"""The pipelined epilogue: each slice is stored while the next ones are computed, and nothing else changes."""

import numpy as np
import pytest
from small_machine import VTA, simulate_and_check

import lathe as lt
from lathe.frontend import placeholders
from lathe.isa import Alu, Gemm, Load, MemoryType, Rescale, Store
from lathe.scheduler.codegen import driver
from lathe.scheduler.codegen.pipeline_epilogue import PartSizes, interleave_epilogue
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.schedule_ir.sync import Origin
from lathe.scheduler.stream.memory_effects import EffectsTracker, overlap

IDEAL = lt.load_config("lathe16").with_(**{"memory.latency": 0})


def convolution(pixels: int = 14, channels: int = 64, filters: int = 64, kernel: int = 3) -> lt.Tensor:
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    return lt.requantise(lt.conv2d(data, weights, padding=kernel // 2, name="conv"), 8, name="output", low=0)


def rescaled(pixels: int = 14, channels: int = 256, filters: int = 512) -> lt.Tensor:
    """A 1×1 convolution, rescaled by a bias and a factor per channel in one pass."""
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, 1, 1, channels), "int8", name="weights")
    parameters = lt.placeholder((filters, 2), "int32", name="parameters")
    return lt.requantise(lt.conv2d(data, weights, name="conv"), parameters=parameters, name="output")


def built(output: lt.Tensor, config: lt.HardwareConfig) -> lt.Program:
    """The validated program."""
    return lt.build(output, [*placeholders(output), output], config, check=True)


@pytest.fixture
def whole(monkeypatch):
    """Builds programs whose epilogue is not sliced."""

    def build(output: lt.Tensor, config: lt.HardwareConfig) -> lt.Program:
        with monkeypatch.context() as patch:
            patch.setattr(driver.PartSizes, "__call__", lambda *_: None)
            return built(output, config)

    return build


def cycles(program: lt.Program) -> int:
    return lt.simulate(program, timing_only=True).cycles


def moved(program: lt.Program) -> dict[str, int]:
    return dict(lt.simulate(program, timing_only=True).counters.bytes_written)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("output", "config"),
    [
        pytest.param(convolution(), VTA, id="3x3"),
        pytest.param(convolution(kernel=1), VTA, id="1x1"),
        pytest.param(convolution(28, 32, 16, 1), VTA, id="by rows"),
        pytest.param(rescaled(), IDEAL, id="rescaled"),
    ],
)
def test_the_last_tile_is_stored_in_slices_and_ends_sooner(output, config, whole):
    parts, before = built(output, config), whole(output, config)
    assert cycles(parts) < cycles(before)
    assert moved(parts) == moved(before)
    passes, fewer = (sum(isinstance(each, Alu | Rescale) for each in one.instructions) for one in (parts, before))
    assert passes > fewer


@pytest.mark.slow
def test_instructions_of_a_slice_precede_those_of_the_next():
    program = built(rescaled(), IDEAL)
    last = [type(each) for each in program.instructions if isinstance(each, Gemm | Rescale | Store)][-12:]
    assert last == [Gemm, Rescale, Store] * 4


def test_little_is_stored_at_once(whole):
    """A further STORE would cost more cycles than slicing saves."""
    output = convolution(3, 16, 16)
    assert built(output, VTA).instructions == whole(output, VTA).instructions


def test_windows_are_stored_whole(whole):
    """A pooling slice reads more than one slice of its operand."""
    output = lt.max_pool2d(convolution(), 2, name="pool")
    program = built(output, VTA)
    assert cycles(program) <= cycles(whole(output, VTA))


def test_sums_of_32_bits_are_stored_whole(whole):
    """The ALU shifts their bytes down one after the other, while the bus is idle."""
    data, weights = lt.placeholder((64, 64), "int8", name="data"), lt.placeholder((64, 64), "int8", name="weights")
    output = lt.matmul(data, weights, transpose_b=True, name="product")
    assert built(output, VTA).instructions == whole(output, VTA).instructions


def test_each_nest_ends_in_slices(whole):
    """The next layer need not wait until all of a layer is stored."""
    first = convolution(14, 64, 64, 1)
    weights = lt.placeholder((64, 3, 3, 64), "int8", name="second.weights")
    output = lt.requantise(lt.conv2d(first, weights, padding=1, name="second"), 8, name="second.output")
    assert cycles(built(output, VTA)) < cycles(whole(output, VTA))


@pytest.mark.parametrize("seed", range(4))
def test_simulator_and_rtl_agree(seed):
    generator = np.random.default_rng(seed)
    pixels, channels, filters = (int(each) for each in generator.integers(4, 13, 3))
    simulate_and_check(lt.create_schedule(convolution(pixels, channels, 2 * filters, int(generator.choice([1, 3])))))


def test_user_rules_get_whole_chunks():
    asked = []

    @lt.emit_rule("seen", reads=("acc",), writes="acc")
    def seen(chunk):
        asked.append(tuple(loop.extent for loop in chunk.loops))
        return RULES["alu"].emit(chunk)

    data = lt.placeholder((64, 256), "int32", name="data")
    output = lt.compute(data.shape, lambda i, j: data[i, j] >> 3, name="output")
    s = lt.create_schedule(output)
    made = s.cache_write(output, "acc")
    s[made].emit_insn(s[made].axis[0], "seen")
    try:
        lt.build(s, [data, output], VTA, check=True)
    finally:
        del RULES["seen"]
    assert len(set(asked)) == 1


FOOTPRINTS = EffectsTracker(VTA, np.zeros(4, np.uint32), 16, (0, 1 << 20))


def store(first: int, chunk: int):
    return Store(sram_base=first, dram_base=first, y_size=1, x_size=1, x_stride=1), Origin(0, "stage", chunk=chunk)


def test_dependent_slices_stay_in_their_order():
    """A store of the second slice overwrites an operand of the first, so the order must not change."""
    stream = [store(0, 0), store(1, 1), store(1, 2), store(0, 3)]
    parts = {0: (7, 0), 1: (7, 1), 2: (7, 0), 3: (7, 1)}
    assert interleave_epilogue(stream, parts, FOOTPRINTS.restarted) == stream


def test_independent_slices_come_one_after_the_other():
    stream = [store(0, 0), store(1, 1), store(2, 2), store(3, 3)]
    parts = {0: (7, 0), 1: (7, 1), 2: (7, 0), 3: (7, 1)}
    assert interleave_epilogue(stream, parts, FOOTPRINTS.restarted) == [stream[n] for n in (0, 2, 1, 3)]


def test_loads_among_slices_leave_the_order():
    load = Load(MemoryType.UOP, 0, 0, 1, 1, 1), Origin(0, "stage", chunk=1)
    stream = [store(0, 0), load, store(1, 1), store(2, 2), store(3, 3)]
    parts = {0: (7, 0), 1: (7, 1), 2: (7, 0), 3: (7, 1)}
    assert interleave_epilogue(stream, parts, FOOTPRINTS.restarted) == stream


def test_part_sizes_without_chains():
    assert PartSizes({}, VTA)([]) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (slice(0, 4), slice(3, 5), True),
        (slice(0, 4), slice(4, 5), False),
        (slice(0, 4), np.array([3, 9]), True),
        (np.array([4, 9]), slice(0, 4), False),
        (np.array([1, 9]), np.array([2, 9]), True),
        (np.array([1, 9]), np.array([2, 8]), False),
    ],
)
def test_cells_meet_where_one_is_in_both(one, other, expected):
    assert overlap(one, other) is overlap(other, one) is expected
