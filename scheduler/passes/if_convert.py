"""Conditions as arithmetic: no instruction decides anything per lane, but the ALU multiplies.

``select(c, a, b)`` is ``b + m * (a - b)`` with ``m`` 1 where ``c`` holds and 0 elsewhere. A condition on indices whose
border runs through elements becomes a constant tensor of such numbers, which is part of the program; other conditions
on indices are left to be peeled. A condition on data is computed: ``x > y`` is ``min(max(x - y, 0), 1)``. A product
that is summed under a condition on the indices of one operand is a product with that operand masked, so that the
matrix core can do it. Numbers that depend on indices are constant tensors as well.
"""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Axis, Computation, Tensor, evaluate, interval, reads_data, substitute, walk
from lathe.frontend.arith.conditions import conjunction, conjuncts
from lathe.frontend.arith.strip_casts import as_bare_axis, skip_casts, skip_value_preserving_casts
from lathe.frontend.arith.substitution import with_children
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Compare, Const, Not, Read, Reduce, Select, axes_of
from lathe.scheduler.isel.select_rule import has_own_rule
from lathe.scheduler.layout.layout_assignment import LayoutAssignment, assign_layouts
from lathe.scheduler.rewriting.constant_folding import folded
from lathe.scheduler.rewriting.rewrite import reads_redirected
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target

Array = NDArray[Any]

LARGEST_MASK = 1 << 20
"""Elements of the largest constant tensor that a condition on indices may become."""

INT32 = "int32"
NARROW = ("int8", "int16", INT32, "uint8", "uint16")
"""The dtypes whose values accumulators hold as they are."""


def if_convert(schedule: Edit, target: Target) -> None:
    """Rewrite, in place, selects of a schedule that no loop decides; inputs that this adds get their values."""
    for stage in list(schedule.stages):
        _mask_operands(schedule, stage)
    constants = _Constants(schedule)
    if not any(_decides(body) for stage in schedule.stages for body in stage.state.computation.bodies):
        return
    plan = _plan_without_conditions(schedule, target)
    for stage in schedule.stages:
        if has_own_rule(stage.state):
            continue
        masker = _Masker(stage, constants, plan, target)
        computation = stage.state.computation
        bodies = tuple(masker.body(body) for body in computation.bodies)
        if any(new is not old for new, old in zip(bodies, computation.bodies, strict=True)):
            stage.change(computation=replace(computation, bodies=bodies))
    schedule.update(constants={**schedule.state.constants, **constants.values})


def find_unmasked(schedule: Edit, target: Target) -> str | None:
    """A stage with a condition on data, an index as data, or a sum of products under conditions, left to be a number.

    Conditions on indices alone are not asked for: whether a border runs through elements depends on lanes, which may
    be others later.
    """
    for stage in schedule.stages:
        if has_own_rule(stage.state):
            continue
        if _of_operands(schedule, stage) is not None:
            return f"{stage.name} sums products under conditions on their operands"
        masker = _Masker(stage, _Constants(schedule), LayoutAssignment(), target)
        for node in (each for body in stage.state.computation.bodies for each in walk(body)):
            if isinstance(node, Select) and all(map(reads_data, conjuncts(node.condition))) and masker.decides(node):
                return f"{stage.name} chooses by data"
            if isinstance(node, Cast) and masker.decides(node):
                return f"{stage.name} computes with an index"
    return None


def _decides(body: Expr) -> bool:
    """Whether anything in a body may have to be rewritten."""
    return any(
        isinstance(node, Select) or (isinstance(node, Cast) and node.operand.dtype == "index" and node.dtype in NARROW)
        for node in walk(body)
    )


# A product of two tensors under a condition.


def _mask_operands(schedule: Edit, stage: EditedStage) -> None:
    """Move the conditions of a summed product to its operands, if each is on the indices of one of them."""
    found = _of_operands(schedule, stage)
    if found is None:
        return
    product, of_factor = found
    computation = stage.state.computation
    body = computation.bodies[0]
    assert isinstance(body, Reduce)
    plain = replace(computation, bodies=(Reduce("sum", product, body.axes),))
    instead: dict[Read, Tensor] = {}
    for factor, conditions in of_factor.items():
        instead[factor] = _masked_operand(schedule, stage, factor, conditions)
    stage.change(computation=reads_redirected(plain, instead))


def _of_operands(schedule: Edit, stage: EditedStage) -> tuple[Expr, dict[Read, list[Expr]]] | None:
    """A product that a stage sums under conditions, and those on the indices of each operand, if all are such."""
    found = _conditional_product(stage.state.computation)
    if found is None or has_own_rule(stage.state) or not all(map(_stays_inside, found[2])):
        return None
    condition, product, factors = found
    of_factor: dict[Read, list[Expr]] = {}
    for each in conjuncts(condition):
        owner = next((factor for factor in factors if _is_about(schedule, each, factor)), None)
        if owner is None:
            return None
        of_factor.setdefault(owner, []).append(each)
    return product, of_factor


def _conditional_product(computation: Computation) -> tuple[Expr, Expr, tuple[Read, Read]] | None:
    """The condition, the product and its factors of a sum of ``select(condition, x * y, 0)`` with x and y of int8."""
    body = computation.bodies[0]
    if len(computation.bodies) != 1 or not isinstance(body, Reduce) or body.kind != "sum" or body.dtype != INT32:
        return None
    chosen = skip_value_preserving_casts(body.body)
    if not isinstance(chosen, Select) or reads_data(chosen.condition) or not _is_zero(chosen.otherwise):
        return None
    product = skip_value_preserving_casts(chosen.then)
    if not isinstance(product, Binary) or product.op != "mul" or product.dtype != INT32:
        return None
    x, y = skip_value_preserving_casts(product.lhs), skip_value_preserving_casts(product.rhs)
    if not isinstance(x, Read) or not isinstance(y, Read) or x is y or x.dtype != "int8" or y.dtype != "int8":
        return None
    return chosen.condition, product, (x, y)


def _is_zero(expr: Expr) -> bool:
    value = skip_casts(expr)
    return isinstance(value, Const) and value.value == 0


def _is_about(schedule: Edit, condition: Expr, read: Read) -> bool:
    """Whether a condition is one on the indices of a read alone, of a tensor that lies in DRAM as a whole."""
    own = {as_bare_axis(index) for index in read.indices}
    if not all(axis in own for axis in axes_of(condition)):
        return False
    maker = schedule.maker(read.tensor)
    return maker is None or (maker.state.scope == DRAM and maker.state.attachment is None)


def _masked_operand(schedule: Edit, stage: EditedStage, read: Read, conditions: list[Expr]) -> Tensor:
    """A new stage that has a tensor's elements where the conditions hold, and zeros elsewhere."""
    tensor = read.tensor
    axes = tuple(Axis(f"i{d}", extent) for d, extent in enumerate(tensor.shape))
    points: dict[Axis, Expr] = {}
    for axis, index in zip(axes, read.indices, strict=True):
        plain = as_bare_axis(index)
        if plain is not None:
            points[plain] = AxisRef(axis)
    value = Read(tensor, tuple(AxisRef(axis) for axis in axes))
    condition = conjunction(conditions)
    assert condition is not None, f"no condition on operand {tensor.name} of {stage.name}"
    body = Select(substitute(condition, points), value, Const(0, tensor.dtype))
    computation = Computation(fresh_name(schedule, f"{tensor.name}.masked"), axes, (), (body,))
    return schedule.insert(initial_state(computation), before=stage).tensor


# Conditions that become numbers.


class _Constants:
    """Tensors of the program whose values are known."""

    def __init__(self, schedule: Edit) -> None:
        self.schedule = schedule
        self.values: dict[Tensor, Array] = {}

    def read(self, expr: Expr, name: str) -> Read:
        """A constant tensor, read at the axes of an expression, that holds its value at each point."""
        axes = axes_of(expr)
        ranges = [np.arange(axis.start, axis.stop) for axis in axes]
        points = dict(zip(axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
        shape = tuple(axis.extent for axis in axes)
        array = np.broadcast_to(np.asarray(evaluate(expr, points)).astype(np.int64), shape)
        dtype = "int8" if array.min() >= -128 and array.max() <= 127 else INT32
        tensor = Tensor(self._fresh(f"{name}.{'where' if expr.dtype == 'bool' else 'index'}"), shape, dtype)
        self.values[tensor] = np.ascontiguousarray(array.astype(dtype))
        origin = [Binary("sub", AxisRef(a), Const(a.start, "index")) if a.start else AxisRef(a) for a in axes]
        return Read(tensor, tuple(origin))

    def _fresh(self, wanted: str) -> str:
        taken = {tensor.name for tensor in self.values}
        name, count = fresh_name(self.schedule, wanted), 1
        while name in taken:
            count += 1
            name = fresh_name(self.schedule, f"{wanted}{count}")
        return name


class _Impossible(Exception):  # noqa: N818 - no error: the condition stays
    """A condition that cannot become a number."""


class _Masker:
    def __init__(self, stage: EditedStage, constants: _Constants, plan: LayoutAssignment, target: Target) -> None:
        self.stage = stage
        self.constants = constants
        self.plan = plan
        self.target = target
        self._known: dict[int, Expr] = {}

    def body(self, body: Expr) -> Expr:
        """The body without the selects that can become arithmetic; the same object where there are none."""
        inner = body.body if isinstance(body, Reduce) else body
        found = self._visit(inner)
        if found is inner:
            return body
        return folded(Reduce(body.kind, found, body.axes) if isinstance(body, Reduce) else found)

    def decides(self, expr: Expr) -> bool:
        """Whether an expression, its parts being as they are, is to become another."""
        return self._decided(expr) is not expr

    def _visit(self, expr: Expr) -> Expr:
        known = self._known.get(id(expr))
        if known is None:
            children = expr.children
            if isinstance(expr, Select):  # its condition is looked at as a whole
                children = (expr.condition, *map(self._visit, (expr.then, expr.otherwise)))
            elif not isinstance(expr, Read):
                children = tuple(map(self._visit, children))
            same = all(new is old for new, old in zip(children, expr.children, strict=True))
            known = self._known[id(expr)] = self._decided(expr if same else with_children(expr, children))
        return known

    def _decided(self, expr: Expr) -> Expr:
        if isinstance(expr, Cast) and expr.operand.dtype == "index" and expr.dtype in NARROW and not reads_data(expr):
            return self._index_as_data(expr)
        if not isinstance(expr, Select) or expr.dtype == "bool":
            return expr
        about_loops = conjunction(each for each in conjuncts(expr.condition) if not reads_data(each))
        about_data = conjunction(each for each in conjuncts(expr.condition) if reads_data(each))
        result = expr.then
        try:
            if about_data is not None:
                result = self._chosen(about_data, result, expr.otherwise)
            if about_loops is not None:
                if self._cuts_elements(about_loops) and all(map(_may_be_computed, (expr.then, expr.otherwise))):
                    result = self._chosen(about_loops, result, expr.otherwise)
                else:
                    result = expr if about_data is None else Select(about_loops, result, expr.otherwise)
        except _Impossible:
            return expr
        return result

    def _chosen(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """``otherwise + m * (then - otherwise)``, in 32 bits; the result has the dtype of the branches."""
        if then.dtype not in NARROW or not all(map(_may_be_computed, (then, otherwise))):
            raise _Impossible
        if _is_zero(then):
            condition, then, otherwise = Not(condition), otherwise, then
        mask, value, rest = self._truth(condition), _wide(then), _wide(otherwise)
        result = Binary("add", Binary("mul", Binary("sub", value, rest), mask), rest)
        return result if then.dtype == INT32 else Cast(result, then.dtype)

    def _truth(self, condition: Expr) -> Expr:
        """1 where a condition holds and 0 elsewhere."""
        if not reads_data(condition):
            return self._constant(condition)
        match condition:
            case Not(operand=operand):
                return Binary("sub", Const(1, INT32), self._truth(operand))
            case Binary(op="and" | "or" as op, lhs=lhs, rhs=rhs):
                return Binary("min" if op == "and" else "max", self._truth(lhs), self._truth(rhs))
            case Compare(op=op, lhs=lhs, rhs=rhs):
                x, y = self._number(lhs), self._number(rhs)
                one = Const(1, INT32)
                match op:
                    case "gt":
                        return _more(x, y)
                    case "lt":
                        return _more(y, x)
                    case "le":
                        return Binary("sub", one, _more(x, y))
                    case "ge":
                        return Binary("sub", one, _more(y, x))
                    case "ne":
                        return Binary("max", _more(x, y), _more(y, x))
                return Binary("sub", one, Binary("max", _more(x, y), _more(y, x)))
        raise _Impossible

    def _number(self, expr: Expr) -> Expr:
        """An operand of a comparison in 32 bits; what depends on indices alone is a constant tensor."""
        if isinstance(expr, Const):
            if not -(1 << 31) <= expr.value < 1 << 31:
                raise _Impossible
            return Const(expr.value, INT32)
        low, high = interval(expr)
        if low < -(1 << 31) or high >= 1 << 31:
            raise _Impossible
        if not reads_data(expr):
            return self._constant(expr)
        if expr.dtype in ("bool", "index", "int64"):
            raise _Impossible
        return _wide(self._visit(expr))

    def _index_as_data(self, expr: Cast) -> Expr:
        """A number that depends on indices, which no instruction computes."""
        try:
            value = self._constant(expr)
        except _Impossible:
            return expr
        if isinstance(value, Const):
            return Const(value.value, expr.dtype)
        return value if expr.dtype == INT32 else Cast(value, expr.dtype)

    def _constant(self, expr: Expr) -> Expr:
        """What an expression of indices alone is at each point."""
        axes = axes_of(expr)
        if prod(axis.extent for axis in axes) > LARGEST_MASK:
            raise _Impossible
        if not axes:
            return Const(int(evaluate(expr, {})), INT32)
        return _wide(self.constants.read(expr, self.stage.name))

    def _cuts_elements(self, condition: Expr) -> bool:
        """Whether a condition on indices changes within an element, in lanes as the stage would have without it."""
        computation = self.stage.state.computation
        lanes = self.plan.known[self.stage.state.tensor]
        axes = axes_of(condition)
        if prod(axis.extent for axis in axes) > LARGEST_MASK:
            return False
        ranges = [np.arange(axis.start, axis.stop) for axis in axes]
        points = dict(zip(axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
        truth = np.broadcast_to(evaluate(condition, points), [axis.extent for axis in axes])
        for dim, block in self.target.near.element.sides(lanes):
            if dim is None or block == 1 or computation.axes[dim] not in axes:
                continue
            along = np.moveaxis(truth, axes.index(computation.axes[dim]), 0)
            for first in range(0, len(along), block):
                part = along[first : first + block]
                if (part != part[:1]).any():
                    return True
        return False


def _plan_without_conditions(schedule: Edit, target: Target) -> LayoutAssignment:
    """The lanes of stages if nothing in them were decided by indices."""
    before = {stage: stage.state for stage in schedule.stages}
    for stage, state in before.items():
        bodies = tuple(_without_selects(body) for body in state.computation.bodies)
        stage.put(replace(state, computation=replace(state.computation, bodies=bodies)))
    plan = assign_layouts(schedule, target.config)
    for stage, state in before.items():
        stage.put(state)
    return plan


def _without_selects(expr: Expr) -> Expr:
    """An expression that reads the same, with sums in place of the selects that can be computed both ways."""
    children = tuple(_without_selects(child) for child in expr.children)
    by_indices = isinstance(expr, Select) and not reads_data(expr.condition) and expr.dtype != "bool"
    if by_indices and all(map(_may_be_computed, expr.children)):
        return Binary("add", children[1], children[2])
    same = all(new is old for new, old in zip(children, expr.children, strict=True))
    return expr if same else with_children(expr, children)


def _may_be_computed(expr: Expr) -> bool:
    """Whether an expression reads nothing outside of tensors at any point of the box."""
    return all(_stays_inside(node) for node in walk(expr) if isinstance(node, Read))


def _stays_inside(read: Read) -> bool:
    bounds = map(interval, read.indices)
    return all(low >= 0 and high < extent for (low, high), extent in zip(bounds, read.tensor.shape, strict=True))


def _wide(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return Const(expr.value, INT32)
    return expr if expr.dtype == INT32 else Cast(expr, INT32)


def _more(x: Expr, y: Expr) -> Expr:
    """1 where x > y, else 0."""
    (low, high), (least, most) = _bounds(x), _bounds(y)
    if high - least < 1 << 31 and low - most >= -(1 << 31):
        return _clipped(Binary("sub", x, y), 0)
    # The difference may wrap around: of the halves it does not, and where these are equal the lowest bits decide.
    one = Const(1, INT32)
    halves = [Binary("shr", each, one) for each in (x, y)]
    lowest = [Binary("sub", each, Binary("shl", half, one)) for each, half in zip((x, y), halves, strict=True)]
    higher = _clipped(Binary("sub", *halves), -1)
    return _clipped(Binary("add", Binary("shl", higher, one), Binary("sub", *lowest)), 0)


def _bounds(expr: Expr) -> tuple[int, int]:
    while isinstance(expr, Cast):
        expr = expr.operand
    return interval(expr)


def _clipped(expr: Expr, low: int) -> Expr:
    return Binary("min", Binary("max", expr, Const(low, INT32)), Const(1, INT32))
