"""RTL and simulator compared on random streams: bits and cycles must be equal."""

import random

import pytest
from comparison import differences
from extended_machines import EVERY, with_extensions
from random_streams import (
    buildable,
    legal_machine,
    other_memory,
    random_machine,
    stream_of_beginnings,
    stream_of_data,
    stream_of_shifts,
    stream_of_time,
    stream_of_transfers,
)

from lathe.configs import load_config, shipped_configs
from lathe.configs.encoding import GEMM_BEGIN
from lathe.rtl.engines import pysim, verilator


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_streams_of_any_timing_on_random_machines(seed):
    rng = random.Random(seed)
    cfg = with_extensions(buildable(random_machine(rng)), rng.choice([(), EVERY]))
    assert differences(cfg, stream_of_time(rng, cfg, rng.choice([3, 10])), pysim.run, data=False) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("extensions", [(), ("rescale",), EVERY])
@pytest.mark.parametrize("seed", range(3))
def test_streams_on_random_data(seed, extensions):
    rng = random.Random(seed)
    cfg = with_extensions(load_config("tiny"), extensions)
    assert differences(cfg, stream_of_data(rng, cfg, 6), pysim.run) == []


@pytest.mark.parametrize("seed", range(4))
def test_the_maximum_number_of_transfers_in_progress(seed):
    rng = random.Random(seed)
    cfg = other_memory(rng, load_config("tiny"))
    assert differences(cfg, stream_of_transfers(rng, cfg), pysim.run) == []


def test_shifts_by_every_amount_around_the_width():
    cfg = load_config("tiny")
    assert differences(cfg, stream_of_shifts(random.Random(0), cfg), pysim.run) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_sums_that_begin_in_accumulators_with_any_contents(seed):
    rng = random.Random(seed)
    cfg = load_config("tiny").with_(extensions=("gemm_begin",))
    assert differences(cfg, stream_of_beginnings(rng, cfg), pysim.run) == []


@pytest.mark.seeds(0, slow=60, first=100)
def test_more_streams_of_any_timing_on_random_machines(seed):
    rng = random.Random(seed)
    cfg = with_extensions(buildable(random_machine(rng)), rng.choice([(), EVERY]))
    assert differences(cfg, stream_of_time(rng, cfg, rng.choice([10, 30])), pysim.run, data=False) == []


@pytest.mark.seeds(0, slow=36, first=100)
def test_more_streams_on_random_data_and_machines(seed):
    rng = random.Random(seed)
    cfg = legal_machine(rng)
    cfg = cfg.with_(**{"memory.bus_bits": rng.choice([8, 32, 64, 128, 512])})
    assert differences(cfg, stream_of_data(rng, cfg, rng.choice([5, 12])), pysim.run) == []


def verilated(machine, seeds):
    """Random streams on one Verilated machine with several memories."""
    for seed in seeds:
        rng = random.Random(seed)
        cfg = other_memory(rng, machine)
        found = differences(cfg, stream_of_data(rng, cfg, rng.choice([5, 15, 40])), verilator.run)
        assert found == [], f"seed {seed}"
        found = differences(cfg, stream_of_time(rng, cfg, rng.choice([3, 10, 30])), verilator.run, data=False)
        assert found == [], f"seed {seed}"
        found = differences(cfg, stream_of_transfers(rng, cfg), verilator.run)
        assert found == [], f"seed {seed}"
        if GEMM_BEGIN in cfg.extensions:
            assert differences(cfg, stream_of_beginnings(rng, cfg), verilator.run) == [], f"seed {seed}"


@pytest.mark.slow
def test_300_streams_on_the_verilated_tiny_machine():
    verilated(load_config("tiny"), range(150))


@pytest.mark.slow
def test_200_streams_on_the_verilated_tiny_machine_with_every_extension():
    verilated(with_extensions(load_config("tiny"), EVERY), range(3000, 3100))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped_configs() if name != "tiny"])
def test_streams_on_the_other_verilated_machines(name):
    verilated(load_config(name), range(20))


@pytest.mark.nightly
def test_2000_streams_on_the_verilated_tiny_machine():
    verilated(load_config("tiny"), range(1000, 2000))


@pytest.mark.nightly
def test_2000_streams_on_the_verilated_tiny_machine_with_every_extension():
    verilated(with_extensions(load_config("tiny"), EVERY), range(4000, 5000))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_verilated_random_machines(seed):
    rng = random.Random(seed)
    cfg = with_extensions(buildable(random_machine(rng)), rng.choice([(), EVERY]))
    for _ in range(20):
        cfg = other_memory(rng, cfg)
        found = differences(cfg, stream_of_time(rng, cfg, rng.choice([10, 30, 60])), verilator.run, data=False)
        assert found == []
