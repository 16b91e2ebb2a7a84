"""Rule ``alu``: element-wise arithmetic on accumulators.

An ALU instruction computes ``dst = op(dst, immediate or src)``, so an expression becomes a chain of operations on its
result: one leaf is copied there (or is there already, if the result overwrites an operand in place), the others are
immediates and operands. Operands that are expressions themselves get temporary vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lathe.frontend import Binary, Cast, Const, Expr, Read, interval, walk
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.dtypes import DTYPES
from lathe.isa import Alu, AluOp, Instruction
from lathe.isa.table import alu_operations
from lathe.scheduler.isel.chunk import Chunk, VectorOperand, VectorView, vectors
from lathe.scheduler.isel.chunk_slicing import points
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.alu_cse import COMMUTATIVE, sharing_of
from lathe.scheduler.isel.rules.alu_expressions import modular, order, temporaries_of_operand
from lathe.scheduler.isel.rules.loop_plan import plan_loops
from lathe.scheduler.isel.rules.reset import IMMEDIATE, alu_immediate, constant_steps, reset_elements, zero
from lathe.scheduler.isel.rules.rule import conditions, emit_rule, lanes
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.layout.rescaling import why_not_rescale
from lathe.scheduler.rewriting.match_rescale import match_rescale
from lathe.scheduler.schedule_ir.memories import ACC, OPERANDS

OPERATIONS = {"add": AluOp.ADD, "mul": AluOp.MUL, "min": AluOp.MIN, "max": AluOp.MAX}


@dataclass(frozen=True)
class _Cells:
    """The accumulators that a value is computed in: base address, and stride per loop of the view."""

    base: int
    strides: Sequence[int]


def _takes(statement: Statement) -> bool:
    """Element-wise arithmetic in ``acc`` except rescaling, and reductions of operands that are not in inp or wgt."""
    if statement.role == "update":
        return not set(statement.reads.values()) & set(OPERANDS)
    if statement.role != "map" or statement.scope != ACC or statement.is_load:
        return False
    return match_rescale(statement.value) is None


@emit_rule("alu", takes=_takes, reads=(ACC,), writes=ACC, separate_init=True, by_address=True, in_place=True)
def alu(chunk: Chunk) -> list[Instruction]:
    """Element-wise ``min, max, add, sub, shifts, mul`` of accumulators and constants, and reductions by them.

    Division and remainder by powers of 2 become shifts (``normalised`` in ``alu_cse.py``). The result and all operands
    must be in ``acc`` with the same layout; an operand may be broadcast along loops.
    """
    if chunk.role == "init":
        return reset_elements(chunk)
    for read in chunk.reads:
        if read.scope != ACC:
            raise RuleMismatch(f"operand {read.tensor.name} must be in acc, not in {read.scope}", kind="machine")
        if read.guards:
            raise RuleMismatch(
                f"operand {read.tensor.name} must be read unconditionally, not where {conditions(read)}: the ALU "
                "cannot evaluate conditions",
                kind="machine",
            )
    if chunk.role == "update" and temporaries_of_operand(chunk.expression, alu_operations(chunk.config))[0]:
        return _step_by_step(chunk)
    return _instructions(chunk)


def _step_by_step(chunk: Chunk) -> list[Instruction]:
    """A reduction of values that need temporaries: one reduction point after the other, which share the temporaries."""
    instructions: list[Instruction] = []
    for part in points(chunk, "reduce"):
        with chunk.emitter.reusing_temporaries():
            instructions += _instructions(part)
    return instructions


def _instructions(chunk: Chunk) -> list[Instruction]:
    view = vectors(chunk)
    chunk.emitter.check_covers(chunk, view.write)
    for operand in view.reads:
        _check_lanes(view, view.write, operand)
    compiler = _Compiler(chunk, view)
    target = _Cells(view.write.base, view.write.strides)
    if chunk.role == "update":
        compiler.update(target)
    else:
        compiler.value(chunk.expression, target, keep_low_bits_only=chunk.emitter.only_stored(chunk.write.tensor))
    return compiler.instructions


def _check_lanes(view: VectorView, dst: VectorOperand, src: VectorOperand) -> None:
    for name, a, b in (("rows", dst.rows, src.rows), ("columns", dst.cols, src.cols)):
        if b.broadcast or (a.loops, a.first, a.count) == (b.loops, b.first, b.count):
            continue
        raise RuleMismatch(
            f"{name} of {dst.operand.tensor.name} and {src.operand.tensor.name} must cover the same lanes, not "
            f"{lanes(a, view)} and {lanes(b, view)}",
            kind="machine",
        )


class _Compiler:
    def __init__(self, chunk: Chunk, view: VectorView) -> None:
        self.chunk = chunk
        self.view = view
        self.sharing = sharing_of(chunk.expression, alu_operations(chunk.config))
        self.remaining = self.sharing.uses.copy()  # uses of each subexpression still to come
        self.computed: dict[Expr, _Cells] = {}  # the accumulators of common subexpressions
        self.instructions: list[Instruction] = []

    def update(self, target: _Cells) -> None:
        """Accumulate the expression: ``target = op(target, value)``."""
        assert self.chunk.reduction is not None
        op = {"sum": AluOp.ADD, "prod": AluOp.MUL, "max": AluOp.MAX, "min": AluOp.MIN}[self.chunk.reduction]
        dtype = self.chunk.expression.dtype
        if self.chunk.reduction in ("sum", "prod"):
            self._require_32_bits(self.chunk.expression)
        elif dtype == "uint32":
            raise RuleMismatch(
                f"dtype of a {self.chunk.reduction} must be signed or below 32 bits, not uint32", kind="machine"
            )
        self.apply(op, target, self.chunk.expression, self.view.loops)

    def value(self, expr: Expr, target: _Cells, keep_low_bits_only: bool = False) -> None:
        """Compute an expression into ``target``. ``keep_low_bits_only``: bits beyond its dtype do not matter."""
        if self.sharing.shared(expr):
            self.copy_cells(self._shared(expr), target)
        else:
            self.compute(expr, target, keep_low_bits_only)

    def compute(self, expr: Expr, target: _Cells, keep_low_bits_only: bool = False) -> None:
        """The same for an expression that is not computed yet as a common subexpression."""
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
                simple = self.sharing.simple(expr)
                self._check_order(simple)
                self.binary(simple, target, keep_low_bits_only)
                if not keep_low_bits_only and self._may_overflow(expr):
                    self.wrap(target, expr.dtype)
            case _:
                raise RuleMismatch(
                    "expression must be made of min, max, +, -, * and shifts, not "
                    f"{type(expr).__name__.lower()} {expr}",
                    kind="machine",
                )

    def binary(self, expr: Binary, target: _Cells, low_bits: bool) -> None:
        op, loops = expr.op, self._moving(target)
        low_bits = low_bits and op in ("add", "sub", "mul")
        if op not in (*COMMUTATIVE, "sub", "shr", "shl"):
            raise RuleMismatch(
                f"operation must be one of min, max, +, -, *, shifts, and // and % by positive constants, not {op}",
                kind="machine",
            )
        first, second = order(self.sharing, expr, self.chunk.aliased)
        if second is not None and self.sharing.twice(first, second):
            if op == "sub":
                self.compute(Const(0, expr.dtype), target)
                return
            self.value(first, target, low_bits)
            self.tensor({**OPERATIONS, "shr": AluOp.SHR}[op], target, target, loops)
            return
        self.value(first, target, low_bits)
        if op in ("shr", "shl"):
            self.shift(op, expr.rhs, target)
        elif op == "sub" and second is None:
            assert isinstance(expr.rhs, Const)
            self.immediate(AluOp.ADD, -expr.rhs.value, target)
        elif op == "sub" and second is expr.rhs:
            self.apply(AluOp.SUB, target, expr.rhs, loops)
        elif op == "sub":  # lhs - rhs = -rhs + lhs
            self.immediate(AluOp.MUL, -1, target)
            self.apply(AluOp.ADD, target, expr.lhs, loops)
        else:
            assert second is not None
            self.apply(OPERATIONS[op], target, second, loops)

    def shift(self, op: str, amount: Expr, target: _Cells) -> None:
        """Shift right; a negative constant amount shifts left."""
        if not isinstance(amount, Const):
            self.apply(AluOp.SHR, target, amount, self._moving(target))
            return
        right = -amount.value if op == "shl" else amount.value
        if right < -31:
            self.immediate(AluOp.MUL, 0, target)
        else:
            self.immediate(AluOp.SHR, min(right, 31), target)

    def apply(self, op: AluOp, target: _Cells, operand: Expr, loops: list[int]) -> None:
        """``target = op(target, operand)``; the operand is an immediate, a read, or computed in temporaries."""
        plain = skip_value_preserving_casts(operand)
        if isinstance(plain, Const) and plain.value in IMMEDIATE:
            self.immediate(op, plain.value, target, loops)
        elif isinstance(plain, Read):
            source = self._operand(plain)
            self.tensor(op, target, _Cells(source.base, source.strides), loops)
        elif self.sharing.shared(plain):
            self.tensor(op, target, self._shared(plain), loops)
        else:
            temporary = self._temporary(plain, loops)
            self.tensor(op, target, temporary, loops)

    def copy(self, read: Read, target: _Cells) -> None:
        """Copy a read into ``target``, unless it is computed in place over it."""
        if read.tensor is not self.chunk.aliased:
            source = self._operand(read)
            self.copy_cells(_Cells(source.base, source.strides), target)

    def copy_cells(self, source: _Cells, target: _Cells) -> None:
        """Copy a value from other accumulators, unless ``source`` and ``target`` are the same."""
        loops = self._moving(target)
        if not any(source.strides[n] != target.strides[n] for n in loops) and source.base == target.base:
            return
        extents, strides = [self.view.extents[n] for n in loops], [target.strides[n] for n in loops]
        self.instructions += zero(self.chunk, extents, strides, target.base)
        self.tensor(AluOp.ADD, target, source, loops)

    def immediate(self, op: AluOp, value: int, target: _Cells, loops: list[int] | None = None) -> None:
        loops = self._moving(target) if loops is None else loops
        extents, strides = [self.view.extents[n] for n in loops], [target.strides[n] for n in loops]
        self.instructions += alu_immediate(self.chunk, extents, strides, target.base, op, value)

    def tensor(self, op: AluOp, target: _Cells, source: _Cells, loops: list[int]) -> None:
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
        """Wrap around to a narrower signed dtype: its low bits, sign-extended by a left and a right shift."""
        limits = DTYPES[dtype]
        if limits.minimum == 0:
            raise RuleMismatch(f"dtype of a value that wraps around must be signed, not {dtype}", kind="machine")
        amount = 32 - limits.bits
        if amount > 0:
            self.immediate(AluOp.SHR, -amount, target)
            self.immediate(AluOp.SHR, amount, target)

    def _shared(self, expr: Expr) -> _Cells:
        """The accumulators of a common subexpression, which is computed at its first use."""
        first = self.sharing.same(expr)
        if first not in self.computed:
            cells = self.computed[first] = self._cells(first, self.view.loops)
            self.compute(first, cells)
        assert self.remaining[first] > 0, f"{first} is needed more often than {self.sharing.uses[first]} times"
        self.remaining[first] -= 1
        return self.computed[first]

    def _temporary(self, expr: Expr, loops: list[int]) -> _Cells:
        """Compute an operand in temporaries; a single vector if no loop moves it."""
        cells = self._last_use(expr, loops) or self._cells(expr, loops)
        self.value(expr, cells)
        return cells

    def _cells(self, expr: Expr, loops: list[int]) -> _Cells:
        """Allocate temporaries for the values of an expression."""
        strides = [0] * len(self.view.extents)
        count = 1
        for n in reversed([n for n in loops if self._depends(expr, n)]):
            strides[n] = count
            count *= self.view.extents[n]
        return _Cells(self.chunk.emitter.temporary(count), strides)

    def _last_use(self, expr: Expr, loops: list[int]) -> _Cells | None:
        """The accumulators of the common subexpression that starts a chain of operations, if this is its last use."""
        start = skip_value_preserving_casts(expr)
        while not self.sharing.shared(start):
            if isinstance(start, Cast):
                start = skip_value_preserving_casts(start.operand)
            elif isinstance(start, Binary):
                start = skip_value_preserving_casts(
                    order(self.sharing, self.sharing.simple(start), self.chunk.aliased)[0]
                )
            else:
                return None
        first = self.sharing.same(start)
        if self.remaining[first] != 1 or first not in self.computed:
            return None
        same = [n for n in loops if self._depends(expr, n)] == [n for n in self.view.loops if self._depends(first, n)]
        return self.computed[first] if same else None

    def _depends(self, expr: Expr, loop: int) -> bool:
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
            form = f"; {why_not_rescale(self.chunk.expression, self.chunk.config)}" if dtype == "int64" else ""
            raise RuleMismatch(f"dtype of a value in acc must have at most 32 bits, not {dtype}{form}", kind="machine")

    def _check_order(self, expr: Binary) -> None:
        """Refuse uint32 where the result depends on order or upper bits: the ALU takes all values for signed."""
        if expr.dtype == "uint32" and expr.op not in ("add", "sub", "mul"):
            raise RuleMismatch(
                f"dtype of an operand of {expr.op} must be signed or below 32 bits, not uint32", kind="machine"
            )

    def _require_32_bits(self, expr: Expr) -> None:
        if expr.dtype != "int32":
            raise RuleMismatch(f"dtype of {expr} must be int32, not {expr.dtype}", kind="machine")

    def _may_overflow(self, expr: Binary) -> bool:
        if expr.dtype in ("int32", "uint32") or expr.op in ("min", "max", "floordiv", "mod"):
            return False
        limits = DTYPES[expr.dtype]
        wide = Binary(expr.op, Cast(expr.lhs, "index"), Cast(expr.rhs, "index"))
        low, high = interval(wide)
        return low < limits.minimum or high > limits.maximum
