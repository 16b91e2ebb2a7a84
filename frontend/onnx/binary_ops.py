"""Match element-wise Add, Sub, Mul, Max and Min."""

from collections.abc import Callable, Mapping

from lathe.frontend.onnx.data_movement import requantised_operands
from lathe.frontend.onnx.qdq_groups import NodeGroup, Operand, Operands
from lathe.frontend.onnx.quant_graph import Extreme, Layer, Sum, Times
from lathe.frontend.onnx.unsupported import NotOffloadable


def _sum(ctx: Operands, group: NodeGroup) -> Layer:
    (a, of_a, held_a), (b, of_b, held_b) = _two(ctx, group)
    return Sum(
        group.name, (a, b), group.output, (of_a, of_b), group.quant, group.core.op_type == "Sub", group.relu,
        nodes=group.numbers, held={**held_a, **held_b},
    )  # fmt: skip


def _times(ctx: Operands, group: NodeGroup) -> Layer:
    (a, of_a, held_a), (b, of_b, held_b) = _two(ctx, group)
    return Times(
        group.name, (a, b), group.output, (of_a, of_b), group.quant, group.relu, nodes=group.numbers,
        held={**held_a, **held_b},
    )  # fmt: skip


def _extreme(ctx: Operands, group: NodeGroup) -> Layer:
    inputs, held = requantised_operands(ctx, group, group.core.input)
    return Extreme(
        group.name, inputs, group.output, (group.quant,) * len(inputs), group.quant, group.core.op_type == "Max",
        nodes=group.numbers, held=held,
    )  # fmt: skip


def _two(ctx: Operands, group: NodeGroup) -> tuple[Operand, Operand]:
    first, second = (ctx.operand_or_constant(name) for name in group.core.input)
    if first[2] and second[2]:
        raise NotOffloadable("both of its operands are constants")
    return first, second


PAIRS: Mapping[str, Callable[[Operands, NodeGroup], Layer]] = {
    "Add": _sum,
    "Max": _extreme,
    "Min": _extreme,
    "Mul": _times,
    "Sub": _sum,
}
