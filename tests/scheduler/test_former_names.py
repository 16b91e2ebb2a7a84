"""Names of earlier versions that still work, and errors for names that never existed."""

import pytest
from error_checks import raises

import lathe as lt
from lathe.scheduler.passes.former_names import FORMER_NAMES
from lathe.scheduler.passes.pipeline import PASSES

CONFIG = lt.load_config("tiny")
A = lt.placeholder((4, 8), "int8", name="A")
B = lt.relu(A, name="B")


def test_every_former_name_is_of_a_pass_and_none_is_used_again():
    passes = {each.name for each in PASSES}
    assert set(FORMER_NAMES.values()) <= passes
    assert not set(FORMER_NAMES) & passes


@pytest.mark.parametrize("former", ["fill-domains", "choose-rules"])
def test_lower_shows_a_pass_by_its_former_name(former):
    assert lt.lower(B, [A, B], CONFIG, former) == lt.lower(B, [A, B], CONFIG, FORMER_NAMES[former])


def test_a_pass_that_never_existed_is_answered_with_the_nearest_names_only():
    error = raises(
        lt.BuildError, lt.lower, B, [A, B], CONFIG, "legalise-domain", kind="argument",
        mentions=("legalize-domains", "'legalise-domain'"),
    )  # fmt: skip
    assert "insert-writeback" not in str(error)


@pytest.mark.parametrize(
    ("former", "name"), [("Answer", "QueryResult"), ("Tried", "Candidate"), ("FoundSchedule", "TunedSchedule")]
)
def test_public_classes_go_by_their_former_names_as_well(former, name):
    assert getattr(lt, former) is getattr(lt, name)
    assert name in lt.__all__
    assert former not in lt.__all__


def test_a_stage_unlike_any_name_is_answered_with_the_levels():
    raises(lt.BuildError, lt.lower, B, [A, B], CONFIG, "?", mentions=("algorithm", "chunks"))
