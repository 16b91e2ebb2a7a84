"""Random layouts: the digits of a tensor's axes in any order, some of them joined into one index."""

from collections.abc import Sequence
from math import prod

from random_commands import Command
from random_programs import Choice

from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Const
from lathe.scheduler import Schedule, undef


def digits_of(choice: Choice, axis: AxisRef) -> list[tuple[Expr, int]]:
    """An axis split into one to three digits."""
    value, extent, found = axis, axis.axis.extent, []
    weight = 1
    while extent > 1 and choice.number(0, 2):
        factor = choice.pick([f for f in range(2, extent + 1) if extent % f == 0])
        high = value if weight == 1 else Binary("floordiv", value, Const(weight, "index"))
        found.append((Binary("mod", high, Const(factor, "index")), factor))
        weight, extent = weight * factor, extent // factor
    found.append((value if weight == 1 else Binary("floordiv", value, Const(weight, "index")), extent))
    return found


def random_bijection(choice: Choice, axes: Sequence[AxisRef]) -> list[Expr]:
    """Random indices that use every digit once."""
    digits = choice.shuffled([digit for axis in axes for digit in digits_of(choice, axis)])
    indices: list[Expr] = []
    while digits:
        count = choice.number(1, 2)
        total: Expr | None = None
        for value, extent in digits[:count]:
            scaled = value if total is None else Binary("mul", total, Const(extent, "index"))
            total = value if total is None else Binary("add", scaled, value)
        assert total is not None
        indices.append(total)
        digits = digits[count:]
    return indices


def random_padded(choice: Choice, axes: Sequence[AxisRef]) -> list[Expr]:
    """Indices from digits of padded axes: with an offset, a partial last digit, and gaps in joined indices."""
    digits: list[tuple[Expr, int]] = []
    for axis in axes:
        cuts = choice.number(0, 2)
        before = choice.pick([0, 0, 1, 2, 5]) if cuts else 0
        value: Expr = Binary("add", axis, Const(before, "index")) if before else axis
        extent, weight = axis.axis.extent + before, 1
        for _ in range(cuts):
            factor = choice.number(2, 5)
            high = value if weight == 1 else Binary("floordiv", value, Const(weight, "index"))
            digits.append((Binary("mod", high, Const(factor, "index")), factor))
            weight, extent = weight * factor, -(-extent // factor)
        digits.append((value if weight == 1 else Binary("floordiv", value, Const(weight, "index")), extent))
    digits = choice.shuffled(digits)
    indices: list[Expr] = []
    while digits:
        total: Expr | None = None
        for value, extent in digits[: choice.number(1, 2)]:
            room = extent + choice.pick([0, 0, 0, 1, 3])
            scaled = value if total is None else Binary("mul", total, Const(room, "index"))
            total = value if total is None else Binary("add", scaled, value)
            digits = digits[1:]
        assert total is not None
        indices.append(total)
    return indices


def layouts(choice: Choice, schedule: Schedule) -> Command:
    """A random layout of a random tensor of the schedule, perhaps with padding; it may be refused."""
    tensors = [tensor for stage in schedule.stages for tensor in stage.state.tensors]
    tensors += [read.tensor for stage in schedule.stages for read in stage.op.reads]
    tensor = choice.pick(list(dict.fromkeys(tensors)))
    seed = choice.number(0, 10**9)
    if choice.number(0, 1) and prod(tensor.shape) < 300:
        pad_value = choice.pick([None, undef, 0, 1, -3, 7])
        return Command(
            f"transform_layout({tensor.name}, padded, seed {seed}, pad_value={pad_value})",
            lambda s: s.transform_layout(
                tensor, lambda *indices: random_padded(Choice(seed), indices), pad_value=pad_value
            ),
        )
    return Command(
        f"transform_layout({tensor.name}, seed {seed})",
        lambda s: s.transform_layout(tensor, lambda *indices: random_bijection(Choice(seed), indices)),
    )


def conditions(choice: Choice, schedule: Schedule) -> Command:
    """overcompute, branch or reduce_extent on a random loop; most are refused."""
    stage = choice.pick(schedule.stages)
    axis = choice.pick([None, *stage.leaf_axis])
    kind = choice.pick(["overcompute", "overcompute", "branch", "reduce_extent"])
    name = None if axis is None else axis.name
    if kind == "reduce_extent":
        axis = axis or stage.leaf_axis[-1]
    return Command(f"{kind}({stage.name}, {name})", lambda s: getattr(s[stage], kind)(axis))


def divisible_axes(choice: Choice) -> list[Axis]:
    """One to three axes whose extents have divisors."""
    return [Axis(name, choice.pick([1, 2, 3, 4, 6, 8, 12])) for name in "ijk"[: choice.number(1, 3)]]


def any_indices(choice: Choice, axes: list[Axis]) -> list[Expr]:
    """Arbitrary indices, valid or not."""

    def one() -> Expr:
        value: Expr = AxisRef(choice.pick(axes))
        for _ in range(choice.number(0, 2)):
            op = choice.pick(["add", "sub", "mul", "floordiv", "mod", "sum"])
            if op == "sum":
                value = Binary("add", value, AxisRef(choice.pick(axes)))
            else:
                value = Binary(op, value, Const(choice.number(1, 6), "index"))
        return value

    return [one() for _ in range(choice.number(1, 3))]
