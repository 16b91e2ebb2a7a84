"""Removal of conditions from expressions, and proofs that the instances that then run are harmless."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import islpy as isl

from lathe.frontend import Axis, Computation, evaluate, reads_data
from lathe.frontend.arith.conditions import conjunction
from lathe.frontend.arith.polyhedra import points_of
from lathe.frontend.arith.substitution import with_children
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Read, Reduce, Select, axes_of
from lathe.scheduler.errors import PaddingError, PaddingWitness
from lathe.scheduler.legality.padding_dataflow import Dataflow, Poison, Unknown, Value, known_cells
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.rewriting.undef import conjuncts
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.schedule_state import StageView

SET = isl.dim_type.set


@dataclass
class GuardRemoval:
    """Removes the terms that ``wanted`` selects from the conditions of a stage's expressions, if that is harmless.

    ``computation`` is the stage's, or a new one. Where a condition fails, the guarded expression must have the value of
    the other branch. Raises PaddingError with an instance where it does not.
    """

    stage: StageView
    wanted: Callable[[Expr], bool]
    command: str
    computation: Computation
    removed: list[Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.flow = Dataflow(self.stage.schedule, self.computation)
        self.free = free_points(self.stage, self.computation)

    def bodies(self) -> tuple[Expr, ...]:
        """The bodies without the selected terms."""
        domain = self.flow.domain()
        found: list[Expr] = []
        for body in self.computation.bodies:
            if isinstance(body, Reduce):
                found.append(Reduce(body.kind, self._without(body.body, domain), body.axes))
            else:
                found.append(self._without(body, domain))
        return tuple(found)

    def _without(self, expr: Expr, points: isl.Set) -> Expr:
        if not any(isinstance(node, Select) for node in walk(expr)):
            return expr
        if isinstance(expr, Select) and not reads_data(expr.condition):
            return self._branch(expr, points)
        if isinstance(expr, Read):
            return expr
        children = tuple(self._without(child, points) for child in expr.children)
        same = all(new is old for new, old in zip(children, expr.children, strict=True))
        return expr if same else with_children(expr, children)

    def _branch(self, expr: Select, points: isl.Set) -> Expr:
        holds = self.flow.where(expr.condition, True, points)
        terms = conjuncts(expr.condition)
        dropped = [term for term in terms if self.wanted(term)]
        if holds is None:
            return expr
        then = self._without(expr.then, holds)
        if not dropped:
            return expr if then is expr.then else Select(expr.condition, then, expr.otherwise)
        remaining = [term for term in terms if not self.wanted(term)]
        inside = points
        for term in remaining:
            narrowed = self.flow.where(term, True, inside)
            assert narrowed is not None, f"{term} is not affine"
            inside = narrowed
        self.removed += dropped
        self.check(inside.subtract(holds), then, expr.otherwise)
        condition = conjunction(remaining)
        return then if condition is None else Select(condition, then, expr.otherwise)

    def check(self, added: isl.Set, then: Expr, wanted: Expr) -> None:
        """Refuse points at which an expression differs from ``wanted``, or makes a forbidden read."""
        if added.is_empty():
            return
        found = self.flow.parts(then, added)
        for part, value in found:
            if isinstance(value, Poison):
                raise self.refusal(part, then, value, wanted)
        for part, value in found:
            for other, expected in self.flow.parts(wanted, part.subtract(self.free)):
                if expected is not Unknown.UNDEFINED and not (isinstance(value, int) and value == expected):
                    raise self.refusal(other, then, value, wanted)

    def refusal(self, points: isl.Set, then: Expr, value: Value, wanted: Expr) -> PaddingError:
        """The error that names the first point at which an expression differs from ``wanted``."""
        computation = self.computation
        point = least_point(points)
        axes = (*computation.axes, *computation.reduce_axes)
        bound = dict(zip(axes, point, strict=True))
        witness = PaddingWitness(
            self.stage.name,
            {axis.name: at for axis, at in zip(axes, point, strict=True)},
            point[: len(computation.axes)],
            tuple(self._reads(then, bound)),
        )
        name, target = self.stage.name, f"{self.stage.name}{list(witness.cell)}"
        where = f"instances that {self.command} adds to stage {name}"
        if isinstance(value, Poison):
            what = "which is out of bounds" if value.outside else "padding that must not be read (pad_value=None)"
            at = [int(evaluate(index, bound)) for index in value.read.indices]
            remedy = "Keep the branch" if value.outside else f"Lay {value.read.tensor.name} out with a pad_value"
            return PaddingError(
                f"{where} must read existing values, not {value.read.tensor.name}{at}, {what}: {witness}. {remedy}.",
                witness,
            )
        must = self._wanted(wanted)
        actual = str(value) if isinstance(value, int) else f"{value.value}"
        return PaddingError(
            f"{where} must compute {must}, not a value that is {actual}, or they would change {target}: {witness}. "
            "Keep the branch, or lay out the tensors that are read with another pad_value.",
            witness,
        )

    def refusal_of_taken(self, points: isl.Set, axis: Axis) -> PaddingError:
        """The error that names an instance, in the last iteration of an axis, that reduces an element."""
        computation = self.computation
        point = least_point(points)
        axes = (*computation.axes, *computation.reduce_axes)
        bound = dict(zip(axes, point, strict=True))
        reads = tuple(read for body in computation.bodies for read in self._reads(body, bound))
        values = {each.name: at for each, at in zip(axes, point, strict=True)}
        witness = PaddingWitness(self.stage.name, values, point[: len(computation.axes)], reads)
        return PaddingError(
            f"first or last iterations of axis {axis.name} of stage {self.stage.name} must only reduce neutral values "
            f"for {self.command} to drop them, but one reduces an element: {witness}.",
            witness,
        )

    def _wanted(self, wanted: Expr) -> str:
        text = str(wanted)
        return text if len(text) < 40 else "the value of the other branch"

    def _reads(self, expr: Expr, bound: dict[Axis, int]) -> "list[tuple[str, tuple[int, ...], str]]":
        found: dict[tuple[str, tuple[int, ...]], str] = {}
        for node in walk(expr):
            if not isinstance(node, Read) or any(map(reads_data, node.indices)):
                continue
            cell = tuple(int(evaluate(index, bound)) for index in node.indices)
            found[node.tensor.name, cell] = self._known(node, cell)
        return [(name, cell, what) for (name, cell), what in found.items()]

    def _known(self, read: Read, cell: tuple[int, ...]) -> str:
        inside = all(0 <= at < extent for at, extent in zip(cell, read.tensor.shape, strict=True))
        if not inside:
            return "out of bounds"
        for cells, value in known_cells(self.stage.schedule, read.tensor):
            point = isl.Set(f"{{ [{', '.join(map(str, cell))}] }}")
            if not cells.intersect(point).is_empty():
                if value is Unknown.UNKNOWN:
                    break
                if value is None:
                    return "forbidden padding"
                return f"padding, {value if isinstance(value, int) else value.value}"
        return "an element"


def free_points(stage: StageView, computation: Computation) -> isl.Set:
    """The points at which a stage computes padding without a contract, whose value is arbitrary."""
    found = isl.Set.empty(points_of(computation).space)
    for tensor in stage.state.tensors:
        layout = stage.schedule.layouts.get(tensor)
        if layout is None or not layout.padding_count:
            continue
        for cells, value in known_cells(stage.schedule, tensor):
            if value is None or value is Unknown.UNDEFINED:
                cells = cells.insert_dims(SET, len(computation.axes), len(computation.reduce_axes))
                found = found.union(cells.set_tuple_name(computation.name))
    return found


def least_point(points: isl.Set) -> tuple[int, ...]:
    """The lexicographic minimum of some points."""
    sample = points.lexmin().sample_point()
    return tuple(int(sample.get_coordinate_val(SET, n).to_python()) for n in range(points.dim(SET)))


def roots_under(stage: StageView, axis: "AxisLike | None", command: str) -> set[Axis]:
    """The axes of the computation that a present loop of its stage runs over; all axes for None."""
    state = stage.state
    if axis is None:
        return {root.source for root in state.roots if root.source is not None}
    leaf = stage.find(axis, command)
    loops = place_stages(stage.schedule)[stage].loops
    variables = set(loops.of_leaf[leaf])
    forms = [loops.local, *(local for local, _ in loops.others)]
    roots = [root for root in state.roots if any(local[root].variables() & variables for local in forms)]
    return {root.source for root in roots if root.source is not None}


def mentions(axes: set[Axis]) -> Callable[[Expr], bool]:
    """A predicate: whether a condition uses one of some axes."""
    return lambda condition: bool(set(axes_of(condition)) & axes)


def with_bodies(computation: Computation, bodies: tuple[Expr, ...]) -> Computation:
    """The computation with other bodies."""
    return replace(computation, bodies=bodies)
