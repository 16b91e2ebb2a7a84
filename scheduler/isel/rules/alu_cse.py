"""Strength reduction (``x // 8`` to a shift) and common subexpression elimination for rule ``alu``."""

from collections import Counter
from functools import lru_cache

from lathe.frontend import AxisRef, Binary, Cast, Const, Expr, Read
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.isa import AluOp

COMMUTATIVE = frozenset(("add", "mul", "min", "max"))


def normalised(expr: Binary) -> Binary:
    """Strength-reduce division and remainder by powers of two, and variable left shifts, to operations of the ALU."""
    lhs, rhs = expr.lhs, expr.rhs
    if expr.op in ("floordiv", "mod") and isinstance(rhs, Const) and rhs.value > 0 and rhs.value & (rhs.value - 1) == 0:
        amount = Const(rhs.value.bit_length() - 1, rhs.dtype)
        quotient = Binary("shr", lhs, amount)
        return quotient if expr.op == "floordiv" else Binary("sub", lhs, Binary("shl", quotient, amount))
    if expr.op == "shl" and not isinstance(rhs, Const):
        # A left shift by -32 or less gives the sign everywhere; bounded there, the amount can be negated.
        bounded = Binary("max", rhs, Const(-32, rhs.dtype))
        return Binary("shr", lhs, Binary("mul", bounded, Const(-1, rhs.dtype)))
    return expr


class Sharing:
    """Common subexpressions: which subexpressions are equal, and how many uses each has.

    Equality is structural, with operands of commutative operations in any order. An operation with two equal operands
    uses them once: the ALU takes its own result for both. ``operations`` are those of the machine's ALU.
    """

    def __init__(self, root: Expr, operations: tuple[AluOp, ...]) -> None:
        self.root, self.operations = root, operations
        self.uses: Counter[Expr] = Counter()
        self._same: dict[Expr, Expr] = {}
        self._first: dict[tuple[object, ...], Expr] = {}
        self._simple: dict[Expr, Binary] = {}
        self._depth: dict[Expr, int] = {}
        self._use(root)

    def same(self, expr: Expr) -> Expr:
        """The representative (first occurrence) of all subexpressions equal to this one."""
        representative = self._same.get(expr)
        if representative is None:
            plain = skip_value_preserving_casts(expr)
            representative = self._first.setdefault(self._key(plain), plain)
            self._same[expr] = self._same[plain] = representative
        return representative

    def simple(self, expr: Binary) -> Binary:
        """The strength-reduced operation (``normalised``); the same node each time."""
        if expr not in self._simple:
            self._simple[expr] = normalised(expr)
        return self._simple[expr]

    def shared(self, expr: Expr) -> bool:
        """Whether an expression is a common subexpression: it must be computed, and has more than one use."""
        first = self.same(expr)
        return isinstance(first, Binary | Cast) and self.uses[first] > 1

    def twice(self, lhs: Expr, rhs: Expr) -> bool:
        """Whether two operands are equal and not constant."""
        return self.same(lhs) is self.same(rhs) and not isinstance(self.same(lhs), Const)

    @property
    def all_shared(self) -> list[Expr]:
        """All common subexpressions."""
        return [expr for expr in self.uses if self.shared(expr)]

    def depth(self, expr: Expr) -> int:
        """The longest chain of operations in an expression."""
        if expr not in self._depth:
            inner = () if isinstance(expr, Const | Read) else expr.children
            self._depth[expr] = 1 + max(map(self.depth, inner), default=0) if inner else 0
        return self._depth[expr]

    def _key(self, expr: Expr) -> tuple[object, ...]:
        """The hash key of an expression. It refers to nodes by identity, since ``==`` of them builds an expression."""
        match expr:
            case Const(value=value):
                return "const", value
            case AxisRef(axis=axis):
                return "axis", id(axis)
            case Read(tensor=tensor, indices=indices):
                return "read", id(tensor), *(id(self.same(index)) for index in indices)
            case Cast(operand=operand, dtype=dtype):
                return "cast", dtype, id(self.same(operand))
            case Binary():
                simple = self.simple(expr)
                operands = [id(self.same(simple.lhs)), id(self.same(simple.rhs))]
                if simple.op in COMMUTATIVE:
                    operands.sort()
                return simple.op, expr.dtype, *operands
        return "other", id(expr)

    def _use(self, expr: Expr) -> None:
        first = self.same(expr)
        self.uses[first] += 1
        if self.uses[first] > 1:
            return
        match first:
            case Const() | Read() | AxisRef():
                operands: tuple[Expr, ...] = ()
            case Binary():
                simple = self.simple(first)
                equal = self.twice(simple.lhs, simple.rhs)
                operands = (simple.lhs,) if equal else (simple.lhs, simple.rhs)
            case _:
                operands = tuple(first.children)
        for operand in operands:
            self._use(operand)


@lru_cache(maxsize=256)
def sharing_of(expr: Expr, operations: tuple[AluOp, ...]) -> Sharing:
    """The common subexpressions of an expression on a machine with these ALU operations."""
    return Sharing(expr, operations)
