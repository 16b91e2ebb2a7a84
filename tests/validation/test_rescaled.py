"""Validation of rescaled sums: their parameters and tables are checked in the scratchpads that they are loaded to."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from extended_machines import with_extensions

import lathe as lt
from lathe.isa import Load, MemoryType, Rescale
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation.stream_validator import validate_stream

CONFIG = with_extensions(lt.load_config("tiny"), ("rescale", "rescale_add", "lookup"))


@pytest.fixture(scope="module", params=[("int8", (256,)), ("uint8", (256,)), ("int8", (256, 8))], ids=str)
def compiled(request: pytest.FixtureRequest) -> Compiled:
    """Eight channels of a matmul, rescaled and looked up, in one table or in one for each."""
    dtype, shape = request.param
    A, B = lt.placeholder((6, 8), "int8", name="A"), lt.placeholder((8, 8), "int8", name="B")
    P, T = lt.placeholder((8, 2), "int32", name="P"), lt.placeholder(shape, dtype, name="T")
    product = lt.matmul(A, B, transpose_b=True, name="M")
    rescaled = lt.requantise(product, parameters=P, zero_point=3, dtype="int8", name="Q")
    C = lt.lookup(rescaled, T, name="C")
    return build_compiled(lt.create_schedule(C), [A, B, P, T, C], CONFIG)


def changed(compiled: Compiled, chosen: Callable[[object], bool], **fields: object) -> Compiled:
    """The program with other fields in the first instruction that is chosen."""
    stream = list(compiled.program.instructions)
    number = next(number for number, each in enumerate(stream) if chosen(each))
    stream[number] = replace(stream[number], **fields)
    return replace(compiled, program=replace(compiled.program, instructions=tuple(stream)))


def of(memory: MemoryType) -> Callable[[object], bool]:
    return lambda each: isinstance(each, Load) and each.memory_type == memory


def test_the_unchanged_program_is_valid(compiled: Compiled) -> None:
    assert any(isinstance(each, Rescale) and each.lookup for each in compiled.program.instructions)
    validate_stream(compiled)


@pytest.mark.parametrize("memory", [MemoryType.PAR, MemoryType.LUT])
def test_a_load_from_a_wrong_address_is_found_in_its_scratchpad(compiled: Compiled, memory: MemoryType) -> None:
    load = next(each for each in compiled.program.instructions if of(memory)(each))
    with pytest.raises(lt.ValidationError) as caught:
        validate_stream(changed(compiled, of(memory), dram_base=load.dram_base + 1))
    name = memory.name.lower()
    assert f"(load {name} " in str(caught.value)
    assert f"must leave {name[0].replace('l', 't').upper()}.{name}[0" in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"zero_point": 4},
        {"relu": True},
        {"unsigned": True},
        {"lookup": False},
        {"table": 1},
        {"wgt_factor_in": 1},
        {"add": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_rescale_with_another_field_is_found(compiled: Compiled, fields: dict[str, object]) -> None:
    rescale = next(each for each in compiled.program.instructions if isinstance(each, Rescale))
    if "wgt_factor_in" in fields:
        fields = {"wgt_factor_in": 1 - rescale.wgt_factor_in}
    with pytest.raises(lt.ValidationError) as caught:
        validate_stream(changed(compiled, lambda each: isinstance(each, Rescale), **fields))
    assert "(rescale " in str(caught.value)
    assert "must leave C.acc[" in str(caught.value)


def test_the_sign_of_a_looked_up_value_matters_in_accumulators_only(compiled: Compiled) -> None:
    """A STORE takes the low bits."""
    rescale = next(each for each in compiled.program.instructions if isinstance(each, Rescale))
    other = changed(compiled, lambda each: isinstance(each, Rescale), lookup_unsigned=not rescale.lookup_unsigned)
    validate_stream(other)
