"""The loops of one stage as variables with ranges: what split and fuse mean in linear arithmetic.

Split is linear already: ``parent = outer * factor + inner``. A loop with a lead begins that many iterations earlier, in
which its axis is negative; a constraint keeps them out of the stage itself. A fused loop is replaced by the two loops
it was made of, in its place, which keeps the order. A fused loop that was split again keeps its outer loops and gets
the two loops back in the place of the innermost part, with the inequalities that tie them together; partitioning turns
these into boxes like any other condition.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lathe.scheduler.linear import Linear, LoopVariable
from lathe.scheduler.state import Fuse, LoopAxis, Split, StageState


@dataclass
class StageLoops:
    """``variables`` outermost first; ``local`` gives each root axis counted from 0; every constraint must be >= 0.

    ``first`` is the iteration from which on loops do more than fill reuse buffers, where that is not the first.
    """

    variables: list[LoopVariable]
    of_leaf: dict[LoopAxis, tuple[LoopVariable, ...]]
    local: dict[LoopAxis, Linear]
    constraints: list[Linear]
    first: dict[LoopVariable, int] = field(default_factory=dict)


def stage_loops(state: StageState, extents: Mapping[LoopAxis, int]) -> StageLoops:
    """The loops of a stage whose root axes have the given largest extents."""
    extent = {axis: size + state.lead.get(axis, 0) for axis, size in extents.items()}
    factor: dict[Split, int] = {}
    for relation in state.relations:
        if isinstance(relation, Split):
            size = extent[relation.parent]
            step = relation.factor if relation.factor is not None else -(-size // (relation.parts or 1))
            factor[relation] = step
            extent[relation.outer] = relation.parts if relation.parts is not None else -(-size // step)
            extent[relation.inner] = min(step, size)
            for part in (relation.outer, relation.inner):
                extent[part] += state.lead.get(part, 0)
        else:
            extent[relation.fused] = extent[relation.outer] * extent[relation.inner]
            assert relation.fused not in state.lead, f"fused loop {relation.fused.name} begins early"

    slots: list[LoopVariable] = []
    value: dict[LoopAxis, Linear] = {}
    of_leaf: dict[LoopAxis, tuple[LoopVariable, ...]] = {}
    for leaf in state.leaves:
        variable = LoopVariable(leaf.name, extent[leaf], leaf.kind)
        slots.append(variable)
        value[leaf] = Linear.of(variable)
        of_leaf[leaf] = (variable,)
    constraints: list[Linear] = []

    def replace_slot(old: LoopVariable, new: tuple[LoopVariable, ...]) -> None:
        position = slots.index(old)
        slots[position : position + 1] = new
        for leaf, variables in of_leaf.items():
            if old in variables:
                place = variables.index(old)
                of_leaf[leaf] = (*variables[:place], *new, *variables[place + 1 :])

    def begun(axis: LoopAxis) -> Linear:
        """The value of an axis, from its first iteration on: negative in the lead."""
        return value[axis] - state.lead.get(axis, 0)

    for relation in reversed(state.relations):
        if isinstance(relation, Split):
            parent = begun(relation.outer) * factor[relation] + begun(relation.inner)
            value[relation.parent] = parent
            whole = extent[relation.outer] - state.lead.get(relation.outer, 0)
            if extent[relation.parent] != whole * factor[relation]:
                constraints.append((parent * -1) + (extent[relation.parent] - 1))
            continue
        _unfuse(relation, extent, value, constraints, slots, replace_slot)
    constraints += [begun(axis) for axis in state.lead if axis in value]
    local = {root: begun(root) for root in state.roots if root in value}
    first = {of_leaf[leaf][0]: early for leaf, early in state.lead.items() if len(of_leaf.get(leaf, ())) == 1}
    return StageLoops(slots, of_leaf, local, constraints, first)


def _unfuse(
    relation: Fuse,
    extent: Mapping[LoopAxis, int],
    value: dict[LoopAxis, Linear],
    constraints: list[Linear],
    slots: list[LoopVariable],
    replace_slot: "object",
) -> None:
    outer = LoopVariable(relation.outer.name, extent[relation.outer], relation.outer.kind)
    inner = LoopVariable(relation.inner.name, extent[relation.inner], relation.inner.kind)
    value[relation.outer], value[relation.inner] = Linear.of(outer), Linear.of(inner)
    joined = Linear.of(outer, extent[relation.inner]) + Linear.of(inner)
    fused = value[relation.fused]
    last = max((atom for atom in fused.terms if isinstance(atom, LoopVariable)), key=slots.index)
    assert callable(replace_slot)
    if fused.terms[last] == 1:
        rest = fused - Linear.of(last)
        replace_slot(last, (outer, inner))
        if not rest.is_constant:
            constraints.append(joined - rest)
            constraints.append(rest - joined + (last.extent - 1))
        # constraints of what was made of the fused loop speak of the loop that is gone
        constraints[:] = [each.substitute(lambda v: joined - rest if v is last else None) for each in constraints]
        return
    replace_slot(last, (last, outer, inner))
    constraints.append(joined - fused)
    constraints.append(fused - joined)
