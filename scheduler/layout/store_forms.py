"""The forms in which stored tensors have to lie in DRAM for what loads them."""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.scheduler.layout.vector_relayout import conversions_needed
from lathe.scheduler.layout.vector_type import element_of
from lathe.scheduler.schedule_ir.memories import DRAM, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout

PLANES = ("int16", "int32", "uint8", "uint16", "uint32")
"""The dtypes that are stored as planes of bytes."""


def stores_make_weights(config: HardwareConfig, lanes: VectorLayout, wanted: VectorLayout) -> bool:
    """Whether stored elements with these lanes, one behind the other, are the rows of elements of weights."""
    stored, weights = element_of(config, DRAM), element_of(config, WGT)
    rows = wanted.rows is not None and (stored.rows == 1 or lanes.rows == wanted.rows)
    cols = wanted.cols is not None and lanes.cols == wanted.cols
    return rows and cols and weights.cols == stored.cols and weights.rows % stored.rows == 0


def stores_make_elements(config: HardwareConfig, lanes: VectorLayout, scope: str, shape: Sequence[int]) -> bool:
    """Whether stored elements with these lanes, one behind the other, are the elements that a memory loads.

    ``shape`` is that of the tensor. Of one row, and columns that fill no more than the first block of an element, the
    first stored one has all there is where the first loaded one has it.
    """
    stored, loaded = element_of(config, DRAM), element_of(config, scope)
    if lanes.turns is not None:
        return lanes.turns == conversions_needed(config)
    one_row = lanes.rows is not None and shape[lanes.rows] == 1
    one_block = lanes.cols is not None and shape[lanes.cols] <= min(stored.cols, loaded.cols)
    plain = stored.rows == 1 or stored.cols == loaded.cols or lanes == VectorLayout(None, None)
    return plain or (one_row and one_block)
