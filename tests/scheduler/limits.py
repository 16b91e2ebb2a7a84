"""Refusals without a witness: requests for things that do not exist, and unsupported features.

``LIMITS`` lists the beginnings of messages, each with a check on the schedule that the refusal is right.
"""

from collections.abc import Callable
from math import gcd

from stated import (
    Refusal,
    begin_twice,
    comes_from_fuse,
    computes_no_padding,
    depends,
    do_not_follow,
    has_no_condition,
    has_no_plain_index,
    has_several_outputs,
    in_pieces,
    in_pragma,
    is_allocated_outside,
    is_inside,
    is_not_read,
    is_output,
    is_read_at_two_places,
    is_replaced_by_no_split,
    is_touched,
    marked,
    never_move,
    never_overlap,
    no_affine_index,
    not_neighbours,
    of_two_kinds,
    reduces_together,
    runs_over,
    runs_over_reduction,
    share_cells,
    shares,
    twice,
    vary,
)

from lathe.scheduler.schedule_ir.loops import AffineSchedule
from lathe.scheduler.schedule_ir.memories import DRAM

S, L = r"(?P<stage>\S+)", r"(?P<loop>\S+)"

LIMITS: list[tuple[str, Callable[[Refusal], bool]]] = [
    # What is requested does not exist.
    (
        rf"other stage of \w+ on stage (?P<name>{S}) must be another stage, not (?P=stage)",
        lambda r: r.command.text.startswith(f"{r.says['stage']}.") and twice(r),
    ),
    (r"axes of \w+ on stage \S+ must be (two|three) different loops, not '(?P<name>.*)' twice", twice),
    (r"tile of stage \S+ must be given two loops or more", lambda r: "tile(" in r.command.text),
    (
        rf"axes of fuse on stage {S} must be a loop and the one directly inside it, not '(?P<x>.*)' and '(?P<y>.*?)':",
        not_neighbours,
    ),
    (
        rf"axes of \w+ on stage {S} must be two data loops or two reduction loops, "
        r"not '.*' \((?P<one>\w+)\) and '.*' \((?P<other>\w+)\)",
        of_two_kinds,
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
    (r"consumer of compute_at of stage (?P<name>\S+) must be a stage that reads its values, not '\S+' itself", twice),
    (
        r"buffer of allocate_at must be one that a stage of the schedule is stored in \(.*\), not '(?P<name>\S+)'",
        lambda r: r.says["name"] not in {s.state.storage.buffer.name for s in r.schedule.stages if s.state.storage},
    ),
    (
        rf"axis of \w+ on stage {S} must be one of its outermost (?P<count>\d+) loops, as many as \S+ has, not '{L}'",
        lambda r: all(r.stage().leaf_axis.index(loop) >= r.number("count") for loop in r.loops()),
    ),
    # The dependence goes the other way.
    (
        rf"stage (?P<producer>\S+) must come before {S}, which depends on it, not after it",
        lambda r: depends(r.stage(), r.stage("producer")),
    ),
    (
        rf"consumer of compute_at of stage {S} must be outside the loops of \S+, not '(?P<inner>\S+)', which is",
        is_inside,
    ),
    (
        rf"consumer of compute_at of stage {S} must be a stage that comes after it, not '(?P<host>\S+)'",
        lambda r: r.schedule.stages.index(r.stage("host")) < r.schedule.stages.index(r.stage()),
    ),
    (
        rf"loop of reuse_at of stage (?P<producer>\S+) must be one in which its values are read, not loop \S+ of '{S}'",
        lambda r: not any(read.tensor in r.stage("producer").state.tensors for read in r.stage().op.reads),
    ),
    # Outputs of the program stay in DRAM; a primitive on one tensor needs a stage of one output.
    (rf"scope of stage {S} must be dram, not '\w+', because \S+ is an output", is_output),
    (rf"Cannot compute {S} at a loop: it is an output", is_output),
    (rf"Cannot compute {S} at a loop \(\w+\): no stage reads it", is_not_read),
    (rf"Cannot inline {S}: \S+ is an output", is_output),
    (
        rf"tensor of \w+ must be the only output of its computation, not '\S+', one of \d+ of {S}, in ",
        has_several_outputs,
    ),
    (rf"tensor of \w+ must be the only output of its computation, not one of \d+ of {S}\.", has_several_outputs),
    (
        rf"Cannot inline {S}: it is a reduction",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    # Primitives that need unscheduled loops.
    (rf"Cannot apply (cache_write|reorder_to_buffer) to {S}: its loops have been changed", is_touched),
    (rf"Cannot inline {S}: (it has a compute location|\S+(, \S+)* is computed inside it)", is_touched),
    (rf"Cannot apply set_schedule to {S}: ", is_touched),
    (rf"Cannot transform the layout of {S}: store_in has", is_touched),
    (
        rf"Cannot compute {S} at a loop \(\w+\): set_schedule defines its loops",
        lambda r: any(isinstance(each, AffineSchedule) for each in r.stage().state.relations),
    ),
    (
        rf"axis (?P<axis>\S+) of transform_layout of {S} must be one whole index, .* in \[(?P<indices>.*)\], since",
        lambda r: is_touched(r) and r.says["axis"] not in r.says["indices"].split(", "),
    ),
    # Loops that are annotated, emitted or shared.
    (
        rf"loop {L} of stage {S} must stay a loop",
        marked,
    ),
    (r"loop \S+ of stage \S+ must be outside the nest that emit_insn gives to rule", in_pragma),
    (r"loops that stage \S+ shares with \S+ must be outside the nest that emit_insn gives", in_pragma),
    (
        r"loops that stage \S+ shares with \S+ must (stay the outermost loops|be loops of a stage at the root)",
        shares,
    ),
    (
        rf"loops that stage \S+ shares with \S+ must not be derived from a fused loop, as {L} of {S} is",
        comes_from_fuse,
    ),
    (
        rf"loops that stage \S+ shares with \S+ must each run over data axes or over the reduction of {S}, not",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    (
        rf"scope of stage {S} must be dram to share its reduction loops with \S+, not ",
        lambda r: r.stage().state.scope != DRAM or ".set_scope(" in r.command.text,
    ),
    (rf"loop {L} of stage {S} must belong to this stage alone", shares),
    (
        rf"consumer of (reuse buffer|stage) \S+( with region 'missing')? must be computed as a box, .* as '{S}' is",
        in_pieces,
    ),
    (r"stage \S+ must come after \S+, which shares its loops, not before", shares),
    # Reduction loops cannot be vectorised or annotated; a reuse buffer relies on the order of its loop.
    (
        rf"axis of vectorize on stage {S} must be a data loop, not '{L}'",
        runs_over_reduction,
    ),
    (
        rf"loop {L} of stage {S} must be parallel .* but its iterations update the same elements",
        lambda r: runs_over_reduction(r) or reduces_together(r),
    ),
    (
        rf"loop {L} of stage {S} must be parallel .* but reuse buffer (?P<kept>\S+) keeps values",
        lambda r: "reuse_at" in r.command.text or r.stage("kept").state.reuse is not None,
    ),
    (
        rf"time \S+ of map of set_schedule on stage {S} must be of data axes or of reduction axes",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    # Double buffering.
    (
        rf"stage of double_buffer must be in a scratchpad, not '{S}' in dram",
        lambda r: r.stage().state.scope == DRAM or "set_scope(dram)" in r.command.text,
    ),
    (
        rf"stage of double_buffer must be computed in a loop, .* not '{S}' at the root",
        lambda r: r.stage().state.attachment is None or "compute_root" in r.command.text,
    ),
    # Storage maps.
    (
        rf"stages stored in buffer \S+ must all be in its .*, not \S+ in (?P<one>\w+) and {S} in (?P<other>\w+)",
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
    (rf"loop {L} of stage {S} must be parallel .* but two iterations use cell", share_cells),
    (
        rf"buffer (?P<kept>\S+) must be allocated inside loop {L} of stage {S}, which runs in \d+ threads",
        is_allocated_outside,
    ),
    (
        rf"stage of double_buffer must be in a buffer that is allocated in a loop, not '{S}' in (?P<kept>\S+),",
        lambda r: r.says["kept"] not in {buffer.name for buffer in r.schedule.allocations},
    ),
    (rf"loop {L} of stage {S} must be parallel .* both initialise the sum (?P<name>\S+)\[", begin_twice),
    (
        rf"unit of (send|receive) of stage {S} must be (?P<units>[\w ]+), next to \w+, .* not '(?P<unit>\w+)'",
        lambda r: r.says["unit"] not in r.says["units"].split(" or "),
    ),
    (rf"loop {L} of (send|receive) of stage {S} must be a data loop, not one of a reduction", runs_over_reduction),
    # Padding.
    (
        rf"Cannot overcompute (loop (?P<loop>\S+) of )?stage {S}: it has no affine condition",
        has_no_condition,
    ),
    (rf"Cannot branch in (loop \S+ of )?stage {S}: every instance has an effect", computes_no_padding),
    (
        rf"loop of reduce_extent on stage {S} must be a loop over one reduction axis, not '{L}', which (?P<over>.*)\.",
        runs_over,
    ),
    (rf"loops of axis \S+ of stage {S} must all be created by split for \w+, not by \w+", is_replaced_by_no_split),
    (rf"inner splits of axis \S+ of stage {S} must leave no remainder for", lambda r: bool(r.stage().state.relations)),
    (
        rf"tensor of reorder_to_buffer on stage {S} must be read at one index, not (?P<tensor>\S+) at",
        is_read_at_two_places,
    ),
    (rf"index (?P<dim>\d+) of (?P<tensor>\S+) in stage {S} must be one loop plus a constant", has_no_plain_index),
    (
        r"layout of (?P<tensor>\S+) must not merge axes for reorder_to_buffer on stage \S+",
        lambda r: "+" in r.says.string,
    ),
    # Adjacent stages.
    (
        r"second stage of merge_adjacent must follow the first at the root, not '(?P<two>\S+)' after '(?P<one>\S+)'",
        do_not_follow,
    ),
    (
        r"stages of merge_adjacent must have an outermost data loop of equal extent",
        lambda r: "merge_adjacent" in r.command.text,
    ),
    # Queries that exceed their budget.
    (r"Cannot decide .* (within \d+ isl operations|with \d+ reads and writes)", lambda _: True),
    # Windows of reuse buffers: affine in the loops, of one size, overlapping, in one direction.
    (rf"reads of (?P<tensor>\S+) in neighbouring iterations of loop {L} of stage {S} must overlap", never_overlap),
    (rf"reads of (?P<tensor>\S+) in loop {L} of stage {S} must move for reuse_at", never_move),
    (rf"size of the reuse buffer of (?P<tensor>\S+) in loop {L} of stage {S} must be constant", vary),
    (rf"indices of (?P<tensor>\S+) in stage {S} must be affine in the loops for reuse_at", no_affine_index),
    (
        r"window of reuse buffer \S+ must move in one direction",
        lambda r: any(each in r.says.string for each in ("//", "min(", "max(")),
    ),
    (
        rf"scope of stage \S+ must be a scratchpad for reuse_at of stage {S}, not dram",
        lambda r: r.stage().state.scope == DRAM,
    ),
]
