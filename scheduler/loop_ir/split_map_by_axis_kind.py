"""The loops of a map of the user's that are of data axes, or of reduction axes, as a map of their own.

The machine adds up in acc and stores what is whole, so a stage with a reduction becomes two: one has the loops of the
data axes, the other those of the reduction.
"""

import islpy as isl

from lathe.frontend.arith.linear import Linear
from lathe.frontend.arith.quasi_affine import linear_of
from lathe.scheduler.errors import BuildError
from lathe.scheduler.loop_ir.instances import InstanceSpace
from lathe.scheduler.schedule_ir.loops import AffineSchedule, Relation, made_by, replaced_by
from lathe.scheduler.schedule_ir.schedule import StageView

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set

Case = tuple[list[Linear], list[Linear]]
"""Points as formulas of times, and what must be >= 0 at the times that these are for."""


def cases_of(back: isl.Map, inputs: list[Linear]) -> list[Case]:
    """A function from times to points as formulas, each with the times that it is for; no two for the same time."""
    found: list[Case] = []

    def piece(times: isl.Set, formula: isl.MultiAff) -> None:
        points = [linear_of(formula.get_at(d), inputs) for d in range(formula.dim(OUT))]
        for part in times.coalesce().compute_divs().make_disjoint().get_basic_sets():
            conditions: list[Linear] = []
            for constraint in part.remove_redundancies().get_constraints():
                value = linear_of(constraint.get_aff(), inputs)
                conditions += [value, value * -1] if constraint.is_equality() else [value]
            found.append((points, conditions))

    isl.PwMultiAff.from_map(back).coalesce().foreach_piece(piece)
    return found


def part_of_map(mapped: AffineSchedule, kind: str) -> AffineSchedule | None:
    """The loops and axes of one kind; None where they do not stand for each other, one by one."""
    roots = [n for n, parent in enumerate(mapped.parents) if parent.kind == kind]
    times = [n for n, child in enumerate(mapped.children) if child.kind == kind]
    if not roots or not times:
        return None
    relation = _relation(mapped)
    for n in reversed(range(len(mapped.parents))):
        relation = relation if n in roots else relation.project_out(OUT, n, 1)
    for n in reversed(range(len(mapped.children))):
        relation = relation if n in times else relation.project_out(IN, n, 1)
    if not relation.is_single_valued() or not relation.is_injective():
        return None
    variables = tuple(mapped.variables[n] for n in times)
    (values, constraints), *others = [
        (tuple(points), tuple(conditions))
        for points, conditions in cases_of(relation.coalesce(), [Linear.of(each) for each in variables])
    ]
    return AffineSchedule(
        tuple(mapped.parents[n] for n in roots),
        tuple(mapped.children[n] for n in times),
        variables,
        tuple(mapped.first[n] for n in times),
        values,
        constraints,
        tuple(others),
    )


def has_all_points(mapped: AffineSchedule) -> bool:
    """Whether a map has times for all points of the box of its axes, not for a domain in it only."""
    points = _relation(mapped).range()
    box = isl.Set.universe(points.get_space())
    for position, root in enumerate(mapped.parents):
        assert root.source is not None
        box = box.lower_bound_val(SET, position, isl.Val(0))
        box = box.upper_bound_val(SET, position, isl.Val(root.source.extent - 1))
    return box.is_subset(points)


def _relation(mapped: AffineSchedule) -> isl.Map:
    """From all times to the values of all axes, each counted from 0."""
    space = InstanceSpace(list(mapped.variables), "times")
    box = space.box({v: (low, low + v.extent - 1) for v, low in zip(mapped.variables, mapped.first, strict=True)})
    names = [f"d{n}" for n in range(len(mapped.parents))]
    points = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=names).set_tuple_name(SET, "points")
    result: isl.Map | None = None
    for values, constraints in [(mapped.values, mapped.constraints), *mapped.others]:
        where = box
        for constraint in constraints:
            where = space.not_negative(constraint, where)
        function = isl.MultiPwAff.zero(space.space.map_from_domain_and_range(points))
        for n, value in enumerate(values):
            function = function.set_pw_aff(n, space.bound(value))
        case = isl.Map.from_multi_pw_aff(function).intersect_domain(where)
        result = case if result is None else result.union(case)
    assert result is not None, "a map has a piece"
    return result


def relations_by_kind(stage: StageView) -> tuple[tuple[Relation, ...] | None, tuple[Relation, ...]]:
    """Where the loops of the reduction, and those of the data axes, come from; None for loops without any order."""
    state = stage.state
    found: dict[str, list[Relation]] = {"data": [], "reduce": []}
    natural = False
    for relation in state.relations:
        if len({parent.kind for parent in replaced_by(relation)}) == 1:
            found[_kind(relation)].append(relation)
            continue
        if not isinstance(relation, AffineSchedule):
            raise BuildError(
                _refusal(stage, "a command on a stage that shares them", "Share loops outside the reduction."),
                kind="limit",
            )
        data, reduction = part_of_map(relation, "data"), part_of_map(relation, "reduce")
        guests = [each.state.attachment for each in stage.schedule.attached(stage)]
        if data is None or (reduction is None and any(each and each.axis.kind == "reduce" for each in guests)):
            raise BuildError(_refusal(stage, "set_schedule", "Give each kind times of its own."), kind="limit")
        found["data"].append(data)
        natural = reduction is None
        found["reduce"] += [] if reduction is None else [reduction]
    return None if natural else tuple(found["reduce"]), tuple(found["data"])


def _refusal(stage: StageView, command: str, remedy: str) -> str:
    return (
        f"loops of stage {stage.name} must each be of data axes or of its reduction for a machine, which stores what a "
        f"reduction has made when it is whole, not of both, as {command} has given them. {remedy}"
    )


def _kind(relation: Relation) -> str:
    return made_by(relation)[0].kind
