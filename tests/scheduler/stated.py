"""Checks that what a refusal's message states holds: by a schedule's loops and annotations, or by execution."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from executions import cell_of
from random_commands import Command
from symbolic_execution import Box, Iteration, IterationsOf, steps, windows
from unchecked import carry_out

from lathe.frontend import Axis, Binary, Tensor, as_affine, evaluate, reads_data, walk
from lathe.frontend.expr.nodes import Select, axes_of
from lathe.scheduler import Schedule, Stage
from lathe.scheduler.schedule_ir.loops import AffineSchedule, Fuse, LoopAxis, Split, created_loops, replaced_loops
from lathe.scheduler.schedule_ir.memories import DRAM


@dataclass
class Refusal:
    """The matched parts of a message, and the schedule that it is about."""

    says: re.Match[str]
    schedule: Schedule
    command: Command

    def refused(self) -> Schedule:
        """The schedule as it would be after the command; the same object, changed."""
        carry_out(self.command, self.schedule)
        return self.schedule

    def stage(self, group: str = "stage") -> Stage:
        """The stage of a name, or the producer of a tensor of that name: a command may split a stage by output."""
        named = {tensor.name: stage for stage in self.schedule.stages for tensor in stage.state.tensors}
        return {**named, **{stage.name: stage for stage in self.schedule.stages}}[self.says[group]]

    def loops(self, group: str = "loop", stage: str = "stage") -> list[LoopAxis]:
        """The loops of a stage that have the name."""
        return [leaf for leaf in self.stage(stage).leaf_axis if leaf.name == self.says[group]]

    def number(self, group: str) -> int:
        return int(self.says[group])

    def tensor(self, group: str = "tensor") -> Tensor:
        reads = (read.tensor for stage in self.schedule.stages for read in stage.op.reads)
        return next(tensor for tensor in reads if tensor.name == self.says[group])


def twice(r: Refusal) -> bool:
    """The command names something twice."""
    return r.command.text.count(r.says["name"]) >= 2


def has_several_outputs(r: Refusal) -> bool:
    return any(len(stage.state.tensors) > 1 and stage.name == r.says["stage"] for stage in r.schedule.stages)


def is_not_read(r: Refusal) -> bool:
    """No stage reads a tensor with the stage's name, or any output of the stage."""
    names = {r.says["stage"], *(tensor.name for tensor in r.stage().state.tensors if r.stage().name == r.says["stage"])}
    return not any(read.tensor.name in names for stage in r.schedule.stages for read in stage.op.reads)


def is_output(r: Refusal) -> bool:
    return any(tensor in r.schedule.outputs for tensor in r.stage().state.tensors)


def is_touched(r: Refusal) -> bool:
    """The stage has changed loops, annotations, a compute location, storage, or stages attached to its loops."""
    stage = r.stage()
    state = stage.state
    tagged = state.unrolled or state.annotations or state.threads or state.pragma or state.scope != DRAM
    changed = (
        state.has_changed_loops
        or state.attachment is not None
        or state.storage is not None
        or state.buffer_count is not None
    )
    return bool(tagged or changed or r.schedule.attached(stage))


def depends(reader: Stage, producer: Stage) -> bool:
    """Whether a stage depends on another one, directly or through other stages."""
    readers = [each for tensor in producer.state.tensors for each in producer.schedule.consumers(tensor)]
    return reader in readers or any(depends(reader, each) for each in readers)


def not_neighbours(r: Refusal) -> bool:
    leaves = r.stage().leaf_axis
    return (r.says["x"], r.says["y"]) not in {(one.name, other.name) for one, other in pairwise(leaves)}


def is_inside(r: Refusal) -> bool:
    """A stage is computed, directly or not, in the loops of another."""
    place = r.stage("inner").state.attachment
    while place is not None and r.schedule.at(place).name != r.says["stage"]:
        place = r.schedule.at(place).state.attachment
    return place is not None


def in_pragma(r: Refusal) -> bool:
    """Some stage has an emission rule, or the command gives it one."""
    return any(stage.state.pragma is not None for stage in r.schedule.stages) or "emit_insn" in r.command.text


def comes_from_fuse(r: Refusal) -> bool:
    if ".fuse(" in r.command.text:
        return True
    state, wanted = r.stage().state, set(r.loops())
    for relation in reversed(state.relations):
        if wanted & set(created_loops(relation)):
            if isinstance(relation, Fuse):
                return True
            wanted |= set(replaced_loops(relation))
    return False


def shares(r: Refusal) -> bool:
    """Some stage shares loops, or the command makes it share loops."""
    together = any(s.state.attachment is not None and s.state.attachment.loops for s in r.schedule.stages)
    names = (".after(", ".before(", ".then(", ".between(", "merge_adjacent(")
    return bool(together) or any(name in r.command.text for name in names)


def reduces_together(r: Refusal) -> bool:
    """Some stage shares reduction loops with another."""
    places = [stage.state.attachment for stage in r.schedule.stages]
    return any(loop.kind == "reduce" for place in places if place is not None for loop in place.loops)


def in_pieces(r: Refusal) -> bool:
    place = r.stage().state.attachment
    region = place.region if place is not None else "box"
    return region != "box" or any(each in r.command.text for each in ("exact", "missing"))


def read_windows(r: Refusal) -> list[dict[Iteration, Box]]:
    """Windows with and without the conditions of the loops, some of which bounds take into account."""
    return [windows(r.stage(), loop, r.tensor(), known) for loop in r.loops() for known in (False, True)]


def following(found: dict[Iteration, Box]) -> list[tuple[Box, Box]]:
    """Boxes of neighbouring iterations within the same iteration of the outer loops."""
    keys = sorted(found)
    return [(found[a], found[b]) for a, b in pairwise(keys) if a[0] == b[0]]


def is_clamped(r: Refusal) -> bool:
    """Whether an index is clamped by ``min`` or ``max``: windows are analysed away from the border."""
    indices = [index for read in r.stage().op.reads for index in read.indices]
    return any(isinstance(node, Binary) and node.op in ("min", "max") for index in indices for node in walk(index))


def never_overlap(r: Refusal) -> bool:
    def apart(one: Box, other: Box) -> bool:
        return any(a[1] < b[0] or b[1] < a[0] for a, b in zip(one, other, strict=True))

    return is_clamped(r) or any(all(apart(*pair) for pair in following(found)) for found in read_windows(r))


def never_move(r: Refusal) -> bool:
    def begins(box: Box) -> list[int]:
        return [low for low, _ in box]

    return is_clamped(r) or any(all(begins(a) == begins(b) for a, b in following(found)) for found in read_windows(r))


def vary(r: Refusal) -> bool:
    """The size of a window varies between iterations, or windows would reuse nothing anyway."""
    sizes = [{tuple(high - low for low, high in box) for box in found.values()} for found in read_windows(r)]
    return (
        any(len(each) > 1 for each in sizes)
        or never_move(r)
        or never_overlap(r)
        or mirrored(r)
        or "//" in r.says.string
    )


def mirrored(r: Refusal) -> bool:
    """Reads that move in opposite directions: their span counts as varying, even if it is equal in two iterations."""
    found = [as_affine(index) for read in r.stage().op.reads for index in read.indices]
    signs = {(axis, factor > 0) for each in found if each is not None for axis, factor in each.coefficients.items()}
    return any((axis, not positive) in signs for axis, positive in signs)


def no_affine_index(r: Refusal) -> bool:
    reads = [read for read in r.stage().op.reads if read.tensor.name == r.says["tensor"]]
    return any(as_affine(index) is None for read in reads for index in read.indices)


def of_two_kinds(r: Refusal) -> bool:
    kinds = {loop.kind for loop in r.stage().leaf_axis}
    return kinds == {"data", "reduce"} and r.says["one"] != r.says["other"]


def is_allocated_outside(r: Refusal) -> bool:
    """A buffer is allocated outside the loop: threads share it, whichever of its cells they use."""
    places = [place for buffer, place in r.schedule.allocations.items() if buffer.name == r.says["kept"]]
    leaves = r.stage().leaf_axis
    outermost = min(leaves.index(loop) for loop in r.loops())
    return not any(place.enclosing is r.stage().id and leaves.index(place.axis) >= outermost for place in places)


def share_cells(r: Refusal) -> bool:
    """Two iterations of a loop use the same cell of a buffer, and one of them writes it."""
    schedule = r.refused()
    iterations = [IterationsOf(r.stage(), loop) for loop in r.loops()]
    used: dict[object, set[Iteration]] = {}
    written: set[object] = set()
    for step in steps(schedule):
        points = [(step.stage.tensor, tuple(step.point[axis] for axis in step.stage.op.axes))]
        if step.role != "init":
            cells = ((read.tensor, cell_of(read, step.point)) for read in step.stage.op.reads)
            points += [(tensor, cell) for tensor, cell in cells if cell is not None]
        for position, (tensor, index) in enumerate(points):
            producer = schedule.producer(tensor)
            kept = producer.state.storage if producer is not None else None
            for number, iteration in enumerate(iterations):
                at = iteration(step)
                if kept is None or at is None:
                    continue
                cell = tuple(int(evaluate(each, dict(zip(kept.axes, index, strict=True)))) for each in kept.indices)
                key = number, at[0], kept.buffer, cell
                used.setdefault(key, set()).add(at)
                if position == 0:
                    written.add(key)
    return any(len(used[key]) > 1 for key in written)


def begin_twice(r: Refusal) -> bool:
    """Two iterations of a loop initialise the same sum, or add to it."""
    if all(loop.kind == "reduce" for loop in r.loops()):
        return True
    schedule = r.refused()
    for loop in r.loops():
        iteration, began = IterationsOf(r.stage(), loop), dict[object, Iteration]()
        for step in steps(schedule):
            at = iteration(step)
            if at is None or step.role != "init" or step.stage.tensor.name != r.says["name"]:
                continue
            if began.setdefault((at[0], tuple(step.point.values())), at) != at:
                return True
    return False


def marked(r: Refusal) -> bool:
    """A loop of that name has an annotation, threads or synchronisation, and the command replaces it."""
    state = r.stage().state
    signals = [signal.axis for signal in state.sync_ops if signal.axis is not None]
    return any(loop.name == r.says["loop"] for loop in (*state.annotations, *state.threads, *signals))


def computes_no_padding(r: Refusal) -> bool:
    """No instance of a stage computes a padding cell of its layout, except under a condition of its expression."""
    stage, marker = r.stage(), 123456789
    layout = r.schedule.layout(stage.tensor)
    elements = layout.pack(np.full(layout.tensor.shape, marker, np.int64), 0) == marker
    cells = {tuple(step.point[axis] for axis in stage.op.axes) for step in steps(r.schedule) if step.stage is stage}
    conditional = any(isinstance(node, Select) for body in stage.op.bodies for node in walk(body))
    return conditional or all(elements[cell] for cell in cells)


def has_no_condition(r: Refusal) -> bool:
    """Whether an instance of a stage executes does not depend on a loop (on any, if none is named).

    A compute location, a domain and a schedule map limit instances too, but are no conditions for a command to remove.
    Nor are conditions on data, which any instance may meet.
    """
    stage = r.stage()
    if (
        stage.state.attachment is not None
        or stage.op.where is not None
        or any(isinstance(each, AffineSchedule) for each in stage.state.relations)
    ):
        return True
    conditions = [node.condition for body in stage.op.bodies for node in walk(body) if isinstance(node, Select)]
    loops = r.loops() if r.says["loop"] else list(stage.leaf_axis)
    if any(reads_data(condition) for condition in conditions):
        run_over = {axis for loop in loops for axis in _axes_under(r, loop)}
        return not any(set(axes_of(each)) & run_over for each in conditions if not reads_data(each))
    own = {variable for loop in loops for variable in IterationsOf(stage, loop).own}

    def groups(conditions: bool) -> Counter[object]:
        taken = (step for step in steps(r.schedule, conditions=conditions) if step.stage is stage)
        return Counter((step.role, *(n for v, n in step.loops.items() if v not in own)) for step in taken)

    possible, executed = groups(conditions=False), groups(conditions=True)
    return all(executed[key] in (0, count) for key, count in possible.items())


def is_read_at_two_places(r: Refusal) -> bool:
    reads = [read for read in r.stage().op.reads if read.tensor.name == r.says["tensor"]]
    return len({tuple(map(str, read.indices)) for read in reads}) > 1


def do_not_follow(r: Refusal) -> bool:
    """The second of two root-level stages does not directly follow the first."""
    names = [stage.name for stage in r.schedule.stages if stage.state.attachment is None]
    return (r.says["one"], r.says["two"]) not in pairwise(names)


def is_replaced_by_no_split(r: Refusal) -> bool:
    return any(not isinstance(relation, Split) for relation in r.stage().state.relations)


def runs_over_reduction(r: Refusal) -> bool:
    return all(loop.kind == "reduce" for loop in r.loops())


def runs_over(r: Refusal) -> bool:
    """What changes with a loop while all others are fixed: cells of the tensor, several axes, or nothing."""
    for loop in r.loops():
        axes = _axes_under(r, loop)
        if r.says["over"] == "other loops determine":
            holds = not axes
        elif r.says["over"] == "runs over cells of the tensor":
            holds = loop.kind == "data" or any(axis.kind == "data" for axis in axes)
        else:
            holds = len(axes) > 1
        if not holds:
            return False
    return True


def _axes_under(r: Refusal, loop: LoopAxis) -> set[Axis]:
    """The axes of a stage's computation that change with a loop while all others are fixed."""
    stage, points = r.stage(), defaultdict[object, list[dict[Axis, int]]](list)
    own = IterationsOf(stage, loop).own
    for step in steps(r.schedule):
        if step.stage is stage and step.role != "init":
            points[tuple(value for variable, value in step.loops.items() if variable not in own)].append(step.point)
    return {axis for alike in points.values() for axis in alike[0] if len({point[axis] for point in alike}) > 1}


def has_no_plain_index(r: Refusal) -> bool:
    """Some index of a tensor is not an axis plus a constant."""
    reads = [read for read in r.stage().op.reads if read.tensor is r.schedule.current(r.tensor())]
    found = [as_affine(index) for read in reads for index in read.indices]
    return any(each is None or list(each.coefficients.values()) != [1] for each in found)
