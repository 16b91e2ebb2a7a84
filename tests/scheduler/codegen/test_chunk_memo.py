"""Memoised chunks: their instructions are those that the rule emits for each chunk without the memo."""

from dataclasses import replace

import pytest
from random_hand_schedules import hand_schedules
from random_networks import machines
from random_operators import OperatorProgram
from random_programs import Choice

import lathe as lt
from lathe.frontend import placeholders
from lathe.scheduler import Schedule, create_schedule
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.codegen.emit import Emitter
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.isel.rules.rule import RULES


def compiled(schedule: Schedule, config: lt.HardwareConfig) -> Compiled | str:
    """The compiled program, or the error."""
    try:
        return build_compiled(schedule, [*placeholders(schedule.program), *schedule.program], config)
    except lt.LatheError as error:
        return str(error)


def told(chunk: ChunkProvenance) -> tuple[object, ...]:
    """The provenance of a chunk, comparable between builds."""
    return chunk.tensor.name, chunk.role, chunk.loops, chunk.index, chunk.text


def check_alike(schedule: Schedule, config: lt.HardwareConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails unless the program is the same without the memo."""
    found = compiled(schedule, config)
    with monkeypatch.context() as each:
        each.setattr(Emitter, "classes_of_chunks", False)
        alone = compiled(schedule, config)
    if isinstance(found, str) or isinstance(alone, str):
        assert found == alone
        return
    assert found.program.instructions == alone.program.instructions
    assert found.program.images["uop"].tobytes() == alone.program.images["uop"].tobytes()
    assert found.origins == alone.origins
    assert [told(chunk) for chunk in found.chunks] == [told(chunk) for chunk in alone.chunks]


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(40))
def test_random_operators(seed, monkeypatch):
    choice = Choice(seed)
    config = machines(choice)
    config = config.with_(extensions=(*config.extensions, *choice.pick([(), ("pad_value",)])))
    check_alike(create_schedule(OperatorProgram(choice, choice.number(1, 5)).outputs), config, monkeypatch)


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(40))
def test_random_schedules(seed, monkeypatch):
    choice = Choice(seed)
    config = lt.load_config(choice.pick(["tiny", "vta", "lathe16"]))
    check_alike(hand_schedules(choice, config)[0], config, monkeypatch)


def counted(name: str) -> list[int]:
    """The number of loops of each chunk that a rule is called with from now on."""
    rule, times = RULES[name], []

    def counting(chunk):
        times.append(len(chunk.loops))
        return rule(chunk)

    RULES[name] = replace(rule, emit=counting)
    return times


@pytest.fixture
def asked() -> list[int]:
    return counted("gemm")


def product(size: int) -> lt.Tensor:
    A, B = (lt.placeholder((size, size), "int8", name=name) for name in "AB")
    return lt.requantise(lt.matmul(A, B, transpose_b=True, name="C"), 8, name="D")


def test_a_rule_is_called_once_for_each_class_of_chunks(asked):
    config = lt.load_config("tiny")
    numbers = []
    for size in (64, 128):
        asked.clear()
        schedule = create_schedule(product(size))
        chunks = compiled(schedule, config).chunks
        numbers.append((len(asked), sum(chunk.role != "map" for chunk in chunks)))
    (few, some), (again, many) = numbers
    assert many > 4 * some
    assert again < many / 4
    assert few <= again <= 2 * few


def test_a_rule_not_declared_by_address_is_called_for_each_chunk(asked):
    RULES["gemm"] = replace(RULES["gemm"], by_address=False)
    chunks = compiled(create_schedule(product(128)), lt.load_config("tiny")).chunks
    assert len(asked) == sum(chunk.role in ("init", "update") for chunk in chunks)


def test_chunks_away_from_a_border_share_instructions():
    asked, numbers = counted("dma"), []
    for size in (24, 48):
        data = lt.placeholder((1, size, size, 16), "int8", name="data")
        weights = lt.placeholder((16, 3, 3, 16), "int8", name="weights")
        conv = lt.conv2d(data, weights, padding=1, name="conv")
        padded = conv.computation.reads[0].tensor
        s = create_schedule(lt.requantise(conv, 8, name="out"))
        stage, sums = s[s.outputs[0]], s.cache_write(s.outputs[0], "acc")
        _, x, _, _ = stage.tile(stage.axis[1], stage.axis[2], 4, 4)
        for tensor, scope in ((sums, "acc"), (conv, "acc"), (padded, "inp")):
            s[tensor].set_scope(scope)
            s[tensor].compute_at(stage, x)
        asked.clear()
        made = compiled(s, lt.load_config("vta"))
        numbers.append((len(asked), sum(chunk.tensor.name == padded.name for chunk in made.chunks)))
    (few, some), (again, many) = numbers
    assert many == 4 * some
    assert again == few < some
