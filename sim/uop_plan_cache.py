"""Plans for instructions that run micro-ops: what follows from these, made once for each table and loop nest.

Plans are kept between launches: a program mostly runs more than once, on other data.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import FaultCode, decode_uops
from lathe.isa.instructions import MicroOpInstruction
from lathe.isa.operands import loops_of, trailing_steps, usage_of
from lathe.isa.raw_hazards import first_reuse
from lathe.sim.micro_ops import Nest, nest_of

# Indices that all plans may hold, 64 MB; a program with more distinct tables plans some of them again.
MOST_STORED = 1 << 23

Plan = TypeVar("Plan")


@dataclass
class PlanCache:
    """All plans that are kept, by what they follow from, and how many indices they hold."""

    plans: dict[Hashable, dict[tuple[object, ...], Any]] = field(default_factory=dict)
    stored: int = 0

    def of(self, key: Hashable) -> dict[tuple[object, ...], Any]:
        """The plans of one machine and one kind."""
        return self.plans.setdefault(key, {})

    def add(self, stored: int) -> None:
        """So many indices come; where they are too many with all others, these are given up."""
        self.stored += stored
        if self.stored > MOST_STORED:
            for plans in self.plans.values():
                plans.clear()  # who has one of these goes on with it
            self.stored = stored


_KEPT = PlanCache()


class Plans(Generic[Plan]):
    """Plans by loop nest and content of the micro-op table.

    ``make`` takes an instruction, its nest with at least one execution and a function that names the instruction, and
    returns a plan and the number of indices that it holds. Of the instruction it asks what ``usage_of`` tells; all else
    follows from the machine, its own name and ``of_samples``, not from what memories hold.
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
        self.plans: dict[tuple[object, ...], Plan] = _KEPT.of((cfg, make.__qualname__, of_samples))

    def of(self, instruction: MicroOpInstruction, where: Callable[[], str]) -> Plan | None:
        """The plan of an instruction, None when it executes no micro-op; `where` names it in a fault."""
        if not instruction.iter_out or not instruction.iter_in or instruction.uop_end <= instruction.uop_bgn:
            return None
        assert instruction.uop_end <= len(self.uop), f"{where()} has a micro-op range that was to be refused"
        words = self.uop[instruction.uop_bgn : instruction.uop_end]
        key = (words.tobytes(), loops_of(instruction))
        found = self.plans.get(key)
        if found is None:
            dst, src, wgt = decode_uops(self.cfg, words.reshape(-1))
            found, stored = self.make(instruction, nest_of(instruction, dst, src, wgt), where)
            _KEPT.add(stored)
            self.plans[key] = found
        return found


class IndexFault(Exception):  # noqa: N818 - the field's word for it
    """An index that a machine stops at, met in ``step`` of the instruction, counted from 0."""

    def __init__(self, message: str, code: FaultCode, step: int) -> None:
        super().__init__(message)
        self.code = code
        self.step = step


def require_steps(cfg: HardwareConfig, instruction: MicroOpInstruction, nest: Nest, where: Callable[[], str]) -> None:
    """Raise an :class:`IndexFault` for the first index that is beyond its scratchpad, or read before it is there.

    A micro-op looks at an operand in each of its steps, and at all that remain in the last. Of several in one step that
    of the first operand is told, as the hardware does it, and one that is beyond before all that are not.
    """
    found: tuple[int, int] | None = None
    usage = usage_of(instruction)
    steps = usage.steps
    for place, operand in enumerate(usage.used):
        index, depth = nest.of(operand.index), operand.depth(cfg)
        if index.highest(nest.iter_out, nest.iter_in) >= depth:
            step = index.first_from(depth, nest.iter_in) * steps + min(place, steps - 1)
            found = min(found or (step, place), (step, place))
    starts = {operand.index: nest.of(operand.index).table for operand in usage.used}
    reuse = first_reuse(cfg, instruction, starts)
    if reuse is not None and (found is None or reuse.step < found[0]):
        message = reuse.operand.reuse_message(trailing_steps(cfg, instruction.opcode), where(), reuse.index)
        raise IndexFault(message, FaultCode.ACC_REUSE, reuse.step)
    if found is None:
        return
    step, place = found
    operand = usage.used[place]
    highest = nest.of(operand.index).highest(nest.iter_out, nest.iter_in)
    raise IndexFault(operand.message(cfg, where(), highest), operand.code, step)
