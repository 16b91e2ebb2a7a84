"""asm, disasm, replay and verify on raw streams."""

import json

import numpy as np
import pytest
from error_checks import check_mentions
from invoked import lathe as run

import lathe as lt
from lathe.isa import Store, encode
from lathe.rtl.engines import verilator

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

CFG = lt.load_config("vta")
VALUES = np.arange(-16, 16, dtype=np.int32)


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


def test_without_a_memory_image_instructions_are_at_the_given_address(tmp_path):
    (tmp_path / "text.asm").write_text(TEXT)
    assert run("asm", tmp_path / "text.asm", "--address", 0x5000, "-o", tmp_path / "s.npz").exit_code == 0
    with np.load(tmp_path / "s.npz") as stream:
        assert stream["insns"].shape == (6, 16)
        assert stream["insn_addr"] == 0x5000
        assert stream["page_addrs"].tolist() == [0x4000, 0x5000]
        assert np.array_equal(stream["pages"][1, : 6 * 16].reshape(6, 16), stream["insns"])


@pytest.mark.parametrize(
    ("text", "words", "mentions"),
    [
        (".uops 0x20\ndst=0 src=0\n.code\nfinish\nfinish\nfinish\n", (),
            ("table '0x20'", "overlap the instructions", "0x0 to 0x30", "--address")),
        (".uops table\ndst=0 src=0\n.code\nfinish\n", (), ("multiple of 4", "not 'table'", "--into")),
        ("finish\n", ("--address", "8"), ("instructions", "multiple of 16", "not 8")),
    ],
)  # fmt: skip
def test_invalid_addresses(tmp_path, text, words, mentions):
    (tmp_path / "text.asm").write_text(text)
    result = run("asm", tmp_path / "text.asm", "-o", tmp_path / "s.npz", *words)
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", *mentions)
    assert not (tmp_path / "s.npz").exists()


def test_verify_finds_nothing_in_a_good_stream(stream):
    result = run("verify", stream)
    assert (result.exit_code, result.stdout) == (0, "no findings in 6 instructions\n")


def test_verify_reports_a_race_with_status_1(stream, tmp_path):
    (tmp_path / "race.asm").write_text(TEXT.replace(" push_next", "").replace(" pop_prev", ""))
    run("asm", tmp_path / "race.asm", "--into", stream, "-o", tmp_path / "race.npz")
    result = run("verify", tmp_path / "race.npz", "--json")
    assert result.exit_code == 1
    findings = json.loads(result.stdout)["findings"]
    assert "race" in {finding["kind"] for finding in findings}
    told = run("verify", tmp_path / "race.npz").stdout
    assert told.endswith(f"{len(findings)} finding{'s' * (len(findings) != 1)} in 6 instructions\n")


@pytest.mark.parametrize(
    ("name", "code", "mentions"),
    [
        ("empty", "NO_FINISH", ("deadlock: the end of the stream", "FINISH")),
        ("into itself", "STREAM_WRITE",
            ("store into the stream: dram_base of instruction 4 in store (store out sram_base=0 dram_base={at:#x} "
             "y_size=1 x_size=1 x_stride=1)", "{first:#x}", "{last:#x}", "DRAM {first:#x}")),
    ],
)  # fmt: skip
def test_verify_reports_the_fault_of_the_machine(name, code, mentions, stream, tmp_path):
    with np.load(stream) as file:
        arrays = dict(file)
    insns, first = arrays["insns"][:0], int(arrays["insn_addr"])
    at, size = first // CFG.out_element_bytes, CFG.out_element_bytes
    if name == "into itself":
        insns = arrays["insns"].copy()
        insns[4] = encode(CFG, [Store(sram_base=0, dram_base=at, y_size=1, x_size=1, x_stride=1)])[0]
    path = tmp_path / "bad.npz"
    np.savez(path, **{**arrays, "insns": insns})
    result = run("verify", path)
    assert result.exit_code == 1
    values = {"at": at, "first": at * size, "last": first + 16 * len(insns) - 1}
    check_mentions(result.stdout, *(each.format(**values) for each in mentions))
    assert code in [each["code"] for each in json.loads(run("verify", path, "--json").stdout)["findings"]]
    assert run("replay", path, "-o", tmp_path / "after.npz").exit_code == 2


def expecting(stream, path, change):
    """The stream with its expected final memory, modified by `change`."""
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
        wanted[key].reshape(-1)[0] += 4096 if key == "after_addrs" else 1

    expecting(stream, tmp_path / "other.npz", change)
    result = run("replay", tmp_path / "other.npz", "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["as_expected"] is False


# fmt: off
MISSHAPED = {
    "pages of another size": ({"after_pages": np.zeros((1, 4095), np.uint8)},
        "after_pages of stream file {!r} must have shape (N, 4096) and dtype uint8, not (1, 4095) and uint8. Convert "
        "the array."),
    "addresses of other pages": ({"after_addrs": np.zeros(2, np.uint64)},
        "after_addrs of stream file {!r} must be integers of shape (1,), not uint64 of shape (2,). Convert the array."),
    "an address within a page": ({"after_addrs": np.array([8], np.uint64)},
        "after_addrs of stream file {!r} must be multiples of 4096, not 0x8. Correct the addresses."),
    "three tokens": ({"after_tokens": np.zeros(3, np.int64)},
        "after_tokens of stream file {!r} must be integers of shape (4,), not int64 of shape (3,). Convert the array."),
}
# fmt: on


@pytest.mark.parametrize("case", MISSHAPED)
def test_replay_refuses_an_expectation_that_no_memory_can_meet(stream, tmp_path, case):
    change, message = MISSHAPED[case]
    path = tmp_path / "other.npz"
    expecting(stream, path, lambda wanted: wanted.update(change))
    result = run("replay", path, "--check")
    assert (result.exit_code, result.stderr) == (2, f"Error: {message.format(str(path))}\n")


def test_assembling_into_a_stream_copies_the_expected_memory(stream, tmp_path):
    expecting(stream, tmp_path / "expecting.npz", dict)
    run("disasm", tmp_path / "expecting.npz", "-o", tmp_path / "text.asm")
    run("asm", tmp_path / "text.asm", "--into", tmp_path / "expecting.npz", "-o", tmp_path / "again.npz")
    result = run("replay", tmp_path / "again.npz", "--check")
    assert result.exit_code == 0
    assert result.stdout.endswith("Memory and tokens are as expected.\n")


@pytest.mark.parametrize("content", ["", "\n; nothing but a remark\n\n"])
def test_a_text_without_instructions_is_an_error(content, tmp_path):
    path = tmp_path / "text.asm"
    path.write_text(content)
    result = run("asm", path, "-o", tmp_path / "s.npz")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", repr(str(path)), "at least one instruction", "finish")
    assert not (tmp_path / "s.npz").exists()


def test_programs_and_streams_point_to_each_others_commands(stream, tmp_path):
    A = lt.placeholder((2, 4), "int8", name="A")
    B = lt.relu(A, name="B")
    path = tmp_path / "p.npz"
    lt.build(B, [A, B], lt.load_config("tiny")).save(path)
    result = run("replay", path, "-c", "tiny")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: The stream file {str(path)!r} must hold a raw stream, not a compiled program. Run it with `lathe "
        "simulate`, or with Program.load and simulate in Python.\n",
    )
    result = run("simulate", stream)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: The file {stream} must be a program saved by Lathe, not a raw stream. Run it with `lathe replay`, or "
        "with replay in Python.\n",
    )


def unbuilt(*_):
    raise AssertionError("a machine is built")


@pytest.mark.parametrize("engine", ["sim", "all"])
def test_a_stream_beyond_the_machines_addresses_is_refused(engine, stream, tmp_path, monkeypatch):
    """The error is raised before a machine is built, which takes a minute."""
    monkeypatch.setattr(verilator, "library", unbuilt)
    with np.load(stream) as file:
        arrays = dict(file)
    path = tmp_path / "far.npz"
    np.savez(path, **{**arrays, "insn_addr": np.uint64(2**64 - 16)})
    result = run("replay", path, "--engine", engine)
    count = len(arrays["insns"])
    assert result.exit_code == 2
    mentions = (f"{count} instructions", "0xfffffffffffffff0", "0x20000000000", "machine 'vta'", "insn_addr")
    check_mentions(result.stderr, "Error", *mentions)
    text = tmp_path / "text.asm"
    text.write_text("finish\n")
    result = run("asm", text, "-o", path, "--address", 16 << 64)
    assert result.exit_code == 2
    mentions = ("the instructions", "16 bytes", "0x100000000000000000", "machine 'vta'", "0x20000000000")
    check_mentions(result.stderr, "Error", *mentions)


def test_outputs_may_have_any_name_in_the_file_that_simulate_writes(tmp_path):
    A = lt.placeholder((2, 4), "int8", name="A")
    B = lt.relu(A, name="file")
    lt.build(B, [A, B], lt.load_config("tiny")).save(tmp_path / "p.npz")
    assert run("simulate", tmp_path / "p.npz", "--random", 0, "-o", tmp_path / "o.npz").exit_code == 0
    with np.load(tmp_path / "o.npz") as file:
        assert file["file"].shape == (2, 4)


def test_replay_check_requires_the_expected_memory(stream):
    result = run("replay", stream, "--check")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", repr(str(stream)), "after_pages", "lacks after_addrs", "--check")


def test_a_deadlock_is_an_error_and_writes_nothing(stream, tmp_path):
    (tmp_path / "stuck.asm").write_text(TEXT.replace(" push_next", ""))
    run("asm", tmp_path / "stuck.asm", "--into", stream, "-o", tmp_path / "stuck.npz")
    result = run("replay", tmp_path / "stuck.npz", "-o", tmp_path / "after.npz", "--trace", tmp_path / "t.json")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error: The launch must end", "deadlocked")
    assert "compute->store" in result.stderr
    assert not (tmp_path / "after.npz").exists()
    assert not (tmp_path / "t.json").exists()


def test_an_unwritable_output_is_an_error_before_anything_runs(stream, tmp_path):
    result = run("replay", stream, "-o", tmp_path / "missing" / "after.npz")
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("command", ["disasm", "verify"])
def test_a_foreign_file_is_neither_program_nor_stream(command, tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("hello")
    result = run(command, path)
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", repr(str(path)), "program", "raw stream", ".npz archive")


def test_an_unknown_engine(stream):
    result = run("replay", stream, "--engine", "simm")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: The engine must be one of sim, pysim, verilator, all, not 'simm'. Did you mean 'sim'?\n",
    )
