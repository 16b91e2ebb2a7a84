"""Splits an affine schedule of the user's into one of the data axes and one of the reduction axes.

The machine accumulates in acc and stores complete values, so lowering turns a stage with a reduction into two: one has
the loops of the data axes, the other those of the reduction.
"""

import islpy as isl

from lathe.frontend.arith.linear import Linear
from lathe.frontend.arith.quasi_affine import linear_of
from lathe.scheduler.errors import BuildError
from lathe.scheduler.loop_ir.instances import InstanceSpace
from lathe.scheduler.schedule_ir.loops import AffineSchedule, Relation, created_loops, replaced_loops
from lathe.scheduler.schedule_ir.schedule_state import StageView

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set

Case = tuple[list[Linear], list[Linear]]
"""Points as linear expressions of times, and the conditions (each must be >= 0) at the times that these are for."""


def cases_of(back: isl.Map, inputs: list[Linear]) -> list[Case]:
    """A function from times to points as cases, no two of which hold at the same time."""
    cases: list[Case] = []

    def piece(times: isl.Set, formula: isl.MultiAff) -> None:
        points = [linear_of(formula.get_at(d), inputs) for d in range(formula.dim(OUT))]
        for basic in times.coalesce().compute_divs().make_disjoint().get_basic_sets():
            conditions: list[Linear] = []
            for constraint in basic.remove_redundancies().get_constraints():
                value = linear_of(constraint.get_aff(), inputs)
                conditions += [value, value * -1] if constraint.is_equality() else [value]
            cases.append((points, conditions))

    isl.PwMultiAff.from_map(back).coalesce().foreach_piece(piece)
    return cases


def restricted_to_kind(mapped: AffineSchedule, kind: str) -> AffineSchedule | None:
    """The schedule's loops and axes of one kind; None where they do not correspond one to one."""
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
    (values, constraints), *other_cases = [
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
        tuple(other_cases),
    )


def has_all_points(mapped: AffineSchedule) -> bool:
    """Whether an affine schedule has a time for each point of the box of its axes, not only for a domain in it."""
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
    assert result is not None, "an affine schedule without pieces"
    return result


def relations_by_kind(stage: StageView) -> tuple[tuple[Relation, ...] | None, tuple[Relation, ...]]:
    """The loop relations of the reduction (None: it keeps the loops of its axes), and those of the data axes."""
    state = stage.state
    found: dict[str, list[Relation]] = {"data": [], "reduce": []}
    unordered = False
    for relation in state.relations:
        if len({parent.kind for parent in replaced_loops(relation)}) == 1:
            found[_kind(relation)].append(relation)
            continue
        if not isinstance(relation, AffineSchedule):
            raise BuildError(
                _refusal(stage, "a command on a fused stage", "Fuse stages outside the reduction."), kind="limit"
            )
        data, reduction = restricted_to_kind(relation, "data"), restricted_to_kind(relation, "reduce")
        attachments = [each.state.attachment for each in stage.schedule.attached(stage)]
        if data is None or (reduction is None and any(each and each.axis.kind == "reduce" for each in attachments)):
            raise BuildError(_refusal(stage, "set_schedule", "Give each kind of axes its own times."), kind="limit")
        found["data"].append(data)
        unordered = reduction is None
        found["reduce"] += [] if reduction is None else [reduction]
    return None if unordered else tuple(found["reduce"]), tuple(found["data"])


def _refusal(stage: StageView, command: str, remedy: str) -> str:
    return (
        f"Cannot lower the loops of stage {stage.name}: {command} mixes data axes and reduction axes in one loop, but "
        f"the machine stores the result of a reduction only when it is complete. {remedy}"
    )


def _kind(relation: Relation) -> str:
    return created_loops(relation)[0].kind
