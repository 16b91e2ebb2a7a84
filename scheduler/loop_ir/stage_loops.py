"""The loops of one stage as variables with ranges: split, fuse and affine maps in linear arithmetic.

Split is linear already: ``parent = outer * factor + inner``; so is an affine map, by its inverse. A loop with warm-up
iterations begins that many iterations earlier, with a negative axis; a constraint keeps them out of the stage itself. A
fused loop is replaced by the two loops it was made of, which keeps the order. A fused loop that was split again keeps
its outer loops, and the two loops replace the innermost part, with inequalities that relate them; partitioning turns
these into boxes like any other condition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lathe.frontend.arith.linear import FloorDivision, Linear, LoopVariable, floor_divide
from lathe.scheduler.schedule_ir.loops import AffineMap, AffineSchedule, Fuse, LoopAxis, Split, created_loops
from lathe.scheduler.schedule_ir.stage import StageState

FusedLoop = tuple[Linear, tuple[LoopVariable, ...]]
"""A loop of another stage: its value, and the variables that it runs over."""


@dataclass(frozen=True, eq=False)
class StageLoops:
    """``variables`` outermost first; ``local`` gives each root axis counted from 0; every constraint must be >= 0.

    ``extents`` are the iterations of each loop, fused ones as one; ``first`` is the first iteration after the warm-up,
    for loops that have one.
    """

    variables: list[LoopVariable]
    of_leaf: dict[LoopAxis, tuple[LoopVariable, ...]]
    local: dict[LoopAxis, Linear]
    constraints: list[Linear]
    extents: dict[LoopAxis, int]
    values: dict[LoopAxis, Linear] = field(default_factory=dict)
    """Each loop in terms of variables: a fused loop in terms of the two that it was made of."""
    first: dict[LoopVariable, int] = field(default_factory=dict)
    others: list[tuple[dict[LoopAxis, Linear], list[Linear]]] = field(default_factory=list)
    """``local`` and ``constraints`` of the other pieces of a piecewise schedule; no two hold in one iteration."""

    def is_mixed(self) -> bool:
        """Whether loops over a reduction also determine the element of the result."""
        forms = [self.local, *(local for local, _ in self.others)]
        in_data = {
            v for local in forms for root, value in local.items() if root.kind == "data" for v in value.variables()
        }
        return any(variable.kind == "reduce" for variable in in_data)


@dataclass
class _Sizes:
    """The extent of every loop, also of replaced ones, the factor of each split, the least values of affine maps."""

    extent: dict[LoopAxis, int]
    factor: dict[Split, int]
    least: dict[AffineMap, list[int]]


def _sizes(state: StageState, extents: Mapping[LoopAxis, int]) -> _Sizes:
    sizes = _Sizes({axis: size + state.warmup.get(axis, 0) for axis, size in extents.items()}, {}, {})
    extent = sizes.extent
    for relation in state.relations:
        if isinstance(relation, Split):
            size = extent[relation.parent]
            factor = relation.factor if relation.factor is not None else -(-size // (relation.parts or 1))
            sizes.factor[relation] = factor
            extent[relation.outer] = relation.parts if relation.parts is not None else -(-size // factor)
            extent[relation.inner] = min(factor, size)
        elif isinstance(relation, Fuse):
            extent[relation.fused] = extent[relation.outer] * extent[relation.inner]
        elif isinstance(relation, AffineSchedule):
            extent.update(zip(relation.children, (each.extent for each in relation.variables), strict=True))
        else:
            last = [extent[parent] - 1 for parent in relation.parents]
            sizes.least[relation] = []
            for child, row, shift in zip(relation.children, relation.forward, relation.shift, strict=True):
                least = sum(c * end for c, end in zip(row, last, strict=True) if c < 0)
                most = sum(c * end for c, end in zip(row, last, strict=True) if c > 0)
                sizes.least[relation].append(least)
                extent[child] = most - least + 1 + shift
        for part in created_loops(relation):
            extent[part] += state.warmup.get(part, 0)
            assert isinstance(relation, Split) or part not in state.warmup, f"warm-up of {part.name}, not from a split"
    return sizes


def leaf_extents(state: StageState, extents: Mapping[LoopAxis, int]) -> dict[LoopAxis, int]:
    """The number of iterations of each loop of a stage whose root axes have the given extents."""
    extent = _sizes(state, extents).extent
    return {leaf: extent[leaf] for leaf in state.leaves}


def stage_loops(
    state: StageState,
    extents: Mapping[LoopAxis, int],
    shared: Sequence[FusedLoop] = (),
    longer: Mapping[LoopAxis, int] | None = None,
) -> StageLoops:
    """The loops of a stage whose root axes have the given largest extents.

    ``shared``: loops of another stage that replace the outermost ones of this stage, which is fused with it.
    ``longer``: extents of loops that run longer for stages fused with this one.
    """
    sizes = _sizes(state, extents)
    extent, factor = sizes.extent, sizes.factor
    slots: list[LoopVariable] = []
    value: dict[LoopAxis, Linear] = {}
    of_leaf: dict[LoopAxis, tuple[LoopVariable, ...]] = {}
    constraints: list[Linear] = []
    for position, leaf in enumerate(state.leaves):
        if position < len(shared):
            value[leaf], of_leaf[leaf] = shared[position]
        else:
            variable = LoopVariable(leaf.name, max(extent[leaf], (longer or {}).get(leaf, 0)), leaf.kind)
            slots.append(variable)
            value[leaf], of_leaf[leaf] = Linear.of(variable), (variable,)
        if _last(value[leaf]) >= extent[leaf]:
            constraints.append((value[leaf] * -1) + (extent[leaf] - 1))

    others: list[tuple[dict[LoopAxis, Linear], list[Linear]]] = []

    def replace_slot(old: LoopVariable, new: tuple[LoopVariable, ...]) -> None:
        position = slots.index(old)
        slots[position : position + 1] = new
        for leaf, variables in of_leaf.items():
            if old in variables:
                index = variables.index(old)
                of_leaf[leaf] = (*variables[:index], *new, *variables[index + 1 :])

    def axis_value(axis: LoopAxis) -> Linear:
        """The value of an axis, which is negative in warm-up iterations."""
        return value[axis] - state.warmup.get(axis, 0)

    for relation in reversed(state.relations):
        if isinstance(relation, Split):
            parent = axis_value(relation.outer) * factor[relation] + axis_value(relation.inner)
            value[relation.parent] = parent
            whole = extent[relation.outer] - state.warmup.get(relation.outer, 0)
            if extent[relation.parent] != whole * factor[relation]:
                constraints.append((parent * -1) + (extent[relation.parent] - 1))
        elif isinstance(relation, Fuse):
            _unfuse(relation, extent, value, constraints, slots, replace_slot)
        elif isinstance(relation, AffineSchedule):
            times = {
                variable: axis_value(child) + least
                for variable, child, least in zip(relation.variables, relation.children, relation.first, strict=True)
            }
            for values, conditions in relation.others:
                case = (each.substitute(times.get) for each in values)
                case_conditions = [each.substitute(times.get) for each in conditions]
                others.append((dict(zip(relation.parents, case, strict=True)), [*constraints, *case_conditions]))
            value.update(zip(relation.parents, (each.substitute(times.get) for each in relation.values), strict=True))
            constraints += [each.substitute(times.get) for each in relation.constraints]
        else:
            moved = [
                axis_value(child) + (least - shift)
                for child, least, shift in zip(relation.children, sizes.least[relation], relation.shift, strict=True)
            ]
            for original, row in zip(relation.parents, relation.inverse, strict=True):
                parent = Linear()
                for coefficient, each in zip(row, moved, strict=True):
                    parent += each * coefficient
                value[original] = parent
                constraints += [parent, (parent * -1) + (extent[original] - 1)]
    constraints += [axis_value(axis) for axis in state.warmup if axis in value]
    local = {root: axis_value(root) for root in state.roots if root in value}
    own = [leaf for leaf in state.leaves[len(shared) :] if leaf not in (longer or {})]  # others work in a fused warm-up
    first = {of_leaf[leaf][0]: state.warmup[leaf] for leaf in own if leaf in state.warmup and len(of_leaf[leaf]) == 1}
    extents_of = {leaf: extent[leaf] for leaf in state.leaves}
    present = {leaf: value[leaf] for leaf in state.leaves}
    return StageLoops(slots, of_leaf, local, constraints, extents_of, present, first, others)


def _last(value: Linear) -> int:
    """The largest value of a linear expression over all iterations."""
    return value.range({variable: (0, variable.extent - 1) for variable in value.variables()})[1]


def _unfuse(
    relation: Fuse,
    extent: Mapping[LoopAxis, int],
    value: dict[LoopAxis, Linear],
    constraints: list[Linear],
    slots: list[LoopVariable],
    replace_slot: "object",
) -> None:
    fused, width = value[relation.fused], extent[relation.inner]
    own = [atom for atom in fused.terms if isinstance(atom, LoopVariable) and atom in slots]
    if not own:  # loops of another stage, which are not replaced
        value[relation.outer] = _constant_folded(floor_divide(fused, width))
        value[relation.inner] = fused - value[relation.outer] * width
        return
    last = max(own, key=slots.index)
    count = extent[relation.outer]
    if fused == Linear.of(last):
        count = max(count, -(-last.extent // width))  # stages fused with this one may run longer
    outer = LoopVariable(relation.outer.name, count, relation.outer.kind)
    inner = LoopVariable(relation.inner.name, width, relation.inner.kind)
    value[relation.outer], value[relation.inner] = Linear.of(outer), Linear.of(inner)
    joined = Linear.of(outer, width) + Linear.of(inner)
    assert callable(replace_slot)
    if fused.terms[last] == 1:
        rest = fused - Linear.of(last)
        replace_slot(last, (outer, inner))
        if not rest.is_constant:
            constraints.append(joined - rest)
            constraints.append(rest - joined + (last.extent - 1))
        # constraints and values of loops made from the fused loop still refer to the variable that is replaced
        constraints[:] = [each.substitute(lambda v: joined - rest if v is last else None) for each in constraints]
        for loop, each in value.items():
            value[loop] = each.substitute(lambda v: joined - rest if v is last else None)
        return
    replace_slot(last, (last, outer, inner))
    constraints.append(joined - fused)
    constraints.append(fused - joined)


def _constant_folded(quotient: Linear) -> Linear:
    """The quotient with constants in place of divisions that have the same result in all iterations."""
    result = Linear(quotient.constant)
    for atom, coefficient in quotient.terms.items():
        term = Linear.of(atom)
        low, high = term.range({variable: (0, variable.extent - 1) for variable in term.variables()})
        result += (Linear(low) if isinstance(atom, FloorDivision) and low == high else term) * coefficient
    return result
