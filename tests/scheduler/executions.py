"""Plain-Python execution of loop nests, one statement instance at a time: the reference for legality checks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from lathe.frontend import Axis, Tensor, evaluate, reads_data
from lathe.frontend.arith.conditions import residual_condition
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Binary, Const, Not, ReadAccess, Reduce, Select
from lathe.scheduler import Schedule, Witness
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, ChunkNode, Free, Loop, Node, SyncNode
from lathe.scheduler.loop_ir.partition import partition


@dataclass(frozen=True)
class Instance:
    """One execution of a statement at one point."""

    node: ChunkNode
    point: dict[Axis, int]


@dataclass(frozen=True)
class Gone:
    """A buffer is allocated or freed: values that it held can no longer be read."""

    tensors: tuple[Tensor, ...]
    begins: bool = False


def events(nodes: list[Node], environment: dict[object, int] | None = None) -> Iterator[Instance | Gone]:
    """Everything that a partitioned nest does, in order, one statement instance at a time."""
    environment = {} if environment is None else environment
    for node in nodes:
        if isinstance(node, Loop):
            for value in range(node.first, node.last + 1):
                yield from events(node.body, environment | {node.variable: value})
        elif isinstance(node, Alloc | Free) and node.stored is not None:
            stored = (tensor for user in node.stored.users for tensor in user.state.tensors)
            yield Gone(tuple(stored), isinstance(node, Alloc))
        elif isinstance(node, Alloc | Free):
            yield Gone(node.placement.state.tensors)
        elif isinstance(node, SyncNode):
            continue  # changes no values
        elif isinstance(node, AdvanceWindow):
            continue  # cells that leave the window are overwritten by new ones, one by one
        else:
            assert isinstance(node, ChunkNode), f"{type(node).__name__} in a partitioned nest"
            mask = residual_condition(node.placement.state.computation)
            for values in product(*(range(extent) for _, extent in node.loops)):
                here = environment | {variable: value for (variable, _), value in zip(node.loops, values, strict=True)}
                point = {axis: value.value(here) for axis, value in node.roots.items()}
                if mask is None or may_be(mask, True, point):
                    yield Instance(node, point)


def execution(schedule: Schedule) -> Iterator[Instance | Gone]:
    return events(partition(build_nest(schedule, largest_blocks=True)))


def takes_in(instance: Instance) -> bool:
    """Whether an instance counts as a point of its computation: updates that ``where`` excludes do not."""
    bodies = instance.node.placement.state.computation.bodies
    reductions = [body for body in bodies if isinstance(body, Reduce) and isinstance(body.body, Select)]
    return len(reductions) < len(bodies) or any(_takes_in(each.body, each, instance.point) for each in reductions)


def _takes_in(expr: Expr, reduction: Reduce, point: dict[Axis, int]) -> bool:
    if isinstance(expr, Select):
        branches = ((expr.then, True), (expr.otherwise, False))
        return any(may_be(expr.condition, v, point) and _takes_in(each, reduction, point) for each, v in branches)
    return not (isinstance(expr, Const) and expr.value == neutral_element(reduction.kind, expr.dtype))


def cell_of(read: ReadAccess, point: dict[Axis, int]) -> tuple[int, ...] | None:
    """The cell that a read accesses at a point; None if its conditions do not hold."""
    if not all(may_be(guard, holds, point) for guard, holds in read.guards):
        return None
    return tuple(int(np.asarray(evaluate(index, point))) for index in read.indices)


def may_be(condition: Expr, value: bool, point: dict[Axis, int]) -> bool:
    """Whether a condition may have a value at a point, for some data."""
    if not reads_data(condition):
        return bool(evaluate(condition, point)) == value
    match condition:
        case Binary(op="and" | "or" as op, lhs=lhs, rhs=rhs):
            every = all if (op == "and") == value else any
            return every(may_be(part, value, point) for part in (lhs, rhs))
        case Not(operand=operand):
            return may_be(operand, not value, point)
    return True


def confirm(witness: Witness, refused: Schedule) -> None:
    """Fail unless executing the refused schedule confirms that the witness's value is missing when it is read."""
    consumer, producer = (
        next(stage for stage in refused.stages if stage.name == name)
        for name in (witness.consumer_stage, witness.producer_stage)
    )
    tensor = next(tensor for tensor in producer.state.tensors if tensor.name == witness.tensor)
    axes = [*consumer.op.axes, *consumer.op.reduce_axes]
    assert [axis.name for axis in axes] == list(witness.consumer)
    point = dict(zip(axes, witness.consumer.values(), strict=True))
    assert any(cell_of(read, point) == witness.cell for read in consumer.op.reads if read.tensor is tensor), (
        f"{witness.consumer_stage} does not read the cell at {witness.consumer}"
    )
    assert list(witness.producer) == [axis.name for axis in producer.op.axes]
    assert tuple(witness.producer.values()) == witness.cell, "the producer's instance writes another cell"
    made, executed = 0, False
    wanted = prod(axis.extent for axis in producer.op.reduce_axes)  # a sum is complete after its last update
    for event in execution(refused):
        if isinstance(event, Gone):
            made = 0 if tensor in event.tensors else made
            continue
        computation = event.node.placement.state.computation
        stage = event.node.placement.stage
        if stage is consumer and event.node.role != "init" and event.point == point:
            executed = True
            if made < wanted:
                return
        if stage is producer and tuple(event.point[axis] for axis in computation.axes) == witness.cell:
            made += event.node.role != "init"
    assert executed, f"{witness.consumer_stage} never executes {witness.consumer}"
    raise AssertionError(f"the value is there whenever {witness.consumer_stage} reads it: {witness}")
