"""Raw streams: those of VTA's compiler if available, and others written here; consecutive launches."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from error_checks import raises
from percycle import PerCycle
from streams import legal_machine, legal_stream, with_tokens

from lathe.configs import load_config
from lathe.configs.atomic import FileError
from lathe.configs.extensions import EXTENSIONS
from lathe.isa import Finish, Load, MemoryType, Store, decode, encode, unit_of
from lathe.isa.semantics import MachineState, run
from lathe.isa.sparse_memory import PagedMemory
from lathe.sim import StreamError, read_stream, replay


def memory(addresses, pages):
    """Pages by address, without those that are all zero."""
    return {
        int(address): page.tobytes() for address, page in zip(addresses, pages, strict=True) if np.asarray(page).any()
    }


def test_streams_of_vtas_compiler_leave_the_recorded_memory_and_tokens(vta_stream):
    recorded = np.load(vta_stream)
    result = replay(load_config("vta"), vta_stream)
    expected = memory(recorded["page_addrs"], recorded["pages"])
    expected |= memory(recorded["after_addrs"], recorded["after_pages"])
    assert memory(result.page_addrs, result.pages) == expected
    assert result.page_addrs[result.changed].tolist() == recorded["after_addrs"].tolist()
    assert list(result.tokens) == recorded["after_tokens"].tolist()


def test_streams_of_vtas_compiler_take_the_cycles_of_the_per_cycle_model(vta_stream):
    cfg = load_config("vta")
    recorded = np.load(vta_stream)
    result = replay(cfg, vta_stream)
    slow = PerCycle(cfg, decode(cfg, recorded["insns"]), int(recorded["insn_addr"]), recorded["tokens"].tolist())
    assert result.cycles == slow.run()
    for name in ("load", "compute", "store", "fetch"):
        part = result.trace.of_unit(name)
        actual = dict(
            zip(part.instruction.tolist(), zip(part.start.tolist(), part.end.tolist(), strict=True), strict=True)
        )
        assert actual == {index: (entry.start, entry.end) for index, entry in slow.trace[name].items()}


def ordered(instructions):
    """The stream with tokens that make each instruction wait for the previous one, and a FINISH at its end.

    Load and store are not neighbours, so an empty LOAD in compute passes the token between them.
    """
    nothing = Load(MemoryType.UOP, 0, 0, 0, 0, 0)
    chain = []
    for instruction in [*instructions, Finish()]:
        if chain and abs(unit_of(chain[-1]) - unit_of(instruction)) == 2:
            chain.append(nothing)
        chain.append(instruction)
    for index in range(1, len(chain)):
        direction = unit_of(chain[index]) - unit_of(chain[index - 1])
        if direction:
            push, pop = ("push_next", "pop_prev") if direction > 0 else ("push_prev", "pop_next")
            chain[index - 1] = replace(chain[index - 1], **{push: True})
            chain[index] = replace(chain[index], **{pop: True})
    return chain


def raw(cfg, instructions, addresses=(), pages=(), tokens=(0, 0, 0, 0), insn_addr=1 << 30):
    return {
        "insns": encode(cfg, instructions),
        "insn_addr": np.uint64(insn_addr),
        "page_addrs": np.asarray(addresses, np.uint64),
        "pages": np.asarray(pages, np.uint8).reshape(-1, 4096),
        "tokens": np.array(tokens, np.int64),
    }


@pytest.mark.parametrize("seed", range(15))
def test_streams_ordered_by_tokens_leave_the_memory_of_the_semantics(seed):
    rng = random.Random(seed)
    cfg = legal_machine(rng, tuple(EXTENSIONS))
    instructions, addresses, pages = legal_stream(rng, cfg, 15)
    instructions = ordered(instructions)
    plain = MachineState(cfg, PagedMemory.of(addresses, pages))
    run(plain, instructions)
    result = replay(cfg, raw(cfg, instructions, addresses, pages))
    assert memory(result.page_addrs, result.pages) == memory(plain.dram.pages.keys(), plain.dram.pages.values())
    assert result.tokens == (0, 0, 0, 0)


def copy(source, target, **tokens):
    """Copy one vector from address `source` to `target`: LOAD acc8 and STORE, ordered by a token."""
    return [
        Load(MemoryType.ACC8, 0, source, 1, 1, 1, push_next=True, **tokens),
        Store(sram_base=0, dram_base=target, y_size=1, x_size=1, x_stride=1, pop_prev=True, push_prev=True),
    ]


def test_tokens_order_instructions_against_the_order_of_the_stream():
    cfg = load_config("vta")
    # The store is first in the stream, but its token comes from the load after it.
    load, store = copy(0, 256)
    pages = np.arange(4096, dtype=np.uint8).reshape(1, 4096)
    result = replay(cfg, raw(cfg, [store, load, Finish()], [0], pages))
    assert result.pages[1][:16].tolist() == list(range(16))
    assert result.tokens == (0, 0, 0, 1)


def test_consecutive_launches_carry_tokens_over(tmp_path):
    cfg = load_config("vta")
    pages = np.arange(4096, dtype=np.uint8).reshape(1, 4096)
    first = replay(cfg, raw(cfg, [*copy(1, 256), Finish()], [0], pages))
    assert first.tokens == (0, 0, 0, 1)
    first.save(tmp_path / "first.npz")
    after = dict(np.load(tmp_path / "first.npz"))
    second = after | {"insns": encode(cfg, [*copy(256, 512, pop_next=True), Finish()])}
    result = replay(cfg, second)
    assert result.tokens == (0, 0, 0, 1)
    assert result.page_addrs.tolist() == [0, 4096, 8192]
    assert result.changed.tolist() == [False, False, True]
    assert result.pages[2][:17].tolist() == [*range(16, 32), 0]


def test_a_saved_result_is_a_stream_that_can_be_launched_again(tmp_path):
    cfg = load_config("tiny")
    stream = raw(cfg, [*copy(0, 7), Finish()], [0], np.full((1, 4096), 9, np.uint8))
    result = replay(cfg, stream)
    result.save(tmp_path / "after.npz")
    again = read_stream(tmp_path / "after.npz")
    np.testing.assert_array_equal(again.insns, stream["insns"])
    np.testing.assert_array_equal(again.page_addrs, result.page_addrs)
    np.testing.assert_array_equal(again.pages, result.pages)
    assert (again.insn_addr, again.tokens) == (1 << 30, result.tokens)
    saved = np.load(tmp_path / "after.npz")
    assert int(saved["cycles"]) == result.cycles
    assert json.loads(saved["counters"].tobytes()) == result.counters.to_dict()
    assert [path.name for path in tmp_path.iterdir()] == ["after.npz"]


def test_a_result_is_not_saved_into_a_directory_that_is_missing(tmp_path):
    cfg = load_config("tiny")
    result = replay(cfg, raw(cfg, [Finish()]))
    with pytest.raises(FileError):
        result.save(tmp_path / "missing" / "after.npz")


def test_given_pages_stay_in_the_result_and_written_zeros_make_no_page():
    cfg = load_config("tiny")
    result = replay(cfg, raw(cfg, [*copy(0, 4096), Finish()], [0], np.zeros((1, 4096), np.uint8)))
    assert result.page_addrs.tolist() == [0]
    assert result.changed.tolist() == [False]


def test_a_stream_reads_its_own_instructions_from_memory():
    cfg = load_config("tiny")
    stream = raw(cfg, [*copy(1024, 2048), Finish()], insn_addr=4096)
    result = replay(cfg, stream)
    assert result.page_addrs.tolist() == [8192]
    assert result.pages[0][:4].tolist() == stream["insns"].reshape(-1)[:4].tolist()


def test_replay_records_no_trace_unless_requested():
    cfg = load_config("tiny")
    assert replay(cfg, raw(cfg, [Finish()]), trace=False).trace is None


@pytest.mark.parametrize(
    ("key", "value", "mentions"),
    [
        ("insns", np.zeros((3, 15), np.uint8), ("(N, 16) and dtype uint8", "not (3, 15)")),
        ("pages", np.zeros((1, 4096)), ("(N, 4096) and dtype uint8", "not (1, 4096) and float64")),
        ("insn_addr", np.uint64(8), ("multiple of 16", "not 0x8")),
        ("page_addrs", np.zeros(2, np.uint64), ("integers of shape (1,)", "uint64 of shape (2,)")),
        ("page_addrs", np.array([100], np.uint64), ("multiples of 4096", "not 0x64")),
        ("page_addrs", np.array([-4096]), ("at least 0", "not -4096")),
        ("tokens", np.array([0, 0, 0, 70000]), ("at most 65535", "not 70000", "16 bits")),
        ("tokens", np.zeros(4), ("integers of shape (4,)", "float64 of shape (4,)")),
    ],
)
def test_a_malformed_stream_is_refused_by_key(key, value, mentions):
    cfg = load_config("tiny")
    stream = raw(cfg, [Finish()], [0], np.zeros((1, 4096), np.uint8)) | {key: value}
    raises(StreamError, replay, cfg, stream, mentions=(f"{key} of the stream", *mentions))


def test_a_page_that_is_given_twice_is_refused():
    cfg = load_config("tiny")
    stream = raw(cfg, [Finish()], [4096, 4096], np.zeros((2, 4096), np.uint8))
    raises(StreamError, replay, cfg, stream, mentions=("page_addrs of the stream", "distinct"))


def test_a_stream_without_a_key_is_refused():
    stream = raw(load_config("tiny"), [Finish()])
    del stream["tokens"]
    raises(StreamError, read_stream, stream, mentions=("tokens", "insn_addr, insns, page_addrs, pages"))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 truncated"])
def test_a_file_that_is_no_stream_is_refused(tmp_path, content):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    raises(StreamError, read_stream, path, mentions=(path, "insns, insn_addr, page_addrs, pages, tokens", "truncated"))


def test_a_truncated_or_bare_array_file_is_refused(tmp_path):
    path = tmp_path / "stream.npz"
    np.savez(path, **raw(load_config("tiny"), [Finish()], [0], np.zeros((1, 4096), np.uint8)))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(StreamError):
        read_stream(path)
    bare = tmp_path / "bare.npy"
    np.save(bare, np.zeros(3))
    with pytest.raises(StreamError):
        read_stream(bare)


def test_a_missing_file_is_refused(tmp_path):
    path = tmp_path / "missing.npz"
    raises(StreamError, read_stream, path, mentions=(path, "No such file or directory"))


def test_random_tokens_end_with_the_expected_counts():
    rng = random.Random(3)
    cfg = load_config("tiny")
    instructions, addresses, pages = legal_stream(rng, cfg, 30)
    instructions, left = with_tokens(rng, [*instructions, Finish()], (2, 0, 1, 0))
    result = replay(cfg, raw(cfg, instructions, addresses, pages, tokens=(2, 0, 1, 0)))
    assert result.tokens == left
