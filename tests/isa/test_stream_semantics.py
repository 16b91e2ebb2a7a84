"""Whole streams in the executable semantics: one written here, and those of VTA's compiler if available."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lathe.configs import HardwareConfig, load_config, shipped_configs
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, MemoryType, Store, decode, encode, encode_uops
from lathe.isa.semantics import MachineState, run
from lathe.isa.sparse_memory import PagedMemory


@dataclass
class Stream:
    """A launch: instructions, memory and tokens before, and those expected after."""

    config: HardwareConfig
    instructions: list[Instruction]
    before: PagedMemory
    tokens: list[int]
    after: PagedMemory
    after_tokens: list[int]


def _vta_stream(path: Path) -> Stream:
    stream = np.load(path)
    config = load_config("vta")
    before = PagedMemory.of(stream["page_addrs"], stream["pages"])
    after = PagedMemory.of(stream["page_addrs"], stream["pages"])
    after.pages |= PagedMemory.of(stream["after_addrs"], stream["after_pages"]).pages
    instructions = decode(config, stream["insns"])
    return Stream(config, instructions, before, stream["tokens"].tolist(), after, stream["after_tokens"].tolist())


def _own_stream(name: str) -> Stream:
    """acc = max(bias + input · weightᵀ, 0), stored in two rows with a stride; the tokens order all units."""
    config = load_config(name)
    random = np.random.default_rng(7)
    inputs = random.integers(-128, 128, (4, config.batch, config.block_in), np.int8)
    weights = random.integers(-128, 128, (1, config.block_out, config.block_in), np.int8)
    bias = random.integers(-(1 << 31), 1 << 31, (4, config.batch, config.block_out), np.int32)
    uops = encode_uops(config, dst=[0, 0], src=[0, 0], wgt=[0, 0])
    before = PagedMemory()
    bases = {}
    for page, (memory, content) in enumerate(
        [(MemoryType.INP, inputs), (MemoryType.WGT, weights), (MemoryType.ACC, bias), (MemoryType.UOP, uops)]
    ):
        address = (page + 1) * PAGE_BYTES
        before.write(address, content.reshape(-1).view(np.uint8))
        element = content.nbytes // len(content)
        bases[memory] = address // element
    out_base = 16 * PAGE_BYTES // config.out_element_bytes

    def load(memory: MemoryType, count: int, **tokens: bool) -> Load:
        return Load(memory, 0, bases[memory], 1, count, count, **tokens)

    instructions: list[Instruction] = [
        # The load unit waits for a token that compute pushes later in the stream.
        load(MemoryType.INP, 4, pop_next=True),
        load(MemoryType.WGT, 1, push_next=True),
        load(MemoryType.UOP, 2),
        load(MemoryType.ACC, 4, push_prev=True),
        Gemm(0, 1, 2, 2, 2, 1, 2, 1, 0, 0, pop_prev=True),
        Alu(AluOp.MAX, 0, 1, 1, 4, 0, 1, 0, 0, use_imm=True, imm=0, push_next=True),
        Store(sram_base=0, dram_base=out_base, y_size=2, x_size=2, x_stride=5, pop_prev=True, push_prev=True),
        Finish(),
    ]
    product = inputs.astype(np.int64) @ weights[0].astype(np.int64).T
    result = np.maximum((bias + product).astype(np.int32), 0).astype(np.int8)
    after = PagedMemory.of(list(before.pages), list(before.pages.values()))
    for row in range(2):
        address = (out_base + row * 5) * config.out_element_bytes
        after.write(address, result[2 * row : 2 * row + 2].reshape(-1).view(np.uint8))
    return Stream(config, instructions, before, [0, 0, 0, 0], after, [0, 0, 0, 1])


def _differences(actual: PagedMemory, expected: PagedMemory) -> list[str]:
    blank: NDArray[np.uint8] = np.zeros(PAGE_BYTES, np.uint8)
    return [
        hex(address)
        for address in sorted(actual.pages.keys() | expected.pages.keys())
        if not np.array_equal(actual.pages.get(address, blank), expected.pages.get(address, blank))
    ]


VTA_STREAMS = sorted((Path(__file__).parents[3] / "shared" / "vta_streams").glob("*.npz"))
STREAMS = {name: _own_stream(name) for name in shipped_configs()} | {
    path.stem: _vta_stream(path) for path in VTA_STREAMS
}


@pytest.mark.parametrize("name", STREAMS)
def test_stream_leaves_the_expected_memory_and_tokens(name: str) -> None:
    stream = STREAMS[name]
    pages = stream.before.pages
    state = MachineState(stream.config, PagedMemory.of(list(pages), list(pages.values())), tokens=list(stream.tokens))

    run(state, stream.instructions)

    assert _differences(state.dram, stream.after) == []
    assert state.tokens == stream.after_tokens


@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_the_same_after_encoding_and_decoding(name: str) -> None:
    stream = STREAMS[name]
    assert decode(stream.config, encode(stream.config, stream.instructions)) == stream.instructions


@pytest.mark.parametrize("name", [name for name, stream in STREAMS.items() if stream.config.name == "vta"])
def test_a_stream_of_vta_is_the_same_stream_of_lathe16(name: str) -> None:
    stream = STREAMS[name]
    encoded = encode(stream.config, stream.instructions)
    assert decode(load_config("lathe16"), encoded) == stream.instructions
