"""The cost model of tilings: how transfers, overlap and overheads change the estimate."""

from dataclasses import replace
from random import Random

import pytest

from lathe.configs import HardwareConfig, load_config
from lathe.frontend import Tensor, placeholder, placeholders
from lathe.frontend.operators import conv2d, max_pool2d, requantise
from lathe.isa import Unit
from lathe.scheduler import build
from lathe.scheduler.cost.cost_model import (
    TRANSFER_OVERHEAD,
    OperandLoads,
    TileWork,
    cycles_with_gemm,
    cycles_without_gemm,
    least_cycles,
    load_cycles,
)
from lathe.scheduler.layout.dma_footprint import loads_of_box
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.tiling.problem import Tiling
from lathe.scheduler.tiling.search import choose_tiling
from lathe.sim import simulate_program

CONFIG = load_config("vta")
ROWS = PhysicalLayout(
    (64, 16, 256), VectorLayout(None, 2), vector_type_of(CONFIG, "inp")
)  # blocks of columns outermost
WORK = TileWork(tiles=8, parts=1, steps=10_000, stored=512, planes=1, single_buffered=False)
LOADS = [OperandLoads(Unit.LOAD, 400.0, 8, True), OperandLoads(Unit.LOAD, 2000.0, 1, True)]


def test_a_load_of_whole_rows_takes_its_beats():
    assert load_cycles(CONFIG, ROWS, 16, (64, 16, 16), 1024) == 1024 * 16 / 8


def test_a_load_of_single_vectors_waits_for_the_memory():
    assert load_cycles(CONFIG, ROWS, 16, (64, 1, 16), 64) > 2 * 64 * 16 / 8


def test_overlapped_loads_cost_little_and_prologue_loads_cost_all():
    base = cycles_with_gemm(CONFIG, LOADS, WORK)
    hidden = cycles_with_gemm(CONFIG, [replace(LOADS[0], times=16), LOADS[1]], WORK)
    before = cycles_with_gemm(CONFIG, [LOADS[0], replace(LOADS[1], cycles=2000.0 + 8 * 400)], WORK)
    assert base < hidden < base + 400
    assert before > base + 8 * 400


@pytest.mark.parametrize(
    ("loads", "work"),
    [
        ([replace(LOADS[0], double_buffered=False), LOADS[1]], WORK),
        (LOADS, replace(WORK, single_buffered=True)),
        (LOADS, replace(WORK, planes=4)),
        (LOADS, replace(WORK, parts=4)),
        ([*LOADS, OperandLoads(Unit.COMPUTE, 100.0, 8, True)], WORK),
    ],
    ids=["one slot", "no slot for the next result", "planes", "parts", "loads by the compute unit"],
)
def test_what_makes_it_longer(loads, work):
    assert cycles_with_gemm(CONFIG, loads, work) > cycles_with_gemm(CONFIG, LOADS, WORK)


def test_one_tile_more_costs_less_than_waiting_for_the_memory_once():
    """Its loads overlap with the computation of the previous tile."""
    slow = CONFIG.with_(**{"memory.latency": 64})
    one, two = (TileWork(tiles, 1, 1000 // tiles, 64 // tiles, 1, False) for tiles in (1, 2))
    assert cycles_with_gemm(slow, [], two) - cycles_with_gemm(slow, [], one) < 64


def test_the_first_tile_waits_for_all_parts_of_what_is_loaded_once():
    """After its first reduction tile, its loads overlap only with its own computation."""
    short, long = (TileWork(8, 4, steps, 16, 1, False) for steps in (500, 4000))
    parts, whole = [OperandLoads(Unit.LOAD, 4000.0, 1, True, parts=4)], [OperandLoads(Unit.LOAD, 4000.0, 1, True)]
    assert cycles_with_gemm(CONFIG, parts, short) > 4000 + 7 * 500
    saved = [cycles_with_gemm(CONFIG, whole, each) - cycles_with_gemm(CONFIG, parts, each) for each in (short, long)]
    assert saved[0] < 1000 < 2500 < saved[1] <= 3000


@pytest.mark.parametrize(
    ("box", "loads"),
    [
        ((64, 16, 256), 1),
        ((64, 16, 16), 1),
        ((64, 7, 16), 1),  # rows of 7 vectors
        ((5, 16, 256), 1),  # a row of 5 × 16 vectors for each block of columns
        ((5, 7, 16), 1),
        ((5, 7, 64), 4),
        ((1, 7, 64), 1),
    ],
)
def test_loads_that_bring_a_box(box, loads):
    """One for each row that is neither contiguous with the one before nor one stride away from it."""
    assert loads_of_box(ROWS, box) == loads


def test_many_stores_of_a_tile_wait_for_the_memory():
    """A few overlap, and each waits for the memory's response: 200 short ones take longer than the computation."""
    slow = CONFIG.with_(**{"memory.latency": 100})
    one, many = (
        cycles_with_gemm(slow, [], replace(WORK, steps=1000, stores=count))
        for count in (1, 40 * slow.timing.dma_pending)
    )
    assert many - one > 7 * (40 * 100 - 1000) - WORK.tiles * 100
    one, many = (cycles_without_gemm(slow, [], replace(WORK, steps=10, stores=count)) for count in (1, 200))
    assert many > one + 8 * 100


def test_a_load_into_a_single_slot_waits_for_the_memory_each_time():
    """It can start only when the slot has been read."""
    slow = CONFIG.with_(**{"memory.latency": 100})
    once, twice = (cycles_with_gemm(slow, [replace(LOADS[0], double_buffered=each)], WORK) for each in (False, True))
    assert once - twice > 7 * (LOADS[0].cycles + 100) - 400


def test_the_last_store_is_shorter_in_parts():
    stored = WORK.stored * CONFIG.out_element_bytes / CONFIG.bus_bytes
    whole, in_parts = (cycles_with_gemm(CONFIG, [], replace(WORK, ends=ends)) for ends in (False, True))
    assert 0 < whole - in_parts < stored
    small = replace(WORK, stored=1)
    assert cycles_with_gemm(CONFIG, [], replace(small, ends=True)) == cycles_with_gemm(CONFIG, [], small)


def test_parts_with_multi_buffered_weights_wait_less():
    parts = replace(WORK, parts=8)
    assert cycles_with_gemm(CONFIG, [], replace(parts, multi_buffered=True)) < cycles_with_gemm(CONFIG, [], parts)


def test_loads_of_the_compute_unit_wait_for_memory_one_by_one():
    one = [OperandLoads(Unit.COMPUTE, 400.0, 8, True)]
    for cycles_of in (cycles_with_gemm, cycles_without_gemm):
        more = cycles_of(CONFIG, [replace(one[0], instructions=4)], WORK) - cycles_of(CONFIG, one, WORK)
        waits = 8 * 3 * (CONFIG.memory.latency + TRANSFER_OVERHEAD)
        assert waits <= more <= 2 * waits


def test_without_a_gemm_nothing_overlaps_with_a_single_slot():
    loads = [OperandLoads(Unit.COMPUTE, 400.0, 8, True)]
    doubled = cycles_without_gemm(CONFIG, loads, WORK)
    assert cycles_without_gemm(CONFIG, [replace(loads[0], double_buffered=False)], WORK) > doubled
    assert cycles_without_gemm(CONFIG, loads, replace(WORK, single_buffered=True)) > doubled


def test_without_a_gemm_no_more_latencies_overlap_than_there_are_loads():
    """Tiles that share a load wait once: with half as many loads, half as many latencies overlap."""
    config, each = CONFIG.with_(**{"memory.shared_bandwidth": False}), OperandLoads(Unit.COMPUTE, 400.0, 8, True)
    more, fewer = (cycles_without_gemm(config, [replace(each, times=times)], WORK) for times in (8, 4))
    assert more - fewer == pytest.approx(4 * 400.0)


@pytest.mark.parametrize("cycles_of", [cycles_with_gemm, cycles_without_gemm])
def test_no_tiling_is_estimated_below_what_its_computation_alone_takes(cycles_of):
    """The tiling search prunes by this bound."""
    generator = Random(0)
    for _ in range(500):
        loads = [
            OperandLoads(unit, generator.choice([0.0, 3.0, 4e4]), generator.randint(1, 60), generator.random() < 0.5)
            for unit in generator.choices([Unit.LOAD, Unit.LOAD, Unit.COMPUTE], k=generator.randint(0, 3))
        ]
        tiles, steps = generator.randint(1, 900), generator.choice([1, 20, 70_000])
        work = TileWork(
            tiles, generator.randint(1, 9), steps, generator.randint(1, 2048), generator.choice([1, 4]), False
        )
        for each in (work, replace(work, single_buffered=True)):
            least = least_cycles(CONFIG, tiles, steps, product=cycles_of is cycles_with_gemm)
            assert least <= cycles_of(CONFIG, loads, each)


def recorded(monkeypatch, output: Tensor, config: HardwareConfig) -> list[Tiling]:
    """The tilings that are chosen when a program is built."""
    found = []

    def record(problem):
        found.append(tiling := choose_tiling(problem))
        return tiling

    monkeypatch.setattr("lathe.scheduler.passes.tile_and_fuse.choose_tiling", record)
    build(output, [*placeholders([output]), output], config)
    return found


@pytest.mark.parametrize("machine", ["vta", "lathe16"])
def test_channels_are_tiled_in_parts_without_a_tail(monkeypatch, machine):
    """In tiles of 48, the first 96 of 128 channels would be loaded as one, and the GEMM would wait for them."""
    data, weights = placeholder((1, 28, 28, 128), "int8", "data"), placeholder((256, 1, 1, 128), "int8", "weights")
    output = requantise(conv2d(data, weights, stride=2, name="conv"), 8, name="output")
    found = recorded(monkeypatch, output, load_config(machine).with_(**{"memory.latency": 64}))
    assert [size for each in found for size in each.reduce_tile.values()]
    assert not [size for each in found for size in each.reduce_tile.values() if 128 % size]


@pytest.mark.parametrize("shape", [(1, 14, 14, 32), (1, 9, 9, 5)])
def test_pruning_does_not_change_the_chosen_tiling(monkeypatch, shape):
    def tilings() -> list[object]:
        data = placeholder(shape, "int8", "data")
        conv = conv2d(data, placeholder((32, 3, 3, shape[-1]), "int8", "weights"), padding=1, name="conv")
        found = recorded(monkeypatch, max_pool2d(requantise(conv, 8, name="q"), 3, stride=2, name="output"), CONFIG)
        return [(each.tile, each.order, each.depth, list(each.level.values()), each.cost) for each in found]

    chosen = tilings()
    monkeypatch.setattr("lathe.scheduler.tiling.footprint_model.TilingModel.least_cost", lambda *_: 0.0)
    assert tilings() == chosen
    assert len(chosen) >= 2


def test_a_kernel_is_tiled_along_its_rows_if_a_block_of_channels_cannot_be_double_buffered(monkeypatch):
    """The weights of a block of channels for 7×7 taps take 196 of 256 vectors, so that the next block must wait."""
    config = CONFIG.with_(
        name="narrow", batch=4, block_in=16, block_out=4, inp_buffer_bytes=1 << 18, wgt_buffer_bytes=1 << 14,
        acc_buffer_bytes=1 << 14, **{"memory.bus_bits": 64, "memory.latency": 64},
    )  # fmt: skip
    data, weights = placeholder((3, 14, 17, 128), "int8", "data"), placeholder((128, 7, 7, 32), "int8", "weights")
    before = requantise(conv2d(data, weights, groups=4, name="conv"), 6, name="before")
    again = conv2d(before, placeholder((4, 1, 1, 128), "int8", "again"), name="behind")
    first, *_ = recorded(monkeypatch, requantise(again, 6, name="output"), config)
    assert [root.name for root in first.reduce_axis.values()] == ["ry"]


def test_a_load_with_a_border_waits_for_each_of_its_rows():
    """Rows of an image are contiguous in DRAM, but a LOAD inserts padding between them."""
    wide = CONFIG.with_(**{"memory.bus_bits": 1024, "memory.latency": 64})
    plain = load_cycles(wide, ROWS, 16, (64, 16, 16), 1024)
    bordered = load_cycles(wide, ROWS, 16, (64, 16, 16), 1024, bordered=(1,))
    assert plain == 1024 * 16 / 128
    assert bordered == 64 * (64 + 4 + 2) / wide.memory.outstanding_reads


def test_a_wider_bus_costs_nothing_where_rows_are_short():
    """Tiles of four images would load weights less often, but the first tile would wait for all their rows."""
    sizes = {"inp_buffer_bytes": 65536, "wgt_buffer_bytes": 131072, "acc_buffer_bytes": 4096}
    blocks = CONFIG.with_(block_in=16, block_out=4, **sizes)
    data, weights = placeholder((4, 14, 14, 17), "int8", "data"), placeholder((32, 3, 3, 17), "int8", "weights")
    output = requantise(conv2d(data, weights, stride=3, padding=1), 5, name="output")
    machines = [blocks.with_(**{"memory.bus_bits": bits, "memory.latency": 64}) for bits in (512, 1024)]
    narrow, wide = (
        simulate_program(build(output, [data, weights, output], each), timing_only=True).cycles for each in machines
    )
    assert wide <= 1.01 * narrow
