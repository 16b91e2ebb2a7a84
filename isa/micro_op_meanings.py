"""What micro-ops write: for each instruction that runs them one function of the elements that it reads.

It is the meaning, and it is carried out in bulk: elements may have any number of dimensions in front, of micro-ops that
do not depend on each other and of samples. The oracle (:mod:`lathe.isa.meaning`) takes them one by one, the simulator
and the validator as many as they can; only for GEMM the simulator knows a faster form besides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.isa.arithmetic import add, alu
from lathe.isa.instructions import Alu, Gemm
from lathe.isa.table import Opcode

Elements = Mapping[str, NDArray[Any]]
"""By the name of the index, the elements that are read: (..., batch, block_out) int32 of acc, (..., batch, block_in) of
inp, (..., block_out, block_in) of wgt, integers of 8 bits or more."""


@dataclass(frozen=True, slots=True)
class MicroOpMeaning:
    """``value`` gives what is written, int32 (..., batch, block_out) or what broadcasts to it.

    ``lanewise``: every lane of it depends on the same lane of accumulators only, so that their lanes may lie in any
    number of dimensions.
    """

    value: Callable[[Any, Elements], NDArray[Any]]
    lanewise: bool = False


def _gemm(gemm: Gemm, of: Elements) -> NDArray[Any]:
    if gemm.reset:
        return np.zeros((), np.int32)
    product = of["src"].astype(np.int32) @ of["wgt"].astype(np.int32).swapaxes(-1, -2)
    return product if gemm.begin else add(of["dst"], product)


def _alu(instruction: Alu, of: Elements) -> NDArray[Any]:
    operand = instruction.imm if instruction.use_imm else of["src"]
    return alu(instruction.alu_opcode, of["dst"], operand)


MEANINGS: Mapping[Opcode, MicroOpMeaning] = MappingProxyType(
    {Opcode.GEMM: MicroOpMeaning(_gemm), Opcode.ALU: MicroOpMeaning(_alu, lanewise=True)}
)
