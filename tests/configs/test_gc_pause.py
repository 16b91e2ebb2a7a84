"""The cyclic garbage collector runs less often during builds; afterwards Python's thresholds are restored."""

import gc

import pytest

from lathe.configs.gc_pause import OBJECTS, with_gc_relaxed


@pytest.fixture(autouse=True)
def _thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_inside_and_thresholds_are_restored():
    gc.set_threshold(500, 7, 8)
    with with_gc_relaxed():
        assert gc.get_threshold() == (OBJECTS, 7, 8)
        with with_gc_relaxed():
            assert gc.get_threshold() == (OBJECTS, 7, 8)
        assert gc.get_threshold() == (OBJECTS, 7, 8)
    assert gc.get_threshold() == (500, 7, 8)


def test_an_error_restores_the_thresholds():
    gc.set_threshold(500, 7, 8)
    with pytest.raises(ValueError), with_gc_relaxed():
        raise ValueError
    assert gc.get_threshold() == (500, 7, 8)


@pytest.mark.parametrize("first", [0, 10 * OBJECTS])
def test_a_users_own_threshold_is_kept(first):
    gc.set_threshold(first, 7, 8)
    with with_gc_relaxed():
        assert gc.get_threshold() == (first, 7, 8)


def test_a_function_may_be_decorated_and_calls_itself():
    @with_gc_relaxed()
    def depth(n):
        assert gc.get_threshold()[0] == OBJECTS
        return n and 1 + depth(n - 1)

    gc.set_threshold(500, 7, 8)
    assert depth(3) == 3
    assert gc.get_threshold() == (500, 7, 8)
