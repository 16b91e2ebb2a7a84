"""Loops given by maps, combined with every other primitive: they are loops like any other, and counts are exact."""

# The parameters of these functions name stages, used or not.
# ruff: noqa: ARG005

import pytest
from error_checks import raises
from nests import check

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.scheduler import ScheduleError, create_schedule

MAPS = {
    "skewed": "{ [i, j] -> [t = i + j, u = j] }",
    "tiled": "{ [i, j] -> [t = floor(i/3), v = floor(j/2), u = i % 3, w = j % 2] }",
    "in pieces": "{ [i, j] -> [t = i, u = j] : i < 4; [i, j] -> [t = 11 - i, u = j] : i >= 4 }",
    "interleaved": "{ [i, j] -> [t = 2i, u = j] : j < 3; [i, j] -> [t = 2i + 1, u = -j] : j >= 3 }",
}


def programs():
    A = placeholder((8, 6), "int32", "A")
    B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
    C = compute(A.shape, lambda i, j: B[i, j] * 2 + A[7 - i, j], "C")
    return B, C, create_schedule(C)


def inner(stage):
    return stage.leaf_axis[-1]


COMMANDS = {
    "split": lambda s, B, C: s[C].split("t", 3),
    "split in parts": lambda s, B, C: s[C].split("u", nparts=2),
    "tile": lambda s, B, C: s[C].tile("t", "u", 2, 2),
    "reorder": lambda s, B, C: s[C].reorder("u", "t"),
    "interchange": lambda s, B, C: s[C].interchange("t", "u"),
    "fuse": lambda s, B, C: s[C].fuse(*s[C].leaf_axis[-2:]),
    "reverse": lambda s, B, C: s[C].reverse("u"),
    "shift": lambda s, B, C: s[C].shift("t", 2),
    "shift back": lambda s, B, C: s[C].shift("t", -2),
    "skew": lambda s, B, C: s[C].skew("t", "u", 1, 2),
    "separate": lambda s, B, C: s[C].separate("t", 2),
    "unroll": lambda s, B, C: s[C].unroll("u"),
    "vectorize": lambda s, B, C: s[C].vectorize("u", 2),
    "parallelize": lambda s, B, C: s[C].parallelize("t"),
    "distribute": lambda s, B, C: s[C].distribute("t"),
    "emit_insn": lambda s, B, C: s[C].emit_insn(inner(s[C]), "alu"),
    "compute_at": lambda s, B, C: s[B].compute_at(s[C], "t"),
    "compute_at inside": lambda s, B, C: s[B].compute_at(s[C], inner(s[C])),
    "compute_at exactly": lambda s, B, C: s[B].compute_at(s[C], "t", "exact"),
    "compute_at inside exactly": lambda s, B, C: s[B].compute_at(s[C], inner(s[C]), "exact"),
    "compute_at what is missing": lambda s, B, C: s[B].compute_at(s[C], "t", "missing"),
    "compute_root": lambda s, B, C: s[B].compute_root(),
    "set_scope": lambda s, B, C: s[B].set_scope("acc"),
    "cache_read": lambda s, B, C: s[s.cache_read(B, "acc", [C])].compute_at(s[C], "t"),
    "inline": lambda s, B, C: s[B].inline(),
    "before at the root": lambda s, B, C: s[B].before(s[C]),
}


@pytest.mark.sample(35)
@pytest.mark.parametrize("given", MAPS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_behind_a_map(name, given):
    B, C, s = programs()
    s[C].set_schedule(MAPS[given])
    COMMANDS[name](s, B, C)
    counts = s.count()
    assert counts.stages["C"].executed == counts.stages["C"].distinct == 48
    boxes = name in ("compute_at", "compute_at inside", "cache_read")  # around the reads of all pieces of the map
    if not boxes and name not in ("compute_at exactly", "inline"):
        assert counts.redundant == 0
    if name in ("parallelize", "distribute"):
        assert set(counts.marked) == {name}
    check(s)


@pytest.mark.parametrize("given", MAPS)
def test_the_same_map_for_stages_that_share_its_loops(given):
    B, C, s = programs()
    for tensor in (B, C):
        loops = s[tensor].set_schedule(MAPS[given])
    s[C].after(s[B], loops[0])
    assert s.count().redundant == 0
    check(s)
    s[C].split(loops[0], 2)
    check(s)


@pytest.mark.parametrize("given", MAPS)
def test_a_map_replaces_what_came_before(given):
    B, C, s = programs()
    s[C].reorder(*s[C].tile("i", "j", 3, 4))
    s[C].parallelize("io")
    s[C].set_schedule(MAPS[given])
    assert s.count().marked == {}
    check(s)


def test_another_layout_gives_the_stage_loops_as_they_are_made():
    _, C, s = programs()
    s[C].set_schedule(MAPS["skewed"])
    s[C].transform_layout(lambda i, j: [j, i])
    check(s)


def test_cache_write_begins_from_loops_as_they_were_made():
    _, C, s = programs()
    s[C].set_schedule(MAPS["skewed"])
    raises(ScheduleError, s.cache_write, C, "acc", kind="limit", mentions=("cache_write", "C"))


@pytest.mark.parametrize(
    "given",
    [
        "{ [i, k] -> [t = k, u = i] }",
        "{ [i, k] -> [t = i + k, u = k] }",
        "{ [i, k] -> [t = i, u = k] : i < 4; [i, k] -> [t = 11 - i, u = -k] : i >= 4 }",
    ],
)
def test_reductions_count_each_update_once(given):
    A, k = placeholder((8, 6), "int32", "A"), reduce_axis(6, "k")
    R = compute(8, lambda i: sum(A[i, k], axis=k), "R")
    for command in (
        lambda stage: stage.split("t", 3),
        lambda stage: stage.reverse("u"),
        lambda stage: stage.reorder("u", "t"),
        lambda stage: stage.split("u", 4),
    ):
        s = create_schedule(R)
        s[R].set_schedule(given)
        command(s[R])
        assert s.count().stages["R"].executed == 48
        check(s)
