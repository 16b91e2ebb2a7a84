"""Copies between host CPU and device: which arrays, in which layout, and intermediate values on request."""

import numpy as np
from error_checks import raises
from folds import check_stored
from messages import refusal
from nests import text
from random_programs import random_inputs
from small_machine import run

import lathe as lt
from lathe.configs import load_config
from lathe.frontend import compute, placeholder
from lathe.isa import ProgramError, host_copies
from lathe.scheduler import LegalityError, ScheduleError, build, create_schedule, lower

VTA = load_config("vta")
A = placeholder((60, 64), "int8", "A")
B = compute((60, 64), lambda i, j: A[i, j].astype("int32") * 3, "B")
C = compute((60, 64), lambda i, j: (B[i, j] >> 2).astype("int8"), "C")


def test_the_steps_of_a_program_are_listed_and_can_be_carried_out():
    program = build(C, [A, C], VTA)
    packed, unpacked = host_copies(program)
    assert str(packed) == "host_to_device A: int8[60, 64] to 3840 bytes at 0x1000"
    assert str(unpacked) == "device_to_host C: int8[60, 64] from 3840 bytes at 0x2000"
    values = random_inputs([C], seed=0)["A"]
    content = packed.pack(values)
    assert content.nbytes == packed.nbytes == 60 * 64
    np.testing.assert_array_equal(packed.unpack(content), values)
    assert refusal(ProgramError, packed.pack, values[:5]) == (
        "The array of a copy of 'A' must have shape (60, 64) and dtype int8, not (5, 64) and int8. Convert it first."
    )
    assert refusal(ProgramError, unpacked.unpack, content[:5]) == (
        "The content of a copy of 'C' must be 3840 elements of dtype uint8, not 5 of uint8."
    )


def test_steps_that_a_schedule_speaks_of_are_in_its_text():
    s = create_schedule(C)
    s.host_to_device(A)
    s.device_to_host(C)
    lines = lower(s, [A, C], VTA, stage="data").splitlines()
    assert lines[0] == "host_to_device A: int8[60, 64] to 3840 bytes at 0x1000"
    assert lines[-1] == "device_to_host C: int8[60, 64] from 3840 bytes at 0x2000"
    run(s, VTA, random_inputs([C], seed=0))


def test_the_host_gets_what_a_stage_computes():
    s = create_schedule(C)
    s.device_to_host(B)
    inputs = random_inputs([C], seed=0)
    program = run(s, VTA, inputs)
    assert [(each.direction, each.tensor) for each in host_copies(program)] == [
        ("host_to_device", "A"),
        ("device_to_host", "B"),
        ("device_to_host", "C"),
    ]
    found = lt.interpret(s, inputs)
    np.testing.assert_array_equal(found["B"], lt.reference(B, inputs))


def test_values_that_the_host_gets_live_to_the_end():
    s = create_schedule(C)
    s[C].after(s[B], "j")
    s[B].store_in(lambda i, j: (i % 2, j))
    check_stored(s)
    before, program = text(s), s.program
    mentions = ("store_in", 2, "device_to_host", "B(i=0, j=0)", "B(i=58, j=0)", "B[0, 0]")
    raises(LegalityError, s.device_to_host, B, mentions=mentions)
    assert text(s) == before
    assert s.program == program
    assert not s.host_copies


def test_what_the_host_cannot_copy():
    s = create_schedule(C)
    raises(ScheduleError, s.host_to_device, B, kind="argument", mentions=("host_to_device", "A", "B"))
    raises(ScheduleError, s.device_to_host, A, kind="argument", mentions=("device_to_host", "B, C", "A"))
    s[B].compute_at(s[C], "i")
    mentions = ("device_to_host", "dram", "B", "i", "C")
    raises(ScheduleError, s.device_to_host, B, kind="argument", mentions=mentions)
    s[B].set_scope("acc")
    raises(ScheduleError, s.device_to_host, B, kind="argument", mentions=("device_to_host", "dram", "B", "acc"))
