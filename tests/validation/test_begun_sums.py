"""Validation of sums that begin with their first products: no instruction writes their start."""

from dataclasses import replace

import pytest

import lathe as lt
from lathe.isa import Gemm
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation.expected import Expectation
from lathe.validation.fresh_values import Replaced
from lathe.validation.machine import SampledMachine
from lathe.validation.sampling import Sampler
from lathe.validation.stream_validator import SAMPLES, _Validation, validate_stream

BEGINS = lt.load_config("tiny").with_(extensions=("gemm_begin",))


def tiles(config: lt.HardwareConfig) -> Compiled:
    """Three tiles of a product, each in two parts of the sum."""
    A, B = lt.placeholder((12, 8), "int8", name="A"), lt.placeholder((4, 8), "int8", name="B")
    C = lt.matmul(A, B, transpose_b=True, name="C")
    s = lt.create_schedule(C)
    made = s.cache_write(C, "acc")
    io, _ = s[C].split("i", factor=4)
    s[made].compute_at(s[C], io)
    ko, ki = s[made].split("k", factor=4)
    s[made].reorder(ko, *s[made].axis, ki)
    for tensor, scope in ((A, "inp"), (B, "wgt")):
        s[s.cache_read(tensor, scope, [made])].compute_at(s[made], ko)
    return build_compiled(s, [A, B, C], config)


def begun_places(compiled: Compiled) -> int:
    """Of the last sum, how many instructions the validator remembers as those that have written it."""
    sampler = Sampler(SAMPLES, 0)
    validation = _Validation(
        compiled, Expectation(compiled, sampler), SampledMachine(compiled.program, SAMPLES, 0), sampler
    )
    validation.run()
    return max(map(len, validation.begun.values()))


def test_what_wrote_a_sum_is_forgotten_when_the_next_one_begins():
    begun, added = tiles(BEGINS), tiles(lt.load_config("tiny"))
    assert not any(isinstance(each, Gemm) and each.reset for each in begun.program.instructions)
    assert begun_places(begun) == 2
    assert begun_places(added) == 3


@pytest.mark.parametrize("which", range(3))
def test_a_sum_that_adds_to_what_was_there_is_found(which):
    compiled = tiles(BEGINS)
    stream = list(compiled.program.instructions)
    number = [n for n, each in enumerate(stream) if isinstance(each, Gemm) and each.begin][which]
    stream[number] = replace(stream[number], begin=False)
    broken = replace(compiled, program=replace(compiled.program, instructions=tuple(stream)))
    validate_stream(compiled)
    with pytest.raises(lt.ValidationError) as caught:
        validate_stream(broken)
    assert "must leave C.acc[" in str(caught.value)


def test_of_sums_that_end_together_no_old_values_are_kept(monkeypatch):
    """Though no instruction says that those which begin with their first products are others."""
    noted = []
    monkeypatch.setattr(Replaced, "note", lambda *given: noted.append(given))
    for config in (BEGINS, lt.load_config("tiny")):
        validate_stream(tiles(config))
    assert not noted
