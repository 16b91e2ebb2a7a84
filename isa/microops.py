"""Encoder and decoder of micro-ops as 32-bit words."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import HardwareConfig
from lathe.isa.errors import EncodingError
from lathe.isa.table import uop_placements


def encode_uops(config: HardwareConfig, dst: ArrayLike, src: ArrayLike, wgt: ArrayLike) -> NDArray[np.uint32]:
    """The words of micro-ops with the given vector indices, which broadcast; (N,) uint32.

    Raises :class:`EncodingError` naming the first micro-op and field whose index does not fit.
    """
    given = {"dst": np.atleast_1d(dst), "src": np.atleast_1d(src), "wgt": np.atleast_1d(wgt)}
    shape = np.broadcast_shapes(*(values.shape for values in given.values()))
    if len(shape) != 1:
        raise EncodingError(
            f"The indices of micro-ops must be one-dimensional, not of shape {shape}. Flatten the arrays."
        )
    words = np.zeros(shape, np.uint32)
    for name, placement in uop_placements(config).items():
        values = given[name]
        if values.size and values.dtype.kind not in "biu":
            raise EncodingError(
                f"{name} of the micro-ops must be integers, not {values.dtype}. Convert the array with astype(int)."
            )
        values = values.astype(np.int64)
        if values.size and (values.min() < 0 or values.max() > placement.highest):
            values = np.broadcast_to(values, shape)
            wrong = (values < 0) | (values > placement.highest)
            index = int(np.flatnonzero(wrong)[0])
            raise EncodingError(
                f"{name} of micro-op {index} must be from 0 to {placement.highest}, not {int(values[index])}. "
                f"Its field has {placement.width} bits on machine {config.name!r}."
            )
        words |= (values << placement.lsb).astype(np.uint32)
    return words


def decode_uops(
    config: HardwareConfig, words: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The vector indices (dst, src, wgt) of micro-op words, each of the words' shape, int64."""
    bits = np.asarray(words).astype(np.int64) & 0xFFFFFFFF
    dst, src, wgt = (
        (bits >> placement.lsb) & ((1 << placement.width) - 1) for placement in uop_placements(config).values()
    )
    return dst, src, wgt
