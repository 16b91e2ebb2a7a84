"""``set_scope``: the memory of a stage's values."""

import pytest
from documented import as_documented
from nests import blur, check, text, two_stages

from lathe.scheduler.primitives.set_scope import set_scope


def test_documentation_shows_before_and_after():
    B, C, s = two_stages()
    with as_documented(set_scope, s):
        s[B].set_scope("acc")


@pytest.mark.parametrize("scope", ["inp", "wgt", "acc"])
def test_a_buffer_lives_from_its_producer_to_its_last_reader(scope, golden_and_right):
    B, C, s = blur(7, 6)
    s[B].compute_at(s[C], "y")
    s[B].set_scope(scope)
    golden_and_right(s)


@pytest.mark.parametrize("scope", ["dram", "global", ""])
def test_back_to_dram(scope):
    B, C, s = two_stages()
    before = text(s)
    s[B].set_scope("acc")
    s[B].set_scope(scope)
    assert text(s) == before


def test_out_is_kept_in_acc():
    B, C, s = two_stages()
    s[B].set_scope("out")
    assert text(s).startswith("buffer B in acc: ")


def test_an_output_may_be_set_to_dram():
    _, C, s = two_stages()
    s[C].set_scope("dram")
    check(s)
