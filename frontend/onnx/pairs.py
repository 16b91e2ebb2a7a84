"""Two tensors, element by element, as layers."""

from collections.abc import Callable, Mapping

from lathe.frontend.onnx.groups import Group, Operands
from lathe.frontend.onnx.layers import Layer, Sum, Times
from lathe.frontend.onnx.unfit import Unfit


def _add(of: Operands, group: Group) -> Layer:
    (a, of_a), (b, of_b) = (of.operand(name) for name in group.core.input)
    if of.shape(a) != of.shape(b):
        raise Unfit("its operands have different shapes")
    return Sum(group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, nodes=group.numbers)


def _mul(of: Operands, group: Group) -> Layer:
    (a, of_a), (b, of_b) = (of.operand(name) for name in group.core.input)
    made = of.shape(group.output)
    if of.shape(a) != made:
        a, of_a, b, of_b = b, of_b, a, of_a
    if of.shape(a) != made or any(n not in (1, m) for n, m in zip(of.shape(b), made, strict=False)):
        raise Unfit("both of its operands are repeated along a dimension")
    if len(of.shape(b)) != len(made):
        raise Unfit("its operands have different numbers of dimensions")
    return Times(group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, nodes=group.numbers)


PAIRS: Mapping[str, Callable[[Operands, Group], Layer]] = {"Add": _add, "Mul": _mul}
