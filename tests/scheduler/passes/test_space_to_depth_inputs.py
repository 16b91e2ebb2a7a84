"""Pass ``space-to-depth-inputs``: inputs that are read with strides are packed by remainders of their indices."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from random_programs import random_inputs
from seeds import check_each
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.autotune.group_tilings import tiled_groups
from lathe.autotune.primitive_trace import TraceReplayer
from lathe.configs import HardwareConfig
from lathe.frontend import placeholders
from lathe.isa import Load, MemoryType, Program
from lathe.scheduler.passes.pipeline import run_until

MACHINES = [TINY, VTA, lt.load_config("lathe16"), lt.load_config("batch4")]
PAIR = VTA.with_(name="pair", batch=2, block_in=8, block_out=16, **{"memory.bus_bits": 32})


def image(*shape: int, name: str = "data") -> lt.Tensor:
    return lt.placeholder(shape, "int8", name=name)


def conv(data: lt.Tensor, kernel: int = 1, filters: int = 32, name: str = "conv", **options: object) -> lt.Tensor:
    weights = lt.placeholder((filters, kernel, kernel, data.shape[-1]), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, name=name, **options), 7, name=f"{name}.narrow")


def loads_of_data(program: Program) -> list[Load]:
    return [each for each in program.instructions if isinstance(each, Load) and each.memory_type == MemoryType.INP]


def built(outputs: lt.Tensor | Sequence[lt.Tensor], config: HardwareConfig = VTA) -> Program:
    """The program; checks its outputs against NumPy."""
    all_ = list(outputs) if isinstance(outputs, Sequence) else [outputs]
    return run(lt.create_schedule(all_), config, random_inputs(all_, seed=3))


def packed(outputs: lt.Tensor | Sequence[lt.Tensor], config: HardwareConfig = VTA) -> list[str]:
    """The index maps of the layouts that the pass gives inputs."""
    schedule = run_until(lt.create_schedule(outputs), config, "space-to-depth-inputs")
    return [str(each) for layout in schedule.layouts.values() for each in layout.maps]


BY_TWO = "[i0, i1, i2, i3] -> [i1 % 2, i2 % 2, i0, i1 // 2, i2 // 2, i3]"


@pytest.mark.parametrize("latency", [0, 200])
def test_what_is_read_is_contiguous(latency):
    """Without the pass each pixel is a burst, or whole rows are loaded if such bursts would wait for the memory."""
    output = conv(image(1, 14, 14, 16), stride=2)
    assert packed(output) == [BY_TWO]
    loads = loads_of_data(built(output, VTA.with_(**{"memory.latency": latency})))
    assert [(each.y_size, each.x_size) for each in loads] == [(1, 49)]


def test_a_consumer_of_all_pixels_keeps_the_input_layout():
    data = image(1, 8, 8, 16)
    assert packed([conv(data, stride=2, name="some"), conv(data, name="all")]) == []
    built([conv(data, stride=2, name="some"), conv(data, name="all")])


def test_adjoining_windows_keep_the_input_layout():
    assert packed(conv(image(1, 9, 9, 16), 3, stride=2, padding=1)) == []


def test_dilation_equal_to_the_stride():
    output = conv(image(1, 13, 13, 16), 3, stride=2, dilation=2, padding=2)
    assert packed(output) == [BY_TWO]
    built(output)


def test_consumers_with_several_strides_share_their_common_divisor():
    data = image(2, 12, 12, 16)
    outputs = [conv(data, stride=2, name="two"), conv(data, stride=4, name="four")]
    assert packed(outputs) == [BY_TWO]
    built(outputs)


def test_strides_without_a_common_divisor_keep_the_input_layout():
    data = image(1, 12, 12, 16)
    assert packed([conv(data, stride=2, name="two"), conv(data, stride=3, name="three")]) == []


def test_images_and_channels():
    data = image(4, 6, 6, 32)
    taken = lt.compute((2, 6, 6, 16), lambda n, y, x, c: data[2 * n + 1, y, x, 2 * c] + 1, name="taken")
    assert packed(taken) == ["[i0, i1, i2, i3] -> [i0 % 2, i3 % 2, i0 // 2, i1, i2, i3 // 2]"]
    built(taken)


def test_user_layouts_are_kept():
    data = image(1, 8, 8, 16)
    output = conv(data, stride=2)
    schedule = lt.create_schedule(output)
    schedule.transform_layout(data, lambda n, y, x, c: [n, x, y, c])
    assert [str(each.maps[-1]) for each in run_until(schedule, VTA, "space-to-depth-inputs").layouts.values()] == [
        "[n, y, x, c] -> [n, x, y, c]"
    ]
    run(schedule, VTA, random_inputs([output], seed=3))


def test_vector_rows_hold_adjoining_pixels():
    """Loaded in the user's layout they would fill half of each vector: 20 GEMMs instead of 10."""
    output = lt.conv2d(image(1, 9, 8, 8), lt.placeholder((16, 1, 1, 8), "int8", name="weights"), stride=2, name="conv")
    program = built(output, PAIR)
    assert lt.simulate(program, random_inputs([output], seed=3)).counters.gemm_operations == 10


def test_a_layout_conflict_keeps_the_input_layout():
    """Pixels in rows instead of images: later windows cannot read that layout, and would become scalar."""
    sizes = {"inp_buffer_bytes": 16384, "wgt_buffer_bytes": 32768, "acc_buffer_bytes": 32768}
    config = VTA.with_(name="wide", batch=2, block_in=32, block_out=4, **sizes)
    first = conv(image(8, 13, 16, 48), filters=96, stride=3, name="first")
    weights = lt.placeholder((3, 3, 96), "int8", name="weights")
    output = lt.requantise(lt.depthwise_conv2d(first, weights, padding=1, name="windows"), 4, name="output")
    assert packed(output, config) == []
    assert packed(first, config) == ["[i0, i1, i2, i3] -> [i1 % 3, i2 % 3, i0, i1 // 3, i2 // 3, i3]"]


def test_manual_copies_read_the_packed_input():
    """What a manual schedule copies is one contiguous block, too."""
    output = conv(data := image(1, 12, 12, 16), stride=2)
    schedule = lt.create_schedule(output)
    schedule.cache_read(data, "inp", gathered=[1, 2])
    loads = loads_of_data(run(schedule, VTA, random_inputs([output], seed=3)))
    assert [(each.y_size, each.x_size) for each in loads] == [(1, 36)]


def test_arrays_keep_their_shapes_in_saved_programs(tmp_path):
    output = conv(image(1, 13, 11, 16), stride=3)
    program, given = built(output), random_inputs([output], seed=3)
    program.save(tmp_path / "program")
    again = Program.load(tmp_path / "program")
    segment = again.segment("data")
    assert segment.layout is not None
    assert segment.layout.shape == (1, 13, 11, 16)
    ran = lt.simulate(again, given).outputs
    assert np.array_equal(ran[output.name], lt.reference(output, given))


def test_autotuned_schedules_copy_what_the_host_packs():
    """An autotuned schedule makes the default one's copies by primitives, and has the same instructions."""
    output = conv(image(1, 28, 28, 64), filters=64, stride=2)
    (group,) = tiled_groups(lt.create_schedule(output), VTA, 1)
    assert [step.gathered for step in group.tilings[0] if step.about == "data"] == [(1, 2)]
    schedule = lt.create_schedule(output)
    TraceReplayer(schedule).run(group.tilings[0])
    given = [*placeholders([output]), output]
    assert lt.build(schedule, given, VTA).instructions == lt.build(output, given, VTA).instructions


def test_explain_reports_packed_inputs():
    output = conv(image(1, 8, 8, 16), stride=2)
    told = lt.explain(lt.create_schedule(output), VTA)
    assert told.packed == (("data", BY_TWO),)
    assert f"the host packs data as {BY_TWO}, for the stages that read it" in str(told).splitlines()


def test_explain_does_not_report_user_layouts():
    data = image(1, 8, 8, 16)
    schedule = lt.create_schedule(conv(data, stride=2))
    schedule.transform_layout(data, lambda n, y, x, c: [n, x, y, c])
    assert lt.explain(schedule, VTA).packed == ()


def test_on_the_rtl():
    program = simulate_and_check(lt.create_schedule(conv(image(1, 9, 9, 8), filters=8, stride=2)))
    assert {each.x_size for each in loads_of_data(program)} == {25}


def test_validated():
    output = conv(image(2, 9, 10, 24), 2, stride=3, dilation=3, padding=1)
    lt.build(output, [*placeholders([output]), output], lt.load_config("lathe16"), check=True)


def random_outputs(random: Random) -> list[lt.Tensor]:
    """One to three consumers of one input, with strides."""
    step = random.choice([2, 3, 4])
    data = image(random.randint(1, 4), random.randint(4, 12), random.randint(4, 12), random.choice([3, 8, 16, 20]))
    images, height, width, channels = data.shape
    outputs: list[lt.Tensor] = []
    for number in range(random.randint(1, 3)):
        each, name = step * random.choice([1, 1, 2]), f"reader{number}"
        kind = random.choice(["conv", "conv", "taps", "sum", "images"])
        if kind == "conv":
            outputs.append(conv(data, 1, random.choice([4, 16, 20]), name, stride=each, padding=random.randint(0, 2)))
        elif kind == "taps" and step < min(height, width):
            options = {"stride": each, "dilation": step, "padding": random.choice([0, step])}
            outputs.append(conv(data, 2, random.choice([4, 16]), name, **options))
        elif kind == "images" and images >= step:
            outputs.append(
                lt.compute(
                    (images // step, height, width, channels),
                    lambda n, y, x, c: lt.max(data[step * n, y, x, c], 0),
                    name=name,
                )
            )
        else:
            y0, x0 = random.randrange(min(step, height)), random.randrange(min(step, width))
            shape = (images, (height - 1 - y0) // each + 1, (width - 1 - x0) // each + 1, channels)
            outputs.append(
                lt.compute(
                    shape,
                    lambda n, y, x, c, y0=y0, x0=x0, each=each: data[n, each * y + y0, each * x + x0, c] * 2,
                    name=name,
                )
            )
    return outputs


def check_outputs(seed: int) -> None:
    random = Random(seed)
    outputs = random_outputs(random)
    config = random.choice([*MACHINES, PAIR]).with_(**{"memory.latency": random.choice([0, 32, 200])})
    run(lt.create_schedule(outputs), config, random_inputs(outputs, seed))


@pytest.mark.slow
@pytest.mark.seeds(12, slow=448)
def test_random_consumers(seeds):
    check_each(seeds, check_outputs)
