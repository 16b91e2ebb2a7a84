"""Streams of VTA's compiler on the Verilated `vta` machine: memory, tokens and cycles equal the simulator's."""

import numpy as np
import pytest
from comparison import data_differences, time_differences

from lathe.configs import load_config
from lathe.isa import decode
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.engines import verilator
from lathe.rtl.engines.launch import Launch
from lathe.sim import replay
from lathe.sim.stream import read_stream


@pytest.mark.slow
def test_a_stream_of_vtas_compiler(vta_stream):
    cfg = load_config("vta")
    raw = read_stream(vta_stream)
    expected = replay(cfg, vta_stream)
    memory = PagedMemory.of(raw.page_addrs, raw.pages)
    memory.write(raw.insn_addr, np.ascontiguousarray(raw.insns).reshape(-1))
    launch = Launch(raw.insn_addr, len(raw.insns), memory, raw.tokens, most_cycles=expected.cycles + 1000)
    (outcome,) = verilator.run(cfg, launch)
    assert time_differences(decode(cfg, raw.insns), expected, outcome) == []
    pages = memory.pages | dict(zip(expected.page_addrs.tolist(), expected.pages, strict=True))
    assert data_differences(pages, outcome.memory.pages) == []
