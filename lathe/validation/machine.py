"""The machine on many samples at once: what each instruction does to memories, and who wrote each cell last.

GEMM runs by the simulator's plans and ALU by the instruction set's arithmetic; LOAD and STORE are written once more,
for every memory has one more dimension here, that of the samples. Nothing takes time. Cells that nobody has written
hold random values, others in each sample.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from lathe.isa import Alu, Finish, Gemm, Instruction, Load, MemoryType, Program, Store
from lathe.isa.arithmetic import alu
from lathe.isa.table import MEMORIES
from lathe.sim.alu import Elementwise
from lathe.sim.contraction import Contraction
from lathe.sim.gemm import Products
from lathe.sim.scratchpads import Scratchpads

Ints = NDArray[np.int64]
Places = slice | Ints

VALUES_AT_ONCE = 1 << 22
"""Values of the largest operand of a matrix product that are gathered at once."""


_DTYPES = {MemoryType.UOP: "<u4", MemoryType.ACC: "<i4"}
"""How DRAM holds the values of memory types, where not as int8."""


@dataclass(frozen=True)
class Written:
    """Elements of a scratchpad, or bytes of DRAM ("dram"), that an instruction has written."""

    memory: str
    places: Places


class SampledMachine:
    """``inp`` and ``wgt`` are float32, ``acc`` int32, each (samples, depth, lanes); ``dram`` uint8 (samples, bytes).

    ``writers`` gives for each element of each memory (bytes of DRAM) the number of the instruction that
    wrote it last, -1 for none.
    """

    def __init__(self, program: Program, samples: int, seed: int) -> None:
        config = self.config = program.config
        random = np.random.default_rng(seed)
        self.samples = samples
        self.pads = Scratchpads(config)
        self.products = Products(config, self.pads)
        self.elementwise = Elementwise(config, self.pads)
        lanes = {"inp": config.batch * config.block_in, "wgt": config.block_out * config.block_in}
        self.inp, self.wgt = (
            random.integers(-128, 128, (samples, depth, lanes[name]), np.int8).astype(np.float32)
            for name, depth in (("inp", config.inp_depth), ("wgt", config.wgt_depth))
        )
        shape = (samples, *self.pads.acc.shape)
        self.acc = random.integers(-(1 << 31), 1 << 31, shape, np.int32)
        size = -(-program.memory_end // config.bus_bytes) * config.bus_bytes
        self.dram = random.integers(0, 256, (samples, size), np.uint8)
        self.writers = {
            "inp": np.full(self.inp.shape[1], -1, np.int64),
            "wgt": np.full(self.wgt.shape[1], -1, np.int64),
            "acc": np.full(self.acc.shape[1], -1, np.int64),
            "dram": np.full(size, -1, np.int64),
        }

    def cells(self, memory: str) -> NDArray[np.float32] | NDArray[np.int32]:
        """A scratchpad."""
        found: NDArray[np.float32] | NDArray[np.int32] = getattr(self, memory)
        return found

    def put(self, address: int, content: NDArray[np.uint8]) -> None:
        """Put bytes into DRAM: (samples, bytes), or (1, bytes) for all samples."""
        self.dram[:, address : address + content.shape[1]] = content

    def run(self, number: int, instruction: Instruction) -> list[Written]:
        """Carry out an instruction of the stream; what it has written."""

        def where() -> str:
            return f"instruction {number}"

        written: list[Written] = []
        match instruction:
            case Gemm():
                written = self._gemm(instruction, where)
            case Alu():
                written = self._alu(instruction, where)
            case Load():
                written = self._load(instruction)
            case Store():
                written = self._store(instruction)
            case Finish():
                pass
            case _:
                assert_never(instruction)
        for each in written:
            self.writers[each.memory][each.places] = number
        return written

    def _gemm(self, gemm: Gemm, where: Callable[[], str]) -> list[Written]:
        if gemm.reset:
            targets = self.products.resets.of(gemm, where)
            if targets is None:
                return []
            self.acc[:, targets] = 0
            return [Written("acc", targets)]
        plans = self.products.begins if gemm.begin else self.products.plans
        found = plans.of(gemm, where) or []
        for contraction in found:
            self._add(contraction, begins=gemm.begin)
        return [Written("acc", each.dst) for each in found]

    def _add(self, contraction: Contraction, *, begins: bool) -> None:
        """Add a contraction's products to the accumulators, or write them, with as many samples as memory allows."""
        config = self.config
        batch, block_in, block_out = config.batch, config.block_in, config.block_out
        batches, rows, columns, terms = contraction.shape
        most = max(
            len(contraction.src) * batch * block_in, len(contraction.wgt) * block_out * block_in,
            batches * rows * columns * batch * block_out,
        )  # fmt: skip
        step = max(1, VALUES_AT_ONCE // most)
        for first in range(0, self.samples, step):
            part = slice(first, min(first + step, self.samples))
            count = part.stop - first
            left = self.inp[part][:, contraction.src].reshape(count * batches, rows, terms, batch, block_in)
            left = left.transpose(0, 1, 3, 2, 4).reshape(count * batches, rows * batch, -1)
            right = self.wgt[part][:, contraction.wgt].reshape(count * batches, columns, terms, block_out, block_in)
            right = right.transpose(0, 1, 3, 2, 4).reshape(count * batches, columns * block_out, -1)
            if self.products.dtype is np.float64:
                left, right = left.astype(np.float64), right.astype(np.float64)
            product = np.matmul(left, right.transpose(0, 2, 1)).astype(np.int32)
            sums = product.reshape(count, batches, rows, batch, columns, block_out).transpose(0, 1, 2, 4, 3, 5)
            added = sums.reshape(count, batches * rows * columns, -1)
            if contraction.sums is not None:
                ordered = added[:, contraction.sums.order]
                added = np.add.reduceat(ordered, contraction.sums.starts, axis=1, dtype=np.int32)
            self.acc[part, contraction.dst] = added if begins else self.acc[part, contraction.dst] + added

    def _alu(self, instruction: Alu, where: Callable[[], str]) -> list[Written]:
        plans = self.elementwise.with_immediate if instruction.use_imm else self.elementwise.with_tensor
        steps = plans.of(instruction, where) or []
        for step in steps:
            operand = instruction.imm if instruction.use_imm else self.acc[:, step.src]
            self.acc[:, step.dst] = alu(instruction.alu_opcode, self.acc[:, step.dst], operand)
        return [Written("acc", step.dst) for step in steps]

    def _load(self, load: Load) -> list[Written]:
        y, x, top, left = load.y_size, load.x_size, load.y_pad_0, load.x_pad_0
        if not x:
            return []
        memory = MEMORIES[load.memory_type]
        size = memory.element_bytes(self.config)
        width, height = left + x + load.x_pad_1, top + y + load.y_pad_1
        if not height:
            return []
        micro_ops = load.memory_type == MemoryType.UOP
        cells = self.pads.uop[None] if micro_ops else self.cells(memory.scratchpad)
        samples = len(cells)  # of micro-ops one, since these are the same in all
        block = np.full((samples, height, width, cells.shape[2]), load.padding, cells.dtype)
        if y:
            rows = self._rows(load.dram_base * size, y, x * size, load.x_stride * size)[:samples]
            values = np.ascontiguousarray(rows).view(_DTYPES.get(load.memory_type, "i1"))
            block[:, top : top + y, left : left + x] = values.reshape(samples, y, x, -1)
        places = slice(load.sram_base, load.sram_base + width * height)
        cells[:, places] = block.reshape(samples, width * height, -1)
        return [] if micro_ops else [Written(memory.scratchpad, places)]

    def _store(self, store: Store) -> list[Written]:
        y, x = store.y_size, store.x_size
        if not y or not x:
            return []
        size = self.config.out_element_bytes
        content = self.acc[:, store.sram_base : store.sram_base + y * x].astype(np.int8).view(np.uint8)
        content = content.reshape(self.samples, y, x * size)
        stride, first = store.x_stride * size, store.dram_base * size
        for row in range(y):
            start = first + row * stride
            self.dram[:, start : start + x * size] = content[:, row]
        places = (first + np.arange(y)[:, None] * stride + np.arange(x * size)).reshape(-1)
        return [Written("dram", places)]

    def _rows(self, address: int, rows: int, row_bytes: int, stride: int) -> NDArray[np.uint8]:
        """Rows of bytes, (samples, rows, row_bytes); a view."""
        end = address + (rows - 1) * stride + row_bytes
        assert end <= self.dram.shape[1], f"an access ends at byte {end:#x}, beyond the memory"
        view: NDArray[np.uint8] = as_strided(
            self.dram[:, address:], (self.samples, rows, row_bytes), (self.dram.strides[0], stride, 1)
        )
        return view
