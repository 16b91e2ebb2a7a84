"""Hardware metrics of a sweep: synthesised once for equal hardware, and cached; missing tools are reported first."""

import json

import pytest
import sweep_measuring
from click.testing import CliRunner
from error_checks import check_mentions, raises
from sweep_files import check_mistake, written
from sweep_measuring import looked_at

import lathe as lt
import lathe.rtl.fit.tools as tools_module
import lathe.sweeps.execution as execution_module
import lathe.sweeps.hardware as hardware_module
from lathe.command_line import main
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.fit import fit
from lathe.rtl.statistics import statistics, within
from lathe.sweeps.hardware import COUNTS, FITS, Hardware, hardware_numbers, is_known
from lathe.sweeps.keys import measuring_sources, point_key
from lathe.sweeps.measurement import METRICS, Options
from lathe.sweeps.specification import Point

TINY = lt.load_config("tiny")
SMALLEST = {"block_in": 2, "block_out": 2, "inp_buffer_bytes": 256, "wgt_buffer_bytes": 256, "acc_buffer_bytes": 1024}
MATMUL = "workloads:\n  - matmul: {m: [4, 8], n: 4, k: 4}\n"
GRID = "base: tiny\nmachine:\n  memory.latency: [0, 8]\n  memory.bus_bits: [32, 64]\n" + MATMUL


@pytest.fixture
def without_tools(monkeypatch, tmp_path):
    """Replace the tools by functions that record each machine, and use an empty cache."""
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(sweep_measuring.LOOKED_AT, str(tmp_path / "looked_at"))
    monkeypatch.setattr(execution_module, "measure_content", sweep_measuring.without_tools)
    monkeypatch.setattr(hardware_module, "_counted", sweep_measuring.counted)
    monkeypatch.setattr(hardware_module, "_fitted", sweep_measuring.fitted)
    hardware_module._known.cache_clear()
    yield
    hardware_module._known.cache_clear()


def sweep(tmp_path, text, **options):
    return lt.sweep(written(tmp_path, text), jobs=1, **options)


@pytest.mark.slow
@pytest.mark.usefixtures("without_tools")
def test_equal_hardware_is_synthesised_once(tmp_path):
    rows = sweep(tmp_path, GRID + "hardware: counts\n")
    assert len(rows) == 8
    assert looked_at() == [(32, None), (64, None)]
    assert all(row["rtl_flip_flops"] == row["memory.bus_bits"] for row in rows)
    assert [row["rtl_cells"] for row in sweep(tmp_path, GRID + "hardware: counts\n")] == [10] * 8
    assert len(looked_at()) == 2


@pytest.mark.usefixtures("without_tools")
def test_damaged_cache_entries_are_replaced(tmp_path):
    assert hardware_numbers(TINY, Hardware())["rtl_cells"] == 10
    assert is_known(TINY.with_(**{"memory.latency": 99}), Hardware())
    (entry,) = (tmp_path / "cache").glob("hardware-*.json")
    for text in ("", "[]", '{"rtl_cells": 1}', entry.read_text().replace("10", '"10"')):
        entry.write_text(text)
        assert not is_known(TINY, Hardware())
        hardware_module._known.cache_clear()
        assert hardware_numbers(TINY, Hardware())["rtl_cells"] == 10
    assert len(looked_at()) == 5


@pytest.mark.slow
@pytest.mark.usefixtures("without_tools")
def test_time_is_at_the_clock_of_the_fit_unless_another_clock_is_given(tmp_path):
    text = GRID.replace("[32, 64]", "32") + "hardware: {device: ecp5-25k, speed: 7, seed: 3}\n"
    for row in sweep(tmp_path, text):
        assert (row["fit_mhz"], row["time_us"]) == (50.0, row["cycles"] / 50)
    for row in sweep(tmp_path, text.replace("machine:\n", "machine:\n  clock_mhz: 200\n")):
        assert (row["fit_mhz"], row["time_us"]) == (50.0, row["cycles"] / 200)


@pytest.mark.slow
@pytest.mark.usefixtures("without_tools")
def test_hardware_that_does_not_fit_is_a_row_with_all_other_metrics(tmp_path):
    rows = sweep(tmp_path, GRID + "hardware: {device: ecp5-25k}\n", output=tmp_path / "r.db")
    refused = [row for row in rows if row["memory.bus_bits"] == 64]
    assert {row["status"] for row in refused} == {"no hardware"}
    assert {row["reason"] for row in refused} == {"device of the fit must have what machine 'tiny' takes, and has not."}
    assert all(row["cycles"] > 0 and row.get("fit_mhz") is None for row in refused)
    assert len(looked_at()) == 2  # machines that do not fit are also tried only once
    assert sweep(tmp_path, GRID + "hardware: {device: ecp5-25k}\n", output=tmp_path / "r.db") == rows
    assert len(looked_at()) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("without_tools")
def test_a_machine_that_cannot_be_built_says_so(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    text = "base: tiny\nmachine:\n  timing.gemm_pipeline: 1\n  timing.alu_pipeline: 1\n" + MATMUL + "hardware: counts\n"
    row, _ = sweep(tmp_path, text)
    assert row["status"] == "no hardware"
    check_mentions(row["reason"], "timing.gemm_pipeline", "timing.alu_pipeline", "'tiny'", "at least 3", "not 1")


@pytest.mark.usefixtures("without_tools")
def test_a_dry_run_counts_hardware_without_synthesis(tmp_path):
    (tmp_path / "sweep.yaml").write_text(GRID + "hardware: {device: ecp5-25k}\n")
    words = ["sweep", str(tmp_path / "sweep.yaml"), "--dry-run", "--jobs", "1"]
    said = CliRunner().invoke(main, words)
    check_mentions(said.stdout, "hardware", "2 machines", "minutes")
    assert json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)["machines_to_build"] == 2
    assert looked_at() == []


def test_without_the_extra_the_sweep_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setattr(tools_module, "PACKAGES", {"yowasp-nothing": ("nothing", "nothing")})
    (tmp_path / "sweep.yaml").write_text(GRID + "hardware: {device: ecp5-25k}\n")
    words = ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / "r.db")]
    said = CliRunner().invoke(main, words)
    assert (said.exit_code, said.stdout) == (2, "")
    check_mentions(said.stderr, "yowasp-nothing", "pip install 'lathe-npu[fit]'")
    assert not (tmp_path / "r.db").exists()


def test_an_invalid_cache_is_reported_before_the_sweep_starts(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "file" / "cache"))
    mentions = (repr(str(tmp_path / "file" / "cache")), "Not a directory", "LATHE_CACHE")
    raises(RtlError, sweep, tmp_path, GRID + "hardware: counts\n", output=tmp_path / "r.db", mentions=mentions)
    assert not (tmp_path / "r.db").exists()


MISTAKES = {
    "another word": ("hardware: count\n", 8, "count", "word of hardware", "counts", "not 'count'", "'counts'?"),
    "no device": ("hardware: {speed: 6}\n", 8, "device",
        "hardware", "not without device", "ecp5-25k, ecp5-45k, ecp5-85k"),
    "an unknown device": ("hardware: {device: ecp5-12k}\n", 8, "ecp5-12k",
        "word of device", "ecp5-25k, ecp5-45k, ecp5-85k", "not 'ecp5-12k'"),
    "an unknown speed": ("hardware: {device: ecp5-25k, speed: 9}\n", 8, "9", "word of speed", "6, 7, 8", "not '9'"),
    "a negative seed": ("hardware: {device: ecp5-25k, seed: -1}\n", 8, "seed",
        "seed of hardware", "at least 0", "not -1"),
    "another key": ("hardware: {devise: ecp5-25k}\n", 8, "devise",
        "key of hardware", "device, speed, seed", "not 'devise'", "'device'?"),
    "counts that are not requested": ("metrics: [cycles, rtl_cells]\n", 8, "rtl_cells",
        "rtl_cells of metrics", "'hardware: counts'"),
    "a fit that is not requested": ("hardware: counts\nsearch: {objectives: [-fit_mhz], points: 3}\n", 9, "fit_mhz",
        "fit_mhz of search", "device", "'hardware: {device: ecp5-45k}'"),
    "time without a clock": ("search: {objectives: [time_us], points: 3}\n", 8, "time_us",
        "time_us of search", "clock_mhz", "'hardware: {device: ecp5-45k}'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_line_and_key(tmp_path, mistake):
    text, *expected = MISTAKES[mistake]
    check_mistake(tmp_path, GRID + "schedules: each\n" + text, *expected)


def test_the_key_of_a_row_includes_the_hardware_metrics_and_the_sources_of_the_rtl():
    point = Point("tiny", {}, "matmul", {"m": 4, "n": 4, "k": 4})
    requested = (None, Hardware(), Hardware("ecp5-25k"), Hardware("ecp5-25k", seed=2))
    assert len({point_key(point, Options(hardware=each)) for each in requested}) == 4
    assert measuring_sources() != measuring_sources(Hardware())
    assert {*COUNTS, *FITS} < set(METRICS)


@pytest.mark.slow
def test_counts_are_those_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path))
    hardware_module._known.cache_clear()
    machine = TINY.with_(**SMALLEST)
    entries = statistics(machine)
    counted = within(entries, entries[0].path)
    numbers = hardware_numbers(machine, Hardware())
    assert [*numbers.values()] == [counted.cells, counted.flip_flops, counted.memory_bits, counted.multiplier_count]


@pytest.mark.nightly
def test_clock_and_resources_are_those_of_the_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    hardware_module._known.cache_clear()
    changes = "".join(f"  {name}: {value}\n" for name, value in SMALLEST.items())
    text = "base: tiny\nmachine:\n  memory.latency: [0, 8]\n" + changes + MATMUL + "hardware: {device: ecp5-25k}\n"
    (tmp_path / "sweep.yaml").write_text(text)
    words = ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / "r.db"), "--jobs", "2", "--json"]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0, said.output
    rows = json.loads(said.stdout)
    assert len(rows) == 4
    found = fit(TINY.with_(**SMALLEST), "ecp5-25k")  # from the cache
    assert len(list((tmp_path / "cache").glob("fit-*.json"))) == 1
    for row in rows:
        assert row["fit_mhz"] == found.megahertz
        assert row["time_us"] == pytest.approx(row["cycles"] / found.megahertz, abs=1e-6)
        assert row["fit_luts"] == found.resources["luts"].used
