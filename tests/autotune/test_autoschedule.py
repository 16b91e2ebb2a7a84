"""``autoschedule``: never slower than the default schedule, made of public primitives, and deterministic."""

import json
from functools import reduce
from operator import add

import numpy as np
import pytest
from error_checks import check_mentions, raises
from random_networks import machines, networks
from random_operators import OperatorProgram
from random_programs import Choice

import lathe as lt
from lathe.autotune.group_tilings import tiled_groups
from lathe.autotune.primitive_trace import StepError, TraceReplayer, step_from_json
from lathe.frontend import placeholders

VTA = lt.load_config("vta")


def convolution(size=14, channels=32, filters=32, kernel=3, stride=1):
    data = lt.placeholder((1, size, size, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    sums = lt.conv2d(data, weights, padding=kernel // 2, stride=stride, name="conv")
    return lt.requantise(sums, 7, low=0, name="output"), [data, weights]


def cycles(schedule, tensors, machine=VTA):
    return lt.simulate(lt.build(schedule, tensors, machine), timing_only=True).cycles


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "shape", [(14, 32, 48, 3, 1), (28, 16, 16, 1, 2), (7, 64, 64, 3, 1), (9, 17, 35, 3, 2)], ids=str
)
@pytest.mark.parametrize("machine", ["vta", "tiny", "wide"])
def test_the_default_tiling_as_primitives_gives_the_default_instructions(shape, machine):
    output, inputs = convolution(*shape)
    config = lt.load_config(machine)
    (group,) = tiled_groups(lt.create_schedule(output), config, 1)
    schedule = lt.create_schedule(output)
    TraceReplayer(schedule).run(group.tilings[0])
    by_primitives, by_default = (lt.build(each, [*inputs, output], config) for each in (schedule, output))
    assert by_primitives.instructions == by_default.instructions


@pytest.mark.slow
def test_the_result_is_the_fastest_candidate():
    output, inputs = convolution(14, 128, 128, 3, 2)
    found = lt.autoschedule(output, VTA, budget=20, cache=False)
    assert found.tried[0] == lt.Candidate("default schedule", cycles(output, [*inputs, output]))
    assert len(found.tried) <= 20
    assert found.cycles == min(each.cycles for each in found.tried if each.cycles is not None) < found.tried[0].cycles
    assert cycles(found, [*inputs, output]) == found.cycles >= found.bound == lt.bound(output, VTA).cycles


@pytest.mark.slow
def test_the_result_has_the_same_outputs():
    output, inputs = convolution()
    found = lt.autoschedule(output, VTA, budget=4, cache=False)
    program = lt.build(found, [*inputs, output], VTA, check=True)
    generator = np.random.default_rng(0)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    assert np.array_equal(lt.simulate(program, given).outputs["output"], lt.reference(output, given))


def test_primitives_that_keep_a_pass_from_rewriting_a_stage_are_another_candidate():
    """An unscheduled reshape is folded and costs nothing; one that is scheduled is computed."""
    A = lt.placeholder((10, 23), "int8", name="A")
    machine = lt.load_config("batch4").with_(block_in=8, block_out=16)
    check_found(lt.reshape(A, (230, 1), name="reshaped"), machine, 16)


def check_random_program(seed):
    choice = Choice(seed)
    machine = machines(choice)
    check_found(networks(choice, choice.number(1, 3)), machine, 4)


def check_random_operators(seed):
    choice = Choice(seed)
    machine = machines(choice)
    check_found(OperatorProgram(choice, choice.number(1, 3)).outputs, machine, 16)


def check_found(program, machine, budget):
    outputs = [program] if isinstance(program, lt.Tensor) else program
    inputs = placeholders(outputs)
    found = lt.autoschedule(outputs, machine, budget=budget, cache=False)
    program = lt.build(found, [*inputs, *outputs], machine, check=True)
    assert lt.simulate(program, timing_only=True).cycles == found.cycles <= found.tried[0].cycles
    assert tuple(step_from_json(json.loads(json.dumps(step.to_json()))) for step in found.steps) == found.steps
    names: dict[str, object] = {}
    exec(found.script, names)
    again = lt.build(names["schedule"](*outputs), [*inputs, *outputs], machine)
    assert again.instructions == program.instructions


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(12))
def test_scripts_of_random_programs_reproduce_the_result(seed):
    check_random_program(seed)


@pytest.mark.slow
@pytest.mark.seeds(2, slow=120, block=10)
def test_scripts_of_random_operators_reproduce_the_result(seeds):
    for seed in seeds:
        check_random_operators(seed)


@pytest.mark.seeds(0, slow=240, first=100, block=10)
def test_scripts_of_more_random_programs_reproduce_the_result(seeds):
    for seed in seeds:
        check_random_program(seed)


@pytest.mark.slow
def test_the_search_is_deterministic():
    output, _ = convolution()
    first, second = (lt.autoschedule(output, VTA, budget=5, cache=False) for _ in range(2))
    assert (first.steps, first.tried) == (second.steps, second.tried)


def test_with_a_budget_of_one_only_the_default_is_tried():
    output, _ = convolution()
    found = lt.autoschedule(output, VTA, budget=1, cache=False)
    assert [each.what for each in found.tried] == ["default schedule"]
    assert found.steps == ()


def test_a_partial_schedule_is_completed_and_not_modified():
    output, inputs = convolution()
    partial = lt.create_schedule(output)
    outer, _ = partial[output].split(output.op.axis[1], 2)
    before = partial.state
    found = lt.autoschedule(partial, VTA, budget=6)
    assert partial.state is before
    assert outer in found[output].leaf_axis
    assert cycles(found, [*inputs, output]) == found.cycles


def test_only_the_layers_that_are_unscheduled_are_tuned():
    data, inner = lt.placeholder((1, 14, 14, 32), "int8", name="data"), []
    last = data
    for name in ("first", "second"):
        inner.append(lt.placeholder((32, 3, 3, 32), "int8", name=f"{name}.weights"))
        last = lt.requantise(lt.conv2d(last, inner[-1], padding=1, name=name), 7, name=f"{name}.bytes")
    partial = lt.create_schedule(last)
    partial[last].split(last.op.axis[1], 7)
    found = lt.autoschedule(partial, VTA, budget=6)
    assert {step.about for step in found.steps if step.command == "split"} <= {"first.bytes", "first"}
    assert len(found.tried) > 1


def test_it_prints_as_a_script_and_reports_the_candidates():
    output, _ = convolution(7, 16, 16, 1)
    found = lt.autoschedule(output, VTA, budget=2, cache=False)
    assert str(found) == found.script
    first, *_ = found.script.splitlines()
    share = f"{found.bound / found.cycles:.1%}"
    check_mentions(first, "machine 'vta'", f"{len(found.tried)} candidates", f"{found.cycles:,} cycles", found.limit)
    assert first.startswith("# ")
    assert share in first
    check_mentions(found.report().splitlines()[-1], f"{found.bound:,}", "bound", f"by {found.limit}")


@pytest.mark.parametrize("budget", [0, -3, 2.5, "8", None, True])
def test_a_budget_is_a_number_of_candidates(budget):
    output, _ = convolution()
    mentions = ("budget of autoschedule", "number of candidates", "at least 1", f"not {budget!r}")
    raises(lt.BuildError, lt.autoschedule, output, VTA, budget=budget, kind="argument", mentions=mentions)


def test_a_program_that_fits_with_no_tiling_is_refused_with_the_sizes():
    inputs = [lt.placeholder((9, 4), "int32", name=name) for name in "ABCDEF"]
    total = lt.compute((9, 4), lambda i, j: reduce(add, (each[i, j] for each in inputs)), name="R")
    machine, mentions = lt.load_config("tiny").with_(acc_buffer_bytes=64), ("R", "'tiny'", "acc", 4, 7, 3)
    raises(lt.CapacityError, lt.autoschedule, total, machine, cache=False, kind="machine", mentions=mentions)


def test_unbound_parameters_are_refused():
    n = lt.parameter("n", 1, 64)
    data = lt.placeholder((n, 16), "int8", name="data")
    output = lt.compute((n, 16), lambda i, j: data[i, j] + 1, name="output")
    mentions = ("autoschedule", "unbound parameters", "lt.bind")
    raises(lt.BuildError, lt.autoschedule, output, VTA, kind="argument", mentions=mentions)


def test_an_input_is_no_output():
    data = lt.placeholder((4, 16), "int8", name="data")
    with pytest.raises(lt.LatheError):
        lt.autoschedule(data, VTA)


@pytest.mark.parametrize(
    ("data", "mentions"),
    [
        ("split", ("step", "not 'split'")),
        ({"command": "split"}, ("step", "not {'command': 'split'}")),
        (
            {"command": "exec", "about": "x"},
            ("Command", "cache_read, cache_write, compute_at, reorder, set_scope, split, tile_for", "not 'exec'"),
        ),
        ({"command": "split", "about": "x", "factor": 2}, ("'split'", "one loop", "not 0")),
        ({"command": "cache_read", "about": "x", "scope": "inp"}, ("'cache_read'", "'readers'", "not none")),
    ],
    ids=["no mapping", "no subject", "no command", "no loop", "no reader"],
)
def test_data_that_is_no_step(data, mentions):
    raises(StepError, step_from_json, data, mentions=mentions)


@pytest.mark.parametrize(
    ("data", "mentions"),
    [
        ({"command": "set_scope", "about": "x", "scope": "acc"}, ("Stage", "not 'x'")),
        (
            {"command": "split", "about": "conv", "loops": [["data", 9, ""]], "factor": 2},
            ("Loop", "stage 'conv'", "not ['data', 9, '']"),
        ),
        (
            {"command": "cache_read", "about": "nothing", "scope": "inp", "readers": ["conv"]},
            ("Tensor", "conv reads", "not 'nothing'"),
        ),
    ],
    ids=["stage", "loop", "tensor"],
)
def test_steps_of_another_schedule(data, mentions):
    output, _ = convolution()
    raises(StepError, TraceReplayer(lt.create_schedule(output)).run, [step_from_json(data)], mentions=mentions)
