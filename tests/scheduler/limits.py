"""What commands refuse without two instances to show, and how to see on a schedule that each refusal is right.

``LIMITS`` lists messages: requests for what is not there, and what the language leaves out. What a message states is
looked up in the loops, tags and places of the schedule, or, for windows of reuse buffers, found by execution.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from executions import cell_of
from random_commands import Command
from symbolic_execution import Box, Iteration, IterationsOf, steps, windows
from unchecked import carry_out

from lathe.frontend import Binary, Tensor, as_affine, evaluate, walk
from lathe.scheduler import Schedule, Stage
from lathe.scheduler.state import DRAM, Fuse, LoopAxis, Mapped, made_by, replaced_by


@dataclass
class Refusal:
    """What a message says, and the schedule that it speaks of."""

    says: re.Match[str]
    schedule: Schedule
    command: Command

    def refused(self) -> Schedule:
        """The schedule as it would be after the command; the same object, changed."""
        carry_out(self.command, self.schedule)
        return self.schedule

    def stage(self, group: str = "stage") -> Stage:
        return next(stage for stage in self.schedule.stages if stage.name == self.says[group])

    def loops(self, group: str = "loop", stage: str = "stage") -> list[LoopAxis]:
        """The loops of a stage that bear a name."""
        return [leaf for leaf in self.stage(stage).leaf_axis if leaf.name == self.says[group]]

    def number(self, group: str) -> int:
        return int(self.says[group])

    def tensor(self, group: str = "tensor") -> Tensor:
        reads = (read.tensor for stage in self.schedule.stages for read in stage.op.reads)
        return next(tensor for tensor in reads if tensor.name == self.says[group])


def _twice(r: Refusal) -> bool:
    """The command names something twice."""
    return r.command.text.count(r.says["name"]) >= 2


def _has_several_outputs(r: Refusal) -> bool:
    return any(len(stage.state.tensors) > 1 and stage.name == r.says["stage"] for stage in r.schedule.stages)


def _is_output(r: Refusal) -> bool:
    return any(tensor in r.schedule.outputs for tensor in r.stage().state.tensors)


def _is_touched(r: Refusal) -> bool:
    """The stage has other loops than at first, tags, a place, storage, or other stages in its loops."""
    stage = r.stage()
    state = stage.state
    tagged = state.unrolled or state.marks or state.threads or state.pragma or state.scope != DRAM
    changed = state.is_touched or state.attachment is not None or state.storage is not None or state.slots is not None
    return bool(tagged or changed or r.schedule.attached(stage))


def _depends(reader: Stage, maker: Stage) -> bool:
    """Whether a stage reads another one's values, or what is made of them."""
    readers = [each for tensor in maker.state.tensors for each in maker.schedule.readers(tensor)]
    return reader in readers or any(_depends(reader, each) for each in readers)


def _not_neighbours(r: Refusal) -> bool:
    leaves = r.stage().leaf_axis
    return (r.says["x"], r.says["y"]) not in {(one.name, other.name) for one, other in pairwise(leaves)}


def _is_inside(r: Refusal) -> bool:
    """A stage is computed, somehow, in the loops of another."""
    place = r.stage("inner").state.attachment
    while place is not None and place.stage.name != r.says["stage"]:
        place = place.stage.state.attachment
    return place is not None


def _in_pragma(r: Refusal) -> bool:
    """The command makes or meets a nest that a rule has; a loop of it belongs to others, too."""
    return any(stage.state.pragma is not None for stage in r.schedule.stages) or "emit_insn" in r.command.text


def _comes_from_fuse(r: Refusal) -> bool:
    if ".fuse(" in r.command.text:
        return True
    state, wanted = r.stage().state, set(r.loops())
    for relation in reversed(state.relations):
        if wanted & set(made_by(relation)):
            if isinstance(relation, Fuse):
                return True
            wanted |= set(replaced_by(relation))
    return False


def _shares(r: Refusal) -> bool:
    """Some stage shares loops, or the command lets it."""
    together = any(s.state.attachment is not None and s.state.attachment.loops for s in r.schedule.stages)
    return together or any(f".{name}(" in r.command.text for name in ("after", "before", "then", "between"))


def _reduces_together(r: Refusal) -> bool:
    """Some stage runs loops of its reduction together with those of another."""
    places = [stage.state.attachment for stage in r.schedule.stages]
    return any(loop.kind == "reduce" for place in places if place is not None for loop in place.loops)


def _in_pieces(r: Refusal) -> bool:
    place = r.stage().state.attachment
    region = place.region if place is not None else "box"
    return region != "box" or any(each in r.command.text for each in ("exact", "missing"))


def _windows(r: Refusal) -> list[dict[Iteration, Box]]:
    """Windows with and without the conditions of the loops, of which bounds know some."""
    return [windows(r.stage(), loop, r.tensor(), known) for loop in r.loops() for known in (False, True)]


def _following(found: dict[Iteration, Box]) -> list[tuple[Box, Box]]:
    """Boxes of neighbouring iterations within the same iteration of the loops around."""
    keys = sorted(found)
    return [(found[a], found[b]) for a, b in pairwise(keys) if a[0] == b[0]]


def _is_clamped(r: Refusal) -> bool:
    """Whether an index is cut off by ``min`` or ``max``: windows are judged by what happens away from the border."""
    indices = [index for read in r.stage().op.reads for index in read.indices]
    return any(isinstance(node, Binary) and node.op in ("min", "max") for index in indices for node in walk(index))


def _never_overlap(r: Refusal) -> bool:
    def apart(one: Box, other: Box) -> bool:
        return any(a[1] < b[0] or b[1] < a[0] for a, b in zip(one, other, strict=True))

    return _is_clamped(r) or any(all(apart(*pair) for pair in _following(found)) for found in _windows(r))


def _never_move(r: Refusal) -> bool:
    def begins(box: Box) -> list[int]:
        return [low for low, _ in box]

    return _is_clamped(r) or any(all(begins(a) == begins(b) for a, b in _following(found)) for found in _windows(r))


def _vary(r: Refusal) -> bool:
    """The size of a window differs from iteration to iteration, or windows would have nothing to keep anyway."""
    sizes = [{tuple(high - low for low, high in box) for box in found.values()} for found in _windows(r)]
    return any(len(each) > 1 for each in sizes) or _never_move(r) or _never_overlap(r) or _mirrored(r)


def _mirrored(r: Refusal) -> bool:
    """Reads that run against each other: their span counts as changing, even where two iterations make it constant."""
    found = [as_affine(index) for read in r.stage().op.reads for index in read.indices]
    signs = {(axis, factor > 0) for each in found if each is not None for axis, factor in each.coefficients.items()}
    return any((axis, not positive) in signs for axis, positive in signs)


def _no_affine_index(r: Refusal) -> bool:
    reads = [read for read in r.stage().op.reads if read.tensor.name == r.says["tensor"]]
    return any(as_affine(index) is None for read in reads for index in read.indices)


def _of_two_kinds(r: Refusal) -> bool:
    kinds = {loop.kind for loop in r.stage().leaf_axis}
    return kinds == {"data", "reduce"} and r.says["one"] != r.says["other"]


def _is_allocated_outside(r: Refusal) -> bool:
    """A buffer is there around the loop: threads share it, whatever cells they use of it."""
    places = [place for buffer, place in r.schedule.allocations.items() if buffer.name == r.says["kept"]]
    leaves = r.stage().leaf_axis
    outermost = min(leaves.index(loop) for loop in r.loops())
    return not any(place.stage is r.stage() and leaves.index(place.axis) >= outermost for place in places)


def _share_cells(r: Refusal) -> bool:
    """Two iterations of a loop use one cell of a buffer, and one of them writes it."""
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
            maker = schedule.maker(tensor)
            kept = maker.state.storage if maker is not None else None
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


def _begin_twice(r: Refusal) -> bool:
    """Two iterations of a loop set the same sum to its start value, or add to it."""
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


def _marked(r: Refusal) -> bool:
    """A loop of that name has a mark or threads, and the command replaces it."""
    state = r.stage().state
    return any(loop.name == r.says["loop"] for loop in (*state.marks, *state.threads))


S, L = r"(?P<stage>\S+)", r"(?P<loop>\S+)"

LIMITS: list[tuple[str, Callable[[Refusal], bool]]] = [
    # What is asked for is not there.
    (
        rf"other stage of \w+ on stage (?P<name>{S}) must be another one, not itself",
        lambda r: r.command.text.startswith(f"{r.says['stage']}.") and _twice(r),
    ),
    (r"axes of \w+ on stage \S+ must be (two|three) different loops, not '(?P<name>.*)' twice", _twice),
    (r"tile of stage \S+ must be given two loops or more", lambda r: "tile(" in r.command.text),
    (
        rf"axes of fuse on stage {S} must be a loop and the one directly inside it, not '(?P<x>.*)' and '(?P<y>.*?)':",
        _not_neighbours,
    ),
    (
        rf"axes of \w+ on stage {S} must be two data loops or two reduction loops, "
        r"not '.*' \((?P<one>\w+)\) and '.*' \((?P<other>\w+)\)",
        _of_two_kinds,
    ),
    (
        r"factors of skew on stage \S+ must be coprime, not (?P<a>-?\d+) and (?P<b>-?\d+)",
        lambda r: gcd(r.number("a"), r.number("b")) > 1,
    ),
    (
        rf"factor of axis {L} of separate on stage {S} must be at most its extent (?P<extent>\d+), not (?P<factor>\d+)",
        lambda r: r.number("factor") > r.number("extent"),
    ),
    (
        rf"threads of loop {L} of stage {S} must be from 1 to its iterations, (?P<extent>\d+), not (?P<count>\d+)",
        lambda r: r.number("count") > r.number("extent"),
    ),
    (r"consumer of compute_at of stage (?P<name>\S+) must be a stage that reads its values, not '\S+' itself", _twice),
    (
        r"buffer of allocate_at must be one that a stage of the schedule is stored in \(.*\), not '(?P<name>\S+)'",
        lambda r: r.says["name"] not in {s.state.storage.buffer.name for s in r.schedule.stages if s.state.storage},
    ),
    (
        rf"axis of \w+ on stage {S} must be one of its outermost (?P<count>\d+) loops, as many as \S+ has, not '{L}'",
        lambda r: all(r.stage().leaf_axis.index(loop) >= r.number("count") for loop in r.loops()),
    ),
    # Values go the other way.
    (
        rf"stage (?P<maker>\S+) must come before {S}, which reads it, not after it",
        lambda r: _depends(r.stage(), r.stage("maker")),
    ),
    (
        rf"consumer of compute_at of stage {S} must be a stage outside its own loops, not '(?P<inner>\S+)', which is",
        _is_inside,
    ),
    (
        rf"consumer of compute_at of stage {S} must be a stage that comes after it, not '(?P<host>\S+)'",
        lambda r: r.schedule.stages.index(r.stage("host")) < r.schedule.stages.index(r.stage()),
    ),
    (
        rf"loop of reuse_at of stage (?P<maker>\S+) must be one in which its values are read, not loop \S+ of '{S}'",
        lambda r: not any(read.tensor in r.stage("maker").state.tensors for read in r.stage().op.reads),
    ),
    # Outputs of the program stay in DRAM, whole, and a command on one tensor is for stages that make one.
    (rf"scope of stage {S} must be dram, not '\w+', because \S+ is an output", _is_output),
    (rf"stage of compute_at must be one whose values only other stages read, not '{S}', an output", _is_output),
    (rf"stage of inline must be one that only its readers need, not '{S}', whose \S+ is an output", _is_output),
    (
        rf"tensor of \w+ must be the only output of its computation, not '\S+', one of \d+ of {S}\.",
        _has_several_outputs,
    ),
    (rf"tensor of \w+ must be the only output of its computation, not one of \d+ of {S}\.", _has_several_outputs),
    (rf"stage of inline must have one output, not \d+, as '{S}' has", _has_several_outputs),
    (
        rf"stage of inline must be an expression of its own point, not '{S}', a reduction",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    # Commands that begin from the loops as they were made.
    (rf"stage of \w+ must have its loops as they were made, not changed ones: {S} has been", _is_touched),
    (rf"stage of inline must be as it was made, not '{S}', which has", _is_touched),
    (rf"stage of set_schedule must be computed whole, in loops of its own, not '{S}',", _is_touched),
    (rf"stage of transform_layout must not have its values stored yet, unlike {S}, which is", _is_touched),
    (
        rf"stage of compute_at must be one whose loops are for any part of it, not '{S}', whose loops set_schedule",
        lambda r: any(isinstance(each, Mapped) for each in r.stage().state.relations),
    ),
    (
        rf"axis (?P<axis>\S+) of transform_layout of {S} must be an index of its own in \[(?P<indices>.*)\], since",
        lambda r: _is_touched(r) and r.says["axis"] not in r.says["indices"].split(", "),
    ),
    # Loops that marks, rules or several stages hold on to.
    (
        rf"loop {L} of stage {S} must stay a loop (while it is marked \w+|to run in \d+ threads), not be replaced",
        _marked,
    ),
    (r"loop \S+ of stage \S+ must be outside the nest that emit_insn gives to rule", _in_pragma),
    (r"loops that stage \S+ shares with \S+ must be outside the nest that emit_insn gives", _in_pragma),
    (
        r"loops that stage \S+ shares with \S+ must (stay their outermost loops|be loops of a stage that is computed)",
        _shares,
    ),
    (
        rf"loops that stage \S+ shares with \S+ must be loops of {S} that a fuse has made as they are.* not {L},",
        _comes_from_fuse,
    ),
    (
        rf"loops that stage \S+ shares with \S+ must each be of data axes or of the reduction of {S}, not of both",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    (
        rf"scope of stage {S} must be dram to run its reduction in loops that it shares with \S+, not ",
        lambda r: r.stage().state.scope != DRAM or ".set_scope(" in r.command.text,
    ),
    (rf"loop {L} of stage {S} must be one that it runs by itself to run in \d+ threads", _shares),
    (
        rf"consumer of (reuse buffer|stage) \S+( with region 'missing')? must be computed as a box, .* as '{S}' is",
        _in_pieces,
    ),
    (r"loops that stage \S+ shares with \S+ must have \S+ last, not before", _shares),
    # Reductions have no order that queues or lanes could take apart; a reuse buffer has one.
    (
        rf"axis of vectorize on stage {S} must be a data loop, not '{L}'",
        lambda r: all(loop.kind == "reduce" for loop in r.loops()),
    ),
    (
        rf"loop {L} of stage {S} must be parallel .* but its iterations update the same elements",
        lambda r: all(loop.kind == "reduce" for loop in r.loops()) or _reduces_together(r),
    ),
    (
        rf"loop {L} of stage {S} must be parallel .* but reuse buffer (?P<kept>\S+) keeps values",
        lambda r: "reuse_at" in r.command.text or r.stage("kept").state.reuse is not None,
    ),
    (
        rf"time \S+ of map of set_schedule on stage {S} must be of data axes or of reduction axes",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    # Buffers in turn.
    (
        rf"stage of double_buffer must live in a scratchpad, not '{S}' in dram",
        lambda r: r.stage().state.scope == DRAM or "set_scope(dram)" in r.command.text,
    ),
    (
        rf"stage of double_buffer must be computed in a loop, whose iterations take turns, not '{S}' at the root",
        lambda r: r.stage().state.attachment is None or "compute_root" in r.command.text,
    ),
    # Cells of buffers.
    (
        rf"stages stored in buffer \S+ must live in its memory, not \S+ in (?P<one>\w+) and {S} in (?P<other>\w+)",
        lambda r: r.says["one"] != r.says["other"],
    ),
    (
        rf"map of store_in of {S} must have (?P<rank>\d+) indices, as many as .* dimensions, not (?P<has>\d+)",
        lambda r: r.number("rank") != r.number("has"),
    ),
    (
        rf"stages stored in buffer \S+ must have one dtype, not \S+ of (?P<one>\w+) and {S} of (?P<other>\w+)",
        lambda r: r.says["one"] != r.says["other"],
    ),
    (rf"loop {L} of stage {S} must be parallel .* but two iterations use cell", _share_cells),
    (
        rf"buffer (?P<kept>\S+) must be allocated inside loop {L} of stage {S}, which runs in \d+ threads",
        _is_allocated_outside,
    ),
    (
        rf"stage of double_buffer must be in a buffer that is allocated in a loop, .* not '{S}' in (?P<kept>\S+),",
        lambda r: r.says["kept"] not in {buffer.name for buffer in r.schedule.allocations},
    ),
    (rf"loop {L} of stage {S} must be parallel .* both begin the sum (?P<name>\S+)\[", _begin_twice),
    # What cannot be decided in time.
    (r"\w+ must leave a schedule that can be checked within \d+ isl operations", lambda _: True),
    # Windows of reuse buffers: linear in the loops, of one size, overlapping, in one direction.
    (rf"reads of (?P<tensor>\S+) in neighbouring iterations of loop {L} of stage {S} must overlap", _never_overlap),
    (rf"reads of (?P<tensor>\S+) in loop {L} of stage {S} must move for reuse_at", _never_move),
    (rf"size of the reuse buffer of (?P<tensor>\S+) in loop {L} of stage {S} must be constant", _vary),
    (rf"indices of (?P<tensor>\S+) in stage {S} must be affine in the loops for reuse_at", _no_affine_index),
    (
        r"window of reuse buffer \S+ must move in one direction",
        lambda r: any(each in r.says.string for each in ("//", "min(", "max(")),
    ),
    (
        rf"scope of stage \S+ must be a scratchpad for reuse_at of stage {S}, not dram",
        lambda r: r.stage().state.scope == DRAM,
    ),
]
