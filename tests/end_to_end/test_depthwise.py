"""Depthwise multiplications: on the matrix core with diagonal weights, and on the ALU."""

from collections.abc import Callable
from math import ceil

import numpy as np
import pytest
from checking import check_program
from machines import ALL
from programs import convolved, requantised

import lathe as lt


@pytest.fixture(params=sorted(ALL))
def machine(request: pytest.FixtureRequest) -> lt.HardwareConfig:
    return ALL[request.param]


def machines(where: Callable[[lt.HardwareConfig], bool]) -> pytest.MarkDecorator:
    """Parametrise `machine` with the machines for which `where` holds."""
    return pytest.mark.parametrize("machine", sorted(name for name in ALL if where(ALL[name])), indirect=True)


def depthwise(
    height: int, width: int, channels: int, *kernels: int, taps: int = 3, images: int = 1, **arguments: object
) -> tuple[lt.Tensor, lt.Tensor, lt.Tensor, lt.Tensor]:
    """Data, weights, the convolution, and its requantised result."""
    shape = (images, height, width, channels)
    if arguments.get("layout") == "NCHW":
        shape = (images, channels, height, width)
    data = lt.placeholder(shape, "int8", name="data")
    weight = lt.placeholder((taps, taps, channels, *kernels), "int8", name="weight")
    made = lt.depthwise_conv2d(data, weight, name="conv", **arguments)
    return data, weight, made, requantised()(made)


def diagonals(channels: int, machine: lt.HardwareConfig) -> int:
    """The number of weight vectors for one tap of ``channels``."""
    return ceil(channels / min(machine.block_in, machine.block_out))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("arguments", "on_data"),
    [
        ({}, 1),
        ({"padding": 1}, 19 * 25 / (21 * 27)),
        ({"padding": ((2, 0), (0, 1)), "stride": 2}, 10 * 11 / (12 * 12)),
        ({"stride": (1, 2), "dilation": 2, "padding": 2}, 17 * 13 / (21 * 15)),
        ({"layout": "NCHW", "padding": 1, "images": 2}, 19 * 25 / (21 * 27)),
    ],
    ids=str,
)
def test_channels_of_any_number(arguments, on_data, machine):
    """At most one GEMM micro-op for each tap and vector, fewer where taps meet padding; 20 channels fill no block."""
    *_, made, output = depthwise(7, 9, 20, **arguments)
    result = check_program(output, machine)
    images, *pixels = (extent for extent in made.shape if extent != 20)
    fewest = min(ceil(extent / machine.batch) * images * made.shape[1] for extent in pixels)
    steps = 9 * fewest * diagonals(20, machine)
    if machine.batch == 1:
        steps = 9 * images * pixels[0] * pixels[1] * diagonals(20, machine)
        assert steps * on_data <= result.counters.gemm_operations <= steps
    assert result.counters.gemm_operations > 0
    assert result.counters.alu_operations_of["mul"] == 0


def test_several_kernels_for_each_channel(machine):
    *_, output = depthwise(6, 5, 10, 3, padding=1)
    result = check_program(output, machine)
    assert result.counters.alu_operations_of["mul"] == 0


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kernel_layout", ["OHWI", "HWIO"])
def test_groups_of_one_channel(layout, kernel_layout, machine):
    """``conv2d`` with as many groups as channels is the same."""
    output, _ = convolved(
        groups=8, channels=8, outputs=8, height=5, width=6, padding=1, layout=layout, kernel_layout=kernel_layout
    )
    result = check_program(output, machine)
    if machine.batch == 1:
        assert 13 * 16 <= result.counters.gemm_operations / diagonals(8, machine) <= 5 * 6 * 9
    assert result.counters.alu_operations_of["mul"] == 0


@machines(lambda each: each.batch == 1 or each.block_in == each.block_out)  # else stored vectors are not `inp` vectors
def test_a_block_of_a_mobile_network(machine):
    """Pointwise up, depthwise with stride 2, pointwise down: channels are lanes throughout."""
    data = lt.placeholder((1, 8, 8, 8), "int8", name="data")
    up = lt.requantise(lt.conv2d(data, lt.placeholder((24, 1, 1, 8), "int8", name="W1"), name="up"), 6, low=0, name="u")
    deep = lt.depthwise_conv2d(up, lt.placeholder((3, 3, 24), "int8", name="W2"), stride=2, padding=1, name="deep")
    biased = lt.bias_add(deep, lt.placeholder((24,), "int32", name="bias"), name="biased")
    d = lt.requantise(biased, 6, low=0, name="d")
    down = lt.conv2d(d, lt.placeholder((8, 1, 1, 24), "int8", name="W3"), name="down")
    result = check_program(lt.requantise(down, 6, name="y"), machine)
    if machine.batch == 1:  # else rows of vectors are pixels, of which a stride skips every other
        assert result.counters.alu_operations_of["mul"] == 0


@pytest.mark.parametrize("name", ["lathe16", "tiny", "tall", "flat"])
def test_one_pass_for_biases_and_factors(name):
    """With RESCALE, one micro-op for each tap and one for each vector of the result are enough."""
    machine = ALL[name]
    if "rescale" not in machine.extensions:
        machine = machine.with_(
            extensions=(*machine.extensions, "rescale"), par_buffer_bytes=machine.acc_buffer_bytes // 4
        )
    *_, made, _ = depthwise(6, 7, 20, padding=1)
    values = lt.rescale_parameters(np.linspace(0.001, 0.02, 20), np.arange(20, dtype=np.int32) * 50 - 400)
    parameters = lt.placeholder((20, 2), "int32", name="parameters")
    output = lt.requantise(made, parameters=parameters, zero_point=-3, relu=True, name="output")
    result = check_program(output, machine, constants={"parameters": values})
    assert 16 * 19 <= result.counters.gemm_operations / diagonals(20, machine) <= 6 * 7 * 9
    assert result.counters.alu_operations_of["rescale"] == 6 * 7 * ceil(20 / machine.block_out)
    assert result.counters.alu_operations == result.counters.alu_operations_of["rescale"]


def test_weights_that_are_constants():
    _, weight, _, output = depthwise(6, 6, 20, padding=1)
    values = np.random.default_rng(3).integers(-128, 128, weight.shape, np.int8)
    for name in ("vta", "batch4"):
        check_program(output, ALL[name], constants={"weight": values})


def test_the_host_makes_diagonals_of_what_it_has():
    """The host CPU packs diagonals of an input, data or weights; if both are computed, the ALU multiplies."""
    data, given = lt.placeholder((1, 6, 6, 20), "int8", name="data"), lt.placeholder((3, 3, 20), "int8", name="given")
    weight = lt.clip(given, -100, 100, name="weight")
    result = check_program(requantised()(lt.depthwise_conv2d(data, weight, name="conv")), ALL["lathe16"])
    assert result.counters.gemm_operations == 4 * 4 * 9 * 2
    image = lt.clip(data, -100, 100, name="image")
    result = check_program(requantised()(lt.depthwise_conv2d(image, weight, name="conv")), ALL["lathe16"])
    assert result.counters.gemm_operations == 0
    assert result.counters.alu_operations_of["mul"] == 4 * 4 * 9 * 2


# Selection of the unit.


def test_few_pixels_are_left_to_the_alu():
    """Loading the diagonals takes longer than the ALU takes for all."""
    *_, output = depthwise(3, 3, 64)
    assert check_program(output, ALL["lathe16"]).counters.gemm_operations == 0
    assert check_program(output, ALL["tiny"]).counters.gemm_operations > 0
    found = lt.explain(output, ALL["lathe16"])
    assert dict(found.units) == {
        "conv": "no diagonal weights, which take longer to load than the ALU computes (matrix core about 1,328 cycles, "
        "ALU about 536)"
    }
    *_, output = depthwise(8, 8, 64)
    assert "conv in acc:\n  diagonal weights (matrix core about 1,768 cycles, ALU about 11,056)\n" in str(
        lt.explain(output, ALL["lathe16"])
    )


def test_a_turn_for_it_alone_counts_more_than_its_steps():
    """The data would need a layout conversion before the matrix core reads them: the ALU is done sooner."""
    config = lt.load_config("tiny").with_(
        name="2x4x32", batch=2, block_in=4, block_out=32, inp_buffer_bytes=2048, wgt_buffer_bytes=8192,
        acc_buffer_bytes=1 << 18, **{"memory.bus_bits": 128, "memory.latency": 64},
    )  # fmt: skip
    data, weights = lt.placeholder((1, 36, 39, 4), "int8", name="data"), lt.placeholder((48, 1, 1, 4), "int8", name="w")
    before = lt.requantise(lt.conv2d(data, weights, name="conv"), 6, name="before")
    kernels = lt.placeholder((3, 3, 48), "int8", name="kernels")
    deep = lt.depthwise_conv2d(before, kernels, stride=2, padding=1, name="deep")
    ((name, why),) = lt.explain(lt.requantise(deep, 6, name="output"), config).units
    assert (name, why.startswith("no diagonal weights")) == ("deep", True)


@pytest.mark.parametrize(
    ("operand", "memory", "used"), [(0, "inp", True), (1, "wgt", True), (0, "acc", False), (1, "acc", False)]
)
@pytest.mark.parametrize("name", ["batch4", "flat", "lathe16", "tall"])
def test_a_memory_for_an_operand_says_the_unit(operand, memory, used, name):
    """A scratchpad that the user chose for an operand determines the unit, even if the other is faster."""
    machine = ALL[name]
    data, weight, made, output = depthwise(*((3, 3) if used else (6, 6)), 16)
    schedule = lt.create_schedule(output)
    schedule.cache_read((data, weight)[operand], memory, [made])
    program = lt.build(schedule, [data, weight, output], machine, check=True)
    generator = np.random.default_rng(1)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (data, weight)}
    result = lt.simulate(program, given)
    assert np.array_equal(result.outputs["q"], lt.reference(output, given))
    assert (result.counters.gemm_operations > 0) == used
    assert (result.counters.alu_operations_of["mul"] > 0) == (not used)


def scaled(data: lt.Tensor, name: str = "scaled") -> lt.Tensor:
    """An image times a factor for each channel, in int32."""
    scale = lt.placeholder((data.shape[3],), "int8", name="scale")
    return lt.compute(data.shape, lambda n, y, x, c: data[n, y, x, c].astype("int32") * scale[c].astype("int32"), name)


def test_a_number_for_each_channel(machine):
    """For stored data: one GEMM micro-op for each vector, where the ALU takes three cycles."""
    data = lt.placeholder((1, 9, 8, 20), "int8", name="data")
    result = check_program(requantised()(scaled(data)), machine)
    if machine.batch == 1 and machine.block_in == machine.block_out:
        assert result.counters.gemm_operations == 9 * 8 * diagonals(20, machine)
    if result.counters.gemm_operations:
        assert result.counters.alu_operations_of["mul"] == 0


def test_products_element_by_element_of_what_is_in_acc_stay_there():
    """So do those with few vectors, and of two matrices, for which the diagonals would be large."""
    machine = ALL["lathe16"]
    data = lt.placeholder((1, 9, 8, 20), "int8", name="data")
    for output in (
        requantised()(scaled(lt.relu(data, name="above"))),
        scaled(lt.placeholder((1, 1, 2, 20), "int8", name="few")),
        lt.compute((40, 40), lambda i, j: lt.placeholder((40, 40), "int8", name="A")[i, j].astype("int32")
                   * lt.placeholder((40, 40), "int8", name="B")[i, j].astype("int32"), "AB"),
    ):  # fmt: skip
        assert check_program(output, machine).counters.gemm_operations == 0
    above = lt.relu(data, name="above")
    result = check_program([above, requantised()(scaled(above))], machine)  # stored in any case
    assert result.counters.gemm_operations == 9 * 8 * 2


# Manual schedules.


def run_path(schedule: lt.Schedule, tensors: list[lt.Tensor], machine: lt.HardwareConfig) -> lt.Result:
    """The result of a validated build, which equals NumPy's."""
    program = lt.build(schedule, tensors, machine, check=True)
    generator = np.random.default_rng(1)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in tensors[:-1]}
    result = lt.simulate(program, given)
    assert np.array_equal(result.outputs[tensors[-1].name], lt.reference(tensors[-1], given))
    return result


@pytest.mark.sample(2)
@pytest.mark.parametrize("factor", [1, 2, 4])
@machines(lambda each: each.batch == 1)  # else the machine decides whether rows of vectors are pixels or images
def test_tiles_by_hand(factor, machine):
    """Row tiles with a tail, blocks of channels, and each block's weights loaded once."""
    data, weight, made, output = depthwise(7, 5, 36, padding=1)
    padded = made.computation.reads[0].tensor
    schedule = lt.create_schedule(output)
    result = schedule.cache_write(output, "acc")
    kernels = schedule.cache_read(weight, "wgt", [made])
    n, y, x, c = schedule[output].axis
    block, inside = schedule[output].split(c, factor=max(machine.block_in, machine.block_out))
    tile, rows = schedule[output].split(y, factor=factor)
    schedule[output].reorder(block, tile, n, rows, x, inside)
    schedule[made].set_scope("acc")
    schedule[padded].set_scope("inp")
    for stage in (result, made, padded):
        schedule[stage].compute_at(schedule[output], tile)
    schedule[kernels].compute_at(schedule[output], block)
    found = run_path(schedule, [data, weight, output], machine)
    assert 19 * 13 <= found.counters.gemm_operations / diagonals(36, machine) <= 7 * 5 * 9
    one = machine.wgt_element_bytes
    assert found.counters.bytes_read["wgt"] == 9 * diagonals(36, machine) * one


def test_the_rule_says_the_unit():
    """``emit_insn`` with "alu" or "gemm" determines the unit, even if the ALU would be faster."""
    for rule, memories in (("alu", ("acc", "acc")), ("gemm", ("inp", "wgt"))):
        data, weight, made, output = depthwise(3, 3, 16)
        schedule = lt.create_schedule(output)
        schedule[made].set_scope("acc")
        schedule[made].emit_insn(schedule[made].axis[0], rule)
        found = lt.explain(schedule, ALL["lathe16"])
        memory_of = {use.stage.split(".")[0]: use.scope for use in found.buffers if not use.temporary}
        assert (memory_of["data"], memory_of["weight"]) == memories
        result = run_path(schedule, [data, weight, output], ALL["lathe16"])
        assert result.counters.gemm_operations == (9 if rule == "gemm" else 0)


def test_one_dimension_and_none(machine):
    """Signals of several channels, and dot products per channel: an axis is in the lanes of both operands."""
    X, W = lt.placeholder((21, 19), "int8", name="X"), lt.placeholder((4, 19), "int8", name="W")
    k = lt.reduce_axis(4, "k")
    output = lt.compute(
        (18, 19), lambda i, c: lt.sum(X[i + k, c].astype("int32") * W[k, c].astype("int32"), axis=k), "C"
    )
    result = check_program(output, machine)
    if machine.batch == 1:
        assert result.counters.gemm_operations == 18 * 4 * diagonals(19, machine)
    V = lt.placeholder((21, 19), "int8", name="V")
    r = lt.reduce_axis(21, "r")
    product = lambda c: lt.sum(X[r, c].astype("int32") * V[r, c].astype("int32"), axis=r)  # noqa: E731
    check_program(lt.compute((19,), product, "D"), machine)


def test_a_program_file_has_the_diagonals(tmp_path):
    *_, output = depthwise(4, 4, 6)
    machine = ALL["tiny"]
    data, weight = lt.frontend.placeholders([output])
    program = lt.build(output, [data, weight, output], machine)
    program.save(tmp_path / "deep.npz")
    loaded = lt.Program.load(tmp_path / "deep.npz")
    generator = np.random.default_rng(1)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (data, weight)}
    ran = lt.cosimulate(loaded, given, engines=("sim", "pysim")).check()
    assert np.array_equal(ran.outputs["q"], lt.reference(output, given))
    assert loaded.segment("weight").nbytes == 9 * 2 * machine.wgt_element_bytes


@pytest.mark.sample(3)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("channels", [2, 8, 32])
def test_a_shortcut_beside_several_kernels_for_each_channel(channels, swapped):
    """Channels and kernels are two axes: the shortcut takes the vector layout of the sums that it is added to."""
    config = lt.load_config("lathe16")
    data, weight, made, _ = depthwise(5, 5, channels, 3, taps=1, padding=1, stride=2)
    shortcut = lt.placeholder(made.shape, "int8", name="shortcut")
    parameters = lt.placeholder((3 * channels, 2, 2), "int32", name="parameters")
    terms = (shortcut, made) if swapped else (made, shortcut)
    output = lt.rescaled_add(*terms, parameters=parameters, name="output")
    generator = np.random.default_rng(1)
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (data, weight, shortcut)}
    inputs["parameters"] = lt.rescaled_add_parameters((0.01, generator.uniform(0.1, 1, 3 * channels)))
    program = lt.build(output, [data, weight, shortcut, parameters, output], config, check=True)
    assert np.array_equal(lt.simulate(program, inputs).outputs["output"], lt.reference(output, inputs))
