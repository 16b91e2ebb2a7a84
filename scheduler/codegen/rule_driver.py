"""Calls emission rules on chunks: the context that rules may query, and the splitting of chunks that they refuse."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend import Tensor
from lathe.frontend.expr.errors import shown
from lathe.isa import EncodingError, Instruction
from lathe.scheduler.allocation.allocation import Buffer
from lathe.scheduler.allocation.temporaries import keeps_source
from lathe.scheduler.codegen.user_rule_checks import UserRuleChecker
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.chunk import Chunk, VectorOperand
from lathe.scheduler.isel.chunk_slicing import halves, parted
from lathe.scheduler.isel.full_vector_writes import check_covers
from lathe.scheduler.isel.match_failures import PartialGroupMismatch, RuleMismatch, TemporariesMismatch
from lathe.scheduler.isel.peel_conditions import has_conditions, peeled
from lathe.scheduler.isel.rules import RULES, is_user_rule
from lathe.scheduler.isel.select_rule import rule_for
from lathe.scheduler.isel.statement import statement_of_chunk
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import ACC, DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.stream.elide_accumulator_init import ZeroInitTracker
from lathe.scheduler.stream.micro_op_pool import MicroOpPool


class RuleDriver:
    """Calls rules for the instructions of a program's chunks, and gives them micro-ops and temporaries."""

    def __init__(self, schedule: ScheduleView, config: HardwareConfig, buffers: Sequence[Buffer]) -> None:
        self.schedule = schedule
        self.config = config
        self.pool = MicroOpPool(config)
        self.zeros = ZeroInitTracker(config, self.pool) if GEMM_BEGIN in config.extensions else None
        self.own = UserRuleChecker(config, self.pool) if any(map(is_user_rule, RULES)) else None
        self.named = {stage.name: stage for stage in reversed(schedule.stages)}
        self.producers: Mapping[Tensor, StageView] = {
            tensor: stage for stage in schedule.stages for tensor in stage.state.tensors
        }
        top = max((b.base + b.total for b in buffers if b.scope == ACC), default=0)
        self._unused = (top, depth_of(config, ACC) - top)
        self._working = {buffer.stage: (buffer.base, buffer.size) for buffer in buffers if buffer.temporary}
        self.temporaries = self._unused
        self._used = 0
        self.taken: list[str] = []  # the rules that have emitted parts of the current chunk
        self._tried: set[str] = set()  # the rules that have been called for the current chunk

    # The interface for rules.

    def temporary(self, count: int) -> int:
        """Allocate ``count`` consecutive acc vectors for this chunk. Raises UopCapacityMismatch if too few are free."""
        first, size = self.temporaries
        if self._used + count > size:
            raise TemporariesMismatch(
                f"temporaries must take at most {size} vectors of acc, not {self._used + count}", kind="machine"
            )
        self._used += count
        return first + self._used - count

    @contextmanager
    def reusing_temporaries(self) -> Iterator[None]:
        """Temporaries allocated inside are freed afterwards."""
        before = self._used
        yield
        self._used = before

    @property
    def temporaries_left(self) -> int:
        """The number of acc vectors that this chunk may still allocate."""
        return self.temporaries[1] - self._used

    def begin(self, cells: NDArray[np.int64]) -> bool:
        """Take these accumulators for a GEMM that overwrites zeros; False if it must add, as without the extension."""
        return self.zeros is not None and self.zeros.claim(cells)

    def holds_zeros(self, cells: NDArray[np.int64]) -> bool:
        """Whether all of these accumulators hold zeros that a GEMM may overwrite instead of adding to them."""
        return self.zeros is not None and self.zeros.can_claim(cells)

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether accumulators hold zeros that have not been overwritten; None: some of them do."""
        return self.zeros is not None and self.zeros.holds_zeros(cells)

    def check_covers(self, chunk: Chunk, target: VectorOperand) -> None:
        """Raises RuleMismatch if a vector that the chunk writes has live lanes that it does not write."""
        buffer = target.operand.place
        assert buffer is not None
        high = tuple(low + extent - 1 for low, extent in zip(buffer.low, buffer.extent, strict=True))
        check_covers(target, chunk, buffer.low, high)

    def keeps_source(self, chunk: Chunk) -> bool:
        """Whether the operand that a chunk stores is read again."""
        return keeps_source(self.schedule, self.named[chunk.stage])

    def rule_of_producer(self, tensor: Tensor) -> str | None:
        """The rule that computes a tensor; None for an input of the program."""
        producer = self.producers.get(tensor)
        return None if producer is None else producer.state.rule

    def only_stored(self, tensor: Tensor) -> bool:
        """Whether the tensor is only stored to DRAM, which takes its low bits."""
        consumers = self.schedule.consumers(tensor)
        return bool(consumers) and all(each.state.scope == DRAM for each in consumers)

    # Calls of rules.

    def free_temporaries(self, stage: StageView | None = None) -> None:
        """Free temporaries. The next chunk gets its stage's working buffer or unallocated acc, whichever is larger."""
        own = (0, 0) if stage is None else self._working.get(stage, (0, 0))
        self.temporaries = max(own, self._unused, key=lambda each: each[1])

    def emit(self, rule_name: str, chunk: Chunk) -> list[Instruction]:
        """The instructions of one chunk. Raises EmitError if no instructions compute it."""
        self.taken.clear()
        return self.apply(rule_name, chunk)

    def apply(self, rule_name: str, chunk: Chunk) -> list[Instruction]:
        """The rule's instructions; a chunk with conditions that the rule cannot execute is peeled into boxes without.

        Raises EmitError with chunk, rule and constraint if the rule does not take the chunk.
        """
        self._used = 0
        result = self._attempt(rule_name, chunk)
        if isinstance(result, RuleMismatch):
            parts = _two_parts(chunk, result)
            peels = chunk.role in ("map", "update") and has_conditions(chunk)
            if peels and (parts is None or isinstance(result, TemporariesMismatch)):
                return self._peeled(rule_name, chunk)
            if parts is not None:
                return [*self.apply(rule_name, parts[0]), *self.apply(rule_name, parts[1])]
            raise EmitError(
                f"chunk {chunk.describe()} must satisfy rule {rule_name!r}: {result.constraint}. Change the tile, the "
                "scope of the operands, or the loop that the pragma is on.",
                chunk.describe(),
                rule_name,
                result.constraint,
                kind=result.kind,
            )
        self.taken.append(rule_name)
        return list(result)

    def _peeled(self, rule_name: str, chunk: Chunk) -> list[Instruction]:
        """Each box by the requested rule if it takes it, otherwise by the rule that takes the box's statement."""
        instructions: list[Instruction] = []
        for part in peeled(chunk):
            self._used = 0
            result = self._attempt(rule_name, part)
            if not isinstance(result, RuleMismatch):
                self.taken.append(rule_name)
                instructions += result
            elif isinstance(result, TemporariesMismatch | PartialGroupMismatch):
                instructions += self.apply(rule_name, part)
            else:
                rule = rule_for(statement_of_chunk(part))
                instructions += self.apply(rule, replace(part, pragma=rule))
        return instructions

    def _attempt(self, rule_name: str, chunk: Chunk) -> Sequence[Instruction] | RuleMismatch:
        self._tried.add(rule_name)
        if self.zeros is not None:
            self.zeros.release_claims()
        try:
            result = _attempt(rule_name, chunk, self.pool)
        except EncodingError as error:
            if not is_user_rule(rule_name):
                raise
            message = f"micro-ops of rule {rule_name!r} for chunk {chunk.describe()} must fit their fields: {error}"
            raise EmitError(message, chunk.describe(), rule_name, message, kind="machine") from None
        if isinstance(result, RuleMismatch):
            return result
        if self.own is not None and is_user_rule(rule_name):
            self.own.check_and_follow(rule_name, chunk, result)
        elif self.own is not None:
            self.own.follow(result)
        if self.zeros is not None:
            self.zeros.advance(result)
        return result


def _attempt(rule_name: str, chunk: Chunk, pool: MicroOpPool) -> Sequence[Instruction] | RuleMismatch:
    try:
        with pool.rollback_on(RuleMismatch):
            result = RULES[rule_name](chunk)
            if isinstance(result, RuleMismatch):
                raise result
            if not isinstance(result, Sequence) or not all(isinstance(each, Instruction) for each in result):
                raise EmitError(
                    f"result of rule {rule_name!r} for chunk {chunk.describe()} must be a list of instructions, or a "
                    f"RuleMismatch, not {shown(result)}.",
                    kind="argument",
                )
            return result
    except RuleMismatch as mismatch:
        return mismatch


def _two_parts(chunk: Chunk, mismatch: RuleMismatch) -> tuple[Chunk, Chunk] | None:
    """The chunk cut in two where that may resolve a mismatch, otherwise None."""
    if isinstance(mismatch, PartialGroupMismatch) and mismatch.loop < len(chunk.loops):
        return parted(chunk, mismatch.loop, mismatch.first)
    return halves(chunk) if isinstance(mismatch, TemporariesMismatch) else None
