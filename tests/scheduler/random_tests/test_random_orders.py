"""Layers with random loop splits and orders: all legal ones map, since lanes hold dimensions that no loop splits.

Only what does not fit into a scratchpad is refused, so the layers are small.
"""

import pytest
from random_programs import Choice, random_inputs
from seeds import check_each, event, note
from small_machine import TINY, run, simulate_and_check

import lathe as lt
from lathe.frontend import placeholder, reduce_axis
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.schedule_ir.stage import VectorLayout

MACHINES = ("vta", "batch4", "wide", "lathe16")


def dense(rows: int, columns: int, summed: int) -> tuple[lt.Tensor, lt.Tensor]:
    """A matmul in int32, and its requantisation to int8."""
    A, B = placeholder((rows, summed), "int8", "A"), placeholder((columns, summed), "int8", "B")
    k = reduce_axis((0, summed), "k")
    total = lt.compute(
        (rows, columns), lambda i, j: lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C"
    )
    return total, lt.requantise(total, 6, name="D")


def product(choice: Choice) -> tuple[lt.Tensor, ...]:
    """The stages of a random matmul, the output last."""
    return dense(choice.pick([40, 16, 7]), choice.pick([24, 32, 9]), choice.pick([32, 20]))


def pixels(choice: Choice) -> tuple[lt.Tensor, ...]:
    """A 1×1 convolution, perhaps with a bias."""
    channels, filters = choice.pick([16, 20]), choice.pick([16, 24, 40])
    data = placeholder((choice.pick([1, 2, 4]), 4, 5, channels), "int8", "data")
    made = [lt.conv2d(data, placeholder((filters, 1, 1, channels), "int8", "weights"), name="conv")]
    if choice.number(0, 1):
        made.append(lt.bias_add(made[0], placeholder((filters,), "int32", "bias"), name="biased"))
    return *made, lt.requantise(made[-1], 6, name="D")


def addition(choice: Choice) -> tuple[lt.Tensor, ...]:
    shape = (choice.pick([1, 2, 4]), 4, 5, choice.pick([16, 20]))
    a, b = placeholder(shape, "int8", "a"), placeholder(shape, "int8", "b")
    total = lt.compute(shape, lambda *i: a[i].astype("int32") + b[i].astype("int32"), name="total")
    return total, lt.requantise(total, 1, name="D")


def pool(choice: Choice) -> tuple[lt.Tensor, ...]:
    return (lt.max_pool2d(placeholder((2, 8, 6, choice.pick([16, 20])), "int8", "data"), 2, stride=2, name="D"),)


def ordered(choice: Choice) -> lt.Schedule:
    """A schedule with random splits and order of the output's loops, perhaps with its producers in one of them."""
    *before, output = choice.pick([product, pixels, addition, pool])(choice)
    s = lt.create_schedule(output)
    made = s.cache_write(output, "acc") if choice.number(0, 1) else None
    loops = []
    for axis in s[output].axis:
        loops += s[output].split(axis, factor=choice.pick([2, 4, 7, 8, 16])) if choice.number(0, 1) else [axis]
    loops = choice.shuffled(loops)
    s[output].reorder(*loops)
    if choice.number(0, 3):
        place = choice.pick(loops[:-1])
        for stage in [*([] if made is None else [made]), *reversed(before)]:
            s[stage].compute_at(s[output], place)
    return s


def check_order(seed: int) -> None:
    choice = Choice(seed)
    s, config = ordered(choice), lt.load_config(choice.pick(MACHINES))
    note(f"{config.name}\n{s}")
    try:
        run(s, config, random_inputs([*s.program], seed))
    except lt.CapacityError:
        event("too large")
    else:
        event("mapped")


@pytest.mark.slow
@pytest.mark.seeds(12, slow=1248)
def test_every_order_maps(seeds):
    assert check_each(seeds, check_order)["too large"] <= len(seeds) // 10


def test_columns_go_where_no_loop_cuts_them():
    """Rows would fill more of the lanes, but loops store each row alone."""
    C, D = dense(40, 24, 32)
    s = lt.create_schedule(D)
    made = s.cache_write(D, "acc")
    outer, _ = s[D].split(s[D].axis[0], factor=7)
    for stage in (made, C):
        s[stage].compute_at(s[D], outer)
    run(s, lt.load_config("vta"), random_inputs([D], seed=1))
    assert assign_layouts(s, lt.load_config("vta")).layouts[D] == VectorLayout(None, 1)
    assert assign_layouts(lt.create_schedule(D), lt.load_config("vta")).layouts[D] == VectorLayout(None, 0)


def test_a_store_that_loops_cut_runs_on_the_rtl():
    C, D = dense(7, 12, 8)
    s = lt.create_schedule(D)
    s[C].compute_at(s[D], s[D].axis[0])
    simulate_and_check(s, TINY)


@pytest.mark.slow
def test_lanes_of_a_long_program_are_planned():
    """Loop splits are propagated from consumers to producers, of which there may be hundreds."""
    made = placeholder((16, 16), "int8", "data")
    for n in range(250):
        total = lt.dense(made, placeholder((16, 16), "int8", f"w{n}"), name=f"dense{n}")
        made = lt.requantise(total, 6, name=f"narrow{n}")
    s = lt.create_schedule(made)
    s[made].split(s[made].axis[0], factor=3)
    assert len(assign_layouts(s, lt.load_config("vta")).layouts) == 500
