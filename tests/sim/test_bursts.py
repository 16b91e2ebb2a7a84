"""Vectorised splitting into bursts, against splitting each transfer on its own."""

from random import Random

import numpy as np
import pytest

from lathe.sim.bursts import Chains
from lathe.sim.transfer import Transfer


def transfers(random, count):
    """Rows of all kinds: none, short and long ones, across pages, with and without padding."""
    for _ in range(count):
        chains = random.choice([0, 1, 1, 2, 7])
        nbytes = random.choice([1, 16, 64, 100, 4096, 5000, 20_000])
        gap, tail = random.choice([0, 0, 3]) if chains > 1 else 0, random.choice([0, 5]) if chains else 0
        yield random.randrange(1 << 16), chains, nbytes, random.choice([nbytes, nbytes + 16, 4096]), gap, tail


@pytest.mark.sample(2)
@pytest.mark.parametrize(("shift", "limit"), [(0, 1), (2, 16), (3, 256), (4, 3), (6, 512)])
def test_runs_are_the_bursts_of_the_chains(shift, limit):
    rows = list(transfers(Random(shift), 60))
    runs, beats = Chains(*np.array(rows, np.int64).T).runs(shift, limit)
    for (address, chains, nbytes, stride, gap, tail), found, total in zip(rows, runs, beats, strict=True):
        expected = []
        for chain in range(chains):
            row = Transfer(address + chain * stride, 1, nbytes, 0, 0, (), 0, 0)
            for begin, stop in row.bursts(shift, limit):
                expected.append((((stop - 1) >> shift) - (begin >> shift) + 1, gap if stop == row.end else 0))
        if expected:
            expected[-1] = expected[-1][0], tail
        assert [(run.beats, run.padding) for run in found for _ in range(run.number)] == expected
        assert sum(each for each, _ in expected) == total


def test_a_stream_without_transfers_has_no_bursts():
    none = np.zeros(0, np.int64)
    assert Chains(none, none, none, none, none, none).runs(3, 256) == ([], [])
    zero = np.zeros(2, np.int64)
    assert Chains(zero, zero, zero, zero, zero, zero).runs(3, 256) == ([(), ()], [0, 0])
