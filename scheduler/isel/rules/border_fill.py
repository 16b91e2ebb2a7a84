"""Constant borders of padded loads: those that LOAD writes, and those that the ALU adds in acc.

LOAD pads with zeros, and with other values on machines with the extension ``pad_value``. In accumulators the ALU can
add another constant to the zeros afterwards; in inp and wgt nothing can, since only LOAD writes them.
"""

from lathe.configs.encoding import PAD_VALUE
from lathe.frontend import evaluate
from lathe.frontend.arith.strip_casts import skip_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Cast, Const, Select
from lathe.isa import Instruction
from lathe.scheduler.isel.chunk import Chunk, vectors
from lathe.scheduler.isel.chunk_slicing import restricted
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.peel_conditions import decided_boxes
from lathe.scheduler.isel.rules.reset import alu_immediate, constant_steps


def constants_around(expr: Expr) -> set[int]:
    """The pad constants of a padded copy, with the casts around them applied."""
    constants: set[int] = set()

    def visit(node: Expr, casts: tuple[str, ...]) -> None:
        if isinstance(node, Cast):
            visit(node.operand, (node.dtype, *casts))
        elif isinstance(node, Select):
            visit(node.then, casts)
            visit(node.otherwise, casts)
        elif isinstance(node, Const):
            value: Expr = node
            for dtype in casts:
                value = Cast(value, dtype)
            constants.add(int(evaluate(value, {})))

    visit(expr, ())
    return constants


def refusal(chunk: Chunk, values: set[int]) -> RuleMismatch:
    """The mismatch for pad constants that no LOAD can write into inp or wgt."""
    config, scope = chunk.config, chunk.write.scope
    given = " and ".join(map(str, sorted(values)))
    where = f"padding of {chunk.write.tensor.name} in {scope}"
    if len(values) > 1:
        return RuleMismatch(f"{where} must be one constant, not {given}", kind="machine")
    if PAD_VALUE in config.extensions:
        return RuleMismatch(f"{where} must be from -128 to 127, not {given}", kind="machine")
    return RuleMismatch(
        f"{where} must be 0, not {given}: LOAD of machine {config.name!r} pads with zeros (extension {PAD_VALUE!r} is "
        f"off), and the ALU writes acc only",
        kind="machine",
    )


def fill_around(chunk: Chunk) -> list[Instruction]:
    """Add the pad constants of a copy into acc to the zeros that its LOADs have padded with."""
    instructions: list[Instruction] = []
    for box, _, expression in decided_boxes(chunk):
        if not isinstance(skip_casts(expression), Const):
            continue
        (value,) = constants_around(expression)
        part = restricted(chunk, box)
        view = vectors(part, operands=())
        loops = [n for n in view.loops if view.write.strides[n]]
        extents, strides = [view.extents[n] for n in loops], [view.write.strides[n] for n in loops]
        for op, immediate in constant_steps(value):
            instructions += alu_immediate(chunk, extents, strides, view.write.base, op, immediate)
    return instructions
