"""Binding of the symbolic parameters of a program to numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from lathe.frontend.arith.parameters import Extent, at_values, checked_values, parameters_of, value_of
from lathe.frontend.arith.substitution import rewritten, with_children
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Computation, Const, Parameter, Read, Reduce, Template, Tensor
from lathe.frontend.tensor.bounds_checks import check_reads
from lathe.frontend.tensor.domains import simplified_where
from lathe.frontend.tensor.programs import as_outputs, placeholders, topological
from lathe.frontend.tensor.recurrence_state import State, bind_states

T = TypeVar("T", Tensor, Computation, Axis)


def program_parameters(outputs: Tensor | Sequence[Tensor]) -> tuple[Parameter, ...]:
    """The parameters of the program that computes ``outputs``, in order of first use."""
    tensors = as_outputs(outputs)
    exprs: list[Expr] = []
    for tensor in placeholders(tensors):
        exprs += [extent.expr for extent in tensor.shape if isinstance(extent, Extent)]
    for computation in topological(tensors):
        for axis in (*computation.axes, *computation.reduce_axes):
            exprs += axis.symbolic or ()
        if computation.template is not None:
            exprs += [*computation.template.bodies]
            exprs += [] if computation.template.where is None else [computation.template.where]
    return parameters_of(*exprs)


class Binding:
    """A program bound to parameter values: maps its tensors, computations and axes to bound ones.

    Every computation is checked as by ``compute``. Raises ParameterError for wrong values, DomainError or TensorError
    for a program that is invalid with them.
    """

    def __init__(self, outputs: Tensor | Sequence[Tensor], given: object, where: str) -> None:
        tensors = as_outputs(outputs)
        self.values: dict[Parameter, int] = checked_values(program_parameters(tensors), given, where)
        self.of: dict[object, object] = {}
        for tensor in placeholders(tensors):
            self.of[tensor] = Tensor(tensor.name, tuple(map(self.number, tensor.shape)), tensor.dtype)
        order = topological(tensors)
        self._states(order)
        for computation in order:
            self._computation(computation)
        self.outputs = tuple(self.bound(tensor) for tensor in tensors)

    def bound(self, thing: T) -> T:
        """The bound version of a tensor, computation or axis of the symbolic program; anything else unchanged."""
        found = self.of.get(thing, thing)
        assert isinstance(found, type(thing)) or isinstance(thing, Tensor), f"{thing!r} has been bound to {found!r}"
        return found  # type: ignore[return-value]

    def number(self, extent: int) -> int:
        return value_of(extent.expr, self.values) if isinstance(extent, Extent) else extent

    def _states(self, order: Sequence[Computation]) -> None:
        """Create the bound states first, because computations may read a state before its definition."""
        for computation in order:
            for tensor in computation.outputs:
                if isinstance(tensor, State):
                    self.of[tensor] = State(tensor.name, tuple(map(self.number, tensor.shape)), tensor.dtype)

    def _computation(self, computation: Computation) -> None:
        for axis in (*computation.axes, *computation.reduce_axes):
            start, extent = axis.symbolic or (Const(axis.start, "index"), Const(axis.extent, "index"))
            size, first = value_of(extent, self.values), value_of(start, self.values)
            self.of[axis] = Axis(axis.name, size, first, axis.kind)
        template = computation.template or Template(computation.bodies, computation.where)
        result = replace(
            computation,
            axes=tuple(map(self.bound, computation.axes)),
            reduce_axes=tuple(map(self.bound, computation.reduce_axes)),
            bodies=tuple(map(self.expression, template.bodies)),
            where=None if template.where is None else self.expression(template.where),
            template=None,
        )
        check_reads(result)
        if result.where is not None:
            result = replace(result, where=simplified_where(result))
        states = [self.of[tensor] for tensor in computation.outputs if isinstance(tensor, State)]
        if states:
            bind_states([each for each in states if isinstance(each, State)], result)
        self.of[computation] = result
        self.of.update(zip(computation.outputs, result.outputs, strict=True))

    def expression(self, expr: Expr) -> Expr:
        """A symbolic expression with numbers for parameters, over the bound axes and tensors."""

        def over(node: Expr, children: tuple[Expr, ...]) -> Expr:
            if isinstance(node, Read):
                return Read(self.bound(node.tensor), children)
            if isinstance(node, Reduce):
                return Reduce(node.kind, children[0], tuple(map(self.bound, node.axes)))
            return AxisRef(self.bound(node.axis)) if isinstance(node, AxisRef) else with_children(node, children)

        return rewritten(at_values(expr, self.values), lambda _: None, over)


def bound_program(
    outputs: Tensor | Sequence[Tensor], parameters: Mapping[str, int] | None, where: str
) -> tuple[tuple[Tensor, ...], "Binding | None"]:
    """The outputs bound to values of the parameters; unchanged if the program has none (and none are given)."""
    tensors = as_outputs(outputs)
    if not program_parameters(tensors) and parameters is None:
        return tensors, None
    binding = Binding(tensors, parameters, where)
    return binding.outputs, binding
