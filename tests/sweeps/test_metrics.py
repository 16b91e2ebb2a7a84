"""Metrics of a point besides its cycles: energy and time, with DRAM presets; and programs that points share."""

import math

import pytest
import yaml
from error_checks import raises
from qdq_models import QdqModel

import lathe as lt
from lathe.sweeps.dram import presets
from lathe.sweeps.energy import KEYS, OWN, EnergyTable, energies, energy_table
from lathe.sweeps.errors import SweepError
from lathe.sweeps.execution import options_of
from lathe.sweeps.machines import changed
from lathe.sweeps.measurement import measure
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.share_programs import memories_of, retimed
from lathe.sweeps.specification import Point
from lathe.sweeps.workloads import known_workloads, make

VTA = lt.load_config("vta")
MATMUL = {"m": 16, "n": 16, "k": 32}


def counters(machine=VTA):
    work = make("matmul", MATMUL)
    return lt.simulate(work.compiled(machine), timing_only=True).counters


def test_energy_is_the_sum_of_the_actions():
    counted, table = counters(), energy_table(None)
    found = energies(VTA, counted, table)
    assert counted.gemm_operations == 16 * 2
    assert found["energy_core_pj"] == pytest.approx(32 * 256 * 0.3)  # no operation of the ALU
    moved = sum(counted.bytes_read.values()) + sum(counted.bytes_written.values())
    assert found["energy_dram_pj"] == pytest.approx(8 * moved * 20.3)
    bits = 8 * (32 * 16 + counted.bytes_read["inp"])
    alone = energies(VTA.with_(inp_buffer_bytes=8192), counted, table)
    assert found["energy_sram_pj"] - alone["energy_sram_pj"] == pytest.approx(bits * (20 - 10) / 64)
    assert found["energy_pj"] == pytest.approx(sum(value for name, value in found.items() if name != "energy_pj"))


def test_energies_are_interpolated_between_the_sizes_of_the_table():
    table = energy_table(None)
    assert [64 * table.sram_bit(size, 64) for size in (8192, 32768, 1048576)] == pytest.approx([10, 20, 100])
    assert 64 * table.sram_bit(16384, 64) == pytest.approx(math.sqrt(10 * 20))
    assert 64 * table.sram_bit(2048, 64) == pytest.approx(5)
    sizes = [table.sram_bit(1 << exponent, 64) for exponent in range(6, 30)]
    assert sizes == sorted(sizes)
    assert table.sram_bit(8192, 8) == table.sram_bit(8192, 4096) == table.sram_bit(8192, 64)  # the only known width


def test_energies_are_interpolated_between_the_widths_of_the_table():
    table = EnergyTable(1, 1, 1, 1, ((64, ((1024, 64),)), (256, ((1024, 128), (4096, 1024)))))
    assert table.sram_bit(1024, 16) == table.sram_bit(1024, 64) == 1
    assert table.sram_bit(1024, 128) == pytest.approx(math.sqrt(1 * 0.5))
    assert table.sram_bit(1024, 256) == table.sram_bit(1024, 512) == pytest.approx(0.5)
    assert table.sram_bit(4096, 256) == pytest.approx(4)


def test_every_energy_of_the_table_has_its_source():
    content = yaml.safe_load(OWN.read_text(encoding="utf-8"))
    assert set(content) == {*KEYS, "dram"}
    assert set(content["dram"]) <= set(presets())
    valued = [content[key] for key in KEYS if key != "sram"] + [*content["dram"].values()]
    assert all(each["pj"] > 0 and len(each["source"]) > 20 for each in valued)
    assert len(content["sram"]["source"]) > 20


MINE = "mac: 1\nalu: {pj: 2, source: me}\nalu_multiply: 3\ndram_bit: 5\nsram: {8: {1024: 6}}\n"


@pytest.mark.slow
def test_users_replace_the_table(tmp_path):
    (tmp_path / "mine.yaml").write_text(MINE)
    text = "energy: mine.yaml\nmachine: {clock_mhz: 100, dram: hbm2}\nworkloads:\n  - matmul: {m: 16, n: 16, k: 32}\n"
    (tmp_path / "sweep.yaml").write_text(text)
    sweep = read_sweep(tmp_path / "sweep.yaml", known_workloads(), make)
    (point,) = sweep.points()
    row = measure(point, options=options_of(sweep))
    assert row.numbers["energy_core_pj"] == 32 * 256
    bits = 8 * (row.numbers["bytes_read"] + row.numbers["bytes_written"])
    assert row.numbers["energy_dram_pj"] == bits * 5  # also for a memory that is in Lathe's own table
    (rows,) = lt.sweep(tmp_path / "sweep.yaml", jobs=1)
    assert rows["energy_core_pj"] == 32 * 256
    (tmp_path / "mine.yaml").write_text(MINE.replace("mac: 1", "mac: 2") + "dram: {hbm2: 7, ddr4_3200: 9}\n")
    (rows,) = lt.sweep(tmp_path / "sweep.yaml", jobs=1)  # with the changed table
    assert (rows["energy_core_pj"], rows["energy_dram_pj"]) == (2 * 32 * 256, bits * 7)


NEEDED = "mac, alu, alu_multiply, dram_bit, sram"
DRAMS = "ddr3_1600, lpddr3_1600, ddr4_3200, lpddr4_3200, gddr5_8000, gddr6_14000, hbm2"


@pytest.mark.parametrize(
    ("text", "line", "mentions"),
    [
        ("mac: 1\n", None, ("table of energies", "not without alu", NEEDED)),
        ("mac: -1\n", 1, ("mac", "above 0, up to 1e+15", "not -1")),
        ("mac: .nan\n", 1, ("mac", "above 0", "not nan")),
        ("mac: 1e300\n", 1, ("mac", "above 0", "not '1e300'")),
        ("mac: {pj: 1, sauce: x}\n", 1, ("mac", "pj with a source", "not {'pj': 1, 'sauce': 'x'}")),
        ("mac: 1\nmac: 2\n", 2, ("Key mac", "not twice")),
        ("mac: 1\nmacs: 1\n", 2, ("key", f"{NEEDED}, dram", "not 'macs'", "'mac'?")),
        ("sram: 3\n", 1, ("sram", "'64: {8192: 10}'")),
        ("sram: {8192: 10}\n", 1, ("sram", "'64: {8192: 10}'")),
        ("dram: {hbm9: 1}\n", 1, ("name in dram", DRAMS, "not 'hbm9'", "'hbm2'?")),
        ("", 1, ("content", "'mac: 0.3'", NEEDED)),
    ],
)
def test_an_invalid_table_is_refused(tmp_path, text, line, mentions):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    where = f"{path}, line {line}" if line else f"{path}"
    raises(SweepError, energy_table, str(path), mentions=(where, *mentions))


@pytest.mark.parametrize("clock", [1, 33.3, 100, 200, 1000, 5000])
@pytest.mark.parametrize("name", presets())
def test_a_machine_has_at_most_the_bandwidth_of_its_dram_and_at_least_half(name, clock):
    dram = presets()[name]
    bus, cycles, latency = dram.at(clock)
    carried = bus / cycles * clock
    assert carried <= dram.megabits * (1 + 1e-9)
    assert carried >= dram.megabits / 2 or bus == 1024
    assert latency - 1 < dram.latency_ns * clock / 1000 <= latency
    assert dram.source


def test_a_dram_sets_bus_rate_and_latency():
    assert presets()["ddr3_1600"].at(200) == (512, 1, 6)
    machine = changed("vta", {"clock_mhz": 200, "dram": "ddr3_1600"})
    memory = machine.config.memory
    assert (memory.bus_bits, memory.cycles_per_beat, memory.latency) == (512, 1, 6)
    assert presets()["ddr3_1600"].at(102400) == (8, 8, 2816)


def test_time_is_cycles_at_the_clock_and_dram_energy_is_the_presets():
    row = measure(Point("vta", {"clock_mhz": 250, "dram": "hbm2"}, "matmul", MATMUL))
    assert row.numbers["time_us"] == row.numbers["cycles"] / 250
    bits = 8 * (row.numbers["bytes_read"] + row.numbers["bytes_written"])
    assert row.numbers["energy_dram_pj"] == pytest.approx(bits * 3.92)
    assert "time_us" not in measure(Point("vta", {}, "matmul", MATMUL)).numbers


SHARED = """
base: lathe16
machine:
  memory.bus_bits: [64, 128]
  memory.latency: [0, 32, 128]
schedules: shared
workloads:
  - onnx: {path: model.onnx}
  - conv2d: {height: 9, width: 9, channels: 32, filters: 32, padding: 1}
"""


@pytest.mark.slow
def test_shared_programs_are_as_fast_as_those_of_each_point(tmp_path):
    graph = QdqModel()
    model = graph.model(graph.conv(graph.conv(graph.input(1, 16, 10, 10), 32, relu=True), 32))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "sweep.yaml").write_text(SHARED)
    sweep = read_sweep(tmp_path / "sweep.yaml", known_workloads(), make)
    slowest, quickest = memories_of(sweep)
    assert (slowest.bus_bits, slowest.latency) == (64, 128)
    assert (quickest.bus_bits, quickest.latency) == (128, 0)
    rows = [measure(point, options=options_of(sweep, check=True)) for point in sweep.points()]
    alone = [measure(point) for point in sweep.points()]
    assert {row.status for row in rows} == {"ok"}
    for row, own in zip(rows, alone, strict=True):
        assert row.numbers["cycles"] <= 1.1 * own.numbers["cycles"]  # of some 4,000, where a single LOAD matters
        assert row.numbers["bound_cycles"] == own.numbers["bound_cycles"]
    together, each_alone = (sum(each.numbers["cycles"] for each in measured) for measured in (rows, alone))
    assert together <= 1.01 * each_alone
    cycles = {(row.point.workload, *row.point.changes.values()): row.numbers["cycles"] for row in rows}
    for (workload, bus, latency), count in cycles.items():
        assert count <= 1.01 * cycles[workload, 64, latency]  # a bus of twice the width makes nothing worse
        assert count <= 1.01 * cycles[workload, bus, 128]


def test_a_shared_row_has_the_cycles_of_the_fastest_program(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SHARED.replace("  - onnx: {path: model.onnx}\n", ""))
    sweep = read_sweep(tmp_path / "sweep.yaml", known_workloads(), make)
    machine = lt.load_config("lathe16")
    for point in sweep.points():
        own = machine.with_(**point.changes)
        work = make(point.workload, point.parameters)
        programs = [work.compiled(changed("lathe16", {}).with_memory(memory)) for memory in memories_of(sweep)]
        least = min(lt.simulate(retimed(each, own), timing_only=True).cycles for each in programs)
        assert measure(point, options=options_of(sweep)).numbers["cycles"] == least


@pytest.mark.sample(1)
@pytest.mark.parametrize("latency", [0, 7, 64])
def test_rows_have_the_cycles_of_the_rtl(latency):
    point = Point("tiny", {"memory.latency": latency}, "matmul", {"m": 5, "n": 8, "k": 8})
    machine = lt.load_config("tiny").with_(**point.changes)
    work = make(point.workload, point.parameters)
    program = work.compiled(machine)
    ran = lt.simulate(program, work.inputs(program, 0), engine="pysim")
    assert measure(point).numbers["cycles"] == ran.cycles
