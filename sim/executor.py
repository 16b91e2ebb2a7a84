"""Carries out instructions on scratchpads and DRAM, in an order that somebody else has found."""

from collections.abc import Iterable, Sequence

from lathe.configs import HardwareConfig
from lathe.isa import Alu, Gemm, Instruction, Load, Store
from lathe.sim.alu import Elementwise
from lathe.sim.blas import one_blas_thread
from lathe.sim.dma import Dma
from lathe.sim.dram import Dram
from lathe.sim.fault import place
from lathe.sim.gemm import Products
from lathe.sim.scratchpads import Scratchpads


def execute(
    cfg: HardwareConfig, stream: Sequence[Instruction], order: Iterable[int], pads: Scratchpads, dram: Dram
) -> None:
    """Carry out the instructions of a stream in `order`, their places in it.

    The order must be one in which tokens allow them to start. Raises :class:`~lathe.isa.MachineFault` for an index out
    of range; the ranges of LOAD and STORE in the scratchpads have been checked.
    """
    dma, products, elementwise = Dma(cfg, pads, dram), Products(cfg, pads), Elementwise(cfg, pads)
    with one_blas_thread():
        for index in order:
            instruction = stream[index]

            def where(index: int = index, instruction: Instruction = instruction) -> str:
                return place(index, instruction)

            if isinstance(instruction, Gemm):
                products.run(instruction, where)
            elif isinstance(instruction, Alu):
                elementwise.run(instruction, where)
            elif isinstance(instruction, Load):
                dma.load(instruction, where)
            elif isinstance(instruction, Store):
                dma.store(instruction, where)
