"""Sensitivity analysis: the magnitudes of values that consumers are sensitive to."""

import pytest

import lathe as lt
from lathe.validation.sensitivity import computes, sensitive_octaves


def readers_of(tensor, *others):
    return {tensor: [(each.computation, (each,)) for each in others]}


def sums():
    return lt.placeholder((4, 8), "int32", name="S")


def test_a_clipped_shift_is_sensitive_to_values_between_its_bounds():
    S = sums()
    clipped = lt.compute((4, 8), lambda i, j: lt.max(lt.min(S[i, j] >> 8, 127), -128), "Q")
    octaves = sensitive_octaves(S, readers_of(S, clipped), 0)
    assert set(octaves) <= set(range(7, 16))
    assert {11, 12, 13, 14} <= set(octaves)


def test_a_consumer_of_all_bits_is_sensitive_to_all_magnitudes():
    S = sums()
    assert sensitive_octaves(S, readers_of(S, lt.compute((4, 8), lambda i, j: S[i, j] + 1, "Q")), 0) == ()


def test_copies_are_seen_through():
    S = sums()
    copy = lt.compute((4, 8), lambda i, j: S[i, j], "copy")
    clipped = lt.compute((4, 8), lambda i, j: lt.max(lt.min(copy[i, j] >> 20, 127), -128), "Q")
    octaves = sensitive_octaves(S, {**readers_of(S, copy), **readers_of(copy, clipped)}, 0)
    assert min(octaves) >= 20


def test_a_narrowing_cast_is_sensitive_to_the_low_bits():
    S = sums()
    assert sensitive_octaves(
        S, readers_of(S, lt.compute((4, 8), lambda i, j: S[i, j].astype("int8"), "Q")), 0
    ) == tuple(range(8))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda S, i, j: S[i, j], False),
        (lambda S, i, j: S[i, j].astype("int8"), False),
        (lambda S, i, j: lt.select(i > 1, S[i, j], 0), False),
        (lambda S, i, j: S[i, 7 - j], False),
        (lambda S, i, j: S[i, j] + 1, True),
        (lambda S, i, j: lt.select(S[i, j] > 1, S[i, j], S[i, 0]), True),
        (lambda S, i, j: lt.max(S[i, j], 0), True),
    ],
)
def test_arithmetic_computes_and_moves_do_not(function, expected):
    S = sums()
    tensor = lt.compute((4, 8), lambda i, j: function(S, i, j), "Q")
    assert computes(tensor.computation.bodies[0]) is expected
