"""Semantics of micro-ops: for each instruction that runs them, one function of the vectors that it reads.

The function is vectorised: operands may have any number of leading dimensions, for independent micro-ops and for
samples. The oracle (:mod:`lathe.isa.semantics`) applies it to one micro-op at a time, the simulator and the validator
to as many as possible; only for GEMM the simulator also has a faster form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.isa.arithmetic import add, alu, factor_parts, scaled, shift_right_to_even
from lathe.isa.instructions import Alu, Gemm, Rescale
from lathe.isa.table import Opcode

Elements = Mapping[str, NDArray[Any]]
"""By the name of the index, the vectors that are read: (..., batch, block_out) int32 of acc, (..., batch, block_in) of
inp, (..., block_out, block_in) of wgt, integers of 8 bits or more; (..., block_out, 2) int32 of par. The vector whose
index has its lowest bit set is under the name :attr:`Operand.odd`. By the name of its field, a block of lut: (..., 256,
block_out) int8, with leading dimensions of 1 except that of the samples."""


@dataclass(frozen=True, slots=True)
class MicroOpSemantics:
    """``value`` computes what is written: int32 (..., batch, block_out), or an array that broadcasts to it.

    ``lanewise``: each lane of the result depends only on the same lane of the operands. For lanewise instructions that
    read only accumulators, the lanes may have any number of dimensions.
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


def _rescale(instruction: Rescale, of: Elements) -> NDArray[Any]:
    biases, factors = _parameters(of["wgt"])
    mantissas, shifts = factor_parts(factors)
    sums = scaled(of["dst"], biases, mantissas)
    if instruction.add:
        biases, factors = _parameters(of["wgt|1"])
        sums = sums + scaled(of["src"], biases, factor_parts(factors)[0])
    low, high = instruction.range
    values = np.minimum(np.maximum(shift_right_to_even(sums, shifts) + instruction.zero_point, low), high)
    if instruction.lookup:
        values = np.take_along_axis(of["table"], values & 255, axis=-2)
        if instruction.lookup_unsigned:
            values = values.astype(np.int32) & 255
    return np.asarray(values.astype(np.int32))


def _parameters(of: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Biases and factors of the lanes, the same for all rows of the batch: (..., 1, block_out)."""
    return of[..., None, :, 0], of[..., None, :, 1]


UOP_SEMANTICS: Mapping[Opcode, MicroOpSemantics] = MappingProxyType(
    {
        Opcode.GEMM: MicroOpSemantics(_gemm),
        Opcode.ALU: MicroOpSemantics(_alu, lanewise=True),
        Opcode.RESCALE: MicroOpSemantics(_rescale, lanewise=True),
    }
)
