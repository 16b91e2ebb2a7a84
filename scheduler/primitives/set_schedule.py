"""``set_schedule``: the user's isl map defines the loops."""

from dataclasses import replace
from types import MappingProxyType

import islpy as isl

from lathe.frontend import Axis, Computation
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.arith.polyhedra import TooManyOperationsError, domain_of, limited_operations
from lathe.frontend.arith.quasi_affine import linear_of
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.instances import values_of
from lathe.scheduler.loop_ir.split_map_by_axis_kind import cases_of
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AffineSchedule, LoopAxis

MOST_PIECES = 16
LATEST_TIME = 2**31

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def set_schedule(stage: EditedStage, schedule: "str | isl.Map") -> tuple[LoopAxis, ...]:
    """Define the loops of a stage by an isl map from its points to times, in lexicographic order.

    Before::

        for i in 0..5:
          for j in 0..7:
            C[i, j] = A[i, j] + 1

    After ``s[C].set_schedule("{ C[i, j] -> [i + j, j] }")``::

        for t0 in 0..11:
          for t1 in 0..7:
            C[t0 - t1, t1] = A[t0 - t1, t1] + 1 while t1 <= t0 and t0 <= t1 + 4

    The map goes from the data axes, then the reduction axes, to any number of times. It may divide, as in
    ``{ C[i] -> [floor(i/16), i % 16] }``, be piecewise, as in ``{ C[i] -> [i] : i < 8; C[i] -> [20 - i] : i >= 8 }``,
    and combine data and reduction axes in a time; constant times are dropped. It replaces all earlier changes to the
    loops, and later primitives apply to the result.

    Returns the loops, one for each time that is not constant, named as in the map, or ``t0``, ``t1``, … Raises
    ScheduleError if the text is no isl map, has another number of axes, misses a point of the domain, gives a point two
    times or two points one time, or has more than 16 pieces, or if the stage is computed at a loop, has stages computed
    inside it, or a pragma; LegalityError if a stage would read a value not computed yet. Tiramisu's set_schedule.
    """
    where = f"map of set_schedule on stage {stage.name}"
    state = stage.state
    _check_free(stage)
    computation = state.computation
    axes = (*computation.axes, *computation.reduce_axes)
    given = _parsed(schedule, where)
    check_no_parameters(given, where)
    if given.dim(IN) != len(axes):
        raise ScheduleError(
            f"{where} must have {len(axes)} axes ({', '.join(axis.name for axis in axes)}), not {given.dim(IN)}.",
            kind="argument",
        )
    try:
        with limited_operations():
            domain = domain_of(computation)
            relation = given.set_tuple_name(IN, computation.name).intersect_domain(domain)
            _check_times(relation, domain, where, computation.name)
            relation = _extended_to_box(given, computation) or relation
            count = relation.dim(OUT)
            lows = [int(relation.range().dim_min_val(n).to_python()) for n in range(count)]
            highs = [int(relation.range().dim_max_val(n).to_python()) for n in range(count)]
            _check_size(lows, highs, where)
            forward, inverse = _formula(relation), _formula(relation.reverse())
            times = [n for n in range(count) if lows[n] != highs[n]] or [0]
            kinds = [_kind(relation, n, [axis.kind for axis in axes]) for n in times]
            names = [given.get_dim_name(OUT, n) or f"t{n}" for n in times]
            variables = [
                LoopVariable(name, highs[n] - lows[n] + 1, kind)
                for name, n, kind in zip(names, times, kinds, strict=True)
            ]
            known = dict(zip(times, variables, strict=True))
            inputs = [Linear.of(known[n]) if n in known else Linear(lows[n]) for n in range(count)]
            if forward is not None and inverse is not None:
                cases = [_one_formula(forward, inverse, axes, times, inputs)]
            else:
                cases = cases_of(relation.reverse(), inputs)
    except (isl.Error, TooManyOperationsError) as error:
        raise ScheduleError(f"Cannot analyse {where} with isl: {error}. Give a simpler map.", kind="limit") from None
    if len(cases) > MOST_PIECES:
        raise ScheduleError(
            f"{where} must have at most {MOST_PIECES} pieces, not {len(cases)}. Give a simpler map.", kind="limit"
        )
    leaves = tuple(LoopAxis(name, kind) for name, kind in zip(names, kinds, strict=True))
    starts = tuple(axis.start for axis in axes)
    first = tuple(lows[n] for n in times)
    (values, constraints), *others = [
        (tuple(value - start for value, start in zip(points, starts, strict=True)), tuple(conditions))
        for points, conditions in cases
    ]
    mapped = AffineSchedule(state.roots, leaves, tuple(variables), first, values, constraints, tuple(others))
    new = replace(state, leaves=leaves, relations=(mapped,), unrolled=frozenset(), annotations=MappingProxyType({}))
    commit(stage.schedule, {stage: new}, "set_schedule")
    return leaves


def _extended_to_box(given: isl.Map, computation: Computation) -> isl.Map | None:
    """The map extended from the domain to its bounding box, if it gives each point of the box a time of its own.

    Conditions of the domain become conditions on the loops; the machine computes the box.
    """
    if computation.where is None:
        return None
    box = domain_of(replace(computation, where=None))
    relation = given.set_tuple_name(IN, computation.name).intersect_domain(box)
    whole = box.is_subset(relation.domain()) and relation.is_single_valued() and relation.is_injective()
    return relation if whole else None


def _kind(relation: isl.Map, time: int, kinds: list[str]) -> str:
    """The kind of a time: "reduce" if it depends on a reduction axis, else "data"."""
    found: set[str] = set()
    function = isl.PwMultiAff.from_map(relation).gist(relation.domain())

    def piece(_: isl.Set, formula: isl.MultiAff) -> None:
        found.update(kind for d, kind in enumerate(kinds) if formula.get_at(time).involves_dims(IN, d, 1))

    function.foreach_piece(piece)
    return "reduce" if "reduce" in found else "data"


def _one_formula(
    forward: isl.MultiAff, inverse: isl.MultiAff, axes: tuple[Axis, ...], times: list[int], inputs: list[Linear]
) -> tuple[list[Linear], list[Linear]]:
    """The points as expressions of times, and the expressions that must be >= 0 in the image."""
    points = [linear_of(inverse.get_at(d), inputs) for d in range(len(axes))]
    constraints: list[Linear] = []
    for axis, value in zip(axes, points, strict=True):
        constraints += [value - axis.start, (value * -1) + (axis.stop - 1)]
    for n in times:
        gap = linear_of(forward.get_at(n), points) - inputs[n]
        constraints += [] if gap == Linear() else [gap, gap * -1]
    return points, constraints


def _check_free(stage: EditedStage) -> None:
    """Raises ScheduleError if the present loops are needed elsewhere."""
    state = stage.state
    inside = ", ".join(each.name for each in stage.schedule.attached(stage))
    reason = ""
    if state.attachment is not None:
        reason = f"it is computed in loop {state.attachment.axis.name} of {stage.schedule.at(state.attachment).name}"
    elif inside:
        reason = f"{inside} is computed inside it"
    elif state.pragma is not None:
        reason = f"emit_insn gives its loops to rule {state.pragma!r}"
    if reason:
        raise ScheduleError(
            f"Cannot apply set_schedule to {stage.name}: {reason}. Call set_schedule first.", kind="limit"
        )


def _parsed(schedule: object, where: str) -> isl.Map:
    if isinstance(schedule, isl.Map):
        return schedule
    if not isinstance(schedule, str):
        raise ScheduleError(f"{where} must be an isl map or its text, not {schedule!r}.", kind="argument")
    try:
        return isl.Map.read_from_str(isl.DEFAULT_CONTEXT, schedule)
    except isl.Error:
        raise ScheduleError(
            f'{where} must be an isl map, as in "{{ C[i, j] -> [j, i] }}", not {schedule!r}.', kind="argument"
        ) from None


def check_no_parameters(relation: isl.Map, where: str) -> None:
    """Raises ScheduleError if a map has parameters."""
    names = [str(relation.get_dim_name(isl.dim_type.param, n)) for n in range(relation.dim(isl.dim_type.param))]
    if names:
        raise ScheduleError(
            f"{where} must be of axes and numbers, not of parameters ({', '.join(names)}). Write their values.",
            kind="argument",
        )


def _check_size(lows: list[int], highs: list[int], where: str) -> None:
    far = next((time for time in (*lows, *highs) if abs(time) > LATEST_TIME), None)
    if far is not None:
        raise ScheduleError(
            f"times in {where} must be from -{LATEST_TIME} to {LATEST_TIME}, not {far}. Use smaller coefficients.",
            kind="limit",
        )


def _check_times(relation: isl.Map, domain: isl.Set, where: str, name: str) -> None:
    """Raises ScheduleError unless each point has exactly one time, and no other point has the same."""
    missing = domain.subtract(relation.domain())
    if not missing.is_empty():
        raise ScheduleError(
            f"{where} must give every point a time, not leave out {_point(name, missing.lexmin())}.", kind="argument"
        )
    if not relation.is_single_valued():
        several = relation.subtract(relation.lexmin()).domain().lexmin()
        early = values_of(relation.intersect_domain(several).range().lexmin())
        late = values_of(relation.intersect_domain(several).range().lexmax())
        raise ScheduleError(
            f"{where} must give every point one time, not give {_point(name, several)} both {early} and {late}.",
            kind="argument",
        )
    if not relation.is_injective():
        back = relation.reverse()
        time = back.subtract(back.lexmin()).domain().lexmin()
        points = back.intersect_domain(time).range()
        raise ScheduleError(
            f"{where} must give no two points the same time, not {_point(name, points.lexmin())} and "
            f"{_point(name, points.lexmax())} both {values_of(time)}.",
            kind="argument",
        )


def _point(name: str, point: isl.Set) -> str:
    return f"{name}({', '.join(map(str, values_of(point)))})"


def _formula(relation: isl.Map) -> isl.MultiAff | None:
    """A function as a single quasi-affine expression; None if it is piecewise."""
    pieces: list[isl.MultiAff] = []
    function = isl.PwMultiAff.from_map(relation).coalesce().gist(relation.domain())
    function.foreach_piece(lambda _, formula: pieces.append(formula))
    return pieces[0] if len(pieces) == 1 else None
