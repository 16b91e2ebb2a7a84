"""How rule ``alu`` takes expressions apart: the order of operands, what needs temporaries, what may be overwritten."""

from lathe.frontend import Binary, Cast, Const, Expr, Read, interval, walk
from lathe.frontend.dtypes import DTYPES
from lathe.scheduler.rules.reset import IMMEDIATE

COMMUTATIVE = frozenset(("add", "mul", "min", "max"))


def normalised(expr: Binary) -> Binary:
    """The same value by operations that the ALU has, where there are such: division and remainder by powers of two."""
    lhs, rhs = expr.lhs, expr.rhs
    if expr.op in ("floordiv", "mod") and isinstance(rhs, Const) and rhs.value > 0 and rhs.value & (rhs.value - 1) == 0:
        amount = Const(rhs.value.bit_length() - 1, rhs.dtype)
        quotient = Binary("shr", lhs, amount)
        return quotient if expr.op == "floordiv" else Binary("sub", lhs, Binary("shl", quotient, amount))
    if expr.op == "shl" and not isinstance(rhs, Const):
        # from -32 on a left shift by less is the same sign all over; so bounded, the amount can be negated
        bounded = Binary("max", rhs, Const(-32, rhs.dtype))
        return Binary("shr", lhs, Binary("mul", bounded, Const(-1, rhs.dtype)))
    return expr


def kept(expr: Expr) -> Expr:
    """The expression without the casts around it that cannot change its value."""
    while isinstance(expr, Cast):
        low, high = interval(expr.operand)
        if not (DTYPES[expr.dtype].minimum <= low and high <= DTYPES[expr.dtype].maximum):
            break
        expr = expr.operand
    return expr


def in_place(lhs: Expr, rhs: Expr, aliased: object) -> tuple[Expr, Expr]:
    """The operands of a commutative operation: the one that is computed in the result's own cells, and the other."""
    if aliased is not None:
        if reads_tensor(lhs, aliased):
            return lhs, rhs
        if reads_tensor(rhs, aliased):
            return rhs, lhs
    return (rhs, lhs) if _depth(rhs) > _depth(lhs) else (lhs, rhs)


def temporaries(expr: Expr, aliased: object = None) -> tuple[int, int]:
    """What computing an expression takes: temporaries as large as the result, and single elements."""
    match expr:
        case Cast(operand=operand):
            return temporaries(operand, aliased)
        case Binary():
            expr = normalised(expr)
            lhs, rhs = expr.lhs, expr.rhs
            if expr.op in COMMUTATIVE:
                lhs, rhs = in_place(lhs, rhs, aliased)
            elif expr.op in ("shr", "shl") and isinstance(rhs, Const):
                return temporaries(lhs, aliased)
            elif expr.op == "sub" and not (isinstance(rhs, Const) and -rhs.value in IMMEDIATE):
                lhs, rhs = rhs, lhs
            first, second = temporaries(lhs, aliased), temporaries_of_operand(rhs, aliased)
            return first[0] + second[0], first[1] + second[1]
    return 0, 0


def temporaries_of_operand(operand: Expr, aliased: object = None) -> tuple[int, int]:
    """The same for an operand that is not computed in the result's cells."""
    plain = kept(operand)
    if isinstance(plain, Read) or (isinstance(plain, Const) and plain.value in IMMEDIATE):
        return 0, 0
    if isinstance(plain, Const):
        return 0, 1
    tiles, singles = temporaries(plain, aliased)
    return tiles + 1, singles


def reads_tensor(expr: Expr, tensor: object) -> bool:
    """Whether the expression reads the tensor."""
    return any(isinstance(node, Read) and node.tensor is tensor for node in walk(expr))


def modular(expr: Expr) -> bool:
    """Whether the low bits of the result depend on the low bits of the operands only."""
    return isinstance(expr, Read | Const | Cast) or (isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"))


def _depth(expr: Expr) -> int:
    return 0 if isinstance(expr, Const | Read) else 1 + max((_depth(child) for child in expr.children), default=0)


def can_take_over(expr: Expr, tensor: object) -> bool:
    """Whether the result of an expression may be computed in the cells of one of its operands.

    It may if the operand is read once and becomes the leaf that the chain of operations starts from.
    """
    reads = [node for node in walk(expr) if isinstance(node, Read) and node.tensor is tensor]
    if len(reads) != 1 or _count(expr, reads[0]) != 1:
        return False
    while not isinstance(expr, Read):
        if isinstance(expr, Cast):
            expr = expr.operand
        elif isinstance(expr, Binary):
            left, right = reads_tensor(expr.lhs, tensor), reads_tensor(expr.rhs, tensor)
            if expr.op not in (*COMMUTATIVE, "sub", "shr", "shl", "floordiv"):
                return False
            if left and expr.op == "sub" and not (isinstance(expr.rhs, Const) and -expr.rhs.value in IMMEDIATE):
                return False
            if right and expr.op not in COMMUTATIVE and expr.op != "sub":
                return False
            expr = expr.lhs if left else expr.rhs
        else:
            return False
    return True


def _count(expr: Expr, wanted: Expr) -> int:
    """How many times a node is reached from the root."""
    if expr is wanted:
        return 1
    return sum(_count(child, wanted) for child in expr.children)
