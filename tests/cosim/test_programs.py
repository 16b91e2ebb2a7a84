"""Compiled programs on the RTL: outputs, final memory and every cycle equal the simulator's."""

import numpy as np
import pytest
from comparison import data_differences, time_differences
from random_programs import random_inputs

import lathe as lt
from lathe.configs.memory import PAGE_BYTES
from lathe.frontend.operators import conv2d
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.engines import pysim, verilator
from lathe.rtl.engines.launch import Launch
from lathe.sim import simulate_program
from lathe.sim.replay import replay
from lathe.sim.simulate import memory_of


def pages_of(program, inputs):
    """The DRAM before the launch."""
    content = memory_of(program, inputs).content
    whole = np.zeros(-(-len(content) // PAGE_BYTES) * PAGE_BYTES, np.uint8)
    whole[: len(content)] = content
    pages = whole.reshape(-1, PAGE_BYTES)
    return np.arange(len(pages), dtype=np.uint64) * PAGE_BYTES, pages


def differences(program, inputs, run):
    """The differences between RTL and simulator on a program."""
    expected = simulate_program(program, inputs)
    addresses, pages = pages_of(program, inputs)
    raw = {"insns": program.encoded, "insn_addr": program.insn_addr, "page_addrs": addresses, "pages": pages}
    after = replay(program.config, raw | {"tokens": np.array(program.tokens_in)}, trace=False)
    launch = Launch(
        program.insn_addr,
        len(program.instructions),
        PagedMemory.of(addresses, pages),
        program.tokens_in,
        memory_end=pages.size,
        most_cycles=expected.cycles + 1000,
    )
    (outcome,) = run(program.config, launch)
    found = time_differences(program.instructions, expected, outcome)
    found += data_differences(dict(zip(after.page_addrs.tolist(), after.pages, strict=True)), outcome.memory.pages)
    for segment in program.outputs:
        content = outcome.memory.read(segment.address, segment.layout.nbytes)
        physical = content.view(segment.layout.physical_dtype).reshape(segment.layout.physical_shape)
        if not np.array_equal(segment.layout.unpack(physical), expected.outputs[segment.name]):
            found.append(f"output {segment.name}")
    return found


def matmul(config, m, n, k):
    A = lt.placeholder((m, k), "int8", name="A")
    B = lt.placeholder((n, k), "int8", name="B")
    r = lt.reduce_axis((0, k), name="k")
    C = lt.compute((m, n), lambda i, j: lt.sum(A[i, r].astype("int32") * B[j, r].astype("int32"), axis=r), name="C")
    return lt.build(C, [A, B, C], config), random_inputs([C], seed=5)


def convolution(config, size, channels, filters):
    data = lt.placeholder((1, size, size, channels), "int8", name="data")
    kernel = lt.placeholder((filters, 3, 3, channels), "int8", name="kernel")
    C = conv2d(data, kernel, padding=1, name="C")
    return lt.build(C, [data, kernel, C], config), random_inputs([C], seed=5)


def test_a_matmul_in_pysim():
    assert differences(*matmul(lt.load_config("tiny"), 6, 8, 8), pysim.run) == []


@pytest.mark.slow
def test_a_convolution_in_pysim():
    assert differences(*convolution(lt.load_config("tiny"), 4, 4, 8), pysim.run) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "vta", "wide", "batch4"])
def test_programs_on_verilated_machines(name):
    config = lt.load_config(name)
    block = config.block_out
    assert differences(*matmul(config, 3 * config.batch, 2 * block, 5 * config.block_in), verilator.run) == []
    assert differences(*matmul(config, 37, 29, 41), verilator.run) == []
    assert differences(*convolution(config, 10, block, block), verilator.run) == []
