"""Execution of a schedule's nest before partitioning, instance by instance, with a value for every loop."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from executions import may_be

from lathe.frontend import Axis, Tensor, evaluate
from lathe.frontend.arith.conditions import residual_condition
from lathe.frontend.arith.linear import Bound, LoopVariable, bound_value
from lathe.scheduler import Schedule, Stage
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import Guard, Loop, Node, StatementBlock
from lathe.scheduler.schedule_ir.loops import LoopAxis

Iteration = tuple[tuple[int, ...], tuple[int, ...]]
"""Values of the loops around a loop, and of the loop itself (two if it was fused)."""


@dataclass(frozen=True)
class Step:
    """One execution of a statement: ``role`` as in the nest, ``point`` of the domain, values of all ``loops``."""

    stage: Stage
    role: str
    point: dict[Axis, int]
    loops: dict[LoopVariable, int]


def steps(schedule: Schedule, *, conditions: bool = True) -> Iterator[Step]:
    """All instances in order; without ``conditions`` also those that are excluded, such as by tails of splits."""
    return _steps(build_nest(schedule), {}, conditions)


def _steps(nodes: list[Node], loops: dict[LoopVariable, int], conditions: bool) -> Iterator[Step]:
    def hold(bounds: Sequence[Bound], here: dict[LoopVariable, int]) -> bool:
        return not conditions or all(bound_value(each, here) >= 0 for each in bounds)

    for node in nodes:
        if isinstance(node, Loop):
            for value in range(node.first, node.last + 1):
                here = loops | {node.variable: value}
                if hold(node.constraints, here):
                    yield from _steps(node.body, here, conditions)
        elif isinstance(node, Guard):
            if hold(node.constraints, loops):
                yield from _steps(node.body, loops, conditions)
        elif isinstance(node, StatementBlock):
            mask = residual_condition(node.placement.state.computation)
            for values in product(*(range(variable.extent) for variable in node.variables)):
                here = loops | dict(zip(node.variables, values, strict=True))
                point = {axis: bound_value(value, here) for axis, value in node.roots.items()}
                masked = conditions and mask is not None and not may_be(mask, True, point)
                if hold(node.constraints, here) and not masked:
                    yield Step(node.placement.stage, node.role, point, here)


class IterationsOf:
    """The iteration of a loop of a stage that an instance belongs to; None if it is outside the loop."""

    def __init__(self, stage: Stage, loop: LoopAxis) -> None:
        placement = place_stages(stage.schedule)[stage]
        around = [*placement.prefix, *placement.loops.variables]
        self.own = placement.loops.of_leaf[loop]
        self.outer = around[: min(around.index(variable) for variable in self.own)]

    def __call__(self, step: Step) -> Iteration | None:
        if any(variable not in step.loops for variable in (*self.outer, *self.own)):
            return None
        return tuple(step.loops[v] for v in self.outer), tuple(step.loops[v] for v in self.own)


Box = tuple[tuple[int, int], ...]


def windows(stage: Stage, loop: LoopAxis, tensor: Tensor, conditions: bool) -> dict[Iteration, Box]:
    """The box of a tensor's indices that reads access in each iteration of a stage's loop, regardless of guards.

    A fused loop counts as its inner one, with which windows move.
    """
    iteration = IterationsOf(stage, loop)
    found: dict[Iteration, Box] = {}
    for step in steps(stage.schedule, conditions=conditions):
        found_in = iteration(step)
        if step.role == "init" or found_in is None:
            continue
        at = (*found_in[0], *found_in[1][:-1]), found_in[1][-1:]
        for read in step.stage.op.reads:
            if read.tensor is not tensor:
                continue
            cell = tuple(int(evaluate(index, step.point)) for index in read.indices)
            before = found.get(at, tuple((n, n) for n in cell))
            found[at] = tuple((min(low, n), max(high, n)) for (low, high), n in zip(before, cell, strict=True))
    return found
