"""Depthwise layers of any shape on any machine, by default and manual schedules: outputs equal NumPy's."""

import pytest
from meanings import check_values
from random_networks import machines
from random_programs import Choice, random_inputs
from seeds import check_each, event, note

import lathe as lt
from lathe.frontend import format_program, placeholders


def depthwise_layer(choice: Choice) -> tuple[lt.Tensor, lt.Tensor]:
    """The convolution, and the output."""
    layout = choice.pick(["NHWC", "NHWC", "NCHW"])
    images, height, width, channels = (
        choice.number(1, 2),
        choice.number(1, 9),
        choice.number(1, 9),
        choice.number(1, 40),
    )
    shape = (images, height, width, channels) if layout == "NHWC" else (images, channels, height, width)
    pads = ((choice.number(0, 2), choice.number(0, 2)), (choice.number(0, 2), choice.number(0, 2)))
    dilation = choice.number(1, 2), choice.number(1, 2)
    longest = [
        (extent + sum(pad) - 1) // step + 1 for extent, pad, step in zip((height, width), pads, dilation, strict=True)
    ]
    taps = [choice.number(1, min(longest[side], 4)) for side in range(2)]
    kernels = choice.pick([(), (), (1,), (2,), (3,)])
    data = lt.placeholder(shape, "int8", name="data")
    if choice.number(0, 3) == 0:
        data = lt.relu(data, name="before")
    made = lt.depthwise_conv2d(
        data,
        lt.placeholder((*taps, channels, *kernels), "int8", name="weight"),
        layout=layout,
        stride=(choice.number(1, 3), choice.number(1, 3)),
        padding=pads,
        pad_value=choice.pick([0, 0, 0, -128, 9]),
        dilation=dilation,
        name="conv",
    )
    axis = 3 if layout == "NHWC" else 1
    output = made
    if choice.number(0, 1):
        output = lt.bias_add(
            output, lt.placeholder((made.shape[axis],), "int32", name="bias"), axis=axis, name="biased"
        )
    if choice.number(0, 3):
        output = lt.requantise(output, choice.number(0, 9), name="output")
    return made, output


def scheduled(choice: Choice, config: lt.HardwareConfig, made: lt.Tensor, output: lt.Tensor) -> lt.Schedule:
    """The default schedule, or one with split loops or cached operands."""
    s = lt.create_schedule(output)
    if config.batch > 1 and (config.block_in != config.block_out or choice.number(0, 1)):
        return s  # vectors hold images too, which loops may split, or stored vectors are no data vectors
    if made.computation.attrs["layout"] == "NHWC" and made.computation.reads[1].tensor.ndim == 3:
        for axis in choice.shuffled(list(s[output].axis))[: 0 if config.batch > 1 else choice.pick([0, 0, 1, 2])]:
            s[output].split(axis, factor=choice.pick([1, 2, 3, 4, 16]))
    data, weight = made.computation.reads[0].tensor, made.computation.reads[1].tensor
    which = choice.number(0, 5)
    if which == 0:
        s.cache_read(weight, choice.pick(["wgt", "wgt", "acc"]), [made])
    elif which == 1 and made is not output:
        s.cache_read(data, choice.pick(["inp", "inp", "acc"]), [made])
    elif which == 2 and any(read.tensor is made for read in output.computation.reads) and config.batch == 1:
        place = choice.pick(list(s[output].leaf_axis))
        s[made].set_scope("acc")
        s[made].compute_at(s[output], place)
        copy = s.cache_read(weight, "wgt", [made])
        if choice.number(0, 1):
            s[copy].compute_at(s[output], place)
    return s


def check_layer(seed: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    config = config.with_(extensions=(*config.extensions, *choice.pick([(), ("pad_value",), ("alu_sub",)])))
    made, output = depthwise_layer(choice)
    note(f"{config}\n{format_program(output)}")
    schedule = scheduled(choice, config, made, output)
    note(str(schedule))
    tensors = [*placeholders([output]), output]
    try:
        program = lt.build(schedule, tensors, config, check=True)
    except lt.CapacityError:
        event("too large")
        return
    inputs = random_inputs([output], seed)
    result = lt.simulate(program, inputs)
    check_values(result.outputs, [output], inputs)
    event("on the matrix core" if result.counters.gemm_operations else "on the ALU")


@pytest.mark.slow
@pytest.mark.seeds(8, slow=832)
def test_layers(seeds):
    happened = check_each(seeds, check_layer)
    assert happened["on the matrix core"] > happened["on the ALU"]
