"""``tile_for``: open tiles are chosen for a derated machine, and fit the real one."""

import pytest
from error_checks import raises

import lathe as lt
from lathe.scheduler import ScheduleError
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.schedule_ir.loops import Split

SIZES = {"inp_buffer_bytes": 8192, "wgt_buffer_bytes": 32768, "acc_buffer_bytes": 32768}
MACHINE = lt.load_config("vta").with_(**SIZES)
HALF = MACHINE.with_(**{name: size // 2 for name, size in SIZES.items()})


def product():
    A, B = lt.placeholder((128, 512), "int8", name="A"), lt.placeholder((256, 512), "int8", name="B")
    C = lt.requantise(lt.matmul(A, B, transpose_b=True, name="sums"), 8, name="C")
    return C, [A, B, C]


def tiles(schedule, machine):
    """The factors of all loops that are split when a schedule is lowered for a machine."""
    stages = run_pipeline(schedule, machine).stages
    return [each.factor for stage in stages for each in stage.state.relations if isinstance(each, Split)]


def with_less(**less):
    output, tensors = product()
    s = lt.create_schedule(output)
    s.tile_for(**less)
    return s, tensors


@pytest.mark.slow
def test_tiles_are_those_of_half_the_scratchpads():
    whole = lt.create_schedule(product()[0])
    s, tensors = with_less(scratchpads=2)
    assert tiles(s, MACHINE) == tiles(whole, HALF) != tiles(whole, MACHINE)
    assert lt.build(s, tensors, MACHINE, check=True).config == MACHINE


@pytest.mark.sample(1)
@pytest.mark.parametrize(("memory", "sizes"), [("slow", (32, 128, 1)), ("quick", (256, 8, 8))])
def test_tiles_are_those_behind_a_memory(memory, sizes):
    keys = ("memory.bus_bits", "memory.latency", "memory.outstanding_reads")
    s, tensors = with_less(memory=memory)
    behind = MACHINE.with_(**dict(zip(keys, sizes, strict=True)))
    assert tiles(s, MACHINE) == tiles(lt.create_schedule(product()[0]), behind)
    assert lt.build(s, tensors, MACHINE, check=True).config == MACHINE


def test_where_nothing_fits_into_less_tiles_are_those_for_all_there_is():
    s, _ = with_less(scratchpads=4096)
    assert tiles(s, MACHINE) == tiles(lt.create_schedule(product()[0]), MACHINE)


def test_the_last_call_counts():
    s, _ = with_less(scratchpads=2)
    s.tile_for()
    assert tiles(s, MACHINE) == tiles(lt.create_schedule(product()[0]), MACHINE)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", 1 << 17])
def test_parts_that_are_none(value):
    mentions = ("scratchpads", "tile_for", 1, 65536, repr(value))
    raises(ScheduleError, with_less, scratchpads=value, kind="argument", mentions=mentions)


@pytest.mark.parametrize("value", ["slower", 3, ["slow"]])
def test_memories_that_are_none(value):
    mentions = ("memory", "tile_for", "slow, quick", repr(value))
    raises(ScheduleError, with_less, memory=value, kind="argument", mentions=mentions)
