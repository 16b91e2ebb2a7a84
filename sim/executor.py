"""Carries out instructions on scratchpads and DRAM, in an order that somebody else has found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lathe.configs import HardwareConfig
from lathe.configs.blas_threads import one_blas_thread
from lathe.isa import Instruction, MachineFault, Opcode
from lathe.isa.instructions import place
from lathe.isa.table import TABLE, Kind, Row
from lathe.sim.dma import Dma
from lathe.sim.dram import Dram
from lathe.sim.gemm import Products
from lathe.sim.levelized_uops import InLevels
from lathe.sim.micro_ops import Places
from lathe.sim.scratchpads import Memories, Scratchpads
from lathe.sim.uop_plan_cache import IndexFault

# Cycles from an instruction's start to the check of its first micro-op's indices (docs/rtl.md, "Compute pipeline").
INDEX_STAGE = 4

CarriedOut = Callable[[Any, Callable[[], str]], Sequence[Places]]
"""Carries out an instruction, which a function names; the elements of the scratchpad that it writes."""


def by_opcode(cfg: HardwareConfig, memories: Memories, dram: Dram) -> Mapping[Opcode, CarriedOut]:
    """What carries out each instruction on memories, of one machine or of samples, as its row in the table says."""
    dma, in_levels = Dma(cfg, memories, dram), InLevels(cfg, memories)
    faster: Mapping[Opcode, CarriedOut] = {Opcode.GEMM: Products(cfg, memories).run}

    def of(row: Row) -> CarriedOut:
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
    """Carry out the instructions of a stream in `order`, their places in it.

    The order must be one in which tokens allow them to start. Raises :class:`~lathe.isa.MachineFault` for an index out
    of range, with its cycle when `starts` has the cycles in which instructions start; the ranges of LOAD and STORE, and
    of micro-ops, have been checked.
    """
    carried_out = by_opcode(cfg, pads, dram)
    with one_blas_thread():
        for index in order:
            instruction = stream[index]

            def where(index: int = index, instruction: Instruction = instruction) -> str:
                return place(index, instruction)

            try:
                carried_out[instruction.opcode](instruction, where)
            except IndexFault as fault:
                cycle = None if starts is None else starts[index] + INDEX_STAGE + fault.step
                raise MachineFault(str(fault), fault.code, instruction=index, cycle=cycle) from None
