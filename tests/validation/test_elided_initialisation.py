"""Validation of reductions whose initialisation has no instruction: the first GEMM overwrites the accumulators."""

from dataclasses import replace

import pytest

import lathe as lt
from lathe.isa import Gemm
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation.expected import Expectation
from lathe.validation.fresh_values import ReplacedLanes
from lathe.validation.machine import SampledMachine
from lathe.validation.sampling import Sampler
from lathe.validation.stream_validator import SAMPLES, _Validation, validate_stream

BEGINS = lt.load_config("tiny").with_(extensions=("gemm_begin",))


def tiles(config: lt.HardwareConfig) -> Compiled:
    """A matmul in three tiles, each with two reduction tiles."""
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


def remembered_writes(compiled: Compiled) -> int:
    """The number of writes to the last reduction that the validator remembers at the end."""
    sampler = Sampler(SAMPLES, 0)
    validation = _Validation(
        compiled, Expectation(compiled, sampler), SampledMachine(compiled.program, SAMPLES, 0), sampler
    )
    validation.run()
    return max(map(len, validation.open.values()))


def test_writes_to_a_reduction_are_forgotten_when_the_next_one_begins():
    begun, added = tiles(BEGINS), tiles(lt.load_config("tiny"))
    assert not any(isinstance(each, Gemm) and each.reset for each in begun.program.instructions)
    assert remembered_writes(begun) == 2
    assert remembered_writes(added) == 3


@pytest.mark.parametrize("which", range(3))
def test_a_reduction_that_accumulates_onto_old_content_is_found(which):
    compiled = tiles(BEGINS)
    stream = list(compiled.program.instructions)
    number = [n for n, each in enumerate(stream) if isinstance(each, Gemm) and each.begin][which]
    stream[number] = replace(stream[number], begin=False)
    broken = replace(compiled, program=replace(compiled.program, instructions=tuple(stream)))
    validate_stream(compiled)
    with pytest.raises(lt.ValidationError) as caught:
        validate_stream(broken)
    assert "must leave C.acc[" in str(caught.value)


def test_no_original_values_are_recorded_for_reductions_that_end_together(monkeypatch):
    """Even if no instruction separates them because their initialisation is elided."""
    recorded = []
    monkeypatch.setattr(ReplacedLanes, "record", lambda *given: recorded.append(given))
    for config in (BEGINS, lt.load_config("tiny")):
        validate_stream(tiles(config))
    assert not recorded
