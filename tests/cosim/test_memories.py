"""Compiled programs on the RTL with many memories and buses: bits and cycles equal the simulator's."""

import itertools
from dataclasses import replace

import pytest

import lathe as lt
from lathe.frontend import placeholders
from lathe.input_values import random_inputs
from lathe.networks.digits.network import digits_network

LATENCIES = (0, 1, 5, 32, 150)
CYCLES_PER_BEAT = (1, 2, 5)

# Buses, bursts and buffers: they change the hardware, so each requires a build of its own.
STRUCTURES = {
    "one of everything": {
        "memory.bus_bits": 8,
        "memory.burst_beats": 1,
        "memory.outstanding_reads": 1,
        "timing.dma_pending": 1,
        "timing.command_queue_depth": 1,
    },
    "short bursts": {"memory.bus_bits": 32, "memory.burst_beats": 3, "memory.outstanding_reads": 2},
    "beats wider than vectors": {"memory.bus_bits": 256, "memory.burst_beats": 8, "timing.dma_fifo_beats": 8},
}
# Every pair of bus and burst length; every bus, and every burst length, occurs with every number of reads.
BUSES, BURSTS, READS = (8, 32, 64, 128, 256), (1, 4, 16), (1, 3, 8)
GRID = [
    {"memory.bus_bits": bus, "memory.burst_beats": burst, "memory.outstanding_reads": READS[(i + j) % len(READS)]}
    for (i, bus), (j, burst) in itertools.product(enumerate(BUSES), enumerate(BURSTS))
]


def programs(config):
    """Programs with loads of every kind, and their inputs: a matmul, a convolution with its epilogue, a network."""
    A, B = lt.placeholder((9, 30), "int8", name="A"), lt.placeholder((19, 30), "int8", name="B")
    product = lt.matmul(A, B, transpose_b=True, name="C")
    image, kernel = lt.placeholder((1, 7, 6, 8), "int8", name="image"), lt.placeholder((12, 3, 3, 8), "int8", name="K")
    bias = lt.placeholder((12,), "int32", name="bias")
    sums = lt.bias_add(lt.conv2d(image, kernel, padding=1, name="conv"), bias, name="biased")
    layer = lt.max_pool2d(lt.requantise(lt.relu(sums), 8, name="q"), 2, name="pool")
    network = digits_network(1)
    for output, constants in ((product, {}), (layer, {}), (network.logits, network.constants)):
        tensors = list(placeholders([output]))
        program = lt.build(output, [*tensors, output], config, constants=constants)
        yield program, random_inputs(program, 3)


def check(config, compiled, memories):
    """Cosimulate programs on a machine with several memories; returns the distinct numbers of cycles."""
    cycles = set()
    for (program, inputs), memory in itertools.product(compiled, memories):
        machine = config.with_(**memory)
        ran = lt.cosimulate(replace(program, config=machine), inputs).check()
        cycles.add(ran.cycles)
    return cycles


def some_memories():
    """Memories that share one build."""
    return [
        {"memory.latency": latency, "memory.cycles_per_beat": beat, "memory.shared_bandwidth": shared}
        for latency, beat, shared in itertools.product(LATENCIES, CYCLES_PER_BEAT, (True, False))
    ]


@pytest.mark.slow
def test_latencies_and_rates_of_the_memory():
    cycles = check(lt.load_config("tiny"), programs(lt.load_config("tiny")), some_memories())
    assert len(cycles) > 3 * len(LATENCIES) * len(CYCLES_PER_BEAT), "latency, rate and sharing all change cycles"


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_buses_bursts_and_buffers(name):
    config = lt.load_config("tiny").with_(**STRUCTURES[name])
    check(config, programs(config), some_memories()[::7])


@pytest.mark.nightly
@pytest.mark.parametrize("structure", GRID, ids=lambda each: "-".join(str(value) for value in each.values()))
def test_all_buses_and_bursts(structure):
    config = lt.load_config("tiny").with_(**structure)
    check(config, programs(config), some_memories()[::4])


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["vta", "wide", "batch4"])
def test_latencies_and_rates_on_the_larger_machines(name):
    config = lt.load_config(name)
    check(config, programs(config), some_memories()[::2])
