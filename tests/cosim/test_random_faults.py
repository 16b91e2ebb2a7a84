"""Random illegal streams and faulty memories: simulator and RTL report the same fault in the same cycle."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from comparison import drain, fault_of, reported_fault
from extended_machines import EVERY, with_extensions
from random_streams import (
    bad_memory,
    broken_stream,
    buildable,
    other_memory,
    random_machine,
    stream_of_data,
    stream_of_time,
    tied_stream,
)

from lathe.configs import load_config, shipped_configs
from lathe.isa import FaultCode
from lathe.rtl.engines import pysim, verilator


def fault_in(cfg, rng, run, lengths):
    """The code of the fault of a random launch, which simulator and RTL must report in the same cycle."""
    kind = rng.choice(["time", "data", "astray"])
    stream = (stream_of_time if kind == "time" else stream_of_data)(rng, cfg, rng.choice(lengths))
    if kind == "astray":
        # The stream is stored where none of its stores writes, and the memory ends within the range that it accesses.
        stream = replace(stream, insn_addr=0x1000)
        memory = {"memory_end": 0x1000 + 16 * len(stream.instructions) + rng.randrange(0x3000)}
    else:
        stream, memory = broken_stream(rng, cfg, stream), bad_memory(rng)
    options = {"bus_error": memory.get("error"), "memory_end": memory.get("memory_end")}
    expected = fault_of(cfg, stream, **options)
    (outcome,) = run(cfg, stream.launch(cfg, most_cycles=expected[1] + drain(cfg), **memory))
    assert reported_fault(outcome) == expected
    return expected[0]


def faults(machine, seeds):
    """The number of occurrences of each fault on a Verilated machine with several memories."""
    found = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        found[fault_in(other_memory(rng, machine), rng, verilator.run, [3, 10, 30])] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_broken_stream_on_a_random_machine(seed):
    rng = random.Random(seed)
    fault_in(with_extensions(buildable(random_machine(rng)), rng.choice([(), EVERY])), rng, pysim.run, [2, 6])


@pytest.mark.parametrize("seed", range(3))
def test_faults_of_fetch_and_a_unit_in_one_cycle(seed):
    cfg = load_config("tiny")
    stream = tied_stream(random.Random(seed), cfg)
    expected = fault_of(cfg, stream)
    assert expected[0] in (FaultCode.SRAM_RANGE, FaultCode.UOP_RANGE), "the unit has priority over fetch"
    (outcome,) = pysim.run(cfg, stream.launch(cfg, most_cycles=expected[1] + drain(cfg)))
    assert reported_fault(outcome) == expected


@pytest.mark.seeds(0, slow=24, first=100)
def test_more_broken_streams_on_random_machines(seed):
    rng = random.Random(seed)
    fault_in(with_extensions(buildable(random_machine(rng)), rng.choice([(), EVERY])), rng, pysim.run, [3, 10])


@pytest.mark.slow
def test_broken_streams_on_the_verilated_tiny_machine():
    found = faults(load_config("tiny"), range(600)) + faults(with_extensions(load_config("tiny"), EVERY), range(1200))
    assert set(found) == set(FaultCode), "every fault occurs"


@pytest.mark.nightly
@pytest.mark.parametrize("name", shipped_configs())
def test_many_broken_streams_on_verilated_machines(name):
    found = faults(load_config(name), range(1000, 3000))
    assert found[FaultCode.NONE] < 1200
