"""Which built-in rule takes a chunk whose stage names none."""

from lathe.frontend import Tensor
from lathe.frontend.indices.plain import bare
from lathe.frontend.nodes import Read, Select
from lathe.frontend.operand import Expr
from lathe.scheduler.algorithm.undefined import defined
from lathe.scheduler.nest.nodes import ChunkNode
from lathe.scheduler.state.memories import DRAM
from lathe.scheduler.target.chunk import Chunk


def rule_of_part(chunk: Chunk) -> str:
    """The built-in rule for what is left of a statement in a box: a copy from or to DRAM, or arithmetic in acc."""
    source = bare(chunk.expression)
    copies = isinstance(source, Read) and chunk.operand(source).scope == DRAM
    return "dma" if chunk.write.scope != "acc" or copies else "alu"


def automatic_rule(node: ChunkNode) -> str:
    """The built-in rule for a statement without a pragma."""
    state = node.placement.state
    if state.computation.reduce_axes:
        reads = [read.tensor for read in state.computation.reads]
        return "gemm" if any(_scope_of(node, tensor) in ("inp", "wgt") for tensor in reads) else "alu"
    body: Expr = defined(state.computation).bodies[0]
    while isinstance(bare(body), Select):
        selected = bare(body)
        assert isinstance(selected, Select)
        body = selected.then if isinstance(bare(selected.then), Read | Select) else selected.otherwise
    source = bare(body)
    if state.scope != "acc":
        return "dma"
    if isinstance(source, Read) and _scope_of(node, source.tensor) == DRAM:
        return "dma"
    return "alu"


def _scope_of(node: ChunkNode, tensor: Tensor) -> str:
    return node.placement.stage.schedule.scope_of(tensor)
