"""Encodings of narrow values in accumulators: all are recognised, and fresh values keep that of the old ones."""

import numpy as np
import pytest

from lathe.frontend.expr.dtypes import DTYPES
from lathe.validation.accumulator_encoding import decoded_columns, encoded_like

ENCODINGS = {
    0: lambda value, bits: value << (0 * bits),
    1: lambda value, bits: (value & (1 << bits) - 1) - ((value >> bits - 1 & 1) << bits),
    2: lambda value, bits: value & (1 << bits) - 1,
    3: lambda value, bits: (value & (1 << bits) - 1) | 0x1234 << bits,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_a_value_is_recognised_in_every_encoding_and_its_replacement_keeps_it(encoding, dtype):
    limits = DTYPES[dtype]
    assert set(ENCODINGS) == set(range(len(decoded_columns(np.zeros((1, 1), np.int64), dtype))))
    generator = np.random.default_rng(encoding)
    old, new = generator.integers(limits.minimum, limits.maximum, (2, 16, 30), endpoint=True)
    encoded = ENCODINGS[encoding](old, limits.bits)
    assert np.array_equal(decoded_columns(encoded, dtype)[encoding], old)
    assert np.array_equal(encoded_like(encoding, new, encoded, limits.bits), ENCODINGS[encoding](new, limits.bits))


def test_int32_has_one_encoding_which_wraps_around():
    values = np.array([[1 << 31, -1, 5]])
    (decoded,) = decoded_columns(values, "int32")
    assert np.array_equal(decoded, values)
    assert encoded_like(0, values, values, 32).tolist() == [[-(1 << 31), -1, 5]]


def test_a_column_in_another_encoding_matches_no_value():
    (same, signed, unsigned, low) = decoded_columns(np.array([[200 + 0x100]]), "uint8")
    assert (same.item(), low.item()) == (456, 200)
    assert min(signed.item(), unsigned.item()) > 1 << 32
