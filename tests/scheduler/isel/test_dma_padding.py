"""Padding of loads: by LOAD if it supports the constant, else by the ALU in acc, and an error in inp and wgt."""

from typing import Any

import numpy as np
import pytest
from error_checks import check_mentions, raises
from random_hand_schedules import hand_schedules
from random_networks import machines
from random_programs import Choice, random_inputs
from seeds import check_each, note
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, const, format_program, placeholder, select
from lathe.frontend.operators import clip, conv2d, dense, depthwise_conv2d, matmul, max_pool2d, pad2d, requantise
from lathe.isa import Alu, AluOp, Gemm, Instruction, Load, MemoryType, Program
from lathe.scheduler import BuildError, CapacityError, EmitError, Schedule, build, create_schedule, explain
from lathe.sim import simulate_program

VTA, LATHE16, TINY = load_config("vta"), load_config("lathe16"), load_config("tiny")
EXTENDED = {"batch4": load_config("batch4").with_(extensions=("pad_value",)), "lathe16": LATHE16}
PLAIN = {"vta": VTA, "tiny": TINY, "batch4": load_config("batch4")}
MACHINES = {**PLAIN, **{f"{name} with pad_value": machine for name, machine in EXTENDED.items()}}


def filled(*tensors: Tensor) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    found = {}
    for tensor in tensors:
        limits = np.iinfo(tensor.dtype)
        found[tensor.name] = generator.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
    return found


def of_kind(program: Program, kind: type[Instruction], **fields: Any) -> list[Any]:
    return [
        each
        for each in program.instructions
        if isinstance(each, kind) and all(getattr(each, name) == value for name, value in fields.items())
    ]


def copied_to_acc(B: Tensor) -> Schedule:
    """A padded copy into the accumulators, by rule ``dma``."""
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].emit_insn(s[made].axis[0], "dma")
    return s


def pads(load: Load) -> tuple[int, ...]:
    return load.y_size, load.x_size, load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1


# Into the accumulators.


def pooled() -> tuple[Tensor, Tensor]:
    A = placeholder((1, 8, 9, 16), "int8", "A")
    return A, max_pool2d(A, 3, stride=2, padding=1, name="M")


def test_a_max_pooling_is_loaded_with_minimum_padding() -> None:
    A, M = pooled()
    program = run(create_schedule(M), LATHE16, filled(A))
    (load,) = loads_of(program, "A")
    assert (*pads(load), load.padding) == (8, 9, 1, 0, 1, 1, -128)
    assert of_kind(program, Alu, alu_opcode=AluOp.ADD) == []
    assert of_kind(program, Gemm) == []  # the maxima are initialised by padding too
    (start,) = [each for each in of_kind(program, Load, memory_type=MemoryType.ACC8) if each is not load]
    assert (*pads(start), start.padding) == (0, 20, 1, 0, 0, 0, -128)


def test_without_the_extension_zeros_are_loaded_and_the_alu_fills_in_the_minimum() -> None:
    A, M = pooled()
    program = run(create_schedule(M), VTA, filled(A))
    (load,) = loads_of(program, "A")
    assert (*pads(load), load.padding) == (8, 9, 1, 0, 1, 1, 0)
    fills = of_kind(program, Alu, alu_opcode=AluOp.ADD, imm=-128)
    assert [each.iter_out * each.iter_in for each in fills] == [11, 8, 8, 20]  # row, two columns, initial maxima


@pytest.mark.sample(17)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("int8", value) for value in (-128, -1, 1, 127)),
        *(("int16", value) for value in (-32768, -128, 32767)),
        *(("int32", value) for value in (-(1 << 31), -40000, -129, 127, 128, 40000, (1 << 31) - 1)),
        ("uint8", 255),
        ("uint16", 65535),
    ],
)
def test_any_constant_can_pad_accumulators(dtype: str, value: int, machine: str) -> None:
    A = placeholder((1, 3, 4, 20), dtype, "A")
    P = pad2d(A, ((1, 2), (2, 1)), value=value, name="P")
    s = create_schedule(P)
    s[s.cache_write(P, "acc")].emit_insn(s[s.stages[0]].axis[0], "dma")
    run(s, MACHINES[machine], filled(A))


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (-128, (-128, False)),
        (127, (127, False)),
        (-(1 << 31), (-1, True)),
        ((1 << 31) - 1, (0, True)),
        (128, None),
        (-129, None),
    ],
)
def test_constants_that_a_load_of_lathe16_holds(value: int, fields: tuple[int, bool] | None) -> None:
    A = placeholder((1, 3, 4, 16), "int8", "A")
    P = compute(
        (1, 3, 6, 16),
        lambda n, y, x, c: select((x >= 1) & (x < 5), A[n, y, x - 1, c].astype("int32"), value),
        "P",
    )
    s = copied_to_acc(P)
    program = run(s, LATHE16, filled(A))
    (load,) = loads_of(program, "A")
    assert pads(load) == (3, 4, 0, 0, 1, 1)
    assert (load.pad_value, load.pad_limit) == (fields or (0, False))
    assert bool(of_kind(program, Alu, alu_opcode=AluOp.ADD)) == (fields is None)


@pytest.mark.parametrize("machine", [VTA, LATHE16], ids=lambda machine: machine.name)
def test_several_pad_constants_in_acc_are_filled_in_one_by_one(machine: Any) -> None:
    A = placeholder((4, 5, 16), "int32", "A")

    def element(y: Any, x: Any, c: Any) -> Any:
        inside = select((x >= 1) & (x < 6), A[y - 1, x - 1, c], 9)
        return select((y >= 1) & (y < 5), inside, 100000)

    B = compute((6, 7, 16), element, "B")
    s = copied_to_acc(B)
    program = run(s, machine, filled(A))
    assert {load.padding for load in of_kind(program, Load)} == {0}
    assert {each.imm for each in of_kind(program, Alu, alu_opcode=AluOp.ADD)} >= {9, 2, -31072}  # (2 << 16) - 31072


def test_casts_around_a_padding_apply_to_its_constant() -> None:
    A, pad = placeholder((3, 16), "int8", "A"), const(-7, "int8").astype("uint8").astype("int16")
    B = compute((5, 16), lambda i, j: select(i < 3, A[i, j].astype("int16"), pad).astype("int32"), "B")
    s = copied_to_acc(B)
    program = build(s, [A, B], LATHE16)
    assert {each.imm for each in of_kind(program, Alu, alu_opcode=AluOp.ADD)} == {249}  # -7 as uint8


def test_a_copy_whose_casts_change_values_is_no_transfer() -> None:
    A = placeholder((3, 16), "int8", "A")
    B = compute((5, 16), lambda i, j: select(i < 3, A[i, j], -7).astype("uint8").astype("int32"), "B")
    s = copied_to_acc(B)
    with pytest.raises(EmitError) as caught:
        build(s, [A, B], LATHE16)
    check_mentions(caught.value.constraint, "casts of a copy", "uint8(A[i, j])", "DMA")


# Into inp: the data of GEMMs.


def convolution(
    value: int, channels: int = 16, filters: int = 16, padding: Any = 1, size: tuple[int, int] = (6, 7)
) -> tuple[list[Tensor], Tensor, Tensor]:
    A, W = placeholder((1, *size, channels), "int8", "A"), placeholder((filters, 3, 3, channels), "int8", "W")
    C = conv2d(A, W, padding=padding, pad_value=value, name="C")
    return [A, W], C, requantise(C, 7, name="D")


@pytest.mark.sample(5)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("value", [-128, -7, 127])
@pytest.mark.parametrize("channels", [16, 8, 5])
def test_zero_points_around_the_data_of_a_convolution(channels: int, value: int, machine: str) -> None:
    inputs, _, D = convolution(value, channels, 20)
    run(create_schedule(D), MACHINES[machine], filled(*inputs))


def test_a_zero_point_costs_no_copy_of_the_image_with_the_extension() -> None:
    inputs, _, D = convolution(-7)
    program = run(create_schedule(D), LATHE16, filled(*inputs))
    assert [(segment.name, segment.role) for segment in program.segments if segment.role == "temporary"] == []
    assert [(*pads(load), load.padding) for load in loads_of(program, "A")] == [(6, 7, 1, 1, 1, 1, -7)]
    program = run(create_schedule(D), VTA, filled(*inputs))
    assert [(segment.name, segment.role) for segment in program.segments if segment.role == "temporary"] == [
        ("C.pad", "temporary")
    ]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_zero_point_costs_no_copy_where_the_alu_multiplies(machine: str) -> None:
    """The ALU multiplies if kernels are computed."""
    A, V = placeholder((1, 6, 7, 16), "int8", "A"), placeholder((16, 3, 3, 1), "int8", "V")
    D = requantise(conv2d(A, clip(V, -9, 9, name="W"), padding=1, pad_value=-7, groups=16, name="C"), 6, name="D")
    program = run(create_schedule(D), MACHINES[machine], filled(A, V))
    assert [segment.name for segment in program.segments if segment.role == "temporary"] == ["W"]


def test_a_zero_point_around_the_data_of_diagonal_weights() -> None:
    A, W = placeholder((1, 6, 7, 20), "int8", "A"), placeholder((3, 3, 20), "int8", "W")
    D = requantise(depthwise_conv2d(A, W, padding=1, pad_value=-7, name="C"), 6, name="D")
    for machine, stored in ((LATHE16, []), (VTA, ["C.pad"])):
        program = run(create_schedule(D), machine, filled(A, W))
        assert [segment.name for segment in program.segments if segment.role == "temporary"] == stored
        assert len(of_kind(program, Gemm)) > 0


def rows_in_tiles(C: Tensor, factor: int) -> Schedule:
    """A convolution tiled along rows, each tile with its own window of the padded image."""
    padded = C.computation.reads[0].tensor
    s = create_schedule(C)
    result = s.cache_write(C, "acc")
    outer, _ = s[C].split(s[C].axis[1], factor=factor)
    s[result].compute_at(s[C], outer)
    s[padded].set_scope("inp")
    s[padded].compute_at(s[C], outer)
    return s


def test_tiles_of_rows_have_the_zero_point_on_their_own_sides_only() -> None:
    inputs, C, _ = convolution(5)
    program = run(rows_in_tiles(C, 2), LATHE16, filled(*inputs))
    loads = [(*pads(load), load.padding) for load in loads_of(program, "A")]
    assert loads == [(3, 7, 1, 0, 1, 1, 5), (4, 7, 0, 0, 1, 1, 5), (3, 7, 0, 1, 1, 1, 5)]


def test_rows_of_nothing_but_padding_are_loaded_without_reading() -> None:
    inputs, C, _ = convolution(5, padding=((4, 0), (1, 1)))
    program = run(rows_in_tiles(C, 1), LATHE16, filled(*inputs))
    empty = [load for load in of_kind(program, Load, memory_type=MemoryType.INP) if load.y_size == 0]
    assert [(load.padding, load.x_size * load.y_pad_0) for load in empty] == [(5, 27), (5, 27)]


def test_padding_in_the_lanes_after_the_last_channel_is_not_reduced() -> None:
    """Computed weights are not zero in these pad lanes: the padded image is stored instead."""
    A, V, U = placeholder((1, 5, 5, 5), "int8", "A"), placeholder((9, 6), "int8", "V"), placeholder((5, 6), "int8", "U")
    weights = requantise(matmul(V, U, transpose_b=True, name="w"), 7, name="weights")
    data = pad2d(A, ((0, 0), (0, 4)), value=-3, name="padded")
    rows = compute((45, 5), lambda i, k: data[0, i // 9, i % 9, k], "rows")
    D = dense(rows, weights, name="D")
    for machine in MACHINES.values():
        run(create_schedule(D), machine, filled(A, V, U))


def test_a_zero_point_in_inp_is_refused_without_the_extension() -> None:
    inputs, C, _ = convolution(-7)
    s = create_schedule(C)
    s[C.computation.reads[0].tensor].set_scope("inp")
    reason = ("padding of C.pad in inp", 0, -7, "'vta'", "'pad_value'")
    chunk = "C.pad.map(n in 0..1, y in 0..1, x in 0..9, c in 0..16)"
    raises(EmitError, build, s, [*inputs, C], VTA, kind="machine", mentions=(chunk, "'dma'", *reason))
    text = str(explain(s, VTA))
    assert "pads of -7 around y (1, 1), x (1, 1): REFUSED by 'dma' in C.pad.map(" in text
    check_mentions(text, *reason)
    run(s, LATHE16, filled(*inputs))


def test_two_pad_constants_in_inp_are_peeled() -> None:
    """Each box with one constant is a LOAD of padding only: more instructions, but no copy of the image."""
    A, W = placeholder((4, 16), "int8", "A"), placeholder((16, 16), "int8", "W")
    P = compute((8, 16), lambda i, k: select(i < 2, 3, select(i < 6, A[i - 2, k], -4)), "P")
    C = dense(P, W, name="C")
    s = create_schedule(C)
    s[P].set_scope("inp")
    program = run(s, LATHE16, filled(A, W))
    loads = [(*pads(each), each.padding) for each in of_kind(program, Load, memory_type=MemoryType.INP)]
    assert sorted(loads) == [(0, 2, 1, 0, 0, 0, -4), (0, 2, 1, 0, 0, 0, 3), (1, 4, 0, 0, 0, 0, 0)]
    mentions = ("padding of P in inp", 0, 3, "'vta'")
    raises(EmitError, build, s, [A, W, C], VTA, kind="machine", mentions=mentions)


def test_a_reuse_buffer_is_padded_in_its_new_rows_only() -> None:
    """Tiles of four rows load only their new rows, the first and the last with padding above and below."""
    inputs, C, D = convolution(-9, size=(12, 9))
    padded = C.computation.reads[0].tensor
    s = create_schedule(D)
    made = s.cache_write(D, "acc")
    s.cache_read(inputs[1], "wgt", [C])
    outer, _ = s[D].split(s[D].axis[1], factor=4)
    for tensor in (made, C):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[D], outer)
    s[padded].set_scope("inp")
    s[padded].reuse_at(s[D], outer)
    program = run(s, LATHE16, filled(*inputs))
    loads = loads_of(program, "A")
    assert sum(load.y_size for load in loads) == 12
    assert {load.padding for load in loads} == {-9}
    assert simulate_program(program, filled(*inputs)).counters.bytes_read["inp"] == 12 * 9 * 16


def check_zero_points(seed: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    config = config.with_(extensions=(*config.extensions, "pad_value"))
    schedule, done = hand_schedules(choice, config)
    note(f"{config}\n{format_program(schedule.outputs)}\n{done}")
    inputs = random_inputs(list(schedule.outputs), seed=1)
    refused = ""
    try:
        run(schedule, config, inputs)
    except (BuildError, CapacityError, EmitError) as error:
        refused = str(error)
    assert "padding of" not in refused


@pytest.mark.slow
@pytest.mark.seeds(4, slow=96)
def test_schedules_by_hand_with_zero_points_agree_with_numpy(seeds):
    check_each(seeds, check_zero_points)


# Input channels that are tiled.


def channels_tiled(value: int, block: int) -> tuple[Schedule, list[Tensor], list[Any]]:
    """A padded convolution whose 64 input channels are tiled by blocks."""
    inputs, C, _ = convolution(value, channels=64)
    padded = C.computation.reads[0].tensor
    s = create_schedule(C)
    made = s.cache_write(C, "acc")
    weights = s.cache_read(inputs[1], "wgt", [made])
    ry, rx, rc = s[made].reduce_axis
    outer, inner = s[made].split(rc, factor=block)
    s[made].reorder(outer, *s[made].axis, ry, rx, inner)
    s[padded].set_scope("inp")
    for operand in (padded, weights):
        s[operand].compute_at(s[made], outer)
    return s, inputs, [padded, weights]


@pytest.mark.parametrize(("value", "name"), [(0, "vta"), (0, "tiny"), (0, "batch4"), (-7, "lathe16")])
def test_a_padded_convolution_whose_input_channels_are_tiled(value: int, name: str) -> None:
    machine = load_config(name)
    s, inputs, _ = channels_tiled(value, machine.block_in)
    program = run(s, machine, filled(*inputs))
    blocks = 64 // machine.block_in
    assert [(*pads(load), load.padding) for load in loads_of(program, "A")] == [(6, 7, 1, 1, 1, 1, value)] * blocks
    counters = simulate_program(program, filled(*inputs)).counters
    assert counters.bytes_read["inp"] == 6 * 7 * 64 * machine.batch  # every channel of every pixel once
    assert counters.bytes_read["wgt"] == 16 * 9 * 64
    taps = 6 * 7 * 9 if value else (6 * 3 - 2) * (7 * 3 - 2)  # taps on zeros are skipped
    if name != "batch4":  # whose rows are pixels, so that only rows of the image are left out
        assert counters.gemm_operations == taps * blocks * (16 // machine.block_out)


@pytest.mark.parametrize("value", [0, -7])
def test_the_default_schedule_tiles_the_input_channels_of_a_padded_convolution(value: int) -> None:
    """`tiny` cannot hold the weights of all channels: 16 filters of 9 taps and 64 channels are 576 vectors, not 128."""
    inputs, _, D = convolution(value, channels=64)
    machine = TINY.with_(extensions=("pad_value",))
    program = run(create_schedule(D), machine, filled(*inputs))
    of_weights = [load.y_size * load.x_size for load in of_kind(program, Load, memory_type=MemoryType.WGT)]
    assert sum(of_weights) >= 576
    assert max(of_weights) <= 128
    assert {load.padding for load in loads_of(program, "A") if any(pads(load)[2:])} == {value}
