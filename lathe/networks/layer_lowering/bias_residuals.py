"""Fractional biases: the residual of a bias, in units of the sums, is added after the multiplication of the rescaling.

``rescaled_add`` rescales the sum twice, once with a mantissa of 1, and adds the results::

    (sum + bias) * (mantissa - 1) + (sum + bias + rest * mantissa) * 1 = (sum + bias + rest) * mantissa

The second bias is rounded to a multiple of 1 / mantissa of a unit. This takes two RESCALE passes, an integer bias one.
"""

import numpy as np

from lathe.frontend.tensor.rescale_parameters import SHIFT_BITS
from lathe.networks.lowered_values import Array


def with_bias_residuals(factors: Array, rests: Array) -> Array:
    """Pairs of rows for ``rescaled_add``, (..., channels, 2, 2), from rows [bias, word] and residuals (channels,)."""
    bias, word = factors[..., 0].astype(np.int64), factors[..., 1].astype(np.int64)
    mantissa, shift = word >> SHIFT_BITS, word % (1 << SHIFT_BITS)
    unit = np.sign(mantissa)
    added = np.rint(rests * mantissa).astype(np.int64)
    first = np.stack([bias, (mantissa - unit) * (1 << SHIFT_BITS) + shift], axis=-1)
    second = np.stack([bias + unit * added, unit * (1 << SHIFT_BITS) + shift], axis=-1)
    made: Array = np.stack([first, second], axis=-2).astype(np.int32)
    return made
