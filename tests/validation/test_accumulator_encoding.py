"""How accumulators hold values of narrower types, and that new values keep the form of the old ones."""

import numpy as np
import pytest

from lathe.frontend.expr.dtypes import DTYPES
from lathe.validation.accumulator_encoding import forms_of, in_form

HELD = {
    0: lambda value, bits: value << (0 * bits),
    1: lambda value, bits: (value & (1 << bits) - 1) - ((value >> bits - 1 & 1) << bits),
    2: lambda value, bits: value & (1 << bits) - 1,
    3: lambda value, bits: (value & (1 << bits) - 1) | 0x1234 << bits,
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("form", sorted(HELD))
def test_a_value_is_recognised_in_every_form_and_its_successor_takes_the_same(form, dtype):
    limits = DTYPES[dtype]
    assert set(HELD) == set(range(len(forms_of(np.zeros((1, 1), np.int64), dtype))))
    generator = np.random.default_rng(form)
    old, new = generator.integers(limits.minimum, limits.maximum, (2, 16, 30), endpoint=True)
    held = HELD[form](old, limits.bits)
    assert np.array_equal(forms_of(held, dtype)[form], old)
    assert np.array_equal(in_form(form, new, held, limits.bits), HELD[form](new, limits.bits))


def test_int32_has_one_form_which_wraps_around():
    values = np.array([[1 << 31, -1, 5]])
    (form,) = forms_of(values, "int32")
    assert np.array_equal(form, values)
    assert in_form(0, values, values, 32).tolist() == [[-(1 << 31), -1, 5]]


def test_what_is_not_of_a_form_matches_no_value():
    (same, signed, unsigned, low) = forms_of(np.array([[200 + 0x100]]), "uint8")
    assert (same.item(), low.item()) == (456, 200)
    assert min(signed.item(), unsigned.item()) > 1 << 32
