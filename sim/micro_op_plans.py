"""Plans for GEMM and ALU instructions: what follows from the micro-ops, made once for each table and loop nest."""

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Alu, Gemm, MachineFault, decode_uops
from lathe.sim.micro_ops import Nest, nest_of

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
        require_below(instruction.uop_end - 1, len(self.uop), "micro-op", where)
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


def require_below(index: int, depth: int, what: str, where: Callable[[], str]) -> None:
    """Raise a :class:`MachineFault` for an index beyond its scratchpad."""
    if index >= depth:
        raise MachineFault(f"{what} of {where()} must be below {depth}, not {index}. The scratchpad ends there.")
