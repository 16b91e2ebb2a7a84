"""Raw streams: those of VTA's compiler where they are, and streams made here; launches that follow each other."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
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
    """The stream with tokens that make each instruction wait for the one before, with a FINISH at its end.

    Load and store are no neighbours, so a LOAD of nothing in compute passes the token on between them.
    """
    nothing = Load(MemoryType.UOP, 0, 0, 0, 0, 0)
    chain = []
    for instruction in [*instructions, Finish()]:
        if chain and abs(unit_of(chain[-1]) - unit_of(instruction)) == 2:
            chain.append(nothing)
        chain.append(instruction)
    for place in range(1, len(chain)):
        step = unit_of(chain[place]) - unit_of(chain[place - 1])
        if step:
            push, pop = ("push_next", "pop_prev") if step > 0 else ("push_prev", "pop_next")
            chain[place - 1] = replace(chain[place - 1], **{push: True})
            chain[place] = replace(chain[place], **{pop: True})
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
def test_streams_ordered_by_tokens_leave_the_memory_of_the_plain_meaning(seed):
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
    """LOAD acc8 and STORE of one element from element `source` to `target`: with its tokens, a copy."""
    return [
        Load(MemoryType.ACC8, 0, source, 1, 1, 1, push_next=True, **tokens),
        Store(sram_base=0, dram_base=target, y_size=1, x_size=1, x_stride=1, pop_prev=True, push_prev=True),
    ]


def test_tokens_order_instructions_against_the_order_of_the_stream():
    cfg = load_config("vta")
    # The store stands first in the stream, but its token comes from the load behind it.
    load, store = copy(0, 256)
    pages = np.arange(4096, dtype=np.uint8).reshape(1, 4096)
    result = replay(cfg, raw(cfg, [store, load, Finish()], [0], pages))
    assert result.pages[1][:16].tolist() == list(range(16))
    assert result.tokens == (0, 0, 0, 1)


def test_launches_follow_each_other_with_tokens_carried_over(tmp_path):
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


def test_replay_gives_no_trace_when_none_is_asked_for():
    cfg = load_config("tiny")
    assert replay(cfg, raw(cfg, [Finish()]), trace=False).trace is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("insns", np.zeros((3, 15), np.uint8),
            "insns of the stream must have shape (N, 16) and dtype uint8, not (3, 15) and uint8. Convert the array."),
        ("pages", np.zeros((1, 4096)),
            "pages of the stream must have shape (N, 4096) and dtype uint8, not (1, 4096) and float64. Convert the "
            "array."),
        ("insn_addr", np.uint64(8),
            "insn_addr of the stream must be a multiple of 16, not 0x8. Instructions lie at multiples of their size."),
        ("page_addrs", np.zeros(2, np.uint64),
            "page_addrs of the stream must be integers of shape (1,), not uint64 of shape (2,). Convert the array."),
        ("page_addrs", np.array([100], np.uint64),
            "page_addrs of the stream must be multiples of 4096, not 0x64. Correct the addresses."),
        ("page_addrs", np.array([-4096]),
            "page_addrs of the stream must be at least 0, not -4096. Correct the number."),
        ("tokens", np.array([0, 0, 0, 70000]),
            "tokens of the stream must be at most 65535, not 70000. A counter has 16 bits."),
        ("tokens", np.zeros(4),
            "tokens of the stream must be integers of shape (4,), not float64 of shape (4,). Convert the array."),
    ],
)  # fmt: skip
def test_a_stream_with_a_wrong_part_is_refused_by_name(key, value, message):
    cfg = load_config("tiny")
    stream = raw(cfg, [Finish()], [0], np.zeros((1, 4096), np.uint8)) | {key: value}
    with pytest.raises(StreamError) as caught:
        replay(cfg, stream)
    assert str(caught.value) == message


def test_a_page_that_is_given_twice_is_refused():
    cfg = load_config("tiny")
    stream = raw(cfg, [Finish()], [4096, 4096], np.zeros((2, 4096), np.uint8))
    with pytest.raises(StreamError) as caught:
        replay(cfg, stream)
    assert str(caught.value) == "page_addrs of the stream must be distinct, and are not. Give each page once."


def test_a_stream_without_one_of_its_parts_is_refused():
    stream = raw(load_config("tiny"), [Finish()])
    del stream["tokens"]
    with pytest.raises(StreamError) as caught:
        read_stream(stream)
    assert str(caught.value) == (
        "The keys of the stream must include tokens, not only insn_addr, insns, page_addrs, pages. Add the array."
    )


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 truncated"])
def test_a_file_that_is_no_stream_is_refused(tmp_path, content):
    path = tmp_path / "foreign.npz"
    path.write_bytes(content)
    with pytest.raises(StreamError) as caught:
        read_stream(path)
    assert str(caught.value) == (
        f"The stream file {str(path)!r} must be an .npz archive with insns, insn_addr, page_addrs, pages, tokens, "
        "not a file of another kind or a truncated one. Make it with numpy.savez."
    )


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
    with pytest.raises(StreamError) as caught:
        read_stream(path)
    assert str(caught.value) == (
        f"The stream file {str(path)!r} must be readable, and is not: No such file or directory. Correct the path."
    )


def test_random_tokens_carry_on_to_the_counts_that_the_stream_leaves():
    rng = random.Random(3)
    cfg = load_config("tiny")
    instructions, addresses, pages = legal_stream(rng, cfg, 30)
    instructions, left = with_tokens(rng, [*instructions, Finish()], (2, 0, 1, 0))
    result = replay(cfg, raw(cfg, instructions, addresses, pages, tokens=(2, 0, 1, 0)))
    assert result.tokens == left
