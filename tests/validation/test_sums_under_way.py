"""Sums and maxima under way that hold, on all samples, what others of the same stage are made to hold."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import lathe as lt
from lathe.isa import Alu, Gemm
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation import validate
from lathe.validation.fresh_values import Replaced
from lathe.validation.stream_validator import validate_stream


@cache
def pooled(*shape: int) -> Compiled:
    """Maxima whose last rows come for some images at a time, after the first rows of all."""
    x = lt.placeholder(shape, "int8", name="x")
    pool = lt.max_pool2d(x, 3, stride=1, name="pool")
    return build_compiled(pool, [x, pool], lt.load_config("vta"))


@cache
def grouped() -> Compiled:
    """Sums of which one term is all that there is at a border, and a part of the sum in the middle."""
    x, u = lt.placeholder((2, 4, 2, 4), "int8", name="x"), lt.placeholder((4, 1, 1, 4), "int8", name="u")
    v = lt.placeholder((20, 2, 2, 1), "int8", name="v")
    a, p = (lt.placeholder((filters, 2), "int32", name=name) for name, filters in (("a", 4), ("p", 20)))
    q = lt.requantise(lt.conv2d(x, u, name="pre"), parameters=a, name="q")
    sums = lt.conv2d(q, v, padding=1, groups=4, name="c")
    o = lt.requantise(sums, parameters=p, relu=True, name="o")
    return build_compiled(o, [x, u, a, v, p, o], lt.load_config("lathe16"))


@pytest.mark.parametrize("shape", [(8, 12, 12, 5), (4, 28, 28, 3)], ids=str)
def test_a_maximum_of_some_rows_may_be_that_of_another_window(shape):
    made = pooled(*shape)
    validate(made, made.schedule.program)


def test_a_part_of_a_sum_may_be_the_whole_of_another():
    made = grouped()
    validate(made, made.schedule.program)


def parts(made: Compiled, tensor: str, kind: type) -> list[int]:
    """Instructions that add to a tensor."""
    return [
        number
        for number, (each, origin) in enumerate(zip(made.program.instructions, made.origins, strict=True))
        if isinstance(each, kind) and origin.chunk >= 0 and made.chunks[origin.chunk].role == "update"
        if made.chunks[origin.chunk].tensor.name == tensor
    ]


PARTS = {
    "maxima": (lambda: pooled(8, 12, 12, 5), "pool.acc", Alu),
    "sums": (grouped, "c", Gemm),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("which", range(-4, 0))
@pytest.mark.parametrize("fields", [{"iter_in": -1}, {"src_factor_in": 1}, {"dst_factor_out": -1}], ids=str)
def test_a_part_that_is_wrong_is_still_found(name, which, fields):
    """Of the last parts, which come when others are whole: some left out, of wrong operands, or added elsewhere."""
    made_by, tensor, kind = PARTS[name]
    made = made_by()
    number = parts(made, tensor, kind)[which]
    stream = list(made.program.instructions)
    old = stream[number]
    stream[number] = replace(old, **{name: getattr(old, name) + more for name, more in fields.items()})
    with pytest.raises(lt.ValidationError):
        validate_stream(replace(made, program=replace(made.program, instructions=tuple(stream))))


def test_steps_find_old_values_and_lanes_that_they_leave_have_the_new_ones_back():
    tensor = lt.placeholder((3,), "int32", name="T")
    cells = np.arange(12, dtype=np.int32).reshape(2, 3, 2)  # (samples, elements, lanes)
    flat = cells.reshape(2, -1)
    places = np.array([1, 2, 5])
    old, new = flat[:, places].copy(), np.array([[70, 71, 72], [80, 81, 82]], np.int32)
    flat[:, places] = new
    replaced = Replaced()
    replaced.note(tensor, places, old, new)
    flat[:, 2] = 9  # of another stage by now
    with replaced.put_back(tensor, cells):
        assert flat.tolist() == [[0, 1, 9, 3, 4, 5], [6, 7, 9, 9, 10, 11]]
        flat[:, 5] += 1
    assert flat.tolist() == [[0, 70, 9, 3, 4, 6], [6, 80, 9, 9, 10, 12]]
    with replaced.put_back(tensor, cells):
        assert flat.tolist() == [[0, 1, 9, 3, 4, 6], [6, 7, 9, 9, 10, 12]]
    replaced.forget(tensor)
    with replaced.put_back(tensor, cells):
        assert flat[:, 1].tolist() == [70, 80]
