"""Unimodular loop transformations, for reverse, shift and skew."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.fused_loops import fused_stages
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AffineMap, LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import StageState

Matrix = tuple[tuple[int, ...], ...]


def replace_loops(
    stage: EditedStage,
    command: str,
    parents: tuple[LoopAxis, ...],
    names: tuple[str, ...],
    forward: Matrix,
    inverse: Matrix,
    shift: tuple[int, ...],
    together: bool = False,
    others: Mapping[StageView, tuple[LoopAxis, ...]] | None = None,
) -> tuple[LoopAxis, ...]:
    """Replace loops, each at its position, by their image under a unimodular map; returns the new loops.

    With ``together``, also in the stages that share the loops ``parents``. With ``others``, only in these stages, at
    the positions of their own loops.
    """
    size = range(len(parents))
    product = [[sum(inverse[r][k] * forward[k][c] for k in size) for c in size] for r in size]
    assert product == [[int(r == c) for c in size] for r in size], f"{command}: {inverse} is no inverse of {forward}"
    changes: dict[StageView, StageState] = {}
    renamed: dict[LoopAxis, LoopAxis] = {}
    new_loops = parents
    targets = others if others is not None else fused_stages(stage, parents) if together else {stage: parents}
    for each, loops in targets.items():
        state = each.state
        children = tuple(LoopAxis(name, parent.kind) for name, parent in zip(names, loops, strict=True))
        replacements = dict(zip(loops, children, strict=True))
        changes[each] = replace(
            state,
            leaves=tuple(replacements.get(leaf, leaf) for leaf in state.leaves),
            relations=(*state.relations, AffineMap(command, loops, children, forward, inverse, shift)),
            pragma_axis=replacements.get(state.pragma_axis, state.pragma_axis) if state.pragma_axis else None,
            annotations=MappingProxyType(
                {replacements.get(loop, loop): annotation for loop, annotation in state.annotations.items()}
            ),
            unrolled=frozenset(replacements.get(loop, loop) for loop in state.unrolled),
        )
        renamed.update(replacements)
        if each is stage:
            new_loops = children
    commit(stage.schedule, changes, command, renamed=renamed)
    return new_loops


def checked_integer(value: object, name: str, command: str, stage: EditedStage, least: int | None = None) -> int:
    """The value, if it is an integer of at least ``least``. Raises ScheduleError otherwise."""
    number = integer(value)
    if number is None or (least is not None and number < least):
        kind = {None: "an integer", 0: "an integer of at least 0", 1: "a positive integer"}[least]
        raise ScheduleError(
            f"{name} of {command} on stage {stage.name} must be {kind}, not {shown(value)}.", kind="argument"
        )
    return number
