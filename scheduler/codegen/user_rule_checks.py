"""Checks of the instructions that user rules return: those that the machine cannot execute are refused.

Built-in rules query the machine before they emit an instruction, and need no check.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from lathe.configs import HardwareConfig
from lathe.configs.encoding import UOP_FORMAT
from lathe.isa import Finish, Instruction, decode_uops
from lathe.isa.instruction_diagnostics import refusal_of
from lathe.isa.instructions import MicroOpInstruction, loads_micro_ops, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.isa.table import TOKEN_FIELDS
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.stream.micro_op_pool import MicroOpPool


class UserRuleChecker:
    """Checks the instructions of user rules in one program, and tracks the contents of the uop scratchpad."""

    def __init__(self, config: HardwareConfig, pool: MicroOpPool) -> None:
        self.config = config
        self._pool = pool
        self._uops = np.zeros(config.uop_depth, np.uint32)
        self._legal: set[Instruction] = set()

    def follow(self, instructions: Iterable[Instruction]) -> None:
        """Track instructions that come next in the stream."""
        for each in instructions:
            if loads_micro_ops(each):
                words = self._pool.words_from(each.dram_base, each.x_size)
                self._uops[each.sram_base : each.sram_base + len(words)] = words

    def check_and_follow(self, rule: str, chunk: Chunk, instructions: Sequence[Instruction]) -> None:
        """Check instructions of a user rule, which come next in the stream, and track them.

        Raises EmitError for instructions that the machine cannot execute, and for tokens and FINISH: the build's.
        """
        for each in instructions:
            where = f"{each.opcode.name} of rule {rule!r} for chunk {chunk.describe()}"
            if not self._is_known(each):
                refusal = refusal_of(self.config, each, where)
                if refusal is not None:
                    raise EmitError(refusal, chunk.describe(), rule, refusal, kind="machine")
                refusal = _reserved_for_build(each, where)
                if refusal is not None:
                    raise EmitError(refusal, chunk.describe(), rule, refusal, kind="argument")
                self._legal.add(each)
            refusal = self._out_of_range(each, where) if runs_micro_ops(each) else None
            if refusal is not None:
                raise EmitError(refusal, chunk.describe(), rule, refusal, kind="machine")
            self.follow([each])

    def _is_known(self, instruction: Instruction) -> bool:
        try:
            return instruction in self._legal
        except TypeError:  # a field holds what cannot be hashed
            return False

    def _out_of_range(self, work: MicroOpInstruction, where: str) -> str | None:
        words = self._uops[work.uop_bgn : work.uop_end]
        if not len(words) or not work.iter_out or not work.iter_in:
            return None
        names = (field.name for field in UOP_FORMAT.fields)
        starts = dict(zip(names, decode_uops(self.config, words), strict=True))
        for operand in usage_of(work).used:
            outer, inner = operand.factors_of(work)
            last = int(starts[operand.index].max()) + (work.iter_out - 1) * outer + (work.iter_in - 1) * inner
            if last >= operand.depth(self.config):
                return operand.message(self.config, where, last)
        return None


def _reserved_for_build(instruction: Instruction, where: str) -> str | None:
    """The error of an instruction or field that only the build may set; None if there is none."""
    if isinstance(instruction, Finish):
        return f"Cannot emit {where}: the build ends the program itself. Leave it out."
    for name in TOKEN_FIELDS:
        if getattr(instruction, name):
            return f"{name} of {where} must be 0, not 1. The build derives tokens when all instructions are known."
    return None
