"""Biases that are no whole numbers in units of the sums: what is left of them is added behind the multiplication.

A sum is brought to 8 bits as two of itself, one of which counts a single unit of the factor's mantissa::

    (sum + bias) * (mantissa - 1) + (sum + bias + rest * mantissa) * 1 = (sum + bias + rest) * mantissa

in which the second bias is rounded, to 1 / mantissa of a unit of the sums. It takes two steps where one does for a
whole bias.
"""

import numpy as np

from lathe.frontend.tensor.rescale_parameters import SHIFT_BITS
from lathe.networks.lowered_values import Array


def with_rests(factors: Array, rests: Array) -> Array:
    """Pairs of rows for ``rescaled_add``, (..., filters, 2, 2), of rows [bias, word] and rests (filters,)."""
    bias, word = factors[..., 0].astype(np.int64), factors[..., 1].astype(np.int64)
    mantissa, shift = word >> SHIFT_BITS, word % (1 << SHIFT_BITS)
    unit = np.sign(mantissa)
    added = np.rint(rests * mantissa).astype(np.int64)
    first = np.stack([bias, (mantissa - unit) * (1 << SHIFT_BITS) + shift], axis=-1)
    second = np.stack([bias + unit * added, unit * (1 << SHIFT_BITS) + shift], axis=-1)
    made: Array = np.stack([first, second], axis=-2).astype(np.int32)
    return made
