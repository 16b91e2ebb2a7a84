"""The lower bound ``lathe.bound``: equal to its definition, and never more than the cycles of a built program."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from random_operators import OperatorProgram
from random_programs import Choice, programs

import lathe as lt
from lathe.frontend import placeholders

MACHINES = {name: lt.load_config(name).with_(**{"memory.latency": 0}) for name in lt.shipped_configs()}

CONVOLUTIONS = [  # ResNet-18: pixels, channels, filters, kernel, stride
    (56, 64, 64, 3, 1), (56, 64, 64, 1, 1), (56, 64, 128, 3, 2), (56, 64, 128, 1, 2), (28, 128, 128, 3, 1),
    (28, 128, 256, 3, 2), (28, 128, 256, 1, 2), (14, 256, 256, 3, 1), (14, 256, 512, 3, 2), (14, 256, 512, 1, 2),
    (7, 512, 512, 3, 1),
]  # fmt: skip


def image(pixels: int, channels: int, images: int = 1, name: str = "data") -> lt.Tensor:
    return lt.placeholder((images, pixels, pixels, channels), "int8", name=name)


def convolution(
    pixels: int, channels: int, filters: int, kernel: int, stride: int = 1, images: int = 1, **options: Any
) -> lt.Tensor:
    """A convolution, requantised with one shift for all channels, and clipped."""
    groups = options.get("groups", 1)
    weights = lt.placeholder((filters, kernel, kernel, channels // groups), "int8", name="weights")
    options.setdefault("padding", kernel // 2)
    sums = lt.conv2d(image(pixels, channels, images), weights, stride=stride, name="conv", **options)
    return lt.requantise(sums, 8, low=0, name="output")


def rescaled(pixels: int, channels: int, filters: int, kernel: int, stride: int) -> lt.Tensor:
    """A convolution, requantised with a bias and a factor per channel."""
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    sums = lt.conv2d(image(pixels, channels), weights, stride=stride, padding=kernel // 2, name="conv")
    parameters = lt.placeholder((filters, 2), "int32", name="parameters")
    return lt.requantise(sums, parameters=parameters, relu=True, name="output")


def depthwise(pixels: int, channels: int, stride: int = 1) -> lt.Tensor:
    weights = lt.placeholder((3, 3, channels), "int8", name="weights")
    sums = lt.depthwise_conv2d(image(pixels, channels), weights, padding=1, stride=stride, name="conv")
    return lt.requantise(sums, 8, name="output")


def dense(rows: int, inner: int, columns: int, *, wide: bool = False) -> lt.Tensor:
    data, weights = lt.placeholder((rows, inner), "int8", name="A"), lt.placeholder((columns, inner), "int8", name="B")
    sums = lt.dense(data, weights, name="C")
    return sums if wide else lt.requantise(sums, 8, name="output")


def chain(images: int = 1) -> lt.Tensor:
    """Two convolutions, the first one's result added to the second's."""
    a = convolution(10, 32, 32, 3, images=images)
    weights = lt.placeholder((32, 1, 1, 32), "int8", name="V")
    b = lt.requantise(lt.conv2d(a, weights, name="second"), 7, name="b")
    return lt.relu(lt.add(a, b, name="added"), name="end")


def scaled() -> lt.Tensor:
    data, factors = image(14, 32), lt.placeholder((32,), "int8", name="factors")
    return lt.compute(
        data.shape,
        lambda n, y, x, c: (data[n, y, x, c].astype("int32") * factors[c].astype("int32") >> 5).astype("int8"),
        name="scaled",
    )


def transposed() -> lt.Tensor:
    """A transposed convolution: a convolution of an image with zeros between its pixels."""
    data, weights = image(8, 16), lt.placeholder((16, 3, 3, 16), "int8", name="weights")
    spread = lt.compute(
        (1, 17, 17, 16),
        lambda n, y, x, c: lt.select((y % 2 == 1) & (x % 2 == 1), data[n, y // 2, x // 2, c], 0),
        name="spread",
    )
    return lt.requantise(lt.conv2d(spread, weights, name="conv"), 8, name="output")


PROGRAMS: dict[str, Callable[[], lt.Tensor]] = {
    "3×3": lambda: convolution(14, 32, 32, 3),
    "3×3, 4 images": lambda: convolution(7, 32, 32, 3, images=4),
    "3×3 by 2, dilated": lambda: convolution(14, 32, 32, 3, 2, dilation=2, padding=2),
    "3×3, more padding than pixels": lambda: convolution(5, 32, 32, 3, padding=4),
    "3×3, padding that counts": lambda: convolution(9, 16, 16, 3, pad_value=-3),
    "7×7 by 2 of 3 channels": lambda: convolution(32, 3, 32, 7, 2),
    "4×4 by 4": lambda: convolution(32, 4, 32, 4, 4, padding=0),
    "1×1 by 3": lambda: convolution(16, 32, 32, 1, 3),
    "groups": lambda: convolution(10, 64, 64, 3, groups=4),
    "odd channels": lambda: convolution(9, 17, 35, 3),
    "depthwise": lambda: depthwise(14, 48),
    "depthwise by 2": lambda: depthwise(14, 24, 2),
    "largest": lambda: lt.max_pool2d(image(14, 32), 3, stride=2, padding=1, name="pool"),
    "largest, apart": lambda: lt.max_pool2d(image(14, 32), 2, name="pool"),
    "average": lambda: lt.avg_pool2d(image(14, 32), 7, name="pool"),
    "sum": lambda: lt.add(image(14, 40), image(14, 40, name="other"), name="added"),
    "relu": lambda: lt.relu(image(14, 40), name="relu"),
    "dense": lambda: dense(16, 128, 64),
    "dense, one row": lambda: dense(1, 512, 128),
    "dense in int32": lambda: dense(12, 128, 48, wide=True),
    "flattened": lambda: lt.dense(lt.flatten(image(6, 16, 4)), lt.placeholder((40, 576), "int8", name="W"), name="out"),
    "chain": chain,
    "chain, 2 images": lambda: chain(2),
    "scaled": scaled,
    "transposed": transposed,
}


def timed(outputs: list[lt.Tensor], machine: lt.HardwareConfig) -> lt.Result:
    """A timing-only simulation of the default schedule."""
    return lt.simulate(lt.build(outputs, [*placeholders(outputs), *outputs], machine), timing_only=True)


def check(outputs: lt.Tensor | list[lt.Tensor], machine: lt.HardwareConfig) -> float:
    """The lower bound relative to the cycles; fails if it is larger than them."""
    made = [outputs] if isinstance(outputs, lt.Tensor) else outputs
    found = lt.bound(outputs, machine)
    cycles = timed(made, machine).cycles
    assert found.cycles <= cycles, f"{found}\nnot {cycles} cycles"
    assert found.cycles == max(found.compute, found.memory) > 0
    assert (
        found.compute
        == sum(each.steps for each in found.stages)
        == found.gemm + found.reset + found.alu + (found.rescale)
    )
    return found.cycles / cycles


@pytest.mark.sample(18)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_that_is_built_is_quicker(name: str, machine: str) -> None:
    check(PROGRAMS[name](), MACHINES[machine])


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_not_quicker(seed: int) -> None:
    choice = Choice(seed)
    outputs = programs(choice, 3) if seed % 2 else OperatorProgram(choice, 3).outputs
    machine = list(MACHINES.values())[seed // 2 % len(MACHINES)]
    try:
        check(outputs, machine)
    except (lt.EmitError, lt.BuildError, lt.CapacityError):
        lt.bound(outputs, machine)  # programs that the compiler does not support have a bound, too


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["vta", "board", "wide"])
@pytest.mark.parametrize("shape", CONVOLUTIONS)
def test_convolutions_of_resnet_come_near_it(shape: tuple[int, int, int, int, int], machine: str) -> None:
    rescaling = "rescale" in MACHINES[machine].extensions
    share = check(rescaled(*shape) if rescaling else convolution(*shape), MACHINES[machine])
    pixels, _, _, kernel, _ = shape
    if kernel == 3 and machine != "wide":
        assert share >= (0.8 if pixels > 7 else 0.78)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("shape", "least"), [((56, 64, 64, 1, 1), 0.77), ((56, 64, 128, 1, 2), 0.74)])
def test_products_of_small_kernels_take_their_share_of_lathe16(
    shape: tuple[int, int, int, int, int], least: float
) -> None:
    """Layers with few MACs per result, in which overhead matters most; benchmarks/quantised.py has all layers."""
    result = timed([rescaled(*shape)], MACHINES["lathe16"])
    assert result.counters.gemm_operations / result.cycles >= least


def test_parts_of_a_convolution() -> None:
    found = lt.bound(convolution(56, 64, 128, 3, 2), MACHINES["vta"])
    taps = (3 * 28 - 1) ** 2  # the first row and column of taps meets padding at the border
    sums = 28 * 28 * (128 // 16)
    stages = {each.name: (each.unit, each.gemm, each.reset, each.alu, each.products) for each in found.stages}
    assert stages == {
        "conv.pad": ("copy", 0, 0, 0, 0),
        "conv": ("products", taps * 4 * 8, sums, 0, taps * 64 * 128),
        "output": ("alu", 0, 0, 4 * sums, 0),
    }
    assert dict(found.inputs) == {"data": 56 * 56 * 64}
    assert dict(found.weights) == {"weights": 9 * 64 * 128}
    assert dict(found.outputs) == {"output": 28 * 28 * 128}
    assert found.bytes == 56 * 56 * 64 + 9 * 64 * 128 + 28 * 28 * 128
    assert (found.beats, found.memory) == (found.bytes // 8,) * 2
    assert (found.cycles, found.limit) == (taps * 32 + 5 * sums, "compute")
    assert found.products == taps * 64 * 128


def test_rows_and_columns_that_nobody_reads_are_not_loaded() -> None:
    found = lt.bound(convolution(56, 64, 128, 1, 2, padding=0), MACHINES["vta"])
    assert dict(found.inputs) == {"data": 28 * 28 * 64}


def test_extensions_take_steps_away() -> None:
    program = rescaled(14, 32, 32, 3, 1)
    found = lt.bound(program, MACHINES["lathe16"])
    assert (found.reset, found.alu, found.rescale) == (0, 0, 14 * 14 * 2)
    assert dict(found.parameters) == {"parameters": 32 * 8}
    with pytest.raises(lt.BuildError, match=r"machine of build must have extension 'rescale'"):
        lt.bound(program, MACHINES["vta"])


def test_an_added_shortcut_takes_two_steps() -> None:
    conv = lt.conv2d(image(8, 16), lt.placeholder((16, 1, 1, 16), "int8", name="W"), name="conv")
    parameters = lt.placeholder((16, 2, 2), "int32", name="P")
    added = lt.rescaled_add(conv, image(8, 16, name="shortcut"), parameters=parameters, name="added")
    found = lt.bound(added, MACHINES["lathe16"])
    assert (found.gemm, found.rescale) == (64, 2 * 64)
    assert dict(found.parameters) == {"P": 2 * 16 * 8}
    check(added, MACHINES["lathe16"])


def test_depthwise_products_take_the_quicker_unit() -> None:
    (conv,) = (each for each in lt.bound(depthwise(14, 32), MACHINES["vta"]).stages if each.name == "conv")
    assert (conv.unit, conv.gemm) == ("diagonal products", 40 * 40 * 2)
    few = lt.bound(depthwise(2, 512), MACHINES["vta"].with_(**{"memory.cycles_per_beat": 4}))
    assert [each.unit for each in few.stages if each.name == "conv"] == ["alu"]  # diagonals take longer to load


@pytest.mark.parametrize("kind", ["depthwise", "residual"])
def test_blocks_of_data_without_channels_take_no_step(kind: str) -> None:
    """20 channels are two vectors of 16 accumulators, and five of 4 values that a GEMM reads."""
    vta = lt.load_config("vta")
    small = {"inp_buffer_bytes": 4096, "wgt_buffer_bytes": 32768, "uop_buffer_bytes": 8192}
    config = vta.with_(block_in=4, **small, **{"memory.latency": 0, "memory.bus_bits": 128})
    data = lt.placeholder((1, 12, 12, 20), "int8", name="data")
    if kind == "depthwise":
        sums = lt.depthwise_conv2d(data, lt.placeholder((3, 3, 20), "int8", name="weights"), padding=1, name="sums")
        assert lt.bound(sums, config).gemm == (3 * 12 - 2) ** 2 * 5
    else:
        weights = lt.placeholder((20, 1, 1, 20), "int8", name="weights")
        sums = lt.add(lt.requantise(lt.conv2d(data, weights, name="conv"), 7, name="branch"), data, name="sums")
    output = lt.requantise(sums, 5, name="output")
    check(output, config)


def test_images_may_fill_rows_and_nothing_else_need() -> None:
    """With a batch of four, four images at once; for one image, rows are pixels, unless taps shift them."""
    four, one = (lt.bound(convolution(8, 8, 8, 1, padding=0, images=n), MACHINES["batch4"]) for n in (4, 1))
    assert (four.gemm, one.gemm) == (64, 16)
    four, one = (lt.bound(convolution(8, 8, 8, 3, padding=0, images=n), MACHINES["batch4"]) for n in (4, 1))
    assert four.gemm == one.gemm == 36 * 9


def test_what_is_memory_bound_depends_on_the_bus() -> None:
    program, machine = dense(1, 512, 128), MACHINES["vta"]
    narrow = lt.bound(program, machine)
    assert (narrow.limit, narrow.memory) == ("memory", (512 + 512 * 128 + 128) // 8)
    assert lt.bound(program, machine.with_(**{"memory.bus_bits": 128})).memory == narrow.memory // 2
    assert lt.bound(program, machine.with_(**{"memory.cycles_per_beat": 3})).memory == narrow.memory * 3
    apart = machine.with_(**{"memory.shared_bandwidth": False})
    assert lt.bound(program, apart).memory == (512 + 512 * 128) // 8
    assert lt.bound(program, machine.with_(**{"memory.latency": 200})) == narrow


def test_results_of_32_bits_are_stored_in_four_planes() -> None:
    assert dict(lt.bound(dense(12, 128, 48, wide=True), MACHINES["vta"]).outputs) == {"C": 12 * 48 * 4}


def test_a_schedule_has_the_bound_of_its_program() -> None:
    program = convolution(8, 16, 16, 3)
    schedule = lt.create_schedule(program)
    schedule[program].split(schedule[program].axis[1], factor=3)
    assert lt.bound(schedule, MACHINES["vta"]) == lt.bound([program], MACHINES["vta"])


def test_it_prints_readably() -> None:
    assert str(lt.bound(convolution(8, 16, 16, 3), MACHINES["vta"])).splitlines() == [
        "on vta: at least 804 cycles, bound by compute",
        "compute 804 cycles",
        "  conv.pad, copy",
        "  conv, products: GEMM 484, reset 64",
        "  output, alu: ALU 256",
        "memory 544 cycles, 4,352 bytes in 544 beats",
        "  inputs: data 1,024",
        "  weights: weights 2,304",
        "  outputs: output 1,024",
        "layer by layer, with scratchpads of this size: 804 cycles, 0 bytes between layers, 0 reloaded",
    ]


def test_it_is_a_value() -> None:
    found = lt.bound(dense(4, 16, 16), MACHINES["vta"])
    assert found.to_dict()["cycles"] == found.cycles
    assert found.to_dict()["stages"][0]["name"] == "C"
    with pytest.raises(FrozenInstanceError):
        found.compute = 1  # type: ignore[misc]


def test_what_does_not_fit_comes_again() -> None:
    """Of 6×6 tiles of results, each loads six blocks of rows of both factors; acc holds one tile."""
    config = MACHINES["tiny"]
    rows = config.acc_depth * config.block_out
    one = lt.bound(dense(4, 64, 4), config)
    assert (one.again, one.between, one.sized) == (0, 0, one.cycles)
    large = lt.bound(dense(rows, 64, rows), config)
    data, weights = (next(iter(each.values())) for each in (large.inputs, large.weights))
    assert 0 < large.again < min(data, weights) * config.acc_depth
    assert large.sized >= large.cycles


def test_what_one_product_stores_for_another_goes_twice_over_the_bus() -> None:
    config = MACHINES["vta"]
    rows, weights = lt.placeholder((64, 64), "int8", name="rows"), lt.placeholder((64, 64), "int8", name="weights")
    between = lt.requantise(lt.dense(rows, weights, name="C"), 8, name="D")
    last = lt.requantise(lt.dense(between, lt.placeholder((64, 64), "int8", name="W"), name="E"), 8, name="F")
    assert lt.bound(between, config).between == 0
    assert lt.bound(last, config).between == 2 * 64 * 64


def test_what_is_computed_of_sums_has_their_lanes() -> None:
    """24 filters are two vectors for each pixel, also for element-wise consumers, which would need only 1.5."""
    found = lt.bound(convolution(8, 16, 24, 3), MACHINES["vta"])
    pixels = 8 * 8
    assert (found.reset, found.alu) == (2 * pixels, 4 * 2 * pixels)
    check(convolution(8, 16, 24, 3), MACHINES["vta"])


def test_what_is_added_to_sums_has_their_lanes() -> None:
    sums = lt.conv2d(image(8, 16), lt.placeholder((24, 1, 1, 16), "int8", name="W"), name="sums")
    other = image(8, 24, name="other")
    wide = lt.compute(sums.shape, lambda n, y, x, c: other[n, y, x, c].astype("int32") * 5, name="wide")
    added = lt.requantise(lt.add(sums, wide, name="added"), 6, name="output")
    stages = {each.name: each.alu for each in lt.bound(added, MACHINES["vta"]).stages}
    assert stages["added"] == 2 * 2 * 8 * 8
    check(added, MACHINES["vta"])


def test_bytes_come_into_any_lanes() -> None:
    """Narrowing 24 channels takes two vectors for each pixel; consumers of the int8 values may have pixels in lanes."""
    highest = lt.relu(convolution(16, 16, 24, 3), name="highest")
    steps = {each.name: each.alu for each in lt.bound(highest, MACHINES["vta"]).stages}
    assert (steps["output"], steps["highest"]) == (4 * 2 * 16 * 16, 24 * 16)


def test_sums_may_go_through_memory_into_other_lanes() -> None:
    """One filter fills one of 16 lanes: forty operations take fewer cycles with pixels as lanes, even via DRAM."""
    taps = lt.conv2d(image(8, 16), lt.placeholder((1, 3, 3, 16), "int8", name="W"), padding=1, name="taps")

    def polynomial(n: lt.Axis, y: lt.Axis, x: lt.Axis, c: lt.Axis) -> object:
        value = taps[n, y, x, c]
        for step in range(20):
            value = (value + (step + 1)) >> (1 + step % 2)
        return value.astype("int8")

    found = lt.bound(lt.compute(taps.shape, polynomial, name="far"), MACHINES["vta"])
    steps = {each.name: each.steps for each in found.stages}
    assert steps == {"taps.pad": 0, "taps": (3 * 8 - 2) ** 2 + 64 + 12 * 64, "far": 40 * 8}


@pytest.mark.sample(4)
@pytest.mark.parametrize("bus", [64, 512])
@pytest.mark.parametrize("machine", ["vta", "lathe16", "wide", "batch4"])
@pytest.mark.parametrize("kind", ["depthwise", "1×1", "shortcut", "3×3 and depthwise"])
def test_few_channels_of_many_images_are_above_it(kind: str, machine: str, bus: int) -> None:
    """Images fill lanes: along the diagonals of repeated weights, or as weights themselves."""
    config = MACHINES[machine].with_(**{"memory.bus_bits": bus})
    for channels in (1, 3):
        data = image(9, channels, images=16)
        kernels = lt.placeholder((3, 3, channels), "int8", name="kernels")
        match kind:
            case "depthwise":
                output = lt.requantise(lt.depthwise_conv2d(data, kernels, padding=1, name="deep"), 7, name="output")
            case "1×1":
                output = convolution(9, channels, channels, 1, images=16)
            case "shortcut":
                weights = lt.placeholder((channels, 1, 1, channels), "int8", name="weights")
                branch = lt.requantise(lt.conv2d(data, weights, name="conv"), 7, name="branch")
                output = lt.requantise(lt.add(branch, data, name="added"), 1, name="sum")
            case _:
                before = convolution(9, channels, channels, 3, images=16)
                output = lt.requantise(lt.depthwise_conv2d(before, kernels, padding=1, name="deep"), 7, name="last")
        check(output, config)


def test_what_is_added_is_loaded_once_in_the_narrowest_elements() -> None:
    """A GEMM reads it as int8 and also brings it to acc, whose vectors are four times as wide."""
    config = MACHINES["vta"].with_(
        name="uneven", batch=4, block_in=8, block_out=32, inp_buffer_bytes=131072, wgt_buffer_bytes=8192,
        acc_buffer_bytes=524288, uop_buffer_bytes=4096, **{"memory.bus_bits": 128, "memory.cycles_per_beat": 2},
    )  # fmt: skip
    data, weights = image(7, 8, images=4, name="data"), lt.placeholder((8, 1, 1, 8), "int8", name="weights")
    branch = lt.requantise(lt.conv2d(data, weights, name="conv"), 7, name="branch")
    output = lt.requantise(lt.add(branch, data, name="added"), 1, name="sum")
    bound = lt.bound(output, config)
    assert bound.inputs["data"] == 49 * 4 * 8
    check(output, config)


def test_ways_are_chosen_for_the_whole_program() -> None:
    """Images as weights take more bytes, and fewer cycles in all element-wise consumers of the GEMM."""
    config = MACHINES["wide"].with_(**{"memory.bus_bits": 512})
    bound = lt.bound(convolution(14, 3, 3, 1, images=32), config)
    assert bound.cycles == 14 * 14 * 3 * 6
