"""Evaluation order for rule ``alu``: the order of operands, temporaries, and operands that can be overwritten."""

from lathe.frontend import Binary, Cast, Const, Expr, Read, walk
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.isa import AluOp
from lathe.scheduler.isel.rules.alu_cse import COMMUTATIVE, Sharing, sharing_of
from lathe.scheduler.isel.rules.reset import IMMEDIATE


def in_place(sharing: Sharing, lhs: Expr, rhs: Expr, aliased: object) -> tuple[Expr, Expr]:
    """The operands of a commutative operation, first the one to compute in the result's accumulators."""
    if aliased is not None:
        if reads_tensor(lhs, aliased):
            return lhs, rhs
        if reads_tensor(rhs, aliased):
            return rhs, lhs
    constant = isinstance(skip_value_preserving_casts(lhs), Const) or isinstance(
        skip_value_preserving_casts(rhs), Const
    )
    if sharing.shared(lhs) != sharing.shared(rhs) and not constant:
        return (rhs, lhs) if sharing.shared(lhs) else (lhs, rhs)  # a common subexpression need not be copied then
    return (rhs, lhs) if sharing.depth(rhs) > sharing.depth(lhs) else (lhs, rhs)


def order(sharing: Sharing, expr: Binary, aliased: object) -> tuple[Expr, Expr | None]:
    """The operand of an ALU operation to compute first, in the result's accumulators, and the other one.

    The other is None if it is an immediate.
    """
    lhs, rhs = expr.lhs, expr.rhs
    if expr.op in ("shr", "shl"):
        return lhs, None if isinstance(rhs, Const) else rhs
    if expr.op == "sub":
        if isinstance(rhs, Const) and -rhs.value in IMMEDIATE:
            return lhs, None
        return (lhs, rhs) if _subtracts(sharing, lhs, rhs, aliased) else (rhs, lhs)
    if expr.op in COMMUTATIVE:
        return in_place(sharing, lhs, rhs, aliased)
    return lhs, rhs


def _subtracts(sharing: Sharing, lhs: Expr, rhs: Expr, aliased: object) -> bool:
    """Whether to compute a difference by SUB in the accumulators of ``lhs``, rather than as ``rhs * −1 + lhs``.

    The sum is faster if only ``rhs`` is computed: it needs no temporaries, and no copy of ``lhs``.
    """
    if AluOp.SUB not in sharing.operations:
        return False
    if aliased is not None and (reads_tensor(lhs, aliased) or reads_tensor(rhs, aliased)):
        return reads_tensor(lhs, aliased)
    return _is_computed(sharing, lhs) or not _is_computed(sharing, rhs)


def _is_computed(sharing: Sharing, expr: Expr) -> bool:
    """Whether an operand must be computed here: it is no constant, read or common subexpression."""
    return not isinstance(skip_value_preserving_casts(expr), Read | Const) and not sharing.shared(expr)


def temporaries(expr: Expr, operations: tuple[AluOp, ...], aliased: object = None) -> tuple[int, int]:
    """The temporaries that an expression takes: how many of the size of the result, and how many single vectors."""
    sharing = sharing_of(expr, operations)
    return _with_shared(sharing, _inside(sharing, expr, aliased), aliased)


def temporaries_of_operand(operand: Expr, operations: tuple[AluOp, ...], aliased: object = None) -> tuple[int, int]:
    """The same for an operand that is not computed in the result's accumulators."""
    sharing = sharing_of(operand, operations)
    return _with_shared(sharing, _of_operand(sharing, operand, aliased), aliased)


def _with_shared(sharing: Sharing, own: tuple[int, int], aliased: object) -> tuple[int, int]:
    inside = [_inside(sharing, expr, aliased) for expr in sharing.all_shared]
    return own[0] + sum(1 + tiles for tiles, _ in inside), own[1] + sum(singles for _, singles in inside)


def _inside(sharing: Sharing, expr: Expr, aliased: object) -> tuple[int, int]:
    """The temporaries of an expression besides its common subexpressions."""
    match expr:
        case Cast(operand=operand):
            return (0, 0) if sharing.shared(operand) else _inside(sharing, operand, aliased)
        case Binary():
            first, second = order(sharing, sharing.simple(expr), aliased)
            tiles, singles = (0, 0) if sharing.shared(first) else _inside(sharing, first, aliased)
            if second is None or sharing.twice(first, second):
                return tiles, singles
            more, single = _of_operand(sharing, second, aliased)
            return tiles + more, singles + single
    return 0, 0


def _of_operand(sharing: Sharing, operand: Expr, aliased: object) -> tuple[int, int]:
    plain = skip_value_preserving_casts(operand)
    if isinstance(plain, Read) or (isinstance(plain, Const) and plain.value in IMMEDIATE) or sharing.shared(plain):
        return 0, 0
    if isinstance(plain, Const):
        return 0, 1
    tiles, singles = _inside(sharing, plain, aliased)
    return tiles + 1, singles


def reads_tensor(expr: Expr, tensor: object) -> bool:
    """Whether the expression reads the tensor."""
    return any(isinstance(node, Read) and node.tensor is tensor for node in walk(expr))


def modular(expr: Expr) -> bool:
    """Whether the low bits of the result depend only on the low bits of the operands."""
    return isinstance(expr, Read | Const | Cast) or (isinstance(expr, Binary) and expr.op in ("add", "sub", "mul"))


def can_take_over(expr: Expr, operations: tuple[AluOp, ...], tensor: object) -> bool:
    """Whether an expression can be computed in place over one of its operands.

    It can if the operand has one use, and is the leaf that the chain of operations starts from.
    """
    sharing = sharing_of(expr, operations)
    reads = {sharing.same(node) for node in walk(expr) if isinstance(node, Read) and node.tensor is tensor}
    if len(reads) != 1 or sharing.uses[next(iter(reads))] != 1:
        return False
    while not isinstance(expr, Read):
        if sharing.shared(expr):
            return False
        if isinstance(expr, Cast):
            expr = expr.operand
        elif isinstance(expr, Binary):
            left, right = reads_tensor(expr.lhs, tensor), reads_tensor(expr.rhs, tensor)
            if expr.op not in (*COMMUTATIVE, "sub", "shr", "shl", "floordiv"):
                return False
            if left and expr.op == "sub" and order(sharing, expr, None)[0] is not expr.lhs:
                return False
            if right and expr.op not in COMMUTATIVE and expr.op != "sub":
                return False
            expr = expr.lhs if left else expr.rhs
        else:
            return False
    return True
