"""Compacted ``inp`` buffers of transposed convolutions, which store the pixels but not the zeros between them."""

import pytest
from random_networks import machines
from random_programs import Choice, random_inputs
from seeds import check_each, event, note
from small_machine import VTA, run, simulate_and_check

import lathe as lt
from lathe.frontend import format_program, placeholders
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.inspect.explanation import BufferUse
from lathe.scheduler.layout.dilation_compaction import Gap, dilation_of, without_cells
from lathe.scheduler.layout.layout_assignment import assign_layouts


def spread(data: lt.Tensor, height: int, width: int, steps: tuple[int, int], at: tuple[int, int]) -> lt.Tensor:
    """A dilated image: pixels ``steps`` rows and columns apart, the first one ``at``, and zeros elsewhere."""
    images, *pixels, channels = data.shape

    def value(n: Axis, y: Axis, x: Axis, c: Axis) -> Expr:
        inside = None
        for index, step, first, count in zip((y, x), steps, at, pixels, strict=True):
            conditions = [index >= first, index < first + step * (count - 1) + 1]
            conditions += [index % step == first % step] if step > 1 else []
            for each in conditions:
                inside = each if inside is None else inside & each
        places = ((index - first) // step for index, step, first in zip((y, x), steps, at, strict=True))
        return lt.select(inside, data[(n, *places, c)], 0)

    return lt.compute((images, height, width, channels), value, name="spread")


def transposed(pixels=(8, 9), channels=16, filters=16, kernel=3, steps=(2, 2), at=(1, 1)) -> lt.Tensor:
    """A transposed convolution, requantised to int8."""
    data = lt.placeholder((1, *pixels, channels), "int8", name="data")
    size = [step * count + 1 for step, count in zip(steps, pixels, strict=True)]
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    return lt.requantise(lt.conv2d(spread(data, *size, steps, at), weights, name="conv"), 7, name="output")


def buffer(output: lt.Tensor, config: lt.HardwareConfig = VTA) -> BufferUse:
    """The buffer of the dilated image."""
    (found,) = (each for each in lt.explain(output, config).buffers if each.stage == "spread")
    return found


def checked(output: lt.Tensor, config: lt.HardwareConfig = VTA) -> lt.Program:
    """Build with validation, run, and compare the outputs with NumPy's."""
    lt.build(output, [*placeholders([output]), output], config, check=True)
    return run(lt.create_schedule(output), config, random_inputs([output], seed=1))


def test_a_quarter_of_the_cells():
    output = transposed((8, 8))
    checked(output)
    found = buffer(output)
    _, height, width, _ = found.values
    assert found.elements <= (height // 2 + 1) * (width // 2 + 1)  # wherever the first pixel is


def test_pixels_of_a_tile_are_one_load():
    """In a compacted buffer all rows of a tile are rows of one LOAD."""
    program = checked(transposed((16, 16), channels=32))
    loads = [each for each in program.instructions if isinstance(each, lt.isa.Load)]
    of_data = [each for each in loads if each.memory_type == lt.isa.MemoryType.INP]
    assert sum(each.y_size * each.x_size for each in of_data) <= 2 * 18 * 18
    assert all(each.x_pad_0 + each.x_pad_1 <= 1 for each in of_data if each.y_size > 2)


@pytest.mark.parametrize("columns", [1, 3, 4])
def test_rows_that_meet_fewer_pixels_than_they_have_room_for_are_one_load(columns):
    """Windows of such tiles meet one column of pixels more or fewer, depending on their start: the rest is padding."""
    output = transposed((9, 9), channels=16)
    s = lt.create_schedule(output)
    conv = next(stage for stage in s.stages if stage.name == "conv")
    copy = s.cache_write(output, "acc")
    _, y, x, _ = output.op.axis
    column, _ = s[output].split(x, columns)
    s[output].reorder(column, y)
    for stage in (s[copy], conv):
        stage.set_scope("acc")
        stage.compute_at(s[output], column)
    program = run(s, VTA, random_inputs([output], seed=2))
    loads = [each for each in program.instructions if isinstance(each, lt.isa.Load)]
    of_data = [each for each in loads if each.memory_type == lt.isa.MemoryType.INP]
    assert len(of_data) <= 2 * -(-19 // columns)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("steps", "at", "kernel"),
    [((2, 2), (0, 0), 3), ((3, 2), (2, 1), 3), ((2, 1), (1, 0), 2), ((3, 3), (1, 1), 1), ((4, 4), (3, 0), 5)],
)
def test_steps_and_places(steps, at, kernel):
    for config in (VTA, lt.load_config("lathe16"), lt.load_config("batch4")):
        checked(transposed((5, 6), 20, 12, kernel, steps, at), config)


def test_a_consumer_other_than_gemm_prevents_compaction():
    """A maximum reads the zeros too: the buffer is not in ``inp``."""
    data = lt.placeholder((1, 5, 5, 16), "int8", name="data")
    wide = spread(data, 11, 11, (2, 2), (1, 1))
    output = lt.max_pool2d(wide, 3, stride=1, name="output")
    checked(output)
    assert all(each.scope != "inp" for each in lt.explain(output, VTA).buffers)


def test_a_reuse_buffer_is_not_compacted():
    """Rows that are reused while a window moves are addressed modulo the ring: they stay dilated."""
    output = transposed((8, 8))
    s = lt.create_schedule(output)
    conv = output.computation.reads[0].tensor
    wide = conv.computation.reads[0].tensor
    accumulated = s.cache_write(output, "acc")
    s[conv].set_scope("acc")
    s[wide].set_scope("inp")
    lanes = assign_layouts(s, VTA).layouts[wide]
    assert dilation_of(s[wide], lanes) == (None, Gap(2, 1), Gap(2, 1), None)
    n, y, x, c = s[output].axis
    s[output].reorder(n, y, x, c)
    s[accumulated].compute_at(s[output], y)
    s[conv].compute_at(s[output], y)
    s[wide].compute_at(s[output], y)
    s[wide].reuse_at(s[output], y)
    assert dilation_of(s[wide], lanes) == ()
    run(s, VTA, random_inputs([output], seed=4))


@pytest.mark.slow
def test_an_autotuned_schedule_compacts_buffers_too():
    output = transposed((16, 16), channels=32)
    config = VTA.with_(inp_buffer_bytes=4096)
    found = lt.autoschedule(output, config, budget=8, cache=False)
    program = lt.build(found, [*placeholders([output]), output], config)
    assert lt.simulate(program, timing_only=True).cycles == found.cycles
    run(found, config, random_inputs([output], seed=5))


def test_mask_of_elements_that_are_not_stored():
    missing = without_cells((None, Gap(2, 1), Gap(3, 0)), (2, 4, 5)).reshape(2, 4, 5)
    assert (~missing).sum() == 2 * 2 * 2
    assert not missing[:, 1::2, ::3].any()


def test_on_the_rtl():
    simulate_and_check(lt.create_schedule(transposed((3, 4), 5, 6)))


def check_random(seed: int) -> None:
    choice = Choice(seed)
    steps, kernel = (choice.number(1, 3), choice.number(1, 3)), choice.number(1, 4)
    at = tuple(choice.number(0, 2) for _ in steps)
    pixels = choice.number(2, 8), choice.number(2, 8)
    size = [
        max(first + step * (count - 1) + 1 + choice.number(0, 2), kernel)
        for first, step, count in zip(at, steps, pixels, strict=True)
    ]
    channels, filters = (choice.pick([3, 8, 16, 20, 33]) for _ in range(2))
    data = lt.placeholder((choice.number(1, 3), *pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    wide = spread(data, *size, steps, at)
    conv = lt.conv2d(wide, weights, stride=choice.pick([1, 1, 2]), name="conv")
    output = lt.requantise(conv, 7, name="output")
    config = machines(choice)
    note(f"{config}\n{format_program([output])}")
    try:
        checked(output, config)
    except lt.CapacityError as refusal:
        event("refused")
        note(str(refusal))
        return
    event("gaps" if max(steps) > 1 else "no gaps")


@pytest.mark.slow
@pytest.mark.seeds(4, slow=116)
def test_random_transposed_convolutions(seeds):
    events = check_each(seeds, check_random)
    assert events["gaps"] > len(seeds) // 2
