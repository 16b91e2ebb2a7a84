"""``tile_for``: tiles that are left open are chosen as for a machine with less, and fit the machine that runs them."""

import pytest

import lathe as lt
from lathe.configs import ConfigError
from lathe.scheduler import ScheduleError
from lathe.scheduler.passes.complete import complete
from lathe.scheduler.state.loops import Split

SIZES = {"inp_buffer_bytes": 8192, "wgt_buffer_bytes": 32768, "acc_buffer_bytes": 32768}
MACHINE = lt.load_config("vta").with_(**SIZES)
HALF = MACHINE.with_(**{name: size // 2 for name, size in SIZES.items()})


def product():
    A, B = lt.placeholder((128, 512), "int8", name="A"), lt.placeholder((256, 512), "int8", name="B")
    C = lt.requantise(lt.matmul(A, B, transpose_b=True, name="sums"), 8, name="C")
    return C, [A, B, C]


def tiles(schedule, machine):
    """The factors of all loops that are split where a schedule is completed for a machine."""
    stages = complete(schedule, machine).stages
    return [each.factor for stage in stages for each in stage.state.relations if isinstance(each, Split)]


def with_less(**less):
    output, tensors = product()
    s = lt.create_schedule(output)
    s.tile_for(**less)
    return s, tensors


def test_tiles_are_those_of_half_the_scratchpads():
    whole = lt.create_schedule(product()[0])
    s, tensors = with_less(scratchpads=2)
    assert tiles(s, MACHINE) == tiles(whole, HALF) != tiles(whole, MACHINE)
    assert lt.build(s, tensors, MACHINE, check=True).config == MACHINE


@pytest.mark.parametrize(
    ("less", "change"),
    [
        ({"bus": 4}, {"memory.bus_bits": MACHINE.memory.bus_bits // 4}),
        ({"latency": 8}, {"memory.latency": 8 * MACHINE.memory.latency}),
        ({"outstanding_reads": 64}, {"memory.outstanding_reads": 1}),
    ],
    ids=["bus", "latency", "outstanding reads"],
)
def test_tiles_are_those_behind_a_slower_memory(less, change):
    s, tensors = with_less(**less)
    assert tiles(s, MACHINE) == tiles(lt.create_schedule(product()[0]), MACHINE.with_(**change))
    lt.build(s, tensors, MACHINE, check=True)


def test_where_nothing_fits_into_less_tiles_are_those_for_all_there_is():
    s, _ = with_less(scratchpads=4096)
    assert tiles(s, MACHINE) == tiles(lt.create_schedule(product()[0]), MACHINE)


def test_the_last_call_counts():
    s, _ = with_less(scratchpads=2)
    s.tile_for()
    assert tiles(s, MACHINE) == tiles(lt.create_schedule(product()[0]), MACHINE)


def test_a_bus_that_no_machine_has_is_refused_by_build():
    s, tensors = with_less(bus=1 << 16)
    with pytest.raises(ConfigError, match=r"^memory\.bus_bits of machine 'vta' must be "):
        lt.build(s, tensors, MACHINE)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", 1 << 17])
def test_numbers_that_are_none(value):
    with pytest.raises(ScheduleError) as refused:
        with_less(latency=value)
    assert str(refused.value) == (
        f"latency of tile_for must be a whole number from 1 to 65536, how many times less there is, not {value!r}."
    )
