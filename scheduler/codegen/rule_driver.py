"""Rules asked for the instructions of chunks: what they may ask back, and what becomes of chunks not taken."""

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
from lathe.scheduler.codegen.user_rule_checks import OwnInstructions
from lathe.scheduler.errors import EmitError
from lathe.scheduler.isel.chunk import Chunk, VectorOperand
from lathe.scheduler.isel.chunk_slicing import halves, parted
from lathe.scheduler.isel.full_vector_writes import check_covers
from lathe.scheduler.isel.match_failures import PartialGroupMismatch, RuleMismatch, UopCapacityMismatch
from lathe.scheduler.isel.peel_conditions import has_conditions, peeled
from lathe.scheduler.isel.rules import RULES, is_own
from lathe.scheduler.isel.select_rule import rule_for
from lathe.scheduler.isel.statement import statement_of_chunk
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import ACC, DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.stream.elide_accumulator_init import ZeroInitTracker
from lathe.scheduler.stream.micro_op_pool import MicroOpPool


class RuleCaller:
    """Asks rules for instructions of a program's chunks. They reach the micro-op pool and temporaries through it."""

    def __init__(self, schedule: ScheduleView, config: HardwareConfig, buffers: Sequence[Buffer]) -> None:
        self.schedule = schedule
        self.config = config
        self.pool = MicroOpPool(config)
        self.zeros = ZeroInitTracker(config, self.pool) if GEMM_BEGIN in config.extensions else None
        self.own = OwnInstructions(config, self.pool) if any(map(is_own, RULES)) else None
        self.named = {stage.name: stage for stage in reversed(schedule.stages)}
        self.maker: Mapping[Tensor, StageView] = {
            tensor: stage for stage in schedule.stages for tensor in stage.state.tensors
        }
        top = max((b.base + b.total for b in buffers if b.scope == ACC), default=0)
        self._unused = (top, depth_of(config, ACC) - top)
        self._working = {buffer.stage: (buffer.base, buffer.size) for buffer in buffers if buffer.temporary}
        self.temporaries = self._unused
        self._used = 0
        self.taken: list[str] = []  # the rules that have carried out the parts of the present chunk
        self._tried: set[str] = set()  # the rules that have been asked for the present chunk

    # What rules ask for.

    def temporary(self, count: int) -> int:
        """The first of ``count`` free elements of acc, for this chunk only. Raises NoRoom if there are none."""
        first, size = self.temporaries
        if self._used + count > size:
            raise UopCapacityMismatch(
                f"temporaries must take at most {size} elements of acc, not {self._used + count}", kind="machine"
            )
        self._used += count
        return first + self._used - count

    @contextmanager
    def reusing_temporaries(self) -> Iterator[None]:
        """What is asked for inside is free again afterwards."""
        before = self._used
        yield
        self._used = before

    @property
    def temporaries_left(self) -> int:
        """Free elements of acc that this chunk has not asked for yet."""
        return self.temporaries[1] - self._used

    def begin(self, cells: NDArray[np.int64]) -> bool:
        """Whether sums may begin in these accumulators, which are taken then. Never on machines that cannot begin."""
        return self.zeros is not None and self.zeros.take(cells)

    def holds_zeros(self, cells: NDArray[np.int64]) -> bool:
        """Whether all of these accumulators hold zeros in which sums may begin."""
        return self.zeros is not None and self.zeros.may_take(cells)

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether accumulators hold zeros that nobody has written over; None: some of them."""
        return self.zeros is not None and self.zeros.fresh(cells)

    def check_covers(self, chunk: Chunk, target: VectorOperand) -> None:
        """Raises RuleMismatch if an element that the chunk writes has live lanes that it does not write."""
        place = target.operand.place
        assert place is not None
        high = tuple(low + extent - 1 for low, extent in zip(place.low, place.extent, strict=True))
        check_covers(target, chunk, place.low, high)

    def keeps_source(self, chunk: Chunk) -> bool:
        """Whether what a chunk stores is read again."""
        return keeps_source(self.schedule, self.named[chunk.stage])

    def made_by(self, tensor: Tensor) -> str | None:
        """The rule that makes a tensor, if a stage does."""
        maker = self.maker.get(tensor)
        return None if maker is None else maker.state.rule

    def only_stored(self, tensor: Tensor) -> bool:
        """Whether nothing but stores to DRAM reads the tensor, which see the low bits only."""
        readers = self.schedule.readers(tensor)
        return bool(readers) and all(reader.state.scope == DRAM for reader in readers)

    # What rules are asked for.

    def free_temporaries(self, stage: StageView | None = None) -> None:
        """For the next chunk, temporaries are those of its stage, or what no buffer takes, whichever are more."""
        own = (0, 0) if stage is None else self._working.get(stage, (0, 0))
        self.temporaries = max(own, self._unused, key=lambda each: each[1])

    def emit(self, rule_name: str, chunk: Chunk) -> list[Instruction]:
        """The instructions of one chunk. Raises EmitError if it does not map."""
        self.taken.clear()
        return self.apply(rule_name, chunk)

    def apply(self, rule_name: str, chunk: Chunk) -> list[Instruction]:
        """The rule's instructions; a chunk whose conditions it cannot carry out is peeled into boxes without them.

        Raises EmitError naming chunk, rule and constraint if the rule does not take the chunk.
        """
        self._used = 0
        result = self._attempt(rule_name, chunk)
        if isinstance(result, RuleMismatch):
            parts = _parts(chunk, result)
            peels = chunk.role in ("map", "update") and has_conditions(chunk)
            if peels and (parts is None or isinstance(result, UopCapacityMismatch)):
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
        """Each box by the rule that was asked for, or else by the one that takes what the box is left with."""
        instructions: list[Instruction] = []
        for part in peeled(chunk):
            self._used = 0
            result = self._attempt(rule_name, part)
            if not isinstance(result, RuleMismatch):
                self.taken.append(rule_name)
                instructions += result
            elif isinstance(result, UopCapacityMismatch | PartialGroupMismatch):
                instructions += self.apply(rule_name, part)
            else:
                rule = rule_for(statement_of_chunk(part))
                instructions += self.apply(rule, replace(part, pragma=rule))
        return instructions

    def _attempt(self, rule_name: str, chunk: Chunk) -> Sequence[Instruction] | RuleMismatch:
        self._tried.add(rule_name)
        if self.zeros is not None:
            self.zeros.ready()
        try:
            result = _attempt(rule_name, chunk, self.pool)
        except EncodingError as error:
            if not is_own(rule_name):
                raise
            message = f"micro-ops of rule {rule_name!r} for chunk {chunk.describe()} must fit their fields: {error}"
            raise EmitError(message, chunk.describe(), rule_name, message, kind="machine") from None
        if isinstance(result, RuleMismatch):
            return result
        if self.own is not None and is_own(rule_name):
            self.own.check_and_follow(rule_name, chunk, result)
        elif self.own is not None:
            self.own.follow(result)
        if self.zeros is not None:
            self.zeros.follow(result)
        return result


def _attempt(rule_name: str, chunk: Chunk, pool: MicroOpPool) -> Sequence[Instruction] | RuleMismatch:
    try:
        with pool.undoing(RuleMismatch):
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


def _parts(chunk: Chunk, mismatch: RuleMismatch) -> tuple[Chunk, Chunk] | None:
    """The chunk in two where that helps against a mismatch."""
    if isinstance(mismatch, PartialGroupMismatch) and mismatch.loop < len(chunk.loops):
        return parted(chunk, mismatch.loop, mismatch.first)
    return halves(chunk) if isinstance(mismatch, UopCapacityMismatch) else None
