"""Plans for GEMM and ALU instructions: what follows from the micro-ops, made once for each table and loop nest."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Alu, FaultCode, Gemm, decode_uops
from lathe.sim.micro_ops import Index, Nest, nest_of

# Indices that the plans of one launch may hold, 64 MB; a program with more distinct tables plans some of them again.
MOST_STORED = 1 << 23

Plan = TypeVar("Plan")


class Plans(Generic[Plan]):
    """Plans by loop nest and content of the micro-op table.

    ``make`` takes a nest with at least one execution and a function that names the instruction, and returns a plan and
    the number of indices that it holds.
    """

    def __init__(
        self,
        cfg: HardwareConfig,
        uop: NDArray[np.uint32],
        make: Callable[[Nest, Callable[[], str]], tuple[Plan, int]],
    ) -> None:
        self.cfg = cfg
        self.uop = uop
        self.make = make
        self.plans: dict[tuple[object, ...], Plan] = {}
        self.stored = 0

    def of(self, instruction: Gemm | Alu, where: Callable[[], str]) -> Plan | None:
        """The plan of an instruction, None when it executes no micro-op; `where` names it in a fault."""
        if not instruction.iter_out or not instruction.iter_in or instruction.uop_end <= instruction.uop_bgn:
            return None
        assert instruction.uop_end <= len(self.uop), f"{where()} has a micro-op range that was to be refused"
        words = self.uop[instruction.uop_bgn : instruction.uop_end]
        key = (
            words.tobytes(),
            instruction.iter_out,
            instruction.iter_in,
            instruction.dst_factor_out,
            instruction.dst_factor_in,
            instruction.src_factor_out,
            instruction.src_factor_in,
            *(
                (instruction.wgt_factor_out, instruction.wgt_factor_in)
                if isinstance(instruction, Gemm)
                else (instruction.use_imm,)
            ),
        )
        found = self.plans.get(key)
        if found is None:
            dst, src, wgt = decode_uops(self.cfg, words.reshape(-1))
            found, stored = self.make(nest_of(instruction, dst, src, wgt), where)
            self.stored += stored
            if self.stored > MOST_STORED:
                self.plans.clear()
                self.stored = stored
            self.plans[key] = found
        return found


class IndexFault(Exception):  # noqa: N818 - the field's word for it
    """An index beyond its scratchpad, met in ``step`` of the instruction, counted from 0."""

    def __init__(self, message: str, code: FaultCode, step: int) -> None:
        super().__init__(message)
        self.code = code
        self.step = step


class Operand(NamedTuple):
    """Indices of a nest that must lie below ``depth``; ``phase`` is the step of a micro-op in which they are looked at.

    ``name`` is told in the :class:`IndexFault` with ``code``.
    """

    name: str
    indices: Index
    depth: int
    code: FaultCode
    phase: int = 0


def require_in_range(nest: Nest, operands: Sequence[Operand], where: Callable[[], str], steps: int = 1) -> None:
    """Raise an :class:`IndexFault` for the first index beyond its scratchpad, of micro-ops of `steps` steps each.

    Of several in one step that of the first operand is told, as the hardware does it.
    """
    beyond = [each for each in operands if each.indices.highest(nest.iter_out, nest.iter_in) >= each.depth]
    if not beyond:
        return
    step, _, operand = min(
        (each.indices.first_from(each.depth, nest.iter_in) * steps + each.phase, place, each)
        for place, each in enumerate(beyond)
    )
    highest = operand.indices.highest(nest.iter_out, nest.iter_in)
    message = f"{operand.name} of {where()} must be below {operand.depth}, not {highest}. The scratchpad ends there."
    raise IndexFault(message, operand.code, step)
