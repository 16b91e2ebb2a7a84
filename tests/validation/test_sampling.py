"""Values of samples: equal for equal identities, within their range, of all kinds."""

import numpy as np
import pytest

from lathe.validation.sampling import KINDS, Range, Sampler, edges

RANGES = [
    Range(-128, 127),
    Range(0, 1),
    Range(5, 5),
    Range(-(1 << 31), (1 << 31) - 1),
    Range(0, 127 << 8),
    Range(-(1 << 20), 1 << 22, (8, 9, 10)),
    Range(1 << 20, 1 << 21, (3,)),
]


@pytest.mark.parametrize("values", RANGES, ids=str)
def test_values_stay_within_their_range(values):
    sampler = Sampler(2 * KINDS, 3)
    drawn = sampler.draw(sampler.identities("A", 500), values, "A")
    assert drawn.shape == (2 * KINDS, 500)
    assert drawn.min() >= values.low
    assert drawn.max() <= values.high
    assert set(np.unique(drawn[0])) <= set(edges(values.low, values.high))


def test_equal_identities_have_equal_values_and_others_do_not():
    sampler = Sampler(16, 0)
    identities = sampler.identities("A", 100)
    twice = np.concatenate([identities, identities])
    drawn = sampler.draw(twice, Range(-128, 127), "A")
    assert np.array_equal(drawn[:, :100], drawn[:, 100:])
    assert len(np.unique(drawn[:, :100], axis=1).T) == 100
    assert not np.array_equal(drawn, sampler.draw(twice, Range(-128, 127), "B"))


def test_values_are_determined_by_the_seed():
    one, same, other = (Sampler(16, seed).draw(np.arange(50), Range(-128, 127)) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_wide_values_are_mostly_of_the_given_octaves():
    drawn = Sampler(16, 0).draw(np.arange(1000), Range(-(1 << 31), (1 << 31) - 1, (8, 9)))
    inside = (abs(drawn) >= 1 << 8) & (abs(drawn) < 1 << 10)
    assert inside.any(axis=0).all()
    assert inside.mean() > 0.4


def test_columns_of_equal_values_and_no_others_have_equal_hashes():
    sampler = Sampler(16, 0)
    columns = np.random.default_rng(0).integers(-2, 2, (16, 5000))
    hashes = sampler.hashes(columns)
    _, by_column = np.unique(columns, axis=1, return_inverse=True)
    _, by_hash = np.unique(hashes, return_inverse=True)
    pairs = {(int(a), int(b)) for a, b in zip(by_column.reshape(-1), by_hash.reshape(-1), strict=True)}
    assert len(pairs) == len(set(by_column.reshape(-1).tolist())) == len(set(by_hash.reshape(-1).tolist()))


def test_hashes_do_not_depend_on_the_type_that_holds_the_values():
    columns = np.random.default_rng(0).integers(-128, 128, (16, 40))
    sampler = Sampler(16, 0)
    assert np.array_equal(sampler.hashes(columns), sampler.hashes(columns.astype(np.int8)))
    assert np.array_equal(sampler.hashes(columns), sampler.hashes(columns.astype(np.float32)))
