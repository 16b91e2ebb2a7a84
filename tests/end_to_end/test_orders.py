"""Orders of loops and stages in compiled programs: outputs equal NumPy's, DRAM traffic equals the schedule's count."""

import numpy as np
import pytest
from error_checks import raises

import lathe as lt

CONFIG = lt.load_config("vta")


def product():
    A, B = lt.placeholder((60, 64), "int8", name="A"), lt.placeholder((96, 64), "int8", name="B")
    return lt.requantise(lt.matmul(A, B, transpose_b=True, name="C"), 8, name="D")


def chain():
    A = lt.placeholder((60, 64), "int8", name="A")
    first = lt.compute((60, 64), lambda i, j: A[i, j].astype("int32") + 1, name="first")
    return first, lt.compute((60, 64), lambda i, j: lt.min(first[i, j], 100).astype("int8"), name="second")


def reversed_tiles(s, D):
    io, _ = s[D].split(s[D].axis[0], factor=16)
    s[D].reverse(io)


def full_tiles_first(s, D):
    part, rows = s[D].separate(s[D].axis[0], 16)
    s[D].reorder(part, *s[D].split(rows, factor=16))


def diagonals_of_tiles(s, D):
    yo, xo, yi, xi = s[D].tile(*s[D].axis, 16, 32)
    along, diagonal = s[D].skew(yo, xo)
    s[D].reorder(diagonal, along, yi, xi)


def in_one_loop(s, first, second):
    made = s.cache_write(second, "acc")
    s[first].set_scope("acc")
    outer = [s[tensor].split(s[tensor].axis[0], factor=16)[0] for tensor in (second, made)]
    s[first].split(s[first].axis[0], factor=16)
    s[second].after(s[made], outer[0])
    s[made].after(s[first], outer[1])


def in_one_loop_with_a_store(s, first, second):
    outer, _ = s[second].split(s[second].axis[0], factor=16)
    s[first].split(s[first].axis[0], factor=16)
    s[first].set_scope("acc")
    s[second].after(s[first], outer)


# Primitives on a schedule of the matmul, or of the chain.
OF_THE_PRODUCT = {
    "reversed_tiles": reversed_tiles,
    "full_tiles_first": full_tiles_first,
    "shifted": lambda s, D: s[D].shift(s[D].axis[0], 3),
    "diagonals_of_tiles": diagonals_of_tiles,
    "diagonals_of_elements": lambda s, D: s[D].skew(*s[D].axis),
    "columns_in_lanes": lambda s, D: s[D].vectorize(s[D].axis[1], 16),
    "by_a_map": lambda s, D: s[D].set_schedule("{ [i, j] -> [floor(j/32), floor(i/16), i % 16, j % 32] }"),
}
OF_THE_CHAIN = {
    "rows_in_lanes": lambda s, _, second: s[second].vectorize(s[second].axis[0], 16),
    "inlined": lambda s, first, _: s[first].inline(),
    "in_one_loop": in_one_loop,
    "in_one_loop_with_a_store": in_one_loop_with_a_store,
}


def inputs_of(s: lt.Schedule) -> list[lt.Tensor]:
    reads = [read.tensor for stage in s.stages for read in stage.op.reads]
    return [tensor for tensor in dict.fromkeys(reads) if tensor.computation is None]


@pytest.mark.sample(4)
@pytest.mark.parametrize("order", [*OF_THE_PRODUCT, *OF_THE_CHAIN])
def test_the_simulator_agrees_with_numpy_and_with_what_was_counted(order):
    tensors = (product(),) if order in OF_THE_PRODUCT else chain()
    s = lt.create_schedule(tensors[-1])
    (OF_THE_PRODUCT | OF_THE_CHAIN)[order](s, *tensors)
    counts = s.count(CONFIG)
    inputs = inputs_of(s)
    program = lt.build(s, [*inputs, *s.outputs], CONFIG, check=True)
    generator = np.random.default_rng(0)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    result = lt.simulate(program, given)
    (output,) = s.outputs
    np.testing.assert_array_equal(result.outputs[output.name], lt.reference(output, given))
    assert dict(counts.loaded) == dict(result.counters.bytes_read)
    assert dict(counts.stored) == dict(result.counters.bytes_written)


def test_one_order_runs_on_the_rtl_cycle_by_cycle():
    A, B = lt.placeholder((8, 8), "int8", name="A"), lt.placeholder((8, 8), "int8", name="B")
    D = lt.requantise(lt.matmul(A, B, transpose_b=True, name="C"), 8, name="D")
    config = lt.load_config("tiny")
    s = lt.create_schedule(D)
    yo, xo, yi, xi = s[D].tile(*s[D].axis, 4, 4)
    along, diagonal = s[D].skew(yo, xo)
    s[D].reorder(diagonal, s[D].reverse(along), yi, xi)
    generator = np.random.default_rng(0)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (A, B)}
    result = lt.cosimulate(lt.build(s, [A, B, D], config), given, engines=["sim", "pysim"])
    assert not result.differences


@pytest.mark.parametrize(
    ("lanes", "mentions"),
    [
        (lambda stage: stage.vectorize(stage.axis[1], 8),
            ("Loop ji of stage second", "vta", "16, not 8", "vectorize with 16")),
        (lambda stage: stage.vectorize(stage.fuse(*stage.axis), 16),
            ("loop i.ji of stage second", "consecutive along one axis", "vectorize")),
    ],
    ids=["other lanes than the machine has", "lanes of what was fused before"],
)  # fmt: skip
def test_lanes_that_cannot_be_are_refused(lanes, mentions):
    _, second = chain()
    s = lt.create_schedule(second)
    lanes(s[second])
    raises(lt.BuildError, lt.build, s, [*inputs_of(s), second], CONFIG, mentions=mentions)


def test_a_stage_that_shares_loops_needs_no_scope_said():
    first, second = chain()
    s = lt.create_schedule(second)
    s[second].after(s[first], "i")
    program = lt.build(s, [*inputs_of(s), second], CONFIG)
    assert lt.verify(program) == []
    generator = np.random.default_rng(0)
    arrays = {each.name: generator.integers(-99, 99, each.shape).astype(each.dtype) for each in inputs_of(s)}
    found = lt.simulate(program, arrays).outputs[second.name]
    np.testing.assert_array_equal(found, lt.reference(second, arrays))
