"""Cache of execution plans of instructions that run micro-ops, by micro-op table and loop nest.

Plans are cached across launches: a program usually runs more than once, on other data.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import FaultCode, decode_uops
from lathe.isa.instructions import MicroOpInstruction
from lathe.isa.operands import extra_latency, loops_of, usage_of
from lathe.isa.raw_hazards import first_raw_hazard
from lathe.sim.micro_ops import Nest, nest_of

# Maximum indices that all plans hold, 64 MB; a program with more distinct tables plans some of them again.
MOST_STORED = 1 << 23

Plan = TypeVar("Plan")


@dataclass
class PlanCache:
    """All cached plans by key, and the number of indices that they hold."""

    plans: dict[Hashable, dict[tuple[object, ...], Any]] = field(default_factory=dict)
    stored: int = 0

    def of(self, key: Hashable) -> dict[tuple[object, ...], Any]:
        """The plans of one machine and one kind."""
        return self.plans.setdefault(key, {})

    def add(self, stored: int) -> None:
        """Account for `stored` new indices; if the total is too large, all other plans are evicted."""
        self.stored += stored
        if self.stored > MOST_STORED:
            for plans in self.plans.values():
                plans.clear()  # users of an evicted plan keep their reference
            self.stored = stored


_CACHE = PlanCache()


class Plans(Generic[Plan]):
    """Plans of one kind, by loop nest and content of the micro-op table.

    ``make`` takes an instruction, its nest with at least one execution and a function that names the instruction, and
    returns a plan and the number of indices that it holds. The plan may depend on the instruction's ``usage_of``, the
    machine, ``make``'s own name and ``of_samples``, but not on the contents of memories.
    """

    def __init__(
        self,
        cfg: HardwareConfig,
        uop: NDArray[np.uint32],
        make: Callable[[Any, Nest, Callable[[], str]], tuple[Plan, int]],
        *,
        of_samples: bool = False,
    ) -> None:
        self.cfg = cfg
        self.uop = uop
        self.make = make
        self.plans: dict[tuple[object, ...], Plan] = _CACHE.of((cfg, make.__qualname__, of_samples))

    def of(self, instruction: MicroOpInstruction, where: Callable[[], str]) -> Plan | None:
        """The plan of an instruction, None if it executes no micro-op; `where` names it in a fault."""
        if not instruction.iter_out or not instruction.iter_in or instruction.uop_end <= instruction.uop_bgn:
            return None
        assert instruction.uop_end <= len(self.uop), f"{where()} has a micro-op range that should have been refused"
        words = self.uop[instruction.uop_bgn : instruction.uop_end]
        key = (words.tobytes(), loops_of(instruction))
        plan = self.plans.get(key)
        if plan is None:
            dst, src, wgt = decode_uops(self.cfg, words.reshape(-1))
            plan, stored = self.make(instruction, nest_of(instruction, dst, src, wgt), where)
            _CACHE.add(stored)
            self.plans[key] = plan
        return plan


class IndexFault(Exception):  # noqa: N818 - the field's term
    """A faulting index; ``step`` is the issue cycle within the instruction, counted from 0."""

    def __init__(self, message: str, code: FaultCode, step: int) -> None:
        super().__init__(message)
        self.code = code
        self.step = step


def check_indices(cfg: HardwareConfig, instruction: MicroOpInstruction, nest: Nest, where: Callable[[], str]) -> None:
    """Raise an :class:`IndexFault` for the first index out of range, or read-after-write hazard.

    A micro-op accesses one operand in each of its issue cycles, and all remaining ones in the last. As in hardware, of
    several faults in one issue cycle that of the first operand is reported, and ranges take precedence over hazards.
    """
    first: tuple[int, int] | None = None
    usage = usage_of(instruction)
    steps = usage.issue_cycles
    for position, operand in enumerate(usage.used):
        index, depth = nest.of(operand.index), operand.depth(cfg)
        if index.highest(nest.iter_out, nest.iter_in) >= depth:
            step = index.first_from(depth, nest.iter_in) * steps + min(position, steps - 1)
            first = min(first or (step, position), (step, position))
    starts = {operand.index: nest.of(operand.index).table for operand in usage.used}
    reuse = first_raw_hazard(cfg, instruction, starts)
    if reuse is not None and (first is None or reuse.step < first[0]):
        message = reuse.operand.hazard_message(extra_latency(cfg, instruction.opcode), where(), reuse.index)
        raise IndexFault(message, FaultCode.ACC_REUSE, reuse.step)
    if first is None:
        return
    step, position = first
    operand = usage.used[position]
    highest = nest.of(operand.index).highest(nest.iter_out, nest.iter_in)
    raise IndexFault(operand.message(cfg, where(), highest), operand.code, step)
