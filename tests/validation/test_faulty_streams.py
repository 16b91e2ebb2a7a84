"""Validation refuses every faulty stream that can change an output.

Fields of instructions are changed one at a time. A stream that passes the verifier and has different outputs on some
inputs must be refused.
"""

import random
from dataclasses import fields, replace

import numpy as np
import pytest

import lathe as lt
from lathe.isa import Instruction
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation import validate
from lathe.validation.end_to_end import KINDS, inputs_of
from lathe.validation.stream_validator import validate_stream

KEPT = ("memory_type", "opcode")


def convolved() -> lt.Tensor:
    data = lt.placeholder((1, 6, 6, 16), "int8", name="data")
    weights = lt.placeholder((16, 3, 3, 16), "int8", name="weights")
    bias = lt.placeholder((16,), "int32", name="bias")
    return lt.requantise(lt.bias_add(lt.conv2d(data, weights, padding=1, name="conv"), bias), 6, name="out")


def multiplied() -> lt.Tensor:
    A, B = lt.placeholder((20, 24), "int8", name="A"), lt.placeholder((12, 24), "int8", name="B")
    return lt.matmul(A, B, transpose_b=True, name="out")


def pooled() -> lt.Tensor:
    return lt.max_pool2d(lt.placeholder((1, 8, 8, 8), "int8", name="data"), 2, name="out")


def masked() -> lt.Tensor:
    A = lt.placeholder((9, 9), "int8", name="A")
    k = lt.reduce_axis(9, "k")
    return lt.compute((9, 9), lambda i, j: lt.sum(A[i, k].astype("int32") * A[j, k].astype("int32"), axis=k,
                                                  where=k <= i), "out")  # fmt: skip


PROGRAMS = {each.__name__: each for each in (convolved, multiplied, pooled, masked)}


def compiled(name: str, machine: str) -> Compiled:
    output = PROGRAMS[name]()
    return build_compiled(output, [*lt.frontend.placeholders([output]), output], lt.load_config(machine))


def changed(instruction: Instruction, chosen: random.Random) -> Instruction | None:
    """The instruction with one field changed by one; None if that is not a valid instruction."""
    names = [each.name for each in fields(instruction) if each.name not in KEPT and each.name[0] != "p"]
    numbers = [name for name in names if isinstance(getattr(instruction, name), int)]
    if not numbers:
        return None
    name = chosen.choice(numbers)
    value = getattr(instruction, name)
    new = not value if isinstance(value, bool) else value + chosen.choice((-1, 1))
    return None if new < 0 and name != "imm" else replace(instruction, **{name: new})


@pytest.mark.sample(1)
@pytest.mark.parametrize("machine", ["vta", "tiny", "batch4"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_field_that_changes_an_output_is_found(name, machine):
    made = compiled(name, machine)
    program, output = made.program, made.schedule.program
    validate(made, output)
    inputs = [inputs_of(output, kind, 1) for kind in KINDS]
    expected = [lt.reference(list(output), each) for each in inputs]
    chosen = random.Random(f"{name} on {machine}")
    found = 0
    for _ in range(40):
        number = chosen.randrange(len(program.instructions))
        new = changed(program.instructions[number], chosen)
        if new is None or new == program.instructions[number]:
            continue
        stream = (*program.instructions[:number], new, *program.instructions[number + 1 :])
        faulty = replace(made, program=replace(program, instructions=stream))
        if lt.verify(faulty.program):
            continue
        same = all(
            np.array_equal(lt.simulate(faulty.program, given).outputs["out"], wanted["out"])
            for given, wanted in zip(inputs, expected, strict=True)
        )
        try:
            validate_stream(faulty)
        except lt.ValidationError:
            found += 1
        else:
            assert same, f"instruction {number} may be {new}, and changes outputs"
    assert found, "no fault was planted that validation finds"
