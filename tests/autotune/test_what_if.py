"""``explain`` with a budget: the best schedule, its bottleneck, and machines with more of one resource."""

import json
from importlib import import_module

import pytest

import lathe as lt
from lathe.scheduler.inspect.what_if import Alternative, WhatIfReport

VTA = lt.load_config("vta")
what_if_module = import_module("lathe.autotune.what_if")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path))


def layer(pixels: int = 28) -> lt.Tensor:
    data, weights = (
        lt.placeholder((1, pixels, pixels, 32), "int8", name="data"),
        lt.placeholder((64, 1, 1, 32), "int8", name="w"),
    )
    return lt.requantise(lt.conv2d(data, weights, stride=2, name="conv"), 8, name="output")


def cycles(program: lt.Tensor | lt.Schedule, config: lt.HardwareConfig) -> int:
    outputs = list(program.program) if isinstance(program, lt.Schedule) else [program]
    tensors = [*lt.frontend.placeholders(outputs), *outputs]
    return lt.simulate(lt.build(program, tensors, config), timing_only=True).cycles


def outlook(program: lt.Tensor | lt.Schedule, config: lt.HardwareConfig = VTA, budget: int = 4) -> WhatIfReport:
    found = lt.explain(program, config, budget=budget).outlook
    assert found is not None
    return found


def test_without_a_budget_there_is_no_search():
    assert lt.explain(layer(), VTA).outlook is None


@pytest.mark.slow
def test_the_winner_is_the_tuned_schedule():
    output = layer()
    found = lt.autoschedule(output, VTA, budget=4, cache=False)
    report = outlook(output)
    assert (report.cycles, report.bound) == (found.cycles, lt.bound(output, VTA).cycles)
    assert len(report.candidates) == sum(each.cycles is not None for each in found.tried) - 1
    assert all(each.cycles >= report.cycles for each in report.candidates)


@pytest.mark.slow
def test_machines_with_more_of_a_resource_are_simulated():
    output = layer()
    more = {each.what: each.cycles for each in outlook(output).more}
    assert more["a bus of 128 bits"] <= cycles(output, VTA.with_(**{"memory.bus_bits": 128}))
    assert more["twice the acc"] is None  # the fields of GEMM use all bits
    assert set(more) == {
        "a bus of 128 bits", "a latency of 16", "twice the inp", "twice the wgt", "twice the acc", "twice the uop",
        "twice the batch", "twice the block_in", "twice the block_out",
    }  # fmt: skip


def test_the_reason_of_an_invalid_machine_is_reported():
    report = {each.what: each for each in outlook(layer(), budget=1).more}
    for memory, over in (("inp", 2), ("wgt", 2), ("acc", 2), ("uop", 4)):
        with pytest.raises(lt.ConfigError) as refused:
            VTA.with_(**{f"{memory}_buffer_bytes": 2 * getattr(VTA, f"{memory}_buffer_bytes")})
        fault = refused.value.fault
        assert report[f"twice the {memory}"].reason == f"{fault.thing} must be {fault.contract}"
        assert report[f"twice the {memory}"].compared(1000) == (
            f"not possible: {fault.thing} must be within its 128 bits, not {over} bits beyond"
        )
        assert fault.thing.endswith(" of the gemm encoding")
    assert all(each.reason == "" for each in report.values() if each.cycles is not None)


def test_the_reason_of_a_program_that_does_not_fit_is_reported(monkeypatch):
    built = what_if_module.build_compiled

    def without_blocks(program, tensors, config):
        if config.block_in != VTA.block_in:
            raise lt.CapacityError("acc must hold the tile. Make it smaller.", kind="capacity")
        return built(program, tensors, config)

    monkeypatch.setattr(what_if_module, "build_compiled", without_blocks)
    report = {each.what: each.compared(1000) for each in outlook(layer(), budget=1).more}
    assert report["twice the block_in"] == "not possible: acc must hold the tile"


@pytest.mark.slow
def test_the_bottleneck_is_the_bus_or_gemm():
    assert outlook(layer()).limit == "the bus"
    data, weights = lt.placeholder((64, 1024), "int8", name="data"), lt.placeholder((64, 1024), "int8", name="w")
    product = lt.requantise(lt.dense(data, weights, name="product"), 8, name="output")
    assert outlook(product, VTA.with_(**{"memory.bus_bits": 512, "memory.latency": 0})).limit == "GEMM"


def test_a_partial_schedule_is_completed_for_each_machine():
    output = layer()
    s = lt.create_schedule(output)
    s[output].split(s[output].axis[1], factor=7)
    found = lt.autoschedule(s, VTA, budget=2)
    report = outlook(s, budget=2)
    more = {each.what: each.cycles for each in report.more}
    assert report.cycles == cycles(found, VTA) <= cycles(s, VTA)
    assert more["a bus of 128 bits"] == cycles(found, VTA.with_(**{"memory.bus_bits": 128}))


@pytest.mark.slow
def test_it_is_printed_after_the_chunks_and_in_the_dictionary():
    explained = lt.explain(layer(), VTA, budget=2)
    report = explained.outlook
    lines = str(explained).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("schedule: "))
    assert lines[first:] == list(report.lines())
    values = json.loads(json.dumps(explained.to_dict()))["outlook"]
    assert (values["cycles"], values["limit"]) == (report.cycles, report.limit)


def test_the_text():
    report = WhatIfReport(
        "default schedule", 1000, 800, "the bus", (("GEMM", 0.5), ("ALU and loads of compute", 0.25)),
        (Alternative("C: tiling 2", 1100),),
        (Alternative("a bus of 128 bits", 900), Alternative("twice the acc", None, "a field is 1 bit over"),
         Alternative("twice the inp", None)),
    )  # fmt: skip
    assert list(report.lines()) == [
        "schedule: default schedule, 1,000 cycles; the lower bound is 80.0% of them",
        "bound by the bus; share of the cycles: GEMM 50.0%, ALU and loads of compute 25.0%",
        "  or C: tiling 2: 1,100 cycles (+10.0%)",
        "  with a bus of 128 bits: 900 cycles (-10.0%)",
        "  with twice the acc: not possible: a field is 1 bit over",
        "  with twice the inp: not possible",
    ]


def test_a_program_that_does_not_map_has_no_outlook():
    data = lt.placeholder(60, "int8", name="data")
    output = lt.compute(60, lambda i: data[i] // data[i], name="output")
    explained = lt.explain(output, VTA, budget=2)
    assert not explained.maps
    assert explained.outlook is None


@pytest.mark.parametrize("budget", [-1, 1.5, True])
def test_a_budget_must_be_a_number_of_candidates(budget):
    with pytest.raises(lt.BuildError, match="budget of autoschedule must be a number of candidates"):
        lt.explain(layer(), VTA, budget=budget)
