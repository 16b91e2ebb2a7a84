"""Annotated levels: the text is what `lower` prints, and each line has its stage."""

import pytest
from drawn_runs import program_of_script

import lathe as lt
from lathe.builder import capture_builds
from lathe.scheduler.inspect.annotated_levels import LEVELS, marked_levels, statements_of
from lathe.scheduler.inspect.print_levels import level


def compiled():
    found = []
    with capture_builds(found.append):
        program_of_script()
    return found[0]


def test_lines_are_the_text_of_the_level_of_the_lowered_schedule():
    made = compiled()
    levels = marked_levels(made)
    assert [*levels] == [*LEVELS]
    instructions = levels.pop("instructions")
    for name, lines in levels.items():
        text = level(made.schedule, made.program.config, name, given=False)
        assert "".join(f"{line.text}\n" for line in lines) == text
    texts = {line.instruction: line.text.strip() for line in levels["communication"] if line.instruction >= 0}
    assert [line.text.strip() for line in instructions] == [texts[number] for number in range(len(texts))]


def test_every_line_belongs_to_the_stage_that_it_names():
    for name, lines in marked_levels(compiled()).items():
        for line in lines:
            if line.stage and name not in ("order", "algorithm"):
                assert line.stage in line.text
            if not line.stage:
                assert line.text.strip() == "" or line.text.rstrip().endswith(":") or "finish" in line.text


@pytest.mark.parametrize("name", ["communication", "instructions"])
def test_instructions_have_their_number_and_origin(name):
    made = compiled()
    lines = [line for line in marked_levels(made)[name] if line.instruction >= 0]
    assert sorted(line.instruction for line in lines) == [*range(len(made.program.instructions))]
    assert all(line.stage == made.origins[line.instruction].stage for line in lines)


def test_copies_belong_to_the_tensor_that_they_are_named_after():
    assert statements_of(compiled()) == {"A.inp": "A", "B.wgt": "B", "C": "C", "D.acc": "D", "D": "D"}


def test_builds_are_captured_also_if_the_program_is_cached(tmp_path):
    cfg = lt.load_config("vta")
    A = lt.placeholder((60, 64), "int8", name="A")
    B = lt.compute(A.shape, lambda i, j: A[i, j] >> 1, name="B")
    cache = lt.ScheduleCache(tmp_path)
    programs = [lt.build(B, [A, B], cfg, budget=2, cache=cache)]
    found = []
    with capture_builds(found.append):
        programs.append(lt.build(B, [A, B], cfg, budget=2, cache=cache))
    assert [each.program for each in found] == programs[1:]
    assert programs[0].encoded.tobytes() == programs[1].encoded.tobytes()
