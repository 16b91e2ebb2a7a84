"""Statements: what the ``takes`` predicate of a rule decides on, for a stage or for a peeled box of a chunk."""

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
from lathe.scheduler.schedule_ir.schedule_state import StageView


@dataclass(frozen=True)
class Statement:
    """An expression, the memory that it is written to (``scope``), and the memory of each tensor it reads (``reads``).

    ``role`` is "map" without a reduction, else "init" for its initialisation and "update" for its accumulation.
    ``value`` is the body of a stage; of a peeled chunk, the reduced expression with its selects resolved.
    """

    role: str
    value: Expr
    scope: str
    reads: Mapping[Tensor, str]

    @property
    def is_load(self) -> bool:
        """Whether it copies a tensor from DRAM, perhaps with constant padding."""
        source = skip_casts(self.value)
        while isinstance(source, Select):
            source = skip_casts(source.then if isinstance(skip_casts(source.then), Read | Select) else source.otherwise)
        return is_plain_read(source) and self.reads[source.tensor] == DRAM


def statement_of(stage: StageView, role: str | None = None) -> Statement:
    """The statement of a stage; for a reduction its "update", unless a role is given."""
    computation = defined(stage.state.computation)
    reads = {read.tensor: stage.schedule.scope_of(read.tensor) for read in computation.reads}
    own = "update" if computation.reduce_axes else "map"
    return Statement(role or own, computation.bodies[0], stage.state.scope, reads)


def statement_of_chunk(chunk: Chunk) -> Statement:
    """The statement of a chunk."""
    reads = {operand.tensor: operand.scope for operand in chunk.reads}
    return Statement(chunk.role, chunk.expression, chunk.write.scope, reads)
