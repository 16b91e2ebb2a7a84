"""The loops of one stage as variables with ranges: what split, fuse and affine maps mean in linear arithmetic.

Split is linear already: ``parent = outer * factor + inner``; so is an affine map, by its inverse. A loop with a lead
begins that many iterations earlier, in which its axis is negative; a constraint keeps them out of the stage itself. A
fused loop is replaced by the two loops it was made of, in its place, which keeps the order. A fused loop that was split
again keeps its outer loops and gets the two loops back in the place of the innermost part, with the inequalities that
tie them together; partitioning turns these into boxes like any other condition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lathe.frontend.arith.linear import FloorDivision, Linear, LoopVariable, floor_divide
from lathe.scheduler.schedule_ir.loops import AffineMap, AffineSchedule, Fuse, LoopAxis, Split, made_by
from lathe.scheduler.schedule_ir.stage import StageState

SharedLoop = tuple[Linear, tuple[LoopVariable, ...]]
"""A loop of another stage: its value, and the variables that it runs over."""


@dataclass(frozen=True, eq=False)
class StageLoops:
    """``variables`` outermost first; ``local`` gives each root axis counted from 0; every constraint must be >= 0.

    ``extents`` are the iterations of each present loop, fused ones as one; ``first`` is the iteration from which on
    loops do more than fill reuse buffers, where that is not the first.
    """

    variables: list[LoopVariable]
    of_leaf: dict[LoopAxis, tuple[LoopVariable, ...]]
    local: dict[LoopAxis, Linear]
    constraints: list[Linear]
    extents: dict[LoopAxis, int]
    values: dict[LoopAxis, Linear] = field(default_factory=dict)
    """Each present loop in terms of variables: of one that was fused, of those of its parts."""
    first: dict[LoopVariable, int] = field(default_factory=dict)
    others: list[tuple[dict[LoopAxis, Linear], list[Linear]]] = field(default_factory=list)
    """Other values of ``local`` and ``constraints``, for the pieces of a map; at no iteration two of them hold."""

    def is_mixed(self) -> bool:
        """Whether loops that run over a reduction decide on elements of the result, too."""
        forms = [self.local, *(local for local, _ in self.others)]
        found = {
            v for local in forms for root, value in local.items() if root.kind == "data" for v in value.variables()
        }
        return any(variable.kind == "reduce" for variable in found)


@dataclass
class _Sizes:
    """The extent of every loop that is or was, the step of each split, and the least values of affine maps.

    Filled here, relation by relation.
    """

    extent: dict[LoopAxis, int]
    factor: dict[Split, int]
    least: dict[AffineMap, list[int]]


def _sizes(state: StageState, extents: Mapping[LoopAxis, int]) -> _Sizes:
    found = _Sizes({axis: size + state.warmup.get(axis, 0) for axis, size in extents.items()}, {}, {})
    extent = found.extent
    for relation in state.relations:
        if isinstance(relation, Split):
            size = extent[relation.parent]
            step = relation.factor if relation.factor is not None else -(-size // (relation.parts or 1))
            found.factor[relation] = step
            extent[relation.outer] = relation.parts if relation.parts is not None else -(-size // step)
            extent[relation.inner] = min(step, size)
        elif isinstance(relation, Fuse):
            extent[relation.fused] = extent[relation.outer] * extent[relation.inner]
        elif isinstance(relation, AffineSchedule):
            extent.update(zip(relation.children, (each.extent for each in relation.variables), strict=True))
        else:
            last = [extent[parent] - 1 for parent in relation.parents]
            found.least[relation] = []
            for child, row, shift in zip(relation.children, relation.forward, relation.shift, strict=True):
                least = sum(c * end for c, end in zip(row, last, strict=True) if c < 0)
                most = sum(c * end for c, end in zip(row, last, strict=True) if c > 0)
                found.least[relation].append(least)
                extent[child] = most - least + 1 + shift
        for part in made_by(relation):
            extent[part] += state.warmup.get(part, 0)
            assert isinstance(relation, Split) or part not in state.warmup, f"loop {part.name} of no split begins early"
    return found


def leaf_extents(state: StageState, extents: Mapping[LoopAxis, int]) -> dict[LoopAxis, int]:
    """The number of iterations of each present loop of a stage whose root axes have the given extents."""
    extent = _sizes(state, extents).extent
    return {leaf: extent[leaf] for leaf in state.leaves}


def stage_loops(
    state: StageState,
    extents: Mapping[LoopAxis, int],
    shared: Sequence[SharedLoop] = (),
    longer: Mapping[LoopAxis, int] | None = None,
) -> StageLoops:
    """The loops of a stage whose root axes have the given largest extents.

    ``shared`` are loops of another stage that stand for the outermost ones of this one; ``longer`` gives loops that run
    on for stages that run together with this one.
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
                place = variables.index(old)
                of_leaf[leaf] = (*variables[:place], *new, *variables[place + 1 :])

    def begun(axis: LoopAxis) -> Linear:
        """The value of an axis, from its first iteration on: negative in the lead."""
        return value[axis] - state.warmup.get(axis, 0)

    for relation in reversed(state.relations):
        if isinstance(relation, Split):
            parent = begun(relation.outer) * factor[relation] + begun(relation.inner)
            value[relation.parent] = parent
            whole = extent[relation.outer] - state.warmup.get(relation.outer, 0)
            if extent[relation.parent] != whole * factor[relation]:
                constraints.append((parent * -1) + (extent[relation.parent] - 1))
        elif isinstance(relation, Fuse):
            _unfuse(relation, extent, value, constraints, slots, replace_slot)
        elif isinstance(relation, AffineSchedule):
            times = {
                variable: begun(child) + least
                for variable, child, least in zip(relation.variables, relation.children, relation.first, strict=True)
            }
            for values, conditions in relation.others:
                case = (each.substitute(times.get) for each in values)
                also = [each.substitute(times.get) for each in conditions]
                others.append((dict(zip(relation.parents, case, strict=True)), [*constraints, *also]))
            value.update(zip(relation.parents, (each.substitute(times.get) for each in relation.values), strict=True))
            constraints += [each.substitute(times.get) for each in relation.constraints]
        else:
            moved = [
                begun(child) + (least - shift)
                for child, least, shift in zip(relation.children, sizes.least[relation], relation.shift, strict=True)
            ]
            for original, row in zip(relation.parents, relation.inverse, strict=True):
                parent = Linear()
                for coefficient, each in zip(row, moved, strict=True):
                    parent += each * coefficient
                value[original] = parent
                constraints += [parent, (parent * -1) + (extent[original] - 1)]
    constraints += [begun(axis) for axis in state.warmup if axis in value]
    local = {root: begun(root) for root in state.roots if root in value}
    alone = [leaf for leaf in state.leaves[len(shared) :] if leaf not in (longer or {})]  # what others share, they use
    first = {of_leaf[leaf][0]: state.warmup[leaf] for leaf in alone if leaf in state.warmup and len(of_leaf[leaf]) == 1}
    extents_of = {leaf: extent[leaf] for leaf in state.leaves}
    present = {leaf: value[leaf] for leaf in state.leaves}
    return StageLoops(slots, of_leaf, local, constraints, extents_of, present, first, others)


def _last(value: Linear) -> int:
    """The largest value that loops give."""
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
    if not own:  # the loops of another stage, which stay as they are
        value[relation.outer] = _settled(floor_divide(fused, width))
        value[relation.inner] = fused - value[relation.outer] * width
        return
    last = max(own, key=slots.index)
    count = extent[relation.outer]
    if fused == Linear.of(last):
        count = max(count, -(-last.extent // width))  # others that share the loop may run on
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
        # constraints and values of what was made of the fused loop speak of the loop that is gone
        constraints[:] = [each.substitute(lambda v: joined - rest if v is last else None) for each in constraints]
        for loop, each in value.items():
            value[loop] = each.substitute(lambda v: joined - rest if v is last else None)
        return
    replace_slot(last, (last, outer, inner))
    constraints.append(joined - fused)
    constraints.append(fused - joined)


def _settled(quotient: Linear) -> Linear:
    """The quotient without divisions that have the same result in all iterations."""
    result = Linear(quotient.constant)
    for atom, coefficient in quotient.terms.items():
        term = Linear.of(atom)
        low, high = term.range({variable: (0, variable.extent - 1) for variable in term.variables()})
        result += (Linear(low) if isinstance(atom, FloorDivision) and low == high else term) * coefficient
    return result
