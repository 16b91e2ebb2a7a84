"""Functional simulation of a stream on many random samples at once, with the last writer of each memory cell.

Instructions are executed by the simulator's code on memories with the samples as an extra leading dimension, without
timing. Memories start with random values, different in each sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from lathe.isa import Instruction, Program
from lathe.isa.instructions import TransferInstruction, is_transfer, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.isa.table import MEMORIES, TABLE
from lathe.sim.dram import write
from lathe.sim.executor import by_opcode
from lathe.sim.micro_ops import Addresses

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Written:
    """Vectors of a scratchpad, or bytes of DRAM ("dram"), that an instruction has written.

    ``content`` (samples, vectors, lanes): a copy of what was written, if it may be overwritten before it is checked.
    """

    memory: str
    addresses: Addresses
    content: NDArray[np.generic] | None = None


class SampledDram:
    """DRAM whose bytes are ``content`` (samples, bytes)."""

    def __init__(self, content: Bytes) -> None:
        self.content = content

    def read_rows(self, address: int, rows: int, row_bytes: int, stride: int) -> Bytes:
        """Rows of bytes, (rows, samples, row_bytes); a view."""
        end = address + (rows - 1) * stride + row_bytes
        samples, size = self.content.shape
        assert end <= size, f"an access ends at byte {end:#x}, beyond the memory"
        view: Bytes = as_strided(
            self.content[:, address:], (rows, samples, row_bytes), (stride, self.content.strides[0], 1)
        )
        return view

    def write_rows(self, address: int, stride: int, content: Bytes) -> None:
        """Write rows (rows, samples, row_bytes), in order: the last of overlapping rows wins."""
        rows, _, row_bytes = content.shape
        write(self.read_rows(address, rows, row_bytes, stride), content, stride)


class SampledMachine:
    """The memories of a machine on many samples, and the execution of instructions on them.

    ``inp`` and ``wgt`` are float32, ``acc`` and ``par`` int32, ``lut`` int8, each (samples, depth, lanes); ``dram``
    uint8 (samples, bytes). ``writers``: for each vector, or byte of DRAM, the number of its last writer, -1 for none.
    """

    def __init__(self, program: Program, samples: int, seed: int) -> None:
        config = self.config = program.config
        random = np.random.default_rng(seed)
        self.samples = samples
        lanes = {"inp": config.batch * config.block_in, "wgt": config.block_out * config.block_in}
        self.uop = np.zeros((config.uop_depth, 1), np.uint32)
        self.inp, self.wgt = (
            random.integers(-128, 128, (samples, depth, lanes[name]), np.int8).astype(np.float32)
            for name, depth in (("inp", config.inp_depth), ("wgt", config.wgt_depth))
        )
        shape = (samples, config.acc_depth, config.batch * config.block_out)
        self.acc = random.integers(-(1 << 31), 1 << 31, shape, np.int32)
        shape = (samples, config.par_depth, config.block_out * 2)
        self.par = random.integers(-(1 << 31), 1 << 31, shape, np.int32)
        self.lut = random.integers(-128, 128, (samples, config.lut_depth, config.block_out), np.int8)
        size = -(-program.memory_end // config.bus_bytes) * config.bus_bytes
        self.dram = random.integers(0, 256, (samples, size), np.uint8)
        self.writers = {
            **{
                name: np.full(cells.shape[1], -1, np.int64)
                for name, cells in (
                    *(("inp", self.inp), ("wgt", self.wgt), ("acc", self.acc)),
                    *(("par", self.par), ("lut", self.lut)),
                )
            },
            "dram": np.full(size, -1, np.int64),
        }
        self.execute = by_opcode(config, self, SampledDram(self.dram))

    def cells(self, memory: str) -> NDArray[np.float32] | NDArray[np.int32] | NDArray[np.int8]:
        """The content of a scratchpad, (samples, depth, lanes)."""
        content: NDArray[np.float32] | NDArray[np.int32] | NDArray[np.int8] = getattr(self, memory)
        return content

    def put(self, address: int, content: NDArray[np.uint8]) -> None:
        """Put bytes into DRAM: (samples, bytes), or (1, bytes) for all samples."""
        self.dram[:, address : address + content.shape[1]] = content

    def run(self, number: int, instruction: Instruction) -> list[Written]:
        """Execute an instruction of the stream; returns what it has written."""

        def where() -> str:
            return f"instruction {number}"

        ranges = self.execute[instruction.opcode](instruction, where)
        memory = _written_memory(instruction)
        written = [Written(memory, each) for each in ranges if memory in self.writers]
        if is_transfer(instruction) and TABLE[instruction.opcode].stores:
            written = [Written("dram", self._stored(instruction))]
        for each in written:
            self.writers[each.memory][each.addresses] = number
        return written

    def _stored(self, store: TransferInstruction) -> Addresses:
        """The bytes of DRAM that a STORE writes."""
        size = self.config.out_element_bytes
        rows = store.dram_base * size + np.arange(store.y_size)[:, None] * (store.x_stride * size)
        return (rows + np.arange(store.x_size * size)).reshape(-1)


def _written_memory(instruction: Instruction) -> str:
    """The scratchpad that an instruction writes; "" if it writes none."""
    if runs_micro_ops(instruction):
        return usage_of(instruction).written.scratchpad
    return MEMORIES[instruction.memory_type].scratchpad if is_transfer(instruction) else ""
