"""Every refusal of a command on the loops of a stage: the whole message, and the schedule as it was before."""

import pytest
from refused_commands import E1, B, C, D, M, N, Refused, X, check_refused, steps

from lathe.scheduler import ParallelismError

# fmt: off
CASES = [
    Refused("split_by_nothing", D, lambda s: s[D].split("i"),
        "split of axis i of stage D must be given either factor or nparts, not neither."),
    Refused("split_by_both", D, lambda s: s[D].split("i", factor=4, nparts=2),
        "split of axis i of stage D must be given either factor or nparts, not both."),
    Refused("split_by_zero", D, lambda s: s[D].split("i", factor=0),
        "factor of split of axis i of stage D must be a positive integer, not 0."),
    Refused("split_by_a_fraction", D, lambda s: s[D].split("i", factor=2.5),
        "factor of split of axis i of stage D must be a positive integer, not 2.5."),
    Refused("split_by_a_bool", D, lambda s: s[D].split("i", factor=True),
        "factor of split of axis i of stage D must be a positive integer, not True."),
    Refused("split_into_a_negative_number", D, lambda s: s[D].split("i", nparts=-1),
        "nparts of split of axis i of stage D must be a positive integer, not -1."),
    Refused("tile_of_one_axis", M, lambda s: s[M].tile("i", "i", 2, 2),
        "axes of tile on stage M must be two different loops, not 'i' twice."),
    Refused("tile_that_fails_half_way_with_a_stage_inside", M, lambda s: s[M].tile("i", "j", 2, 0),
        "factor of split of axis j of stage M must be a positive integer, not 0.",
        steps(lambda s: s.cache_read(X, "inp"), lambda s: s[s[M].op.reads[0].tensor].compute_at(s[M], "i"))),
    Refused("tile_by_an_unknown_axis", M, lambda s: s[M].tile("i", "x", 2, 2),
        "axis of tile on stage M must be one of its present loops (i, j, k), not 'x'. Take it from s[M].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("tile_by_zero", M, lambda s: s[M].tile("i", "j", 2, 0),
        "factor of split of axis j of stage M must be a positive integer, not 0."),
    Refused("reorder_of_one_axis_twice", M, lambda s: s[M].reorder("i", "j", "i"),
        "axes of reorder on stage M must be different loops, not 'i' twice."),
    Refused("fuse_of_loops_apart", M, lambda s: s[M].fuse("i", "k"),
        "axes of fuse on stage M must be a loop and the one directly inside it, not 'i' and 'k': the loops are i, j, "
        "k. Bring them together with reorder first."),
    Refused("fuse_in_the_wrong_order", M, lambda s: s[M].fuse("j", "i"),
        "axes of fuse on stage M must be a loop and the one directly inside it, not 'j' and 'i': the loops are i, j, "
        "k. Bring them together with reorder first."),
    Refused("fuse_of_an_axis_with_itself", M, lambda s: s[M].fuse("i", "i"),
        "axes of fuse on stage M must be a loop and the one directly inside it, not 'i' and 'i': the loops are i, j, "
        "k. Bring them together with reorder first."),
    Refused("fuse_of_data_and_reduction", M, lambda s: s[M].fuse("j", "k"),
        "axes of fuse on stage M must be two data loops or two reduction loops, not 'j' (data) and 'k' (reduce)."),
    Refused("an_axis_named_like_another", N, lambda s: s[N].unroll("io"),
        "axis of unroll on stage N must be one of its present loops (io, ii, io), not 'io', which names 2 of them. "
        "Pass the axis itself.",
        lambda s: s[N].split("i", factor=4)),
    Refused("an_axis_fused_away_by_name", M, lambda s: s[M].unroll("j"),
        "axis of unroll on stage M must be one of its present loops (i.j, k), not 'j', which an earlier split or fuse "
        "has replaced. Use the axes that the command returned.",
        lambda s: s[M].fuse("i", "j")),
    Refused("reverse_unknown_axis", D, lambda s: s[C].reverse("x"),
        "axis of reverse on stage C must be one of its present loops (i), not 'x'. Take it from s[C].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("reverse_axis_of_another_stage", D, lambda s: s[C].reverse(s[B].axis[0]),
        "axis of reverse on stage C must be one of its present loops (i), not 'i' of another stage. Take it from "
        "s[C].axis, .reduce_axis or from what a command on this stage returned."),
    Refused("reverse_axis_already_reversed", D, lambda s: s[C].reverse(s[C].axis[0]),
        "axis of reverse on stage C must be one of its present loops (i), not 'i', which an earlier reverse has "
        "replaced. Use the axes that the command returned.",
        lambda s: s[C].reverse("i")),
    Refused("shift_no_integer", D, lambda s: s[C].shift("i", 1.5),
        "amount of axis i of shift on stage C must be an integer, not 1.5."),
    Refused("shift_too_far", D, lambda s: s[C].shift("i", 2**31),
        "amount of axis i of shift on stage C must be from -1048576 to 1048576, not 2147483648: each iteration that "
        "it adds is one of the loop. Shift by less."),
    Refused("skew_one_axis_twice", M, lambda s: s[M].skew("i", "i"),
        "axes of skew on stage M must be two different loops, not 'i' twice."),
    Refused("skew_data_and_reduction", M, lambda s: s[M].skew("i", "k"),
        "axes of skew on stage M must be two data loops or two reduction loops, not 'i' (data) and 'k' (reduce)."),
    Refused("skew_factor_of_zero", M, lambda s: s[M].skew("i", "j", 1, 0),
        "factor of axis j of skew on stage M must not be 0, or its iterations would have no order."),
    Refused("skew_common_divisor", M, lambda s: s[M].skew("i", "j", 4, 2),
        "factors of skew on stage M must be coprime, not 4 and 2, which have the common divisor 2: iterations would "
        "have gaps. Divide both by it."),
    Refused("skew_no_integer", M, lambda s: s[M].skew("i", "j", True),
        "factor of axis i of skew on stage M must be an integer, not True."),
    Refused("interchange_one_axis_twice", M, lambda s: s[M].interchange("i", "i"),
        "axes of interchange on stage M must be two different loops, not 'i' twice."),
    Refused("interchange_unknown_axis", M, lambda s: s[M].interchange("i", "q"),
        "axis of interchange on stage M must be one of its present loops (i, j, k), not 'q'. Take it from s[M].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("separate_factor_of_zero", D, lambda s: s[C].separate("i", 0),
        "factor of axis i of separate on stage C must be a positive integer, not 0."),
    Refused("separate_factor_beyond_extent", D, lambda s: s[C].separate("i", 61),
        "factor of axis i of separate on stage C must be at most its extent 60, not 61: there is no full part."),
    Refused("unroll_factor_of_zero", D, lambda s: s[C].unroll("i", 0),
        "factor of axis i of unroll on stage C must be a positive integer, not 0."),
    Refused("tile_too_few", M, lambda s: s[M].tile("i"),
        "tile of stage M must be given two loops or more, and then a factor for each, not 1 values."),
    Refused("tile_odd", M, lambda s: s[M].tile("i", "j", 2),
        "tile of stage M must be given two loops or more, and then a factor for each, not 3 values."),
    Refused("tile_three_with_one_twice", M, lambda s: s[M].tile("i", "j", "i", 2, 2, 2),
        "axes of tile on stage M must be three different loops, not 'i' twice."),
    Refused("tile_third_factor_of_zero", M, lambda s: s[M].tile("i", "j", "k", 2, 2, 0),
        "factor of split of axis k of stage M must be a positive integer, not 0."),
    Refused("vectorize_reduction", M, lambda s: s[M].vectorize("k", 2),
        "axis of vectorize on stage M must be a data loop, not 'k': its iterations update the same elements of M."),
    Refused("vectorize_lanes_of_zero", M, lambda s: s[M].vectorize("j", 0),
        "lanes of axis j of vectorize on stage M must be a positive integer, not 0."),
    Refused("parallelize_reduction", M, lambda s: s[M].parallelize("k"),
        "loop k of stage M must be parallel to be marked parallelize (parallelize), but its iterations update the "
        "same elements of M."),
    Refused("distribute_unknown_axis", M, lambda s: s[M].distribute("q"),
        "axis of distribute on stage M must be one of its present loops (i, j, k), not 'q'. Take it from s[M].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused("parallelize_what_another_stage_carries", E1, lambda s: s[E1].parallelize("i"),
        "loop i of stage E1 must be parallel to be marked parallelize (parallelize), but one iteration reads what "
        "another makes: E1(i=0) reads B[1] that B(i=1) writes.",
        steps(lambda s: s[E1].shift("i", 2), lambda s: s[E1].after(s[B], "i")), error=ParallelismError),
    Refused("split_of_a_marked_loop", D, lambda s: s[C].split("i", 4),
        "loop i of stage C must stay a loop while it is marked parallelize, not be replaced by split. Call "
        "parallelize last.",
        lambda s: s[C].parallelize("i")),
    Refused("shift_apart_of_a_marked_loop", D, lambda s: s[C].shift("i", 1),
        "loop i of stage C must be parallel to be marked parallelize (shift), but one iteration reads what another "
        "makes: C(i=0) reads B[0] that B(i=0) writes.",
        steps(lambda s: s[C].after(s[B], "i"), lambda s: s[C].parallelize("i")), error=ParallelismError),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)
