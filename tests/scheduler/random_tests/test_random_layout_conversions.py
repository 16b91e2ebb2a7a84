"""Chains of layers of any channels whose stored layout differs from the loaded one: every bit equals NumPy's."""

import pytest
from meanings import check_values
from random_programs import Choice, random_inputs
from seeds import check_each, event, note
from shaped_machines import machine

import lathe as lt
from lathe.frontend import format_program, placeholders

SHAPES = [(2, 4, 16), (2, 4, 32), (2, 16, 4), (2, 32, 4), (2, 32, 8), (4, 4, 32), (4, 32, 4), (4, 8, 16), (4, 32, 16)]


def layer(choice: Choice, data: lt.Tensor, name: str) -> lt.Tensor:
    """An int8 layer that reads ``data``: a convolution (perhaps grouped or depthwise), a pool or an addition."""
    kind, channels = choice.pick(["conv", "conv", "groups", "depthwise", "pool", "sum"]), data.shape[-1]
    taps = choice.number(1, 2)
    if kind == "pool":
        return lt.max_pool2d(data, taps, stride=choice.number(1, 2), name=name)
    if kind == "sum":
        other = lt.placeholder(data.shape, "int8", name=f"{name}.other")
        return lt.requantise(lt.add(data, other, name=f"{name}.sum"), 1, name=name)
    if kind == "depthwise":
        weight = lt.placeholder((taps, taps, channels), "int8", name=f"{name}.weight")
        return lt.requantise(lt.depthwise_conv2d(data, weight, name=f"{name}.conv"), 6, name=name)
    groups = choice.pick([2, 4]) if kind == "groups" and channels % 4 == 0 else 1
    filters = groups * choice.number(1, 70 // groups)
    weight = lt.placeholder((filters, taps, taps, channels // groups), "int8", name=f"{name}.weight")
    sums = lt.conv2d(data, weight, groups=groups, padding=choice.number(0, 1), name=f"{name}.conv")
    return lt.requantise(sums, 7, low=choice.pick([0, -128]), name=name)


def check_chain(seed: int) -> None:
    choice = Choice(seed)
    config = machine(*choice.pick(SHAPES))
    shape = choice.number(1, 5), choice.number(3, 6), choice.number(3, 6), choice.pick([3, 8, 20, 32, 40])
    made = [lt.placeholder(shape, "int8", name="data")]
    for number in range(choice.number(2, 4)):
        made.append(layer(choice, made[-1], f"layer{number}"))
        if min(made[-1].shape[1:3]) < 3:
            break
    outputs = [made[-1], *choice.shuffled(made[1:-1])[: choice.number(0, 1)]]
    note(f"{config}\n{format_program(made[-1])}\noutputs {[each.name for each in outputs]}")
    try:
        program = lt.build(outputs, [*placeholders(outputs), *outputs], config, check=True)
    except lt.CapacityError:
        event("too large")
        return
    inputs = random_inputs(outputs, seed)
    check_values(lt.simulate(program, inputs).outputs, outputs, inputs)
    event("turned" if any(".turned" in label for label in program.labels) else "not turned")


@pytest.mark.slow
@pytest.mark.seeds(20, slow=400)
def test_chains(seeds):
    happened = check_each(seeds, check_chain)
    assert happened["turned"] > happened["too large"]
