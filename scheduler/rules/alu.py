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
from lathe.scheduler.rules.looping import plan_loops
from lathe.scheduler.rules.registry import emit_rule
from lathe.scheduler.rules.reset import IMMEDIATE, alu_immediate, constant_steps, fill, reset_elements, zero

OPERATIONS = {"add": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX}
COMMUTATIVE = frozenset(OPERATIONS)


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
        op = {"sum": AluOp.ADD, "max": AluOp.MAX, "min": AluOp.MIN}[self.chunk.reduction]
        if self.chunk.reduction == "sum":
            self._require_32_bits(self.chunk.expression)
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
                self.value(operand, target, narrower and _modular(operand))
                if not fits and not keep_low_bits_only:
                    self.wrap(target, dtype)
            case Binary(op=op, lhs=lhs, rhs=rhs):
                self._check_dtype(expr.dtype)
                self.binary(op, lhs, rhs, target, keep_low_bits_only)
                if not keep_low_bits_only and self._may_overflow(expr):
                    self.wrap(target, expr.dtype)
            case _:
                raise RuleMismatch(
                    f"expression must be made of min, max, +, -, * and shifts, not {type(expr).__name__.lower()} {expr}"
                )

    def binary(self, op: str, lhs: Expr, rhs: Expr, target: _Cells, low_bits: bool) -> None:
        low_bits = low_bits and op in ("add", "sub", "mul")
        if op == "floordiv" and isinstance(rhs, Const) and rhs.value > 0 and rhs.value & (rhs.value - 1) == 0:
            op, rhs = "shr", Const(rhs.value.bit_length() - 1, rhs.dtype)
        if op in ("shr", "shl"):
            self.shift(op, lhs, rhs, target)
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
        first, second = lhs, rhs
        if self._prefer_second(lhs, rhs):
            first, second = rhs, lhs
        self.value(first, target, low_bits)
        self.apply(OPERATIONS[op], target, second, self._moving(target))

    def shift(self, op: str, lhs: Expr, rhs: Expr, target: _Cells) -> None:
        self.value(lhs, target)
        if isinstance(rhs, Const):
            amount = rhs.value if op == "shr" else -rhs.value
            if lhs.dtype != "int32" and not amount >= 0:
                raise RuleMismatch(f"dtype of a left shift must be int32, not {lhs.dtype}")
            if amount > 31:
                amount = 31
            if amount < -31:
                self.immediate(AluOp.MUL, 0, target)
            else:
                self.immediate(AluOp.SHR, amount, target)
            return
        if op == "shl":
            raise RuleMismatch("amount of a left shift must be a constant, or write a right shift by its negative")
        self._require_32_bits(lhs)
        self.apply(AluOp.SHR, target, rhs, self._moving(target))

    def apply(self, op: AluOp, target: _Cells, operand: Expr, loops: list[int]) -> None:
        """``target = op(target, operand)``, the operand being an immediate, a read, or computed in temporaries."""
        plain = operand
        while isinstance(plain, Cast) and self._keeps(plain):
            plain = plain.operand
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

    def _prefer_second(self, lhs: Expr, rhs: Expr) -> bool:
        """Which side of a commutative operation is computed in the result's own cells."""
        aliased = self.chunk.aliased
        if aliased is not None:
            if reads_tensor(lhs, aliased):
                return False
            if reads_tensor(rhs, aliased):
                return True
        return _depth(rhs) > _depth(lhs)

    def _check_dtype(self, dtype: str) -> None:
        if dtype in ("int64", "bool", "index"):
            raise RuleMismatch(f"dtype of a value in acc must have at most 32 bits, not {dtype}")

    def _require_32_bits(self, expr: Expr) -> None:
        if expr.dtype != "int32":
            raise RuleMismatch(f"dtype of {expr} must be int32, not {expr.dtype}")

    def _keeps(self, cast: Cast) -> bool:
        low, high = interval(cast.operand)
        return DTYPES[cast.dtype].minimum <= low and high <= DTYPES[cast.dtype].maximum

    def _may_overflow(self, expr: Binary) -> bool:
        if expr.dtype == "int32" or expr.op in ("min", "max", "shr", "floordiv"):
            return False
        limits = DTYPES[expr.dtype]
        wide = Binary(expr.op, Cast(expr.lhs, "index"), Cast(expr.rhs, "index"))
        low, high = interval(wide)
        return low < limits.minimum or high > limits.maximum


def reads_tensor(expr: Expr, tensor: object) -> bool:
    """Whether the expression reads the tensor."""
    from lathe.frontend import walk

    return any(isinstance(node, Read) and node.tensor is tensor for node in walk(expr))


def _modular(expr: Expr) -> bool:
    """Whether the low bits of the result depend on the low bits of the operands only."""
    return isinstance(expr, Read | Const | Cast) or (isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"))


def _depth(expr: Expr) -> int:
    return 0 if isinstance(expr, Const | Read) else 1 + max((_depth(child) for child in expr.children), default=0)


def can_take_over(expr: Expr, tensor: object) -> bool:
    """Whether the result of an expression may be computed in the cells of one of its operands.

    It may if the operand is read once and becomes the leaf that the chain of operations starts from.
    """
    from lathe.frontend import walk

    reads = [node for node in walk(expr) if isinstance(node, Read) and node.tensor is tensor]
    if len(reads) != 1 or _count(expr, reads[0]) != 1:
        return False
    while not isinstance(expr, Read):
        if isinstance(expr, Cast):
            expr = expr.operand
        elif isinstance(expr, Binary):
            left, right = reads_tensor(expr.lhs, tensor), reads_tensor(expr.rhs, tensor)
            if left and expr.op == "sub" and not isinstance(expr.rhs, Const):
                return False
            if right and expr.op not in COMMUTATIVE and expr.op != "sub":
                return False
            expr = expr.lhs if left else expr.rhs
        else:
            return False
    return True


def _count(expr: Expr, wanted: Expr) -> int:
    """How many times a node is reached from the root."""
    return (1 if expr is wanted else 0) + sum(_count(child, wanted) for child in expr.children)


__all__ = ["alu", "can_take_over", "fill"]
