"""``set_schedule``: loops by an isl map."""

import islpy as isl
import pytest
from documented import as_documented
from error_checks import raises
from executions import Instance, events
from nests import check, grid, text
from random_programs import random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.frontend.operators import matmul, requantise
from lathe.scheduler import BuildError, create_schedule
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.primitives.set_schedule import set_schedule
from lathe.sim import simulate_program


def test_documentation_shows_before_and_after():
    C, s = grid()
    with as_documented(set_schedule, s):
        s[C].set_schedule("{ C[i, j] -> [i + j, j] }")


MAPS = {
    "{ [i, j] -> [j, i] }": lambda i, j: (j, i),
    "{ [i, j] -> [0, i, 0, j, 0] }": lambda i, j: (i, j),
    "{ [i, j] -> [floor(i/2), floor(j/3), i % 2, j % 3] }": lambda i, j: (i // 2, j // 3, i % 2, j % 3),
    "{ [i, j] -> [2i, -j] }": lambda i, j: (2 * i, -j),
    "{ [i, j] -> [7i + j] }": lambda i, j: (7 * i + j,),
    "{ [i, j] -> [3i + 2j, i + j] }": lambda i, j: (3 * i + 2 * j, i + j),
    "{ [i, j] -> [i + 10, 4 - i, j] }": lambda i, j: (i, j),
    "{ [i, j] -> [floor((i + j)/3), i, j] }": lambda i, j: ((i + j) // 3, i, j),
    "{ [i, j] -> [i, j] : i < 3; [i, j] -> [7 - i, 6 - j] : i >= 3 }": lambda i, j: (i, j) if i < 3 else (7 - i, -j),
    "{ [i, j] -> [2i, j] : j < 4; [i, j] -> [2i + 1, -j] : j >= 4 }": lambda i, j: (
        (2 * i, j) if j < 4 else (2 * i + 1, -j)
    ),
    "{ [i, j] -> [i + j, j] : (i + j) % 2 = 0; [i, j] -> [i + j, -j] : (i + j) % 2 = 1 }": lambda i, j: (
        i + j,
        j if (i + j) % 2 == 0 else -j,
    ),
    "{ [i, j] -> [j, i] : i <= j; [i, j] -> [10 + i, j] : i > j }": lambda i, j: (j, i) if i <= j else (10 + i, j),
    "{ [i, j] -> [floor(i/2), i % 2, j] : j < 3; [i, j] -> [9, j, i] : j >= 3 }": lambda i, j: (
        (i // 2, i % 2, j) if j < 3 else (9, j, i)
    ),
}


@pytest.mark.parametrize("given", MAPS)
def test_instances_run_in_the_order_of_their_times(given):
    C, s = grid()
    s[C].set_schedule(given)
    check(s)
    points = [tuple(event.point.values()) for event in events(partition(build_nest(s))) if isinstance(event, Instance)]
    assert sorted(points) == [(i, j) for i in range(5) for j in range(7)]
    assert points == sorted(points, key=lambda point: MAPS[given](*point))


def test_a_map_object_serves_as_well_as_its_text():
    C, s = grid()
    t = create_schedule(C)
    s[C].set_schedule("{ [i, j] -> [j, i] }")
    t[C].set_schedule(isl.Map.read_from_str(isl.DEFAULT_CONTEXT, "{ X[i, j] -> T[j, i] }"))
    assert text(s) == text(t)


def test_other_commands_go_on_from_it():
    C, s = grid()
    t, u = s[C].set_schedule("{ [i, j] -> [t = i + j, u = j] }")
    assert (t.name, u.name) == ("t", "u")
    to, ti = s[C].split(t, factor=4)
    s[C].reorder(to, s[C].reverse(u), ti)
    check(s)


def test_reductions_may_be_outside_and_backwards():
    A, k = placeholder((4, 6), "int32", "A"), reduce_axis((2, 6), "k")
    C = compute(4, lambda i: sum(A[i, k], axis=k), "C")
    s = create_schedule(C)
    s[C].set_schedule("{ [i, k] -> [-k, i] }")
    assert [loop.kind for loop in s[C].leaf_axis] == ["reduce", "data"]
    check(s)


@pytest.mark.parametrize(
    "given",
    [
        "{ [i, k] -> [i + k, k] }",
        "{ [i, k] -> [4i + k] }",
        "{ [i, k] -> [i - k, i] }",
        "{ [i, k] -> [k, i] : i < 2; [i, k] -> [9 + i, k] : i >= 2 }",
    ],
)
def test_data_and_reduction_axes_may_be_mixed(given):
    A, k = placeholder((4, 6), "int32", "A"), reduce_axis((2, 6), "k")
    C = compute(4, lambda i: sum(A[i, k] * 3, axis=k), "C")
    s = create_schedule(C)
    loops = s[C].set_schedule(given)
    assert any(loop.kind == "reduce" for loop in loops)
    assert s.count().stages["C"].executed == 16
    check(s)
    s[C].split(loops[0], 3)
    s[C].reverse(loops[-1] if len(loops) > 1 else "t0i")
    check(s)
    assert not s.is_parallel(s[C].leaf_axis[0], C)


def test_stages_computed_inside_loops_of_several_pieces():
    A = placeholder((6, 5), "int32", "A")
    B = compute((6, 5), lambda i, j: A[i, j] + 1, "B")
    C = compute((6, 5), lambda i, j: B[i, 4 - j] * 2, "C")
    s = create_schedule(C)
    t, _ = s[C].set_schedule("{ [i, j] -> [i, j] : i < 2; [i, j] -> [7 - i, j] : i >= 2 }")
    s[B].compute_at(s[C], t)
    s[B].set_scope("acc")
    check(s)


def test_pieces_on_the_machine():
    x, w = placeholder((64, 32), "int8", "x"), placeholder((48, 32), "int8", "w")
    product = requantise(matmul(x, w, transpose_b=True, name="product"), 6, name="output")
    for given in (
        "{ [i, j] -> [floor(i/16), floor(j/16), i % 16, j % 16] : i < 32; "
        "[i, j] -> [floor(i/16), 2 - floor(j/16), i % 16, j % 16] : i >= 32 }",
        "{ [i, j] -> [floor(i/16), floor(j/16), i % 16, j % 16] : i < 16; "
        "[i, j] -> [4 - floor(i/16), floor(j/16), i % 16, j % 16] : i >= 16 }",
    ):
        s = create_schedule(product)
        s[product].set_schedule(given)
        config = load_config("vta")
        inputs = random_inputs([product], seed=3)
        counts = s.count(config)
        program = run(s, config, inputs)
        result = simulate_program(program, inputs)
        assert dict(counts.loaded) == dict(result.counters.bytes_read)
        assert counts.stages["output"].executed == 64 * 48


def product_of(shape=(32, 48)):
    x, w = placeholder((shape[0], 32), "int8", "x"), placeholder((shape[1], 32), "int8", "w")
    return matmul(x, w, transpose_b=True, name="C")


@pytest.mark.parametrize(
    "given",
    [
        "{ [i, j, k] -> [floor(k/16), i, j, k % 16] }",
        "{ [i, j, k] -> [i, -floor(k/16), j, k % 16] }",
        "{ [i, j, k] -> [floor(j/16), i, j % 16, k] : i < 16; "
        "[i, j, k] -> [floor(j/16), 47 - i, j % 16, k] : i >= 16 }",
    ],
)
def test_reductions_whose_loops_maps_give_on_the_machine(given):
    C = product_of()
    s = create_schedule(C)
    s[C].set_schedule(given)
    run(s, load_config("vta"), random_inputs([C], seed=3))


def test_mixed_reductions_are_refused_by_build():
    C = product_of()
    s = create_schedule(C)
    s[C].set_schedule("{ [i, j, k] -> [i + k, j, k] }")
    check(s)
    inputs = random_inputs([C], seed=3)
    raises(BuildError, run, s, load_config("vta"), inputs, kind="limit", mentions=("stage C", "set_schedule"))


def test_it_replaces_what_earlier_commands_did_to_the_loops():
    C, s = grid()
    t = create_schedule(C)
    s[C].tile("i", "j", 2, 2)
    s[C].set_schedule("{ [i, j] -> [j, i] }")
    t[C].set_schedule("{ [i, j] -> [j, i] }")
    assert text(s, "order", "loops") == text(t, "order", "loops")


def test_stages_share_loops_that_maps_give():
    A = placeholder((4, 5), "int32", "A")
    B = compute((4, 5), lambda i, j: A[i, j] + 1, "B")
    C = compute((4, 5), lambda i, j: B[i, j] * 2, "C")
    s = create_schedule(C)
    for tensor in (B, C):
        s[tensor].set_schedule("{ [i, j] -> [i + j, j] }")
    s[C].after(s[B], "t1")
    check(s)
