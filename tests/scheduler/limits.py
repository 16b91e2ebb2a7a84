"""What commands refuse without two instances to show: requests for what is not there, and what the language leaves out.

``LIMITS`` lists the beginnings of messages, each with a way of seeing on the schedule that the refusal is right.
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
    # What is asked for is not there.
    (
        rf"other stage of \w+ on stage (?P<name>{S}) must be another one, not itself",
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
    # Values go the other way.
    (
        rf"stage (?P<maker>\S+) must come before {S}, which reads it, not after it",
        lambda r: depends(r.stage(), r.stage("maker")),
    ),
    (
        rf"consumer of compute_at of stage {S} must be a stage outside its own loops, not '(?P<inner>\S+)', which is",
        is_inside,
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
    (rf"scope of stage {S} must be dram, not '\w+', because \S+ is an output", is_output),
    (rf"stage of compute_at must be one whose values only other stages read, not '{S}', an output", is_output),
    (rf"stage of compute_at must be one that a stage reads, not '{S}', of which nothing is needed", is_not_read),
    (rf"stage of inline must be one that only its readers need, not '{S}', whose \S+ is an output", is_output),
    (
        rf"tensor of \w+ must be the only output of its computation, not '\S+', one of \d+ of {S}, in ",
        has_several_outputs,
    ),
    (rf"tensor of \w+ must be the only output of its computation, not one of \d+ of {S}\.", has_several_outputs),
    (
        rf"stage of inline must be an expression of its own point, not '{S}', a reduction",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    # Commands that begin from the loops as they were made.
    (rf"stage of \w+ must have its loops as they were made, not changed ones: {S} has been", is_touched),
    (rf"stage of inline must be as it was made, not '{S}', which has", is_touched),
    (rf"stage of set_schedule must be computed whole, in loops of its own, not '{S}',", is_touched),
    (rf"stage of transform_layout must not have its values stored yet, unlike {S}, which is", is_touched),
    (
        rf"stage of compute_at must be one whose loops are for any part of it, not '{S}', whose loops set_schedule",
        lambda r: any(isinstance(each, AffineSchedule) for each in r.stage().state.relations),
    ),
    (
        rf"axis (?P<axis>\S+) of transform_layout of {S} must be an index of its own in \[(?P<indices>.*)\], since",
        lambda r: is_touched(r) and r.says["axis"] not in r.says["indices"].split(", "),
    ),
    # Loops that marks, rules or several stages hold on to.
    (
        rf"loop {L} of stage {S} must stay a loop",
        marked,
    ),
    (r"loop \S+ of stage \S+ must be outside the nest that emit_insn gives to rule", in_pragma),
    (r"loops that stage \S+ shares with \S+ must be outside the nest that emit_insn gives", in_pragma),
    (
        r"loops that stage \S+ shares with \S+ must (stay their outermost loops|be loops of a stage that is computed)",
        shares,
    ),
    (
        rf"loops that stage \S+ shares with \S+ must be loops of {S} that a fuse has made as they are.* not {L},",
        comes_from_fuse,
    ),
    (
        rf"loops that stage \S+ shares with \S+ must each be of data axes or of the reduction of {S}, not of both",
        lambda r: bool(r.stage().op.reduce_axes),
    ),
    (
        rf"scope of stage {S} must be dram to run its reduction in loops that it shares with \S+, not ",
        lambda r: r.stage().state.scope != DRAM or ".set_scope(" in r.command.text,
    ),
    (rf"loop {L} of stage {S} must be one that it runs by itself", shares),
    (
        rf"consumer of (reuse buffer|stage) \S+( with region 'missing')? must be computed as a box, .* as '{S}' is",
        in_pieces,
    ),
    (r"loops that stage \S+ shares with \S+ must have \S+ last, not before", shares),
    # Reductions have no order that queues or lanes could take apart; a reuse buffer has one.
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
    (rf"loop {L} of stage {S} must be parallel .* but two iterations use cell", share_cells),
    (
        rf"buffer (?P<kept>\S+) must be allocated inside loop {L} of stage {S}, which runs in \d+ threads",
        is_allocated_outside,
    ),
    (
        rf"stage of double_buffer must be in a buffer that is allocated in a loop, .* not '{S}' in (?P<kept>\S+),",
        lambda r: r.says["kept"] not in {buffer.name for buffer in r.schedule.allocations},
    ),
    (rf"loop {L} of stage {S} must be parallel .* both begin the sum (?P<name>\S+)\[", begin_twice),
    (
        rf"unit of (send|receive) of stage {S} must be (?P<units>[\w ]+), next to \w+, .* not '(?P<unit>\w+)'",
        lambda r: r.says["unit"] not in r.says["units"].split(" or "),
    ),
    (rf"loop {L} of (send|receive) of stage {S} must be a data loop, not one of a reduction", runs_over_reduction),
    # Padding.
    (
        rf"(loop (?P<loop>\S+) of )?stage {S} must have an affine condition on its loops for overcompute to",
        has_no_condition,
    ),
    (rf"(loop \S+ of )?stage {S} must have instances that branch can keep from running", computes_no_padding),
    (
        rf"loop of reduce_extent on stage {S} must be one of a reduction axis, not '{L}', which (?P<over>.*)\.",
        runs_over,
    ),
    (rf"loops of axis \S+ of stage {S} must be made by splits only for \w+, not by \w+", is_replaced_by_no_split),
    (rf"inner splits of axis \S+ of stage {S} must leave no rest for", lambda r: bool(r.stage().state.relations)),
    (
        rf"tensor of reorder_to_buffer on stage {S} must be read at one place, not (?P<tensor>\S+) at",
        is_read_at_two_places,
    ),
    (rf"index (?P<dim>\d+) of (?P<tensor>\S+) in stage {S} must be one loop plus a number", has_no_plain_index),
    (
        r"layout of (?P<tensor>\S+) must not join axes for reorder_to_buffer on stage \S+",
        lambda r: "+" in r.says.string,
    ),
    # Stages side by side.
    (
        r"second stage of merge_adjacent must follow the first at the root, not '(?P<two>\S+)' after '(?P<one>\S+)'",
        do_not_follow,
    ),
    (
        r"stages of merge_adjacent must have an outermost data loop of equal extent",
        lambda r: "merge_adjacent" in r.command.text,
    ),
    # What cannot be decided in time.
    (r".* must be decided (within \d+ isl operations|with \d+ reads and writes)", lambda _: True),
    # Windows of reuse buffers: linear in the loops, of one size, overlapping, in one direction.
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
