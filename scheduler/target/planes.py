"""The forms in which stored tensors have to lie in DRAM for what loads them."""

from lathe.configs import HardwareConfig
from lathe.scheduler.state.stage import Lanes

PLANES = ("int16", "int32", "uint8", "uint16", "uint32")
"""The dtypes that are stored as planes of bytes."""


def stores_make_weights(config: HardwareConfig, lanes: Lanes, wanted: Lanes) -> bool:
    """Whether stored elements with these lanes, one behind the other, are the rows of elements of weights."""
    rows = wanted.rows is not None and (config.batch == 1 or lanes.rows == wanted.rows)
    cols = wanted.cols is not None and lanes.cols == wanted.cols
    return rows and cols and config.block_in == config.block_out and config.block_out % config.batch == 0
