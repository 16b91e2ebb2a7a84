"""Programs with numbers in place of their parameters."""

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
    """The parameters of the program that computes ``outputs``, in the order in which it uses them first."""
    wanted = as_outputs(outputs)
    exprs: list[Expr] = []
    for tensor in placeholders(wanted):
        exprs += [extent.expr for extent in tensor.shape if isinstance(extent, Extent)]
    for computation in topological(wanted):
        for axis in (*computation.axes, *computation.reduce_axes):
            exprs += axis.symbolic or ()
        if computation.template is not None:
            exprs += [*computation.template.bodies]
            exprs += [] if computation.template.where is None else [computation.template.where]
    return parameters_of(*exprs)


class Binding:
    """A program whose parameters have values: for each of its tensors, computations and axes the one with numbers.

    Every computation is checked as ``compute`` does. Raises ParameterError for values that do not fit, DomainError or
    TensorError for a program that makes no sense with them.
    """

    def __init__(self, outputs: Tensor | Sequence[Tensor], given: object, where: str) -> None:
        wanted = as_outputs(outputs)
        self.values: dict[Parameter, int] = checked_values(program_parameters(wanted), given, where)
        self.of: dict[object, object] = {}
        for tensor in placeholders(wanted):
            self.of[tensor] = Tensor(tensor.name, tuple(map(self.number, tensor.shape)), tensor.dtype)
        order = topological(wanted)
        self._states(order)
        for computation in order:
            self._computation(computation)
        self.outputs = tuple(self.bound(tensor) for tensor in wanted)

    def bound(self, thing: T) -> T:
        """The tensor, computation or axis that stands for one of the open program; others stand for themselves."""
        found = self.of.get(thing, thing)
        assert isinstance(found, type(thing)) or isinstance(thing, Tensor), f"{found!r} does not stand for {thing!r}"
        return found  # type: ignore[return-value]

    def number(self, extent: int) -> int:
        return value_of(extent.expr, self.values) if isinstance(extent, Extent) else extent

    def _states(self, order: Sequence[Computation]) -> None:
        """What is read before it is defined must be there before anything reads it."""
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
        made = replace(
            computation,
            axes=tuple(map(self.bound, computation.axes)),
            reduce_axes=tuple(map(self.bound, computation.reduce_axes)),
            bodies=tuple(map(self.expression, template.bodies)),
            where=None if template.where is None else self.expression(template.where),
            template=None,
        )
        check_reads(made)
        if made.where is not None:
            made = replace(made, where=simplified_where(made))
        states = [self.of[tensor] for tensor in computation.outputs if isinstance(tensor, State)]
        if states:
            bind_states([each for each in states if isinstance(each, State)], made)
        self.of[computation] = made
        self.of.update(zip(computation.outputs, made.outputs, strict=True))

    def expression(self, expr: Expr) -> Expr:
        """An expression of the open program with numbers for parameters, over the bound axes and tensors."""

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
    """The outputs with numbers for parameters; as they are if the program has none (and none are given)."""
    wanted = as_outputs(outputs)
    if not program_parameters(wanted) and parameters is None:
        return wanted, None
    binding = Binding(wanted, parameters, where)
    return binding.outputs, binding
