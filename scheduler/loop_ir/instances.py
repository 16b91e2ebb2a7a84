"""Stage regions as isl sets and maps: the instances that a stage executes, and the cells that they read and write."""

from collections.abc import Mapping

import islpy as isl

from lathe.frontend import Axis, Computation
from lathe.frontend.arith.linear import Bound, Box, Extremum, Linear, LoopVariable, add, scale
from lathe.frontend.arith.polyhedra import access_of, existing_cells
from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.loop_ir.stage_region import ExactBox, StageRegion
from lathe.scheduler.rewriting.undef import defined_where

SET = isl.dim_type.set


class InstanceSpace:
    """The isl space of a list of loop variables."""

    def __init__(self, variables: list[LoopVariable], name: str) -> None:
        self.variables = variables
        names = [f"{variable.name}_{position}" for position, variable in enumerate(variables)]
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names)
        self.space = space.set_tuple_name(SET, name)
        self.local = isl.LocalSpace.from_space(self.space)
        self.position = {variable: position for position, variable in enumerate(variables)}

    def linear(self, expression: Linear) -> isl.Aff:
        result = isl.Aff.val_on_domain(self.local, isl.Val(expression.constant))
        for atom, coefficient in expression.terms.items():
            if isinstance(atom, LoopVariable):
                term = isl.Aff.var_on_domain(self.local, SET, self.position[atom])
            else:
                term = self.linear(atom.numerator).scale_down_val(isl.Val(atom.divisor)).floor()
            result = result.add(term.scale_val(isl.Val(coefficient)))
        return result

    def bound(self, bound: Bound) -> isl.PwAff:
        if isinstance(bound, Linear):
            return isl.PwAff.from_aff(self.linear(bound))
        result = self.bound(bound.bounds[0])
        for inner in bound.bounds[1:]:
            other = self.bound(inner)
            result = result.min(other) if bound.kind == "min" else result.max(other)
        return result

    def not_negative(self, bound: Bound, points: isl.Set) -> isl.Set:
        """The points where a bound is >= 0; extrema become unions and intersections, so that sets have few pieces."""
        if isinstance(bound, Extremum) and bound.kind == "min":
            for inner in bound.bounds:
                points = self.not_negative(inner, points)
            return points
        if isinstance(bound, Extremum):
            first, *others = (self.not_negative(inner, points) for inner in bound.bounds)
            for each in others:
                first = first.union(each)
            return first.coalesce()
        if all(isinstance(atom, LoopVariable) for atom in bound.terms):
            constraint = isl.Constraint.inequality_alloc(self.local).set_constant_val(isl.Val(bound.constant))
            for atom, coefficient in bound.terms.items():
                assert isinstance(atom, LoopVariable)
                constraint = constraint.set_coefficient_val(SET, self.position[atom], isl.Val(coefficient))
            return points.add_constraint(constraint)
        holds = self.linear(bound).ge_basic_set(self.linear(Linear(0)))
        return points.intersect(isl.Set.from_basic_set(holds))

    def box(self, ranges: Box) -> isl.Set:
        points = isl.Set.universe(self.space)
        for position, variable in enumerate(self.variables):
            first, last = ranges[variable]
            points = points.lower_bound_val(SET, position, isl.Val(first))
            points = points.upper_bound_val(SET, position, isl.Val(last))
        return points


def instances(placement: StageRegion) -> isl.Map:
    """From each executed instance (prefix and own loops) to the point of the computation's domain that it computes."""
    if not placement.cached_instances:
        first, *others = map(_instances, placement.cases)
        for each in others:
            first = first.union(each)
        placement.cached_instances.append(first)
    return placement.cached_instances[0]


def _instances(placement: StageRegion) -> isl.Map:
    variables = [*placement.prefix, *placement.loops.variables]
    space = InstanceSpace(variables, "instance")
    points = space.box(placement.box)
    if placement.exact is not None and not _has_conditions(placement.state.computation):
        return _of_exact(placement, placement.exact, space, points)
    for constraint in placement.constraints():
        points = space.not_negative(constraint, points)
    if placement.pieces is not None:
        union = isl.Set.empty(space.space)
        for piece in placement.pieces:
            subset = points
            for condition in piece:
                subset = space.not_negative(condition, subset)
            union = union.union(subset)
        points = union
    roots = placement.roots()
    values = {axis: space.bound(root) for axis, root in roots.items()}
    return isl.Map.from_multi_pw_aff(_points(placement, space, values)).intersect_domain(points)


def _has_conditions(computation: Computation) -> bool:
    return computation.where is not None or any(map(defined_where, computation.bodies))


def _of_exact(placement: StageRegion, exact: ExactBox, space: InstanceSpace, points: isl.Set) -> isl.Map:
    """The instances of a stage whose box has piecewise bounds, from the isl box, which gives fewer pieces."""
    computation, depth, own = placement.state.computation, len(placement.prefix), len(placement.loops.variables)
    lows = iter(exact.lows)
    values: dict[Axis, isl.PwAff] = {}
    for root in placement.state.roots:
        assert root.source is not None
        local = placement.loops.local[root]
        if root.kind == "data":
            low = next(lows).insert_dims(isl.dim_type.in_, depth, own)
            low = low.set_tuple_id(isl.dim_type.in_, space.space.get_tuple_id(SET))
            values[root.source] = low.add(space.bound(local))
        else:
            values[root.source] = space.bound(local + root.source.start)
            points = space.not_negative(local * -1 + (root.source.extent - 1), points)
    for constraint in placement.loops.constraints:
        points = space.not_negative(constraint, points)
    relation = isl.Map.from_multi_pw_aff(_points(placement, space, values)).intersect_domain(points)
    cells = exact.cells.insert_dims(isl.dim_type.in_, depth, own).set_tuple_name(isl.dim_type.in_, "instance")
    cells = cells.insert_dims(isl.dim_type.out, len(computation.axes), len(computation.reduce_axes))
    return relation.intersect(cells.set_tuple_name(isl.dim_type.out, computation.name))


def _points(placement: StageRegion, space: InstanceSpace, values: Mapping[Axis, isl.PwAff]) -> isl.MultiPwAff:
    """The function from instances to points of the domain, from the values of the axes."""
    computation = placement.state.computation
    axes = (*computation.axes, *computation.reduce_axes)
    function = isl.MultiPwAff.zero(
        space.space.map_from_domain_and_range(
            isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[axis.name for axis in axes]).set_tuple_name(
                SET, computation.name
            )
        )
    )
    for position, axis in enumerate(axes):
        function = function.set_pw_aff(position, values[axis])
    return function


def cells_read(placement: StageRegion, read: ReadAccess, depth: int, around: isl.Set | None = None) -> isl.Map:
    """From the first ``depth`` loops around a stage to the cells that a read touches, in iterations ``around``."""
    producer = placement.stage.schedule.producer(read.tensor)  # once lowered, it may compute more than existing cells
    cells = None if producer is None else existing_cells(read.tensor, producer.state.computation)
    access = access_of(placement.state.computation, read, cells)
    relation = _executed_in(placement, around).apply_range(access)
    count = len(placement.prefix) + len(placement.loops.variables)
    return relation.project_out(isl.dim_type.in_, depth, count - depth)


def _executed_in(placement: StageRegion, around: isl.Set | None) -> isl.Map:
    """The instances executed in iterations ``around`` of the enclosing loops; in all iterations for None."""
    if around is None:
        return instances(placement)
    inside = around.insert_dims(SET, len(placement.prefix), len(placement.loops.variables))
    return instances(placement).intersect_domain(inside.set_tuple_name("instance"))


def cells_written(placement: StageRegion, tensor_name: str, depth: int, around: isl.Set | None = None) -> isl.Map:
    """From the first ``depth`` loops around a stage to the cells that its instances write, in iterations ``around``."""
    computation = placement.state.computation
    relation = _executed_in(placement, around)
    relation = relation.project_out(isl.dim_type.out, len(computation.axes), len(computation.reduce_axes))
    count = len(placement.prefix) + len(placement.loops.variables)
    relation = relation.project_out(isl.dim_type.in_, depth, count - depth)
    return relation.set_tuple_name(isl.dim_type.out, tensor_name)


def computed_box(placement: StageRegion, tensor_name: str, depth: int, around: isl.Set | None = None) -> isl.Map:
    """From the first ``depth`` loops around a stage to the box of cells that it computes, in iterations ``around``."""
    if placement.exact is not None:
        relation = placement.exact.cells.set_tuple_name(isl.dim_type.out, tensor_name)
    else:
        relation = _box_around(placement, tensor_name, placement.low, placement.extent)
    if around is not None:
        relation = relation.intersect_domain(around)
    return relation.project_out(isl.dim_type.in_, depth, len(placement.prefix) - depth)


def held_cells(placement: StageRegion, tensor_name: str) -> isl.Map:
    """From the loops around a reuse buffer to the cells of its window that this or earlier iterations have fetched."""
    window, depth = placement.window, len(placement.prefix)
    assert window is not None, f"{placement.stage.name} is no reuse buffer"
    fetched = _box_around(placement, tensor_name, placement.low, placement.extent)
    loops = fetched.domain().get_space()
    order = isl.Map.universe(loops.map_from_domain_and_range(loops))
    for level in range(depth - 1):
        order = order.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
    order = order.order_ge(isl.dim_type.in_, depth - 1, isl.dim_type.out, depth - 1)
    held = _box_around(placement, tensor_name, window.low, window.extent)
    return order.apply_range(fetched).intersect(held)


def _box_around(placement: StageRegion, tensor_name: str, lows: list[Bound], extents: list[Bound]) -> isl.Map:
    """From the loops around a stage to the cells of a box, given by its bounds."""
    tensor = placement.state.tensors[0]
    indices = [LoopVariable(f"cell{dim}", extent) for dim, extent in enumerate(tensor.shape)]
    space = InstanceSpace([*placement.prefix, *indices], "instance")
    points = space.box({**placement.box, **{index: (0, index.extent - 1) for index in indices}})
    for index, low, extent in zip(indices, lows, extents, strict=True):
        beyond = add(low, scale(Linear.of(index), -1))
        points = space.not_negative(scale(beyond, -1), points)
        points = space.not_negative(add(add(beyond, extent), Linear(-1)), points)
    count = len(placement.prefix)
    relation = isl.Map.from_range(points).move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, count)
    return relation.set_tuple_name(isl.dim_type.in_, "instance").set_tuple_name(isl.dim_type.out, tensor_name)


def values_of(point: isl.Set) -> list[int]:
    """The coordinates of a set of one point."""
    sample = point.sample_point()
    return [int(sample.get_coordinate_val(SET, n).to_python()) for n in range(point.dim(SET))]


def equal_loops(space: isl.Space, count: int) -> isl.Map:
    """The map, in a space of maps, of all pairs that are equal in the outermost ``count`` loops."""
    order = isl.Map.universe(space)
    for position in range(count):
        order = order.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return order
