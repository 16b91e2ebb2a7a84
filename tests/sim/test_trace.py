"""The trace, and its export for Perfetto."""

import json
from itertools import pairwise

import convolution
import numpy as np
import pytest
from error_checks import raises

from lathe.configs.atomic import FileError
from lathe.configs.memory import END
from lathe.isa import instruction_text, unit_of
from lathe.sim import StallCause, TraceError, simulate_program


@pytest.fixture(scope="module")
def result():
    program, _ = convolution.program()
    return simulate_program(program, timing_only=True)


def test_every_instruction_has_an_entry_in_fetch_and_in_its_unit(result):
    trace, stream = result.trace, result.program.instructions
    assert len(trace) == 2 * len(stream)
    assert trace.of_unit("fetch").instruction.tolist() == list(range(len(stream)))
    for number, name in enumerate(("load", "compute", "store")):
        own = trace.of_unit(name)
        expected = [index for index, each in enumerate(stream) if unit_of(each) == number]
        assert own.instruction.tolist() == expected
        assert (own.unit == number).all()
        assert (own.start <= own.end).all()
        assert (np.diff(own.start) > 0).all()
        assert (np.diff(own.end) > 0).all()


def test_the_launch_is_over_when_control_detects_idle_units_after_the_last_end(result):
    assert result.trace.end.max() + 1 + END == result.cycles


def test_stalled_cycles_of_the_trace_are_those_of_the_counters(result):
    for name, unit in result.counters.units.items():
        own = result.trace.of_unit(name)
        memory = unit.stalls.get("memory", 0) - int(own.waited.sum())
        before_entries = sum(count for cause, count in unit.stalls.items() if cause != "memory") + memory
        # Only the counters include cycles after the last instruction, and cycle 0 of fetch.
        after = before_entries - int(own.stalled.sum())
        assert 0 <= after <= unit.stalls["empty"] + 1
    assert (result.trace.stalled[result.trace.cause == StallCause.NONE] == 0).all()
    assert (result.trace.stalled[result.trace.cause != StallCause.NONE] > 0).all()


def test_stall_causes_are_named_as_in_the_documentation():
    assert [str(cause) for cause in StallCause] == [
        "none",
        "empty",
        "load->compute",
        "compute->load",
        "compute->store",
        "store->compute",
        "drain",
        "memory",
        "load queue",
        "compute queue",
        "store queue",
    ]


def test_entries_have_their_assembly_text(result):
    entry = len(result.trace) - 1
    assert result.trace.assembly(entry) == instruction_text(result.program.instructions[-1]) == "finish pop_next"


@pytest.fixture(scope="module")
def written(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    result.write_chrome_trace(path)
    return json.loads(path.read_text())


def test_perfetto_gets_one_named_track_per_unit(written):
    names = {
        event["tid"]: event["args"]["name"]
        for event in written["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    assert names == {0: "fetch", 1: "load", 2: "compute", 3: "store"}


def test_perfetto_gets_an_event_per_entry_that_overlaps_no_other_of_its_track(written, result):
    events = [event for event in written["traceEvents"] if event["ph"] == "X"]
    assert len(events) == len(result.trace)
    for track in range(4):
        own = [event for event in events if event["tid"] == track]
        assert all(event["dur"] > 0 for event in own)
        assert all(before["ts"] + before["dur"] <= after["ts"] for before, after in pairwise(own))
        assert {event["cat"] for event in own} == {("fetch", "load", "compute", "store")[track]}
    assert {event["name"] for event in events if event["tid"] == 1} == {"LOAD inp", "LOAD wgt"}


def test_events_have_real_cycles_label_text_and_stalls(written, result):
    trace = result.trace.of_unit("compute")
    events = [event for event in written["traceEvents"] if event["ph"] == "X" and event["cat"] == "compute"]
    for number, event in enumerate(events):
        arguments = event["args"]
        assert (arguments["start"], arguments["end"]) == (trace.start[number], trace.end[number])
        assert arguments["assembly"] == trace.assembly(number)
        assert arguments["label"] == "program"
        assert arguments.get("stalled", 0) == trace.stalled[number]
        if trace.stalled[number]:
            assert arguments["cause"] == str(StallCause(trace.cause[number]))


def test_a_trace_is_written_atomically(result, tmp_path):
    with pytest.raises(FileError):
        result.write_chrome_trace(tmp_path / "missing" / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_was_not_recorded_is_not_written(tmp_path):
    program, _ = convolution.program()
    result = simulate_program(program, timing_only=True, trace=False)
    raises(TraceError, result.write_chrome_trace, tmp_path / "trace.json", mentions=("trace=True",))
    assert list(tmp_path.iterdir()) == []
