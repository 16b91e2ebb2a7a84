"""Match element-wise Add, Sub, Mul, Max and Min."""

from collections.abc import Callable, Mapping

from lathe.frontend.onnx.data_movement import requantised_operands
from lathe.frontend.onnx.qdq_groups import MatchContext, NodeGroup, Operand
from lathe.frontend.onnx.quant_graph import Extreme, Layer, Sum, Times
from lathe.frontend.onnx.unsupported import NotOffloadable


def _sum(ctx: MatchContext, group: NodeGroup) -> Layer:
    (a, of_a, held_a), (b, of_b, held_b) = _two(ctx, group)
    return Sum(
        group.name, (a, b), group.output, (of_a, of_b), group.quant, group.core.op_type == "Sub", group.relu,
        nodes=group.numbers, constants={**held_a, **held_b},
    )  # fmt: skip


def _times(ctx: MatchContext, group: NodeGroup) -> Layer:
    (a, of_a, held_a), (b, of_b, held_b) = _two(ctx, group)
    return Times(
        group.name, (a, b), group.output, (of_a, of_b), group.quant, group.relu, nodes=group.numbers,
        constants={**held_a, **held_b},
    )  # fmt: skip


def _extreme(ctx: MatchContext, group: NodeGroup) -> Layer:
    inputs, held = requantised_operands(ctx, group, group.core.input)
    return Extreme(
        group.name, inputs, group.output, (group.quant,) * len(inputs), group.quant, group.core.op_type == "Max",
        nodes=group.numbers, constants=held,
    )  # fmt: skip


def _two(ctx: MatchContext, group: NodeGroup) -> tuple[Operand, Operand]:
    first, second = (ctx.operand_or_constant(name) for name in group.core.input)
    if first[2] and second[2]:
        raise NotOffloadable("both of its operands are constants")
    return first, second


BINARY_OPS: Mapping[str, Callable[[MatchContext, NodeGroup], Layer]] = {
    "Add": _sum,
    "Max": _extreme,
    "Min": _extreme,
    "Mul": _times,
    "Sub": _sum,
}
