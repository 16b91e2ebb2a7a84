"""The protocol of the memory port is checked in every run: rules that a machine or a memory breaks are reported."""

import importlib
import random
import shutil

import pytest
from error_checks import check_mentions
from mutants import mutant
from random_streams import stream_of_data

import lathe as lt
from lathe.rtl import accelerator, store
from lathe.rtl.engines import build, dram, pysim, verilator
from lathe.rtl.engines.axi_checker import ProtocolError

TINY = lt.load_config("tiny")
# Design faults to inject, by the rule that they break: module, expression, its replacement, the module that
# instantiates the changed class, and that class.
MACHINES = {
    "AR_STABLE": ("arbiter", "held.eq(~self.ar_ready)", "held.eq(0)", accelerator, "ReadArbiter"),
    "AR_ID": ("arbiter", "self.ar_id.eq(_encoded(shown))", "self.ar_id.eq(3)", accelerator, "ReadArbiter"),
    "AR_KIND": (
        "arbiter",
        "(port.address >> bus_shift) <<",
        "1 | (port.address >> bus_shift) <<",
        accelerator,
        "ReadArbiter",
    ),
    "AR_OUTSTANDING": ("arbiter", "opened.eq(~inflight.full & ", "opened.eq(", accelerator, "ReadArbiter"),
    "AR_VALID": (
        "arbiter",
        "opened.eq(~inflight.full & ",
        "opened.eq(~self.r_valid & ~inflight.full & ",
        accelerator,
        "ReadArbiter",
    ),
    "AW_ID": ("ports", 'aw["id"].eq(WRITE_ID)', 'aw["id"].eq(0)', accelerator, "BusPorts"),
    "AW_VALID": ("write_channel", "addresses.r_valid & ~", "addresses.r_valid & ~self.w_en & ~", store, "WriteChannel"),
    "W_ADDRESS": ("write_channel", "(open_bursts != 0)", "1", store, "WriteChannel"),
    "W_LAST": ("write_channel", "self.w_strb, self.w_last)),", "self.w_strb, 1)),", store, "WriteChannel"),
}
QUICK = ("AR_STABLE", "AR_OUTSTANDING", "W_ADDRESS", "W_LAST")
STALLS = range(8)


def launches():
    """A stream that loads, computes and stores, with memories that stall in several ways."""
    stream = stream_of_data(random.Random(18), TINY, 14)
    return [stream.launch(TINY, stalls=seed, most_cycles=20000) for seed in STALLS]


def broken(engine):
    """Rule and side of the first launch in which a rule is broken."""
    for launch in launches():
        try:
            engine.run(TINY, launch)
        except ProtocolError as error:
            return reported(error)
    return None


def reported(error):
    """Rule and side of an error; its message must contain both, and the cycle."""
    rule = error.rule
    check_mentions(error, rule.side, rule.name, f"channel {rule.channel}", f"cycle {error.cycle}", rule.text)
    return rule.name, rule.side


def faulty(monkeypatch, rule):
    """Inject the design fault that breaks a rule into the machine."""
    name, old, new, user, unit = MACHINES[rule]
    changed = mutant(importlib.import_module(f"lathe.rtl.{name}"), old, new)
    monkeypatch.setattr(user, unit, getattr(changed, unit))


@pytest.mark.slow
def test_the_machine_and_the_memory_obey_the_rules():
    assert broken(pysim) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [rule if rule in QUICK else pytest.param(rule, marks=pytest.mark.slow) for rule in MACHINES]
)
def test_a_rule_that_a_machine_breaks_is_reported(monkeypatch, rule):
    faulty(monkeypatch, rule)
    pysim._machine.cache_clear()
    try:
        assert broken(pysim) == (rule, "machine")
    finally:
        pysim._machine.cache_clear()


# Faults to inject into the Python memory model, by the rule that they break: expression, and replacement.
MEMORIES = {
    "R_LAST": ("int(burst.left == 1)", "int(burst.left == 2)"),
    "R_BURST": ("return burst.id, self", "return burst.id ^ 1, self"),
    "B_BURST": ("        self.responses.popleft()\n", ""),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("rule", list(MEMORIES))
def test_a_rule_that_a_memory_breaks_is_reported(monkeypatch, rule):
    changed = mutant(dram, *MEMORIES[rule])
    monkeypatch.setattr("lathe.rtl.engines.testbench.Dram", changed.Dram)
    assert broken(pysim) == (rule, "memory")


@pytest.mark.slow
def test_a_rule_that_a_compiled_machine_breaks_is_reported(monkeypatch, tmp_path):
    faulty(monkeypatch, "W_ADDRESS")
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path))  # a separate cache: its keys do not cover the fault
    assert broken(verilator) == ("W_ADDRESS", "machine")


@pytest.mark.slow
def test_a_rule_that_the_memory_of_the_harness_breaks_is_reported(monkeypatch, tmp_path):
    for name in build.SOURCES:
        shutil.copy(build.HERE / name, tmp_path)
    memory, right = tmp_path / "dram.h", "top.m_axi_rlast = burst.left == 1;"
    assert memory.read_text().count(right) == 1
    memory.write_text(memory.read_text().replace(right, right.replace("1", "2")))
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    build._sources.cache_clear()
    try:
        assert broken(verilator) == ("R_LAST", "memory")
    finally:
        build._sources.cache_clear()
