"""If-convert: replace selects by arithmetic with 0/1 masks, since no instruction is predicated per lane.

``select(c, a, b)`` becomes ``b + m * (a - b)`` with a mask ``m`` that is 1 where ``c`` holds and 0 elsewhere. If ``c``
is on indices and its border runs through vectors, the mask is a constant tensor of the program; other conditions on
indices are left to loop peeling. If ``c`` is on data, the mask is computed: ``x > y`` is ``min(max(x - y, 0), 1)``. A
sum of products under a condition on the indices of one operand becomes a GEMM with that operand masked. Indices that
are used as data become constant tensors as well.
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
from lathe.scheduler.isel.select_rule import has_user_rule
from lathe.scheduler.layout.layout_assignment import LayoutAssignment, assign_layouts
from lathe.scheduler.rewriting.constant_folding import fold_expr
from lathe.scheduler.rewriting.rewrite import redirect_single_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target

Array = NDArray[Any]

LARGEST_MASK = 1 << 20
"""The most elements that the constant tensor for a condition on indices may have."""

INT32 = "int32"
NARROW = ("int8", "int16", INT32, "uint8", "uint16")
"""The dtypes whose values accumulators hold unchanged."""


def if_convert(schedule: Edit, target: Target) -> None:
    """Convert, in place, selects that loop peeling does not resolve; add the masks to the program's constants."""
    for stage in list(schedule.stages):
        _mask_operands(schedule, stage)
    constants = _Constants(schedule)
    if not any(_may_need_conversion(body) for stage in schedule.stages for body in stage.state.computation.bodies):
        return
    plan = _layouts_without_selects(schedule, target)
    for stage in schedule.stages:
        if has_user_rule(stage.state):
            continue
        rewriter = _SelectRewriter(stage, constants, plan, target)
        computation = stage.state.computation
        bodies = tuple(rewriter.body(body) for body in computation.bodies)
        if any(new is not old for new, old in zip(bodies, computation.bodies, strict=True)):
            stage.change(computation=replace(computation, bodies=bodies))
    schedule.update(constants={**schedule.state.constants, **constants.values})


def find_unconverted_select(schedule: Edit, target: Target) -> str | None:
    """A stage with a select on data, an index used as data or a predicated sum of products that could be converted.

    Selects on indices alone are not reported: whether their border runs through vectors depends on vector layouts,
    which later passes may change.
    """
    for stage in schedule.stages:
        if has_user_rule(stage.state):
            continue
        if _operand_conditions(schedule, stage) is not None:
            return f"{stage.name} sums products under conditions on the indices of their operands"
        rewriter = _SelectRewriter(stage, _Constants(schedule), LayoutAssignment(), target)
        for node in (each for body in stage.state.computation.bodies for each in walk(body)):
            if isinstance(node, Select) and all(map(reads_data, conjuncts(node.condition))) and rewriter.changes(node):
                return f"{stage.name} has a select with a data-dependent condition"
            if isinstance(node, Cast) and rewriter.changes(node):
                return f"{stage.name} uses an index as data"
    return None


def _may_need_conversion(body: Expr) -> bool:
    """Whether a body has selects, or indices used as data, that may need conversion."""
    return any(
        isinstance(node, Select) or (isinstance(node, Cast) and node.operand.dtype == "index" and node.dtype in NARROW)
        for node in walk(body)
    )


# Predicated sums of products.


def _mask_operands(schedule: Edit, stage: EditedStage) -> None:
    """Move the conditions of a predicated sum of products to its operands, if each is on the indices of one of them."""
    predicated = _operand_conditions(schedule, stage)
    if predicated is None:
        return
    product, by_operand = predicated
    computation = stage.state.computation
    body = computation.bodies[0]
    assert isinstance(body, Reduce)
    plain = replace(computation, bodies=(Reduce("sum", product, body.axes),))
    masked_operands: dict[Read, Tensor] = {}
    for factor, conditions in by_operand.items():
        masked_operands[factor] = _masked_operand(schedule, stage, factor, conditions)
    stage.change(computation=redirect_single_reads(plain, masked_operands))


def _operand_conditions(schedule: Edit, stage: EditedStage) -> tuple[Expr, dict[Read, list[Expr]]] | None:
    """The product that a stage sums under conditions, and these by operand; None unless each is on one's indices."""
    predicated = _predicated_product(stage.state.computation)
    if predicated is None or has_user_rule(stage.state) or not all(map(_is_in_bounds, predicated[2])):
        return None
    condition, product, factors = predicated
    by_operand: dict[Read, list[Expr]] = {}
    for each in conjuncts(condition):
        owner = next((factor for factor in factors if _is_on_indices(schedule, each, factor)), None)
        if owner is None:
            return None
        by_operand.setdefault(owner, []).append(each)
    return product, by_operand


def _predicated_product(computation: Computation) -> tuple[Expr, Expr, tuple[Read, Read]] | None:
    """The condition, the product and its int8 factors of a sum of ``select(condition, x * y, 0)``."""
    body = computation.bodies[0]
    if len(computation.bodies) != 1 or not isinstance(body, Reduce) or body.kind != "sum" or body.dtype != INT32:
        return None
    select = skip_value_preserving_casts(body.body)
    if not isinstance(select, Select) or reads_data(select.condition) or not _is_zero(select.otherwise):
        return None
    product = skip_value_preserving_casts(select.then)
    if not isinstance(product, Binary) or product.op != "mul" or product.dtype != INT32:
        return None
    x, y = skip_value_preserving_casts(product.lhs), skip_value_preserving_casts(product.rhs)
    if not isinstance(x, Read) or not isinstance(y, Read) or x is y or x.dtype != "int8" or y.dtype != "int8":
        return None
    return select.condition, product, (x, y)


def _is_zero(expr: Expr) -> bool:
    value = skip_casts(expr)
    return isinstance(value, Const) and value.value == 0


def _is_on_indices(schedule: Edit, condition: Expr, read: Read) -> bool:
    """Whether a condition is on the indices of a read alone, of a tensor that is stored completely in DRAM."""
    indices = {as_bare_axis(index) for index in read.indices}
    if not all(axis in indices for axis in axes_of(condition)):
        return False
    producer = schedule.producer(read.tensor)
    return producer is None or (producer.state.scope == DRAM and producer.state.attachment is None)


def _masked_operand(schedule: Edit, stage: EditedStage, read: Read, conditions: list[Expr]) -> Tensor:
    """Insert a stage that copies a tensor where the conditions hold and is zero elsewhere; return its tensor."""
    tensor = read.tensor
    axes = tuple(Axis(f"i{d}", extent) for d, extent in enumerate(tensor.shape))
    points: dict[Axis, Expr] = {}
    for axis, index in zip(axes, read.indices, strict=True):
        bare = as_bare_axis(index)
        if bare is not None:
            points[bare] = AxisRef(axis)
    value = Read(tensor, tuple(AxisRef(axis) for axis in axes))
    condition = conjunction(conditions)
    assert condition is not None, f"no condition on operand {tensor.name} of {stage.name}"
    body = Select(substitute(condition, points), value, Const(0, tensor.dtype))
    computation = Computation(fresh_name(schedule, f"{tensor.name}.masked"), axes, (), (body,))
    return schedule.insert(initial_state(computation), before=stage).tensor


# Selects that become arithmetic.


class _Constants:
    """Constant tensors that are added to the program, with their values."""

    def __init__(self, schedule: Edit) -> None:
        self.schedule = schedule
        self.values: dict[Tensor, Array] = {}

    def read(self, expr: Expr, name: str) -> Read:
        """Read a new constant tensor that holds the value of an index expression at each point of its axes."""
        axes = axes_of(expr)
        ranges = [np.arange(axis.start, axis.stop) for axis in axes]
        points = dict(zip(axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
        shape = tuple(axis.extent for axis in axes)
        array = np.broadcast_to(np.asarray(evaluate(expr, points)).astype(np.int64), shape)
        dtype = "int8" if array.min() >= -128 and array.max() <= 127 else INT32
        tensor = Tensor(self._fresh(f"{name}.{'where' if expr.dtype == 'bool' else 'index'}"), shape, dtype)
        self.values[tensor] = np.asarray(array, dtype, order="C")
        origin = [Binary("sub", AxisRef(a), Const(a.start, "index")) if a.start else AxisRef(a) for a in axes]
        return Read(tensor, tuple(origin))

    def _fresh(self, base: str) -> str:
        taken = {tensor.name for tensor in self.values}
        name, count = fresh_name(self.schedule, base), 1
        while name in taken:
            count += 1
            name = fresh_name(self.schedule, f"{base}{count}")
        return name


class _NotConvertible(Exception):  # noqa: N818 - no error: the select stays
    """Raised for a condition that no mask can replace."""


class _SelectRewriter:
    def __init__(self, stage: EditedStage, constants: _Constants, plan: LayoutAssignment, target: Target) -> None:
        self.stage = stage
        self.constants = constants
        self.plan = plan
        self.target = target
        self._known: dict[int, Expr] = {}

    def body(self, body: Expr) -> Expr:
        """The body with convertible selects replaced by arithmetic; the same object if there are none."""
        inner = body.body if isinstance(body, Reduce) else body
        converted = self._visit(inner)
        if converted is inner:
            return body
        return fold_expr(Reduce(body.kind, converted, body.axes) if isinstance(body, Reduce) else converted)

    def changes(self, expr: Expr) -> bool:
        """Whether an expression would be converted, its operands being as they are."""
        return self._converted(expr) is not expr

    def _visit(self, expr: Expr) -> Expr:
        known = self._known.get(id(expr))
        if known is None:
            children = expr.children
            if isinstance(expr, Select):  # its condition is converted as a whole
                children = (expr.condition, *map(self._visit, (expr.then, expr.otherwise)))
            elif not isinstance(expr, Read):
                children = tuple(map(self._visit, children))
            same = all(new is old for new, old in zip(children, expr.children, strict=True))
            known = self._known[id(expr)] = self._converted(expr if same else with_children(expr, children))
        return known

    def _converted(self, expr: Expr) -> Expr:
        if isinstance(expr, Cast) and expr.operand.dtype == "index" and expr.dtype in NARROW and not reads_data(expr):
            return self._index_as_data(expr)
        if not isinstance(expr, Select) or expr.dtype == "bool":
            return expr
        on_indices = conjunction(each for each in conjuncts(expr.condition) if not reads_data(each))
        on_data = conjunction(each for each in conjuncts(expr.condition) if reads_data(each))
        result = expr.then
        try:
            if on_data is not None:
                result = self._blend(on_data, result, expr.otherwise)
            if on_indices is not None:
                if self._cuts_vectors(on_indices) and all(map(_reads_in_bounds, (expr.then, expr.otherwise))):
                    result = self._blend(on_indices, result, expr.otherwise)
                else:
                    result = expr if on_data is None else Select(on_indices, result, expr.otherwise)
        except _NotConvertible:
            return expr
        return result

    def _blend(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """``otherwise + mask * (then - otherwise)`` in 32 bits, cast to the dtype of the branches."""
        if then.dtype not in NARROW or not all(map(_reads_in_bounds, (then, otherwise))):
            raise _NotConvertible
        if _is_zero(then):
            condition, then, otherwise = Not(condition), otherwise, then
        mask, value, rest = self._mask(condition), _wide(then), _wide(otherwise)
        result = Binary("add", Binary("mul", Binary("sub", value, rest), mask), rest)
        return result if then.dtype == INT32 else Cast(result, then.dtype)

    def _mask(self, condition: Expr) -> Expr:
        """The int32 mask of a condition: 1 where it holds, else 0."""
        if not reads_data(condition):
            return self._constant(condition)
        match condition:
            case Not(operand=operand):
                return Binary("sub", Const(1, INT32), self._mask(operand))
            case Binary(op="and" | "or" as op, lhs=lhs, rhs=rhs):
                return Binary("min" if op == "and" else "max", self._mask(lhs), self._mask(rhs))
            case Compare(op=op, lhs=lhs, rhs=rhs):
                x, y = self._operand(lhs), self._operand(rhs)
                one = Const(1, INT32)
                match op:
                    case "gt":
                        return _greater(x, y)
                    case "lt":
                        return _greater(y, x)
                    case "le":
                        return Binary("sub", one, _greater(x, y))
                    case "ge":
                        return Binary("sub", one, _greater(y, x))
                    case "ne":
                        return Binary("max", _greater(x, y), _greater(y, x))
                return Binary("sub", one, Binary("max", _greater(x, y), _greater(y, x)))
        raise _NotConvertible

    def _operand(self, expr: Expr) -> Expr:
        """An operand of a comparison in int32; a constant tensor if it depends on indices alone."""
        if isinstance(expr, Const):
            if not -(1 << 31) <= expr.value < 1 << 31:
                raise _NotConvertible
            return Const(expr.value, INT32)
        low, high = interval(expr)
        if low < -(1 << 31) or high >= 1 << 31:
            raise _NotConvertible
        if not reads_data(expr):
            return self._constant(expr)
        if expr.dtype in ("bool", "index", "int64"):
            raise _NotConvertible
        return _wide(self._visit(expr))

    def _index_as_data(self, expr: Cast) -> Expr:
        """A constant tensor for an index that is used as data, since no instruction computes it."""
        try:
            value = self._constant(expr)
        except _NotConvertible:
            return expr
        if isinstance(value, Const):
            return Const(value.value, expr.dtype)
        return value if expr.dtype == INT32 else Cast(value, expr.dtype)

    def _constant(self, expr: Expr) -> Expr:
        """The value of an index expression at each point, as a constant or as a constant tensor."""
        axes = axes_of(expr)
        if prod(axis.extent for axis in axes) > LARGEST_MASK:
            raise _NotConvertible
        if not axes:
            return Const(int(evaluate(expr, {})), INT32)
        return _wide(self.constants.read(expr, self.stage.name))

    def _cuts_vectors(self, condition: Expr) -> bool:
        """Whether a condition on indices changes within a vector, in the stage's layout without selects on indices."""
        computation = self.stage.state.computation
        lanes = self.plan.layouts[self.stage.state.tensor]
        axes = axes_of(condition)
        if prod(axis.extent for axis in axes) > LARGEST_MASK:
            return False
        ranges = [np.arange(axis.start, axis.stop) for axis in axes]
        points = dict(zip(axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
        mask = np.broadcast_to(evaluate(condition, points), [axis.extent for axis in axes])
        for dim, block in self.target.acc.vector_type.sides(lanes):
            if dim is None or block == 1 or computation.axes[dim] not in axes:
                continue
            along = np.moveaxis(mask, axes.index(computation.axes[dim]), 0)
            for first in range(0, len(along), block):
                vector = along[first : first + block]
                if (vector != vector[:1]).any():
                    return True
        return False


def _layouts_without_selects(schedule: Edit, target: Target) -> LayoutAssignment:
    """The layouts that stages would have without selects on indices."""
    before = {stage: stage.state for stage in schedule.stages}
    for stage, state in before.items():
        bodies = tuple(_without_selects(body) for body in state.computation.bodies)
        stage.put(replace(state, computation=replace(state.computation, bodies=bodies)))
    plan = assign_layouts(schedule, target.config)
    for stage, state in before.items():
        stage.put(state)
    return plan


def _without_selects(expr: Expr) -> Expr:
    """An expression with the same reads, with sums in place of selects on indices whose branches are both in bounds."""
    children = tuple(_without_selects(child) for child in expr.children)
    on_indices = isinstance(expr, Select) and not reads_data(expr.condition) and expr.dtype != "bool"
    if on_indices and all(map(_reads_in_bounds, expr.children)):
        return Binary("add", children[1], children[2])
    same = all(new is old for new, old in zip(children, expr.children, strict=True))
    return expr if same else with_children(expr, children)


def _reads_in_bounds(expr: Expr) -> bool:
    """Whether all reads of an expression are in bounds at every point of the box."""
    return all(_is_in_bounds(node) for node in walk(expr) if isinstance(node, Read))


def _is_in_bounds(read: Read) -> bool:
    bounds = map(interval, read.indices)
    return all(low >= 0 and high < extent for (low, high), extent in zip(bounds, read.tensor.shape, strict=True))


def _wide(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return Const(expr.value, INT32)
    return expr if expr.dtype == INT32 else Cast(expr, INT32)


def _greater(x: Expr, y: Expr) -> Expr:
    """1 where x > y, else 0."""
    (low, high), (least, most) = _bounds(x), _bounds(y)
    if high - least < 1 << 31 and low - most >= -(1 << 31):
        return _clamped(Binary("sub", x, y), 0)
    # The difference may overflow. That of the halves does not, and where they are equal the lowest bits decide.
    one = Const(1, INT32)
    halves = [Binary("shr", each, one) for each in (x, y)]
    lowest = [Binary("sub", each, Binary("shl", half, one)) for each, half in zip((x, y), halves, strict=True)]
    higher = _clamped(Binary("sub", *halves), -1)
    return _clamped(Binary("add", Binary("shl", higher, one), Binary("sub", *lowest)), 0)


def _bounds(expr: Expr) -> tuple[int, int]:
    while isinstance(expr, Cast):
        expr = expr.operand
    return interval(expr)


def _clamped(expr: Expr, low: int) -> Expr:
    return Binary("min", Binary("max", expr, Const(low, INT32)), Const(1, INT32))
