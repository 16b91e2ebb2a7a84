"""Executes instructions on scratchpads and DRAM, in a given order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lathe.configs import HardwareConfig
from lathe.configs.blas_threads import one_blas_thread
from lathe.isa import Instruction, MachineFault, Opcode
from lathe.isa.instructions import describe_instruction
from lathe.isa.table import TABLE, Kind, Row
from lathe.sim.dma import Dma
from lathe.sim.dram import Dram
from lathe.sim.gemm import GemmExecutor
from lathe.sim.levelized_uops import LevelizedExecutor
from lathe.sim.micro_ops import Addresses
from lathe.sim.scratchpads import Memories, Scratchpads
from lathe.sim.uop_plan_cache import IndexFault

# Cycles from an instruction's start to the check of its first micro-op's indices (docs/rtl.md, "Compute pipeline").
INDEX_STAGE = 4

InstructionExecutor = Callable[[Any, Callable[[], str]], Sequence[Addresses]]
"""Executes an instruction, which the function argument names; returns the scratchpad vectors that it writes."""


def by_opcode(cfg: HardwareConfig, memories: Memories, dram: Dram) -> Mapping[Opcode, InstructionExecutor]:
    """The executor of each instruction on memories, of one machine or of samples, from its row in the table."""
    dma, in_levels = Dma(cfg, memories, dram), LevelizedExecutor(cfg, memories)
    faster: Mapping[Opcode, InstructionExecutor] = {Opcode.GEMM: GemmExecutor(cfg, memories).run}

    def of(row: Row) -> InstructionExecutor:
        if row.kind is Kind.ISSUE:
            return faster.get(row.opcode, in_levels.run)
        if row.kind is Kind.TRANSFER:
            return dma.store if row.stores else dma.load
        return lambda _instruction, _where: ()

    return {opcode: of(row) for opcode, row in TABLE.items()}


def execute(
    cfg: HardwareConfig,
    stream: Sequence[Instruction],
    order: Iterable[int],
    pads: Scratchpads,
    dram: Dram,
    *,
    starts: Sequence[int] | None = None,
) -> None:
    """Execute the instructions of a stream in `order`, a sequence of their indices.

    The tokens must allow this order. Raises :class:`~lathe.isa.MachineFault` for an index out of range, with its cycle
    if `starts` has the cycles in which instructions start; the ranges of LOAD and STORE, and of micro-ops, must have
    been checked.
    """
    executors = by_opcode(cfg, pads, dram)
    with one_blas_thread():
        for index in order:
            instruction = stream[index]

            def where(index: int = index, instruction: Instruction = instruction) -> str:
                return describe_instruction(index, instruction)

            try:
                executors[instruction.opcode](instruction, where)
            except IndexFault as fault:
                cycle = None if starts is None else starts[index] + INDEX_STAGE + fault.step
                raise MachineFault(str(fault), fault.code, instruction=index, cycle=cycle) from None
