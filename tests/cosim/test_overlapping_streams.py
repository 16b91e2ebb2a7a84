"""RTL and simulator compared on streams in which load, compute and store overlap, ordered by tokens."""

import random

import pytest
from comparison import count_differences, data_differences, differences, same, time_differences
from overlapping_streams import overlap, overlapping_stream, token_violations
from percycle_on_bus import stalled_time_differences
from random_streams import buildable, legal_machine, other_memory, random_machine

from lathe.configs import load_config, shipped_configs
from lathe.isa import verify_stream
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.engines import pysim, verilator
from lathe.sim import replay

TINY = load_config("tiny")


def random_stream_on(rng, cfg, **options):
    """An overlapping stream of random length."""
    return overlapping_stream(rng, cfg, rng.choice([2, 5, 12]), **options)


def other_machine(rng):
    """A machine of random shape, memory and timing."""
    shape, rest = legal_machine(rng), buildable(random_machine(rng))
    return shape.with_(memory=rest.memory, timing=rest.timing)


def expected_pages(result, launch):
    """The memory after a launch in the simulator, which returns the pages that were given or have changed."""
    return launch.memory.pages | dict(zip(result.page_addrs.tolist(), result.pages, strict=True))


def stalled(cfg, stream, run, seed):
    """Differences on a bus that stalls and interleaves, and the number of interleaved beats.

    Data are compared with the simulator, and cycles with the per-cycle model, since the simulator models no stalls.
    """
    result = replay(cfg, stream.raw(cfg))
    launch = stream.launch(cfg, stalls=seed, most_cycles=200 * result.cycles + 1000)
    (outcome,) = run(cfg, launch)
    found = [f"fault {outcome.fault.name}"] if outcome.fault else []
    if outcome.tokens != tuple(result.tokens):
        found.append(f"tokens: simulator {result.tokens}, RTL {outcome.tokens}")
    found += data_differences(expected_pages(result, launch), outcome.memory.pages)
    found += count_differences(result.counters, outcome)
    found += token_violations(stream, outcome.trace)
    found += stalled_time_differences(cfg, stream, seed, outcome)
    return found, outcome.interleaved


def chained(cfg, rng, run, count):
    """Differences in consecutive launches; each starts with the token counts at the end of the previous one."""
    streams, results, before = [], [], None
    for _ in range(count):
        streams.append(random_stream_on(rng, cfg, before=before))
        results.append(replay(cfg, streams[-1].raw(cfg)))
        before = results[-1].tokens
    launches = [stream.launch(cfg, most_cycles=r.cycles + 1000) for stream, r in zip(streams, results, strict=True)]
    found = []
    for stream, result, launch, outcome in zip(streams, results, launches, run(cfg, *launches), strict=True):
        found += time_differences(stream.instructions, result, outcome)
        found += data_differences(expected_pages(result, launch), outcome.memory.pages)
    return found


def all_ways(cfg, rng, run):
    """Differences alone, on a bus that stalls, and in consecutive launches; and the number of interleaved beats."""
    stream = random_stream_on(rng, cfg)
    found, interleaved = stalled(cfg, stream, run, rng.randrange(1 << 20))
    return differences(cfg, stream, run) + found + chained(cfg, rng, run, 2), interleaved


@pytest.mark.parametrize("name", ["tiny", "wide", "batch4", "random"])
@pytest.mark.parametrize("seed", range(10))
def test_tokens_order_all_data_of_the_streams(name, seed):
    rng = random.Random(seed)
    cfg = other_machine(rng) if name == "random" else load_config(name)
    stream = random_stream_on(rng, cfg)
    memory = PagedMemory.of(stream.page_addrs, stream.pages)
    assert verify_stream(cfg, stream.instructions, memory, stream.tokens) == []


def test_units_work_concurrently():
    overlaps = []
    for seed in range(5):
        stream = random_stream_on(random.Random(seed), TINY)
        assert differences(TINY, stream, pysim.run) == [], f"seed {seed}"
        (outcome,) = pysim.run(TINY, stream.launch(TINY))
        overlaps.append(overlap(outcome.trace))
    assert sum(overlaps) / len(overlaps) > 0.3


@pytest.mark.parametrize("seed", range(4))
def test_a_bus_that_stalls_and_interleaves_changes_time_as_predicted(seed):
    rng = random.Random(seed)
    found, interleaved = stalled(TINY, random_stream_on(rng, TINY), pysim.run, seed)
    assert found == []
    assert interleaved > 20


def test_other_stalls_change_cycles():
    stream = random_stream_on(random.Random(1), TINY)
    (outcome,) = pysim.run(TINY, stream.launch(TINY, stalls=1))
    assert stalled_time_differences(TINY, stream, 1, outcome) == []
    assert len(stalled_time_differences(TINY, stream, 2, outcome)) > len(stream.instructions)
    assert len(stalled_time_differences(TINY, stream, None, outcome)) > len(stream.instructions)


@pytest.mark.parametrize("seed", range(2))
def test_launches_begin_with_the_tokens_that_were_left(seed):
    assert chained(TINY, random.Random(seed), pysim.run, 3) == []


@pytest.mark.slow
@pytest.mark.seeds(1, slow=30)
def test_overlap_on_random_machines(seed):
    rng = random.Random(seed)
    assert all_ways(other_machine(rng), rng, pysim.run)[0] == []


@pytest.mark.slow
def test_the_same_seed_gives_the_same_stalls_on_both_engines():
    for seed in range(20):
        rng = random.Random(seed)
        stream = random_stream_on(rng, TINY)
        launch = stream.launch(TINY, stalls=seed)
        (one,), (other,) = pysim.run(TINY, launch), verilator.run(TINY, launch)
        assert same(one, other), f"seed {seed}"
        assert one.interleaved == other.interleaved
        assert (one.trace.end == other.trace.end).all()


def verilated(name, seeds):
    """Streams on one Verilated machine with several memories."""
    interleaved = 0
    for seed in seeds:
        rng = random.Random(seed)
        found, beats = all_ways(other_memory(rng, load_config(name)), rng, verilator.run)
        assert found == [], f"seed {seed}"
        interleaved += beats
    assert interleaved > 30 * len(seeds)


@pytest.mark.slow
def test_overlap_on_the_verilated_tiny_machine():
    verilated("tiny", range(150))


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped_configs() if name != "tiny"])
def test_overlap_on_the_other_verilated_machines(name):
    verilated(name, range(20))


@pytest.mark.nightly
@pytest.mark.parametrize("name", shipped_configs())
def test_much_overlap_on_verilated_machines(name):
    verilated(name, range(1000, 2000 if name == "tiny" else 1200))
