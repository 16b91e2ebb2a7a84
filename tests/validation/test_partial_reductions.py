"""Partial reductions that equal, on all samples, complete reductions of other elements of the same stage."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import lathe as lt
from lathe.isa import Alu, Gemm
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation import validate
from lathe.validation.fresh_values import ReplacedLanes
from lathe.validation.stream_validator import validate_stream


@cache
def pooled(*shape: int) -> Compiled:
    """Max-pooling whose last window rows are reduced for some images at a time, after the first rows of all images."""
    x = lt.placeholder(shape, "int8", name="x")
    pool = lt.max_pool2d(x, 3, stride=1, name="pool")
    return build_compiled(pool, [x, pool], lt.load_config("vta"))


@cache
def grouped() -> Compiled:
    """Sums of which one term is the whole sum at a border and a partial sum in the interior."""
    x, u = lt.placeholder((2, 4, 2, 4), "int8", name="x"), lt.placeholder((4, 1, 1, 4), "int8", name="u")
    v = lt.placeholder((20, 2, 2, 1), "int8", name="v")
    a, p = (lt.placeholder((filters, 2), "int32", name=name) for name, filters in (("a", 4), ("p", 20)))
    q = lt.requantise(lt.conv2d(x, u, name="pre"), parameters=a, name="q")
    sums = lt.conv2d(q, v, padding=1, groups=4, name="c")
    o = lt.requantise(sums, parameters=p, relu=True, name="o")
    return build_compiled(o, [x, u, a, v, p, o], lt.load_config("lathe16"))


@pytest.mark.parametrize("shape", [(8, 12, 12, 5), (4, 28, 28, 3)], ids=str)
def test_a_partial_maximum_may_equal_that_of_another_window(shape):
    compiled = pooled(*shape)
    validate(compiled, compiled.schedule.program)


def test_a_partial_sum_may_equal_a_complete_one():
    compiled = grouped()
    validate(compiled, compiled.schedule.program)


def updates(compiled: Compiled, tensor: str, kind: type) -> list[int]:
    """The numbers of the instructions that update reductions of a tensor."""
    return [
        number
        for number, (each, origin) in enumerate(zip(compiled.program.instructions, compiled.origins, strict=True))
        if isinstance(each, kind) and origin.chunk >= 0 and compiled.chunks[origin.chunk].role == "update"
        if compiled.chunks[origin.chunk].tensor.name == tensor
    ]


REDUCTIONS = {
    "maxima": (lambda: pooled(8, 12, 12, 5), "pool.acc", Alu),
    "sums": (grouped, "c", Gemm),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("which", range(-4, 0))
@pytest.mark.parametrize("fields", [{"iter_in": -1}, {"src_factor_in": 1}, {"dst_factor_out": -1}], ids=str)
def test_a_wrong_update_is_still_found(name, which, fields):
    """Of the last updates, executed when other elements are complete: iterations omitted, wrong operands or targets."""
    program, tensor, kind = REDUCTIONS[name]
    compiled = program()
    number = updates(compiled, tensor, kind)[which]
    stream = list(compiled.program.instructions)
    old = stream[number]
    stream[number] = replace(old, **{name: getattr(old, name) + more for name, more in fields.items()})
    with pytest.raises(lt.ValidationError):
        validate_stream(replace(compiled, program=replace(compiled.program, instructions=tuple(stream))))


def test_updates_read_original_values_and_unchanged_lanes_get_the_fresh_ones_back():
    tensor = lt.placeholder((3,), "int32", name="T")
    cells = np.arange(12, dtype=np.int32).reshape(2, 3, 2)  # (samples, vectors, lanes)
    flat = cells.reshape(2, -1)
    lanes = np.array([1, 2, 5])
    old, new = flat[:, lanes].copy(), np.array([[70, 71, 72], [80, 81, 82]], np.int32)
    flat[:, lanes] = new
    replaced = ReplacedLanes()
    replaced.record(tensor, lanes, old, new)
    flat[:, 2] = 9  # overwritten by another stage
    with replaced.original_values(tensor, cells):
        assert flat.tolist() == [[0, 1, 9, 3, 4, 5], [6, 7, 9, 9, 10, 11]]
        flat[:, 5] += 1
    assert flat.tolist() == [[0, 70, 9, 3, 4, 6], [6, 80, 9, 9, 10, 12]]
    with replaced.original_values(tensor, cells):
        assert flat.tolist() == [[0, 1, 9, 3, 4, 6], [6, 7, 9, 9, 10, 12]]
    replaced.forget(tensor)
    with replaced.original_values(tensor, cells):
        assert flat[:, 1].tolist() == [70, 80]
