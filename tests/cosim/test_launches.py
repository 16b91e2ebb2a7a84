"""Resets, consecutive launches, and buses that stall do not change the results of a launch."""

import random
from dataclasses import replace

import numpy as np
import pytest
from comparison import same
from random_streams import stream_of_data

import lathe as lt
from lathe.isa import MemoryType
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.engines import pysim, verilator
from lathe.rtl.engines.launch import Launch
from lathe.sim.simulate import memory_of

TINY = lt.load_config("tiny")
ENGINES = [pysim, pytest.param(verilator, marks=pytest.mark.slow)]


def program_launch(config, seed, **options):
    """The launch of a compiled layer on random inputs."""
    A, B = lt.placeholder((5, 12), "int8", name="A"), lt.placeholder((9, 12), "int8", name="B")
    C = lt.requantise(lt.relu(lt.matmul(A, B, transpose_b=True, name="P")), 6, name="C")
    program = lt.build(C, [A, B, C], config)
    rng = np.random.default_rng(seed)
    inputs = {each.name: rng.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    memory = PagedMemory()
    memory.write(0, memory_of(program, inputs).content)
    return Launch(program.insn_addr, len(program.instructions), memory, program.tokens_in, **options)


def resets(engine, launch_of, cycles):
    """Reset the machine in each of the given cycles of a launch; the restarted launch must have the same outcome."""
    (calm,) = engine.run(TINY, launch_of())
    assert calm.fault == 0
    for cycle in cycles(calm.cycles):
        (after,) = engine.run(TINY, launch_of(reset_at=cycle))
        assert same(after, calm), f"reset in cycle {cycle}"


@pytest.mark.parametrize("seed", [3, 4])
def test_a_launch_after_a_reset_in_any_cycle_equals_a_first_launch(seed):
    rng = random.Random(seed)
    stream = stream_of_data(rng, TINY, 8)
    resets(pysim, lambda **options: stream.launch(TINY, **options), lambda end: [rng.randrange(1, end)])


@pytest.mark.slow
def test_launches_after_a_reset_in_every_cycle():
    stream = stream_of_data(random.Random(18), TINY, 14)
    assert {type(each).__name__ for each in stream.instructions} == {"Load", "Gemm", "Alu", "Store", "Finish"}
    resets(verilator, lambda **options: stream.launch(TINY, **options), lambda end: range(1, end))


@pytest.mark.slow
def test_launches_of_a_program_after_a_reset_in_every_cycle():
    resets(verilator, lambda **options: program_launch(TINY, 0, **options), lambda end: range(1, end))


@pytest.mark.slow
def test_launches_of_many_streams_after_resets_in_some_cycles():
    for seed in range(20):
        rng = random.Random(seed)
        stream = stream_of_data(rng, TINY, 8)
        resets(
            verilator,
            lambda stream=stream, **options: stream.launch(TINY, **options),
            lambda end, rng=rng: rng.sample(range(1, end), 10),
        )


def filled(stream):
    """The stream with its first loads replaced by loads that overwrite the whole scratchpads."""
    depths = {MemoryType.INP: TINY.inp_depth, MemoryType.WGT: TINY.wgt_depth, MemoryType.ACC: TINY.acc_depth}
    head = [
        replace(each, x_size=depths[each.memory_type], x_stride=depths[each.memory_type])
        for each in stream.instructions[1:4]
    ]
    assert [each.memory_type for each in head] == list(depths)
    return replace(stream, instructions=[stream.instructions[0], *head, *stream.instructions[4:]])


@pytest.mark.parametrize(("engine", "count"), [(pysim, 2), pytest.param(verilator, 40, marks=pytest.mark.slow)])
def test_launches_without_a_reset_between_them_equal_launches_on_new_machines(engine, count):
    streams = [filled(stream_of_data(random.Random(seed), TINY, 5 + seed % 10)) for seed in range(1, count + 1)]
    alone = [engine.run(TINY, stream.launch(TINY))[0] for stream in streams]
    assert all(outcome.fault == 0 for outcome in alone)
    assert len({outcome.cycles for outcome in alone}) > count // 2
    together = engine.run(TINY, *(stream.launch(TINY) for stream in streams))
    assert [same(one, other) for one, other in zip(alone, together, strict=True)] == [True] * count


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_is_not_affected_by_the_one_before_it(engine):
    first, second = program_launch(TINY, 1), program_launch(TINY, 2)
    (alone,) = engine.run(TINY, second)
    before, after = engine.run(TINY, first, second)
    assert same(after, alone)
    assert not same(before, alone)


def stalled(engine, launch_of, seed):
    """Run a launch on a bus that stalls every channel at random: only its cycles may change."""
    (calm,) = engine.run(TINY, launch_of())
    (rough,) = engine.run(TINY, launch_of(stalls=seed, most_cycles=50 * calm.cycles))
    assert rough.fault == calm.fault == 0
    # The launch may take as many cycles by chance, but at least one instruction starts in another cycle.
    assert (rough.trace.start != calm.trace.start).any()
    assert (rough.tokens, rough.operations) == (calm.tokens, calm.operations)
    assert (rough.bytes_read, rough.bytes_written) == (calm.bytes_read, calm.bytes_written)
    assert (rough.beats, rough.bursts) == (calm.beats, calm.bursts)
    assert rough.memory.pages.keys() == calm.memory.pages.keys()
    assert all(np.array_equal(rough.memory.pages[page], calm.memory.pages[page]) for page in calm.memory.pages)


def test_random_stalls_change_cycles_only():
    stream = stream_of_data(random.Random(0), TINY, 5)
    stalled(pysim, lambda **options: stream.launch(TINY, **options), 7)


@pytest.mark.slow
def test_random_stalls_change_cycles_only_of_many_streams():
    for seed in range(60):
        rng = random.Random(seed)
        stream = stream_of_data(rng, TINY, rng.choice([5, 15]))
        stalled(verilator, lambda stream=stream, **options: stream.launch(TINY, **options), seed)


@pytest.mark.slow
def test_random_stalls_change_cycles_only_of_a_program():
    for seed in range(20):
        stalled(verilator, lambda seed=seed, **options: program_launch(TINY, seed, **options), seed)
