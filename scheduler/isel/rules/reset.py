"""Rule ``reset``: sets accumulators to a constant."""

from collections.abc import Iterator
from math import prod

import numpy as np

from lathe.configs.instructions.alu import ALU
from lathe.frontend.arith.strip_casts import constant_value
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.isa import Alu, AluOp, Gemm, Instruction, Load, MemoryType
from lathe.scheduler.isel.chunk import Chunk, VectorOperand, VectorView, vectors
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.load_padding import padding_of, padding_only
from lathe.scheduler.isel.rules.loop_plan import plan_loops
from lathe.scheduler.isel.rules.rule import emit_rule
from lathe.scheduler.schedule_ir.memories import ACC

IMMEDIATE = ALU.format.values("imm")


@emit_rule("reset", takes=lambda statement: statement.role == "init", writes=ACC, separate_init=True, by_address=True)
def reset(chunk: Chunk) -> list[Instruction]:
    """Set vectors of ``acc`` to the constant of the expression, or to the neutral element of the reduction."""
    return reset_elements(chunk)


def reset_elements(chunk: Chunk) -> list[Instruction]:
    """Instructions that set the result of a chunk to its constant."""
    if chunk.role == "init":
        value = neutral_element(chunk.reduction or "sum", chunk.write.tensor.dtype)
    else:
        constant = constant_value(chunk.expression)
        if constant is None:
            raise RuleMismatch(f"expression must be a constant, not {chunk.expression}", kind="machine")
        value = constant
    view = vectors(chunk, operands=())
    chunk.emitter.check_covers(chunk, view.write)
    return fill(chunk, view, view.write, value)


def fill(chunk: Chunk, view: VectorView, target: VectorOperand, value: int) -> list[Instruction]:
    """Set the vectors of an operand, over the loops that move it, to a 32-bit constant."""
    loops = [n for n in view.loops if target.strides[n]]
    extents = [view.extents[n] for n in loops]
    strides = [target.strides[n] for n in loops]
    padding, timing = padding_of(chunk.config, MemoryType.ACC8, value), chunk.config.timing
    # A LOAD of padding takes one cycle per vector instead of two or more, but waits for the pipeline to drain.
    if value and padding is not None and prod(extents) > timing.alu_pipeline and _are_contiguous(extents, strides):
        return list(padding_only(MemoryType.ACC8, target.base, prod(extents), padding))
    instructions = zero(chunk, extents, strides, target.base)
    for op, immediate in constant_steps(value):
        instructions += alu_immediate(chunk, extents, strides, target.base, op, immediate)
    return instructions


def _are_contiguous(extents: list[int], strides: list[int]) -> bool:
    """Whether loops, in any order, cover a contiguous range of vectors."""
    reach = 1
    for stride, extent in sorted(zip(strides, extents, strict=True)):
        if stride != reach:
            return False
        reach *= extent
    return True


def constant_steps(value: int) -> list[tuple[AluOp, int]]:
    """ALU operations with immediates that turn 0 into a 32-bit value."""
    if value == 0:
        return []
    if value in IMMEDIATE:
        return [(AluOp.ADD, value)]
    low = (value & 0xFFFF) - (0x10000 if value & 0x8000 else 0)
    high = ((value - low) >> 16) & 0xFFFF
    high -= 0x10000 if high & 0x8000 else 0
    steps = [(AluOp.ADD, high), (AluOp.SHR, -16)]
    return [*steps, (AluOp.ADD, low)] if low else steps


def zero(chunk: Chunk, extents: list[int], strides: list[int], base: int) -> list[Instruction]:
    """GEMM instructions with ``reset``, which zero the vectors of one operand."""
    instructions: list[Instruction] = []
    for loads, steps in _steps(chunk, extents, strides, base):
        instructions += [*loads, Gemm(*steps, 0, 0, 0, 0, reset=True)]
    return instructions


def alu_immediate(
    chunk: Chunk, extents: list[int], strides: list[int], base: int, op: AluOp, immediate: int
) -> list[Instruction]:
    """ALU instructions with an immediate over the vectors of one operand."""
    instructions: list[Instruction] = []
    for loads, steps in _steps(chunk, extents, strides, base):
        instructions += [*loads, Alu(op, *steps, 0, 0, use_imm=True, imm=immediate)]
    return instructions


def _steps(
    chunk: Chunk, extents: list[int], strides: list[int], base: int
) -> Iterator[tuple[list[Load], tuple[int, int, int, int, int, int]]]:
    """The LOADs of micro-ops that cover one operand, and the micro-op range, iterations and factors that run them."""
    bits = (chunk.config.acc_index_bits,)
    for plan in plan_loops(extents, [(s,) for s in strides], (base,), bits, chunk.emitter.pool.capacity):
        nothing = np.zeros_like(plan.micro_ops[0])
        first, end, loads = chunk.emitter.pool.place(plan.micro_ops[0], nothing, nothing)
        (outer,), (inner,) = plan.factor_out, plan.factor_in
        yield loads, (first, end, plan.iter_out, plan.iter_in, outer, inner)
