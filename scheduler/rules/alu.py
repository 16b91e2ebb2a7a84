"""Rule ``alu``: element-wise arithmetic on accumulators.

An ALU instruction computes ``dst = op(dst, immediate or src)``, so an expression becomes a chain of operations on its
result: one leaf is copied there (or is there already, where the result takes over the cells of an operand that is not
read again), the others are immediates and operands. Operands that are expressions themselves get temporary elements.
"""

from dataclasses import dataclass

import numpy as np

from lathe.frontend import Binary, Cast, Const, Expr, Read, interval
from lathe.frontend.dtypes import DTYPES
from lathe.isa import AluOp, Instruction
from lathe.scheduler.chunk import Chunk, RuleMismatch, VectorOperand, VectorView, vectors
from lathe.scheduler.chunk_parts import points
from lathe.scheduler.rules.alu_expressions import (
    COMMUTATIVE,
    in_place,
    kept,
    modular,
    normalised,
    temporaries_of_operand,
)
from lathe.scheduler.rules.looping import plan_loops
from lathe.scheduler.rules.registry import emit_rule
from lathe.scheduler.rules.reset import IMMEDIATE, alu_immediate, constant_steps, reset_elements, zero

OPERATIONS = {"add": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX}


@dataclass
class _Cells:
    """Elements that a value is computed in: base and stride per loop of the view."""

    base: int
    strides: list[int]


@emit_rule("alu", separate_init=True)
def alu(chunk: Chunk) -> list[Instruction]:
    """Element-wise ``min, max, add, sub, shifts, mul`` of accumulators and constants, and reductions by them.

    Wants the result and all reads in ``acc``, with the same lanes; an index of an operand may ignore loops.
    """
    if chunk.role == "init":
        return reset_elements(chunk)
    if chunk.write.scope != "acc":
        raise RuleMismatch(f"result {chunk.write.tensor.name} must be in acc, not in {chunk.write.scope}")
    for read in chunk.reads:
        if read.scope != "acc":
            raise RuleMismatch(f"operand {read.tensor.name} must be in acc, not in {read.scope}")
        if read.guards:
            raise RuleMismatch(
                f"operand {read.tensor.name} must be read without a condition, which an ALU cannot decide"
            )
    if chunk.role == "update" and temporaries_of_operand(chunk.expression)[0]:
        return _step_by_step(chunk)
    return _instructions(chunk)


def _step_by_step(chunk: Chunk) -> list[Instruction]:
    """A reduction of values that have to be computed: point after point of its axes, in the same temporaries."""
    instructions: list[Instruction] = []
    for part in points(chunk, "reduce"):
        with chunk.emitter.reusing_temporaries():
            instructions += _instructions(part)
    return instructions


def _instructions(chunk: Chunk) -> list[Instruction]:
    view = vectors(chunk)
    assert view.write is not None
    chunk.emitter.check_covers(chunk, view.write)
    for operand in view.reads:
        _check_lanes(view.write, operand)
    compiler = _Compiler(chunk, view)
    target = _Cells(view.write.base, view.write.strides)
    if chunk.role == "update":
        compiler.update(target)
    else:
        compiler.value(chunk.expression, target, keep_low_bits_only=chunk.emitter.only_stored(chunk.write.tensor))
    return compiler.instructions


def _check_lanes(dst: VectorOperand, src: VectorOperand) -> None:
    for name, a, b in (("rows", dst.rows, src.rows), ("columns", dst.cols, src.cols)):
        if b.broadcast or (a.loops, a.first, a.count) == (b.loops, b.first, b.count):
            continue
        raise RuleMismatch(
            f"{name} of {dst.operand.tensor.name} and {src.operand.tensor.name} must be the same lanes, not "
            f"{a.first}..{a.first + a.count - 1} and {b.first}..{b.first + b.count - 1}"
        )


class _Compiler:
    def __init__(self, chunk: Chunk, view: VectorView) -> None:
        self.chunk = chunk
        self.view = view
        self.instructions: list[Instruction] = []

    def update(self, target: _Cells) -> None:
        """One step of a reduction: ``target = op(target, value)``."""
        assert self.chunk.reduction is not None
        op = {"sum": AluOp.ADD, "prod": AluOp.MUL, "max": AluOp.MAX, "min": AluOp.MIN}[self.chunk.reduction]
        dtype = self.chunk.expression.dtype
        if self.chunk.reduction in ("sum", "prod"):
            self._require_32_bits(self.chunk.expression)
        elif dtype == "uint32":
            raise RuleMismatch(f"dtype of a {self.chunk.reduction} must be signed or narrower, not uint32")
        self.apply(op, target, self.chunk.expression, self.view.loops)

    def value(self, expr: Expr, target: _Cells, keep_low_bits_only: bool = False) -> None:
        """Compute an expression into elements. ``keep_low_bits_only``: bits beyond its dtype do not matter."""
        match expr:
            case Const(value=value):
                loops = self._moving(target)
                extents, strides = [self.view.extents[n] for n in loops], [target.strides[n] for n in loops]
                self.instructions += zero(self.chunk, extents, strides, target.base)
                for op, immediate in constant_steps(value):
                    self.instructions += alu_immediate(self.chunk, extents, strides, target.base, op, immediate)
            case Read():
                self.copy(expr, target)
            case Cast(operand=operand, dtype=dtype):
                self._check_dtype(operand.dtype)
                self._check_dtype(dtype)
                low, high = interval(operand)
                limits = DTYPES[dtype]
                fits = limits.minimum <= low and high <= limits.maximum
                narrower = keep_low_bits_only and limits.bits <= DTYPES[operand.dtype].bits
                self.value(operand, target, narrower and modular(operand))
                if not fits and not keep_low_bits_only:
                    self.wrap(target, dtype)
            case Binary():
                self._check_dtype(expr.dtype)
                simple = normalised(expr)
                self._check_order(simple)
                self.binary(simple.op, simple.lhs, simple.rhs, target, keep_low_bits_only)
                if not keep_low_bits_only and self._may_overflow(expr):
                    self.wrap(target, expr.dtype)
            case _:
                raise RuleMismatch(
                    f"expression must be made of min, max, +, -, * and shifts, not {type(expr).__name__.lower()} {expr}"
                )

    def binary(self, op: str, lhs: Expr, rhs: Expr, target: _Cells, low_bits: bool) -> None:
        low_bits = low_bits and op in ("add", "sub", "mul")
        if op == "shl" and isinstance(rhs, Const):
            op, rhs = "shr", Const(-rhs.value, rhs.dtype)
        if op == "shr":
            self.shift(lhs, rhs, target)
            return
        if op == "sub":
            if isinstance(rhs, Const) and -rhs.value in IMMEDIATE:
                self.value(lhs, target, low_bits)
                self.immediate(AluOp.ADD, -rhs.value, target)
                return
            self.value(rhs, target, low_bits)  # lhs - rhs = -rhs + lhs
            self.immediate(AluOp.MUL, -1, target)
            self.apply(AluOp.ADD, target, lhs, self._moving(target))
            return
        if op not in COMMUTATIVE:
            raise RuleMismatch(f"operation must be one of min, max, +, -, * and shifts, not {op}")
        first, second = in_place(lhs, rhs, self.chunk.aliased)
        self.value(first, target, low_bits)
        self.apply(OPERATIONS[op], target, second, self._moving(target))

    def shift(self, lhs: Expr, rhs: Expr, target: _Cells) -> None:
        """A right shift; an amount that is a negative constant is a left shift."""
        self.value(lhs, target)
        if not isinstance(rhs, Const):
            self.apply(AluOp.SHR, target, rhs, self._moving(target))
        elif rhs.value < -31:
            self.immediate(AluOp.MUL, 0, target)
        else:
            self.immediate(AluOp.SHR, min(rhs.value, 31), target)

    def apply(self, op: AluOp, target: _Cells, operand: Expr, loops: list[int]) -> None:
        """``target = op(target, operand)``, the operand being an immediate, a read, or computed in temporaries."""
        plain = kept(operand)
        if isinstance(plain, Const) and plain.value in IMMEDIATE:
            self.immediate(op, plain.value, target, loops)
        elif isinstance(plain, Read):
            source = self._operand(plain)
            self.tensor(op, target, _Cells(source.base, source.strides), loops)
        else:
            temporary = self._temporary(plain, loops)
            self.tensor(op, target, temporary, loops)

    def copy(self, read: Read, target: _Cells) -> None:
        """The cells of a read, unless they are the target's own already."""
        if read.tensor is self.chunk.aliased:
            return
        source = self._operand(read)
        loops = self._moving(target)
        if not any(source.strides[n] != target.strides[n] for n in loops) and source.base == target.base:
            return
        extents, strides = [self.view.extents[n] for n in loops], [target.strides[n] for n in loops]
        self.instructions += zero(self.chunk, extents, strides, target.base)
        self.tensor(AluOp.ADD, target, _Cells(source.base, source.strides), loops)

    def immediate(self, op: AluOp, value: int, target: _Cells, loops: list[int] | None = None) -> None:
        loops = self._moving(target) if loops is None else loops
        extents, strides = [self.view.extents[n] for n in loops], [target.strides[n] for n in loops]
        self.instructions += alu_immediate(self.chunk, extents, strides, target.base, op, value)

    def tensor(self, op: AluOp, target: _Cells, source: _Cells, loops: list[int]) -> None:
        from lathe.isa import Alu

        bits = (self.chunk.config.acc_index_bits,) * 2
        for plan in plan_loops(
            [self.view.extents[n] for n in loops],
            [(target.strides[n], source.strides[n]) for n in loops],
            (target.base, source.base),
            bits,
            self.chunk.emitter.pool.capacity,
            [n in self.chunk.unrolled for n in loops],
        ):
            dst, src = plan.micro_ops
            first, end, loads = self.chunk.emitter.pool.place(dst, src, np.zeros_like(dst))
            (do, so), (di, si) = plan.factor_out, plan.factor_in
            self.instructions += [*loads, Alu(op, first, end, plan.iter_out, plan.iter_in, do, di, so, si)]

    def wrap(self, target: _Cells, dtype: str) -> None:
        """Keep the low bits of a narrower signed dtype, sign-extended: left and right shift."""
        limits = DTYPES[dtype]
        if limits.minimum == 0:
            raise RuleMismatch(f"dtype of a value that wraps around must be signed, not {dtype}")
        amount = 32 - limits.bits
        if amount > 0:
            self.immediate(AluOp.SHR, -amount, target)
            self.immediate(AluOp.SHR, amount, target)

    def _temporary(self, expr: Expr, loops: list[int]) -> _Cells:
        """Compute an operand in temporary elements; one that no loop moves needs one element only."""
        moving = [n for n in loops if self._depends(expr, n)]
        strides = [0] * len(self.view.extents)
        count = 1
        for n in reversed(moving):
            strides[n] = count
            count *= self.view.extents[n]
        cells = _Cells(self.chunk.emitter.temporary(count), strides)
        self.value(expr, cells)
        return cells

    def _depends(self, expr: Expr, loop: int) -> bool:
        from lathe.frontend import walk

        return any(isinstance(node, Read) and self._operand(node).strides[loop] for node in walk(expr))

    def _moving(self, target: _Cells) -> list[int]:
        return [n for n in self.view.loops if target.strides[n]]

    def _operand(self, read: Read) -> VectorOperand:
        for operand in self.view.reads:
            if operand.operand.read is read:
                return operand
        raise AssertionError(f"{read} is no operand of {self.chunk.stage}")

    def _check_dtype(self, dtype: str) -> None:
        if dtype in ("int64", "uint64", "index"):
            raise RuleMismatch(f"dtype of a value in acc must have at most 32 bits, not {dtype}")

    def _check_order(self, expr: Binary) -> None:
        """The ALU takes values for signed: what depends on their order, or on their upper bits, is wrong for uint32."""
        if expr.dtype == "uint32" and expr.op not in ("add", "sub", "mul"):
            raise RuleMismatch(f"dtype of an operand of {expr.op} must be signed or narrower, not uint32")

    def _require_32_bits(self, expr: Expr) -> None:
        if expr.dtype != "int32":
            raise RuleMismatch(f"dtype of {expr} must be int32, not {expr.dtype}")

    def _may_overflow(self, expr: Binary) -> bool:
        if expr.dtype in ("int32", "uint32") or expr.op in ("min", "max", "floordiv", "mod"):
            return False
        limits = DTYPES[expr.dtype]
        wide = Binary(expr.op, Cast(expr.lhs, "index"), Cast(expr.rhs, "index"))
        low, high = interval(wide)
        return low < limits.minimum or high > limits.maximum
