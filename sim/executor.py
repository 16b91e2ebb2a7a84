"""Carries out instructions on scratchpads and DRAM, in an order that somebody else has found."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from lathe.configs import HardwareConfig
from lathe.isa import Alu, Finish, Gemm, Instruction, Load, MachineFault, Store
from lathe.isa.instructions import place
from lathe.sim.alu import Elementwise
from lathe.sim.blas import one_blas_thread
from lathe.sim.dma import Dma
from lathe.sim.dram import Dram
from lathe.sim.gemm import Products
from lathe.sim.micro_op_plans import IndexFault
from lathe.sim.scratchpads import Scratchpads

# Cycles from an instruction's start to the check of its first micro-op's indices (docs/rtl.md, "Compute pipeline").
INDEX_STAGE = 2


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
    dma, products, elementwise = Dma(cfg, pads, dram), Products(cfg, pads), Elementwise(cfg, pads)
    with one_blas_thread():
        for index in order:
            instruction = stream[index]

            def where(index: int = index, instruction: Instruction = instruction) -> str:
                return place(index, instruction)

            try:
                if isinstance(instruction, Gemm):
                    products.run(instruction, where)
                elif isinstance(instruction, Alu):
                    elementwise.run(instruction, where)
                elif isinstance(instruction, Load):
                    dma.load(instruction)
                elif isinstance(instruction, Store):
                    dma.store(instruction)
                elif not isinstance(instruction, Finish):
                    assert_never(instruction)
            except IndexFault as fault:
                cycle = None if starts is None else starts[index] + INDEX_STAGE + fault.step
                raise MachineFault(str(fault), fault.code, instruction=index, cycle=cycle) from None
