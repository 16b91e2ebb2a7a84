"""Work per core if annotated loops ran on several cores: instances, compared with enumeration, and bytes."""

import numpy as np
import pytest
from nests import blur
from random_commands import MOVES, ORDER, any_schedule
from random_programs import Choice
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, placeholder
from lathe.frontend.operators import conv2d, matmul, requantise
from lathe.scheduler import Counts, create_schedule
from lathe.sim import simulate_program

CONFIG = load_config("vta")


def test_tiles_of_tiramisu_with_their_halos():
    image = placeholder((100, 200, 3), "int32", "image")
    bx = compute((100, 198, 3), lambda i, j, c: image[i, j, c] + image[i, j + 1, c] + image[i, j + 2, c], "bx")
    by = compute((98, 198, 3), lambda i, j, c: bx[i, j, c] + bx[i + 1, j, c] + bx[i + 2, j, c], "by")
    s = create_schedule(by)
    rows, columns, _, _ = s[by].tile("i", "j", 32, 32)
    s[bx].compute_at(s[by], columns)
    s[by].parallelize(rows)
    s[by].distribute(columns)
    counts = s.count()
    assert [each.core for each in counts.cores] == [(i, j) for i in range(4) for j in range(7)]
    by_core = {each.core: dict(each.instances) for each in counts.cores}
    assert by_core[0, 0] == {"bx": 34 * 32 * 3, "by": 32 * 32 * 3}
    assert by_core[3, 6] == {"bx": 4 * 6 * 3, "by": 2 * 6 * 3}
    assert sum(each["bx"] for each in by_core.values()) == counts.stages["bx"].executed == 62964
    assert str(counts).splitlines()[-2:] == [
        "each of 28 cores: bx: 72 to 3264 instances",
        "each of 28 cores: by: 36 to 3072 instances",
    ]


def test_stages_outside_of_marked_loops_are_on_no_core():
    B, C, s = blur(9, 9)
    s[C].distribute("y")
    counts = s.count()
    assert [(each.core, dict(each.instances)) for each in counts.cores] == [
        ((), {"B": 63}),
        *(((y,), {"C": 7}) for y in range(7)),
    ]
    assert create_schedule(C).count().cores == ()


def product(extent: int = 60) -> tuple[Counts, Counts]:
    """The counts of a matmul in tiles of rows, with ``distribute`` and without."""
    A, B = placeholder((extent, 64), "int8", "A"), placeholder((64, 64), "int8", "B")
    D = requantise(matmul(A, B, transpose_b=True, name="C"), 8, name="D")
    found = []
    for marked in (True, False):
        s = create_schedule(D)
        outer, _ = s[D].split(s[D].axis[0], factor=16)
        if marked:
            s[D].distribute(outer)
        found.append(s.count(CONFIG))
    return found[0], found[1]


def test_each_core_loads_its_rows_and_all_of_the_weights():
    counts, plain = product()
    own = [each for each in counts.cores if each.core]
    assert [each.loaded["inp"] for each in own] == [16 * 64] * 3 + [12 * 64]
    assert [each.loaded["wgt"] for each in own] == [64 * 64] * 4
    assert [each.stored["out"] for each in own] == [16 * 64] * 3 + [12 * 64]
    assert [each.stores["out"] for each in own] == [1] * 4
    assert [each.dram_bytes for each in own] == [6144, 6144, 6144, 5632]
    assert dict(counts.loaded) == dict(plain.loaded)  # one core loads the weights once
    assert plain.loaded["wgt"] == 64 * 64


def test_each_core_loads_its_halo():
    data = placeholder((1, 56, 56, 16), "int8", "data")
    weights = placeholder((16, 3, 3, 16), "int8", "weights")
    conv = conv2d(data, weights, padding=1, name="conv")
    output = requantise(conv, 8, name="output")
    s = create_schedule(output)
    rows, _ = s[output].split(s[output].axis[1], factor=14)
    s[output].reorder(rows, s[output].axis[0])
    s[output].distribute(rows)
    counts = s.count(CONFIG)
    own = [each for each in counts.cores if each.core]
    assert [each.loaded["inp"] // (56 * 16) for each in own] == [15, 16, 16, 15]
    assert sum(each.stored["out"] for each in own) == 56 * 56 * 16


def test_all_cores_together_move_the_same_bytes_as_one_core_with_the_same_loops():
    A = placeholder((64, 32), "int8", "A")
    C = compute((64, 32), lambda i, j: (A[i, j].astype("int32") + 1).astype("int8"), "C")
    s = create_schedule(C)
    made = s.cache_write(C, "acc")
    outer, _ = s[C].split("i", 16)
    s[made].compute_at(s[C], outer)
    s[C].parallelize(outer)
    counts = s.count(CONFIG)
    inputs = {"A": np.arange(64 * 32).reshape(64, 32).astype(np.int8)}
    result = simulate_program(run(s, CONFIG, inputs), inputs)
    assert sum(each.loaded["acc8"] for each in counts.cores) == result.counters.bytes_read["acc8"] == 64 * 32
    assert sum(each.stored["out"] for each in counts.cores) == result.counters.bytes_written["out"]


@pytest.mark.seeds(6, slow=54)
def test_instances_of_random_schedules_sum_to_those_of_stages(seed):
    choice = Choice(seed)
    schedule = any_schedule(choice, (*MOVES, *ORDER), 4)
    for stage in schedule.stages:
        loops = [each for each in stage.leaf_axis if schedule.is_parallel(each, stage)]
        for loop in loops[: choice.number(0, 2)]:
            stage.distribute(loop)
    counts = schedule.count()
    for stage in schedule.stages:
        found = sum(each.instances.get(stage.name, 0) for each in counts.cores)
        assert not counts.cores or found == counts.stages[stage.name].executed
