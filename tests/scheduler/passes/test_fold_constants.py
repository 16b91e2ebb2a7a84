"""Pass ``fold-constants``: fewer instructions, the same values, and stages with user rules unchanged."""

from collections.abc import Callable

import pytest
from meanings import check_machine
from random_programs import Choice
from seeds import check_each

from lathe.configs import load_config
from lathe.frontend import Expr, Tensor, compute, max, min, placeholder, placeholders, reduce_axis, select, sum
from lathe.isa import Instruction
from lathe.scheduler import build, create_schedule, lower
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.rule import RULES, emit_rule

VTA = load_config("vta")
A, B = placeholder((32, 32), "int8", "A"), placeholder((32, 32), "int8", "B")


def wide(value: Expr) -> Expr:
    return value.astype("int32")


def instructions(result: Tensor) -> int:
    """The number of instructions on vta; checks the values against the interpreter and NumPy."""
    check_machine(create_schedule(result), VTA)
    return len(build(result, [*placeholders([result]), result], VTA).instructions)


def elementwise(body: Callable[[Expr, Expr], Expr]) -> Tensor:
    return compute((32, 32), lambda i, j: body(A[i, j], B[i, j]), "C")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (lambda a, b: a + 0 + b * 1, lambda a, b: a + b),
        (lambda a, b: max(a, -128) >> (3 - 3 + b * 0 + 1), lambda a, b: (a >> 1) + b * 0),
        (lambda a, b: min(max(min(max((wide(a) * wide(b)) >> 4, -128), 127), 0), 127).astype("int8"),
            lambda a, b: max(min(max((wide(a) * wide(b)) >> 4, -128), 127), 0).astype("int8")),
        (lambda a, b: select(b > 0, a, a) + b, lambda a, b: a + b),
        (lambda a, b: a + b - (b - b * 1) * 0, lambda a, b: a + b),
    ],
)  # fmt: skip
def test_a_foldable_expression_compiles_like_the_folded_one(
    written: Callable[[Expr, Expr], Expr], meant: Callable[[Expr, Expr], Expr]
) -> None:
    assert instructions(elementwise(written)) == instructions(elementwise(meant))


def test_a_matmul_with_a_neutral_factor_is_a_gemm():
    k = reduce_axis((0, 32), name="k")
    C = compute((32, 32), lambda i, j: sum(wide(A[i, k]) * wide(B[j, k]) * 1 + 0, axis=k), "C")
    check_machine(create_schedule(C), VTA)
    assert "gemm" in lower(C, [A, B, C], VTA)


def test_a_stage_with_a_user_rule_is_not_folded():
    seen = []

    @emit_rule("looks_for_zero")
    def looks(chunk: Chunk) -> list[Instruction] | RuleMismatch:
        seen.append(str(chunk.expression))
        return RuleMismatch("seen", kind="machine")

    try:
        C = elementwise(lambda a, _: a + 0)
        s = create_schedule(C)
        s[C].emit_insn(s[C].axis[0], "looks_for_zero")
        with pytest.raises(Exception, match="seen"):
            build(s, [A, C], VTA)
    finally:
        del RULES["looks_for_zero"]
    assert seen == ["A[i, j] + 0"]


def check_program(seed: int) -> None:
    """Random clips, masks and scales, some of them identities."""
    choice = Choice(seed)

    def body(a: Expr, b: Expr) -> Expr:
        value = wide(a) + wide(b)
        for _ in range(choice.number(2, 6)):
            constant = choice.pick([0, 0, 1, 1, -128, 127, 255, -256, -(1 << 31), (1 << 31) - 1])
            other = choice.pick([wide(a), value])
            value = choice.pick(
                [
                    value + constant,
                    value * constant + other,
                    max(value, constant),
                    min(value, constant),
                    value >> choice.pick([0, 1, 3]),
                    select(b > choice.pick([0, -128]), value, choice.pick([value, value + 0, other])),
                    value.astype("int16").astype("int32"),
                ]
            )
        return value.astype(choice.pick(["int8", "int32"])) if choice.number(0, 1) else value

    result = compute((5, 18), lambda i, j: body(A[i, j], B[i, j]), "C")
    check_machine(create_schedule(result), load_config(choice.pick(["tiny", "vta", "lathe16"])))


@pytest.mark.seeds(8, slow=432)
def test_folding_preserves_values_of_random_programs(seeds):
    check_each(seeds, check_program)
