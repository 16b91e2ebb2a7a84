"""A statement as rules are asked whether they take it: of a stage, or what is left of it in a box."""

from collections.abc import Mapping
from dataclasses import dataclass

from lathe.frontend import Tensor
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Read, Select
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.rewriting.matchers import is_plain_read
from lathe.scheduler.rewriting.undef import defined
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import StageView


@dataclass(frozen=True)
class Statement:
    """What is computed, into which memory (``scope``), and in which memories what it reads is (``reads``).

    ``role`` is "map" without a reduction, "init" for the start of one, "update" for its steps. Of a stage, ``value`` is
    a body; of a chunk that is in a box, what the conditions of loops leave of it, without the reduction.
    """

    role: str
    value: Expr
    scope: str
    reads: Mapping[Tensor, str]

    @property
    def is_load(self) -> bool:
        """Whether a value in DRAM is copied, perhaps with constants around it."""
        source = skip_casts(self.value)
        while isinstance(source, Select):
            source = skip_casts(source.then if isinstance(skip_casts(source.then), Read | Select) else source.otherwise)
        return is_plain_read(source) and self.reads[source.tensor] == DRAM


def statement_of(stage: StageView, role: str | None = None) -> Statement:
    """The statement of a stage; of a reduction, that of its steps, unless a role is given."""
    computation = defined(stage.state.computation)
    reads = {read.tensor: stage.schedule.scope_of(read.tensor) for read in computation.reads}
    own = "update" if computation.reduce_axes else "map"
    return Statement(role or own, computation.bodies[0], stage.state.scope, reads)


def statement_of_chunk(chunk: Chunk) -> Statement:
    """What a chunk computes."""
    reads = {operand.tensor: operand.scope for operand in chunk.reads}
    return Statement(chunk.role, chunk.expression, chunk.write.scope, reads)
