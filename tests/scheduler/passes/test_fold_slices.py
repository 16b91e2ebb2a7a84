"""Passes ``fold-slices`` and ``elide-concat``: slices are read, and operands of concats stored, in the other tensor."""

import numpy as np
import pytest

import lathe as lt
from lathe.configs import load_config
from lathe.scheduler.passes.pipeline import run_until


def convolved(data, name, weights, filters, size=3):
    """A convolution without padding, requantised to 8 bits."""
    w = lt.placeholder((filters, size, size, data.shape[3]), "int8", name=f"{name}.w")
    weights.append(w)
    a, b = lt.reduce_axis((0, size), name="a"), lt.reduce_axis((0, size), name="b")
    c = lt.reduce_axis((0, data.shape[3]), name="c")
    shape = (1, data.shape[1] - size + 1, data.shape[2] - size + 1, filters)
    sums = lt.compute(
        shape,
        lambda n, y, x, o: lt.sum(
            data[n, y + a, x + b, c].astype("int32") * w[o, a, b, c].astype("int32"), axis=[a, b, c]
        ),
        name=f"{name}.sums",
    )
    return lt.requantise(sums, 8, name=name)


def concatenated(block):
    """Two convolutions, concatenated, and a third one of both."""
    weights = []
    x = lt.placeholder((1, 6, 6, block), "int8", name="x")
    one, other = convolved(x, "one", weights, block), convolved(x, "other", weights, 2 * block)
    both = lt.compute(
        (1, 4, 4, 3 * block),
        lambda n, y, x, c: lt.select(c < block, one[n, y, x, c], other[n, y, x, c - block]),
        name="both",
    )
    made = convolved(both, "made", weights, block)
    return [made], [x, *weights, made]


def sliced(block):
    """A convolution of which two others read a slice each, the first of them only some rows."""
    weights = []
    x = lt.placeholder((1, 6, 6, block), "int8", name="x")
    wide = convolved(x, "wide", weights, 3 * block)
    lower = lt.compute((1, 3, 4, block), lambda n, y, x, c: wide[n, y + 1, x, c], name="lower")
    upper = lt.compute((1, 4, 4, 2 * block), lambda n, y, x, c: wide[n, y, x, c + block], name="upper")
    made = [convolved(lower, "first", weights, block), convolved(upper, "second", weights, block)]
    return made, [x, *weights, *made]


def built(program, cfg, **options):
    outputs, tensors = program(max(cfg.batch, cfg.block_in, cfg.block_out))
    rng = np.random.default_rng(1)
    inputs = {each.name: rng.integers(-128, 128, each.shape, np.int8) for each in tensors if each not in outputs}
    return lt.build(outputs, tensors, cfg, **options), inputs, lt.reference(outputs, inputs)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["tiny", "vta", "wide", "batch4", "lathe16"])
@pytest.mark.parametrize("program", [concatenated, sliced])
def test_programs_compute_the_reference(program, name):
    check(program, load_config(name))


@pytest.mark.sample(1)
@pytest.mark.parametrize("blocks", [(8, 4), (4, 8)])
@pytest.mark.parametrize("program", [concatenated, sliced])
def test_programs_with_unequal_blocks(program, blocks):
    """What consumers of the concatenated tensor load at once is contiguous in its operands, too."""
    check(program, load_config("tiny").with_(block_in=blocks[0], block_out=blocks[1]))


def check(program, cfg):
    made, inputs, expected = built(program, cfg, check=True)
    result = lt.simulate(made, inputs)
    assert lt.verify(made) == []
    assert all(np.array_equal(result.outputs[each], expected[each]) for each in expected)


@pytest.mark.slow
@pytest.mark.parametrize("program", [concatenated, sliced])
def test_the_hardware_takes_the_same_cycles(program):
    made, inputs, expected = built(program, load_config("tiny"))
    simulated, hardware = lt.simulate(made, inputs), lt.simulate(made, inputs, engine="pysim")
    assert hardware.cycles == simulated.cycles
    assert all(np.array_equal(hardware.outputs[each], expected[each]) for each in expected)


def test_each_value_is_stored_once():
    cfg = load_config("lathe16")
    stored = {}
    for program in (concatenated, sliced):
        made, inputs, _ = built(program, cfg)
        stored[program] = lt.simulate(made, inputs).counters.bytes_written["out"]
        assert {segment.name for segment in made.segments if segment.role == "temporary"} <= {"both", "wide"}
    assert stored == {concatenated: 16 * 48 + 4 * 16, sliced: 16 * 48 + (1 * 2 + 4) * 16}


def test_a_concat_records_the_offsets_of_its_operands():
    outputs, tensors = concatenated(16)
    schedule = run_until(lt.create_schedule(outputs), load_config("lathe16"), "elide-concat")
    (both,) = [stage for stage in schedule.stages if stage.name == "both"]
    assert [(tensor.name, first) for tensor, first in both.state.concat_of] == [("one", 0), ("other", 16)]


def test_a_concat_may_be_the_second_operand():
    """If the second operand is weights, its vectors hold contiguous rows, and blocks of columns are not outermost."""
    a, b, c = (lt.placeholder((32, 32), "int8", name=name) for name in "abc")
    x = lt.placeholder((32, 64), "int8", name="x")
    sums = [lt.matmul(a, each, transpose_b=True, name=f"{each.name}.sums") for each in (b, c)]
    one, other = (lt.requantise(each, 6, name=f"{each.name}.of") for each in sums)
    both = lt.compute((32, 64), lambda i, j: lt.select(j < 32, one[i, j], other[i, j - 32]), name="both")
    made = lt.requantise(lt.matmul(x, both, transpose_b=True, name="sums"), 8, name="made")
    check(lambda _: ([made], [a, b, c, x, made]), load_config("lathe16"))


@pytest.mark.parametrize(("first", "stays"), [(8, True), (16, False)])
def test_an_unaligned_slice_stays_a_stage(first, stays):
    """Its values would change lanes."""
    wide = convolved(lt.placeholder((1, 6, 6, 16), "int8", name="x"), "wide", [], 48)
    some = lt.compute((1, 4, 4, 16), lambda n, y, x, c: wide[n, y, x, c + first], name="some")
    schedule = run_until(lt.create_schedule([convolved(some, "made", [], 16)]), load_config("lathe16"), "fold-slices")
    assert ("some" in [stage.name for stage in schedule.stages]) == stays
