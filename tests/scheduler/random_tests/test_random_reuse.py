"""Random stencils under random commands, with reuse buffers: accepted schedules compute what NumPy does, from rings."""

from random import Random

import pytest
from nests import text
from random_programs import random_inputs
from rings import reads_of
from seeds import check_each, event
from shares import BUILD, COMMAND, Shares, check_shares, counted
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.scheduler import Schedule, create_schedule


def total(values: list) -> Tensor:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def stencil(random: Random, P: Tensor) -> Tensor:
    """Taps, or a reduction, over windows of an image: strided, offset, upside down, or with padding."""
    height, width = P.shape
    sy, sx = random.choice([1, 1, 2]), random.choice([1, 1, 2, 3])
    ky, kx = random.randint(1, 4), random.randint(1, 4)
    oy, ox = random.randint(0, 1), random.randint(0, 1)
    shape = (height - oy - ky) // sy + 1, (width - ox - kx) // sx + 1
    taps = [(random.randrange(ky), random.randrange(kx)) for _ in range(random.randint(2, 4))]
    kind = random.choice(["taps", "upside down", "reduction", "padding"])
    if kind == "reduction":
        r, c = reduce_axis(ky, "r"), reduce_axis(kx, "c")
        return compute(shape, lambda y, x: sum(P[y * sy + r + oy, x * sx + c + ox], axis=[r, c]), "B")
    if kind == "padding":
        before = random.randint(1, 2)

        def padded(y: Tensor, x: Tensor) -> Tensor:
            rows = [(y + dy - before, dx) for dy, dx in taps]
            return total([select((r >= 0) & (r < height), P[r, x * sx + dx + ox], 0) for r, dx in rows])

        return compute((height + 2 * before - ky + 1, shape[1]), padded, "B")

    def plain(y: Tensor, x: Tensor) -> Tensor:
        rows = [(y * sy + dy + oy, dx) for dy, dx in taps]
        return total([P[height - 1 - r if kind == "upside down" else r, x * sx + dx + ox] for r, dx in rows])

    return compute(shape, plain, "B")


def program(random: Random) -> tuple[list[Tensor], Tensor]:
    """Tensors that may get a reuse buffer, and the output."""
    A = placeholder((random.randint(6, 12), random.randint(6, 12)), "int32", "A")
    P = compute(A.shape, lambda y, x: A[y, x] * 3 + 1, "P") if random.random() < 0.4 else A
    B = stencil(random, P)
    return [A, P], compute(B.shape, lambda y, x: B[y, x] * 2, "C") if random.random() < 0.4 else B


def command(random: Random, s: Schedule, tensors: list[Tensor]) -> None:
    stage = random.choice(s.stages)
    loops = stage.leaf_axis
    loop = random.choice(loops)
    match random.choice(["split", "reorder", "fuse", "reuse", "reuse", "reuse", "keep", "compute_at"]):
        case "split":
            stage.split(loop, factor=random.randint(1, 4))
        case "reorder":
            stage.reorder(*random.sample(list(loops), len(loops)))
        case "fuse":
            stage.fuse(loop, loops[min(loops.index(loop) + 1, len(loops) - 1)])
        case "reuse":
            form, prologue = random.choice(["ring", "ring", "ring", "shift"]), random.choice(["loop", "first"])
            tensors.append(s.reuse_at(random.choice(tensors), stage, loop, form=form, prologue=prologue))
        case "keep":
            producer = random.choice(s.stages)
            producer.set_scope("acc")
            producer.reuse_at(stage, loop, prologue=random.choice(["loop", "first"]))
        case "compute_at":
            random.choice(s.stages).compute_at(stage, loop)


def check(seed: int) -> None:
    """Apply random commands and check the result; event "kept" if it has a reuse buffer."""
    random = Random(seed)
    tensors, output = program(random)
    s = create_schedule(output)
    for _ in range(random.randint(2, 6)):
        with counted(COMMAND):
            command(random, s, tensors)
    reads_of(s)
    text(s, "order", "loops", "chunks")
    if any(stage.state.reuse for stage in s.stages):
        event("kept")


@pytest.mark.seeds(16, slow=1904, block=40)
def test_what_is_accepted_is_right(seeds):
    happened = check_each(seeds, check)
    assert happened["kept"] >= 4
    check_shares(happened, COMMAND, Shares(0.42, {"argument": 0.5, "legality": 0.04, "machine": 0.1, "limit": 0.04}))


def channels(random: Random) -> tuple[list[Tensor], Tensor]:
    """The same kind of program over images with channels, which are along the lanes."""
    size, depth, k = random.randint(5, 9), random.choice([4, 16, 20]), random.randint(2, 3)
    A = placeholder((size, size, depth), random.choice(["int8", "int32"]), "A")
    P = compute(A.shape, lambda y, x, c: A[y, x, c].astype("int32") * 3, "P") if random.random() < 0.4 else A
    stride, extent = random.choice([1, 1, 2]), size - k + 1
    shape = (-(-extent // stride), extent, depth)
    taps = [(random.randrange(k), random.randrange(k)) for _ in range(3)]
    if random.random() < 0.5:
        r, q = reduce_axis(k, "r"), reduce_axis(k, "q")
        body = lambda y, x, c: sum(P[stride * y + r, x + q, c].astype("int32"), axis=[r, q])  # noqa: E731
        return [A, P], compute(shape, body, "B")
    return [A, P], compute(
        shape, lambda y, x, c: total([P[stride * y + a, x + b, c].astype("int32") for a, b in taps]), "B"
    )


MOST_ON_MACHINE = 10_000
"""The most instances of a schedule that is built: compiling them one by one takes long."""


def check_on_machine(seed: int) -> None:
    """The simulator computes what NumPy does; event "kept" if a reuse buffer ran on it."""
    random = Random(seed)
    config = load_config(random.choice(["vta", "tiny", "batch4"]))
    tensors, output = channels(random)
    s = create_schedule(output)
    made = s.cache_write(output, "acc")
    s[made].compute_at(s[output], random.choice(s[output].leaf_axis[:2]))
    for _ in range(random.randint(2, 5)):
        with counted(COMMAND):
            command(random, s, tensors)
    if total([each.executed for each in s.count().stages.values()]) > MOST_ON_MACHINE:
        return
    with counted(BUILD) as refusal:
        run(s, config, random_inputs([output], seed))
    if not refusal and any(stage.state.reuse for stage in s.stages):
        event("kept")


@pytest.mark.seeds(4, slow=496, block=60)
def test_what_the_machine_takes_is_right(seeds):
    happened = check_each(seeds, check_on_machine)
    assert happened["kept"] >= 1
    check_shares(happened, COMMAND, Shares(0.42, {"argument": 0.5, "legality": 0.07, "machine": 0.1, "limit": 0.05}))
    check_shares(happened, BUILD, Shares(0.85, {"machine": 0.1, "limit": 0.1}))
