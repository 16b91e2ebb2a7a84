"""asm, disasm, replay and verify on raw streams."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from lathe.command_line import main

# Loads two rows of accumulators, halves them, and stores them; tokens order store after the ALU.
TEXT = """
.uops 0x4000
dst=0 src=0
.code
load acc sram_base=0 dram_base=0x80 y_size=1 x_size=2 x_stride=2
load uop sram_base=0 dram_base=0x1000 y_size=1 x_size=1 x_stride=1
alu shr uop_bgn=0 uop_end=1 iter_out=1 iter_in=2 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 use_imm imm=1 push_next
store out sram_base=0 dram_base=0x300 y_size=1 x_size=2 x_stride=2 pop_prev push_prev
load uop sram_base=0 dram_base=0x0 y_size=0 x_size=0 x_stride=0 pop_next
finish
"""  # noqa: E501

VALUES = np.arange(-16, 16, dtype=np.int32)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def stream(tmp_path):
    """The stream of TEXT with VALUES in memory at 0x2000, made by `lathe asm` from a memory image."""
    (tmp_path / "text.asm").write_text(TEXT)
    page = np.zeros((1, 4096), np.uint8)
    page[0, : VALUES.nbytes] = VALUES.view(np.uint8)
    np.savez(
        tmp_path / "memory.npz",
        insns=np.zeros((0, 16), np.uint8),
        insn_addr=0x1000,
        page_addrs=np.array([0x2000], np.uint64),
        pages=page,
        tokens=np.zeros(4, np.int64),
    )
    result = run("asm", tmp_path / "text.asm", "--into", tmp_path / "memory.npz", "-o", tmp_path / "stream.npz")
    assert result.output == ""
    assert result.exit_code == 0
    return tmp_path / "stream.npz"


def test_a_stream_is_assembled_replayed_and_leaves_its_memory(stream, tmp_path):
    result = run("replay", stream, "-o", tmp_path / "after.npz", "--json")
    assert result.exit_code == 0
    counters = json.loads(result.stdout)
    assert counters["alu_operations"] == 2
    assert counters["bytes_written"] == {"out": 32}
    assert counters["tokens"] == [0, 0, 0, 0]
    assert counters["changed_pages"] == ["0x3000"]
    with np.load(tmp_path / "after.npz") as after:
        pages = dict(zip(after["page_addrs"].tolist(), after["pages"], strict=True))
        assert int(after["cycles"]) == counters["cycles"]
    assert np.array_equal(pages[0x3000][:32].view(np.int8), VALUES >> 1)


def test_replay_prints_tables(stream):
    text = run("replay", stream).stdout
    for expected in ("ALU operations", "accumulators (acc)", "compute", "Pages changed: 1"):
        assert expected in text


def test_replay_writes_a_trace_with_a_track_for_each_unit(stream, tmp_path):
    assert run("replay", stream, "--trace", tmp_path / "t.json").exit_code == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {"fetch", "load", "compute", "store"}


def test_disassembled_text_assembles_to_the_same_stream(stream, tmp_path):
    assert run("disasm", stream, "-o", tmp_path / "again.asm").exit_code == 0
    assert ".uops 0x4000" in (tmp_path / "again.asm").read_text()
    again = tmp_path / "again.npz"
    assert run("asm", tmp_path / "again.asm", "--into", tmp_path / "memory.npz", "-o", again).exit_code == 0
    with np.load(stream) as first, np.load(again) as second:
        assert set(first.files) == set(second.files)
        for name in first.files:
            assert np.array_equal(first[name], second[name]), name


def test_without_a_memory_image_instructions_lie_at_the_given_address(tmp_path):
    (tmp_path / "text.asm").write_text(TEXT)
    assert run("asm", tmp_path / "text.asm", "--address", 0x5000, "-o", tmp_path / "s.npz").exit_code == 0
    with np.load(tmp_path / "s.npz") as stream:
        assert stream["insns"].shape == (6, 16)
        assert stream["insn_addr"] == 0x5000
        assert stream["page_addrs"].tolist() == [0x4000, 0x5000]
        assert np.array_equal(stream["pages"][1, : 6 * 16].reshape(6, 16), stream["insns"])


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (
            ".uops 0x20\ndst=0 src=0\n.code\nfinish\nfinish\nfinish\n",
            (),
            "The micro-op table '0x20' must lie beside the instructions in memory, not over them: they take the bytes "
            "from 0x0 to 0x30. Name another address, or move the instructions with --address.",
        ),
        (
            ".uops table\ndst=0 src=0\n.code\nfinish\n",
            (),
            "The name of a micro-op table of a stream must be its byte address, a multiple of 4 such as 0x1000, "
            "not 'table'. Segments' names need --into with a program.",
        ),
        (
            "finish\n",
            ("--address", "8"),
            "The address of the instructions must be a multiple of 16, not 8.",
        ),
    ],
)
def test_what_has_no_place_in_memory_is_refused(tmp_path, text, words, message):
    (tmp_path / "text.asm").write_text(text)
    result = run("asm", tmp_path / "text.asm", "-o", tmp_path / "s.npz", *words)
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")
    assert not (tmp_path / "s.npz").exists()


def test_verify_finds_nothing_in_a_good_stream(stream):
    result = run("verify", stream)
    assert (result.exit_code, result.stdout) == (0, "nothing wrong in 6 instructions\n")


def test_verify_reports_a_race_with_status_1(stream, tmp_path):
    (tmp_path / "race.asm").write_text(TEXT.replace(" push_next", "").replace(" pop_prev", ""))
    run("asm", tmp_path / "race.asm", "--into", stream, "-o", tmp_path / "race.npz")
    result = run("verify", tmp_path / "race.npz", "--json")
    assert result.exit_code == 1
    findings = json.loads(result.stdout)["findings"]
    assert "race" in {finding["kind"] for finding in findings}
    told = run("verify", tmp_path / "race.npz").stdout
    assert told.endswith(f"{len(findings)} finding{'s' * (len(findings) != 1)} in 6 instructions\n")


def expecting(stream, path, change):
    """The stream with what it must leave behind, after `change` of that."""
    with np.load(stream) as file:
        arrays = dict(file)
    after = np.zeros((1, 4096), np.uint8)
    after[0, :32] = (VALUES >> 1).astype(np.int8).view(np.uint8)
    wanted = {"after_addrs": np.array([0x3000], np.uint64), "after_pages": after, "after_tokens": np.zeros(4, np.int64)}
    change(wanted)
    np.savez(path, **arrays, **wanted)


def test_replay_checks_memory_and_tokens_against_the_file(stream, tmp_path):
    expecting(stream, tmp_path / "same.npz", dict)
    result = run("replay", tmp_path / "same.npz", "--check")
    assert result.exit_code == 0
    assert result.stdout.endswith("Memory and tokens are as expected.\n")


@pytest.mark.parametrize("key", ["after_pages", "after_tokens", "after_addrs"])
def test_replay_notices_any_difference(stream, tmp_path, key):
    def change(wanted):
        wanted[key].reshape(-1)[0] += 1

    expecting(stream, tmp_path / "other.npz", change)
    result = run("replay", tmp_path / "other.npz", "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["as_expected"] is False


def test_replay_cannot_check_what_the_file_does_not_say(stream):
    result = run("replay", stream, "--check")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: The stream file {str(stream)!r} must have after_addrs, after_pages, after_tokens for --check, and "
        "lacks after_addrs. Leave out --check.\n",
    )


def test_a_deadlock_is_an_error_and_writes_nothing(stream, tmp_path):
    (tmp_path / "stuck.asm").write_text(TEXT.replace(" push_next", ""))
    run("asm", tmp_path / "stuck.asm", "--into", stream, "-o", tmp_path / "stuck.npz")
    result = run("replay", tmp_path / "stuck.npz", "-o", tmp_path / "after.npz", "--trace", tmp_path / "t.json")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: The launch must end, and is deadlocked")
    assert "compute->store" in result.stderr
    assert not (tmp_path / "after.npz").exists()
    assert not (tmp_path / "t.json").exists()


def test_an_output_that_cannot_be_written_is_told_before_anything_runs(stream, tmp_path):
    result = run("replay", stream, "-o", tmp_path / "missing" / "after.npz")
    assert result.exit_code == 2
    assert "'No such file or directory'" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["disasm", "verify"])
def test_a_foreign_file_is_neither_program_nor_stream(command, tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("hello")
    result = run(command, path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: The file {str(path)!r} must be a program of `lathe compile` or a raw stream, and cannot be read: "
        "it is no .npz archive. Correct the path.\n",
    )


def test_an_unknown_engine_is_told(stream):
    result = run("replay", stream, "--engine", "simm")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: The engine must be one of sim, pysim, verilator, all, not 'simm'. Did you mean 'sim'?\n",
    )
