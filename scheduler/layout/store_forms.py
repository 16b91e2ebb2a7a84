"""Whether vectors as they are stored in DRAM already have the layout that a load needs."""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.scheduler.layout.vector_relayout import conversions_needed
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.schedule_ir.memories import DRAM, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout

PLANES = ("int16", "int32", "uint8", "uint16", "uint32")
"""The dtypes that are stored as byte planes."""


def forms_weight_vectors(config: HardwareConfig, lanes: VectorLayout, wanted: VectorLayout) -> bool:
    """Whether consecutive stored vectors with layout ``lanes`` form weight vectors with layout ``wanted``."""
    stored, weights = vector_type_of(config, DRAM), vector_type_of(config, WGT)
    rows = wanted.rows is not None and (stored.rows == 1 or lanes.rows == wanted.rows)
    cols = wanted.cols is not None and lanes.cols == wanted.cols
    return rows and cols and weights.cols == stored.cols and weights.rows % stored.rows == 0


def forms_loadable_vectors(config: HardwareConfig, lanes: VectorLayout, scope: str, shape: Sequence[int]) -> bool:
    """Whether consecutive stored vectors of a tensor of this shape and layout form vectors as a memory loads them.

    If the widths differ, they do with a batch of 1, with nothing in the lanes, if one row and one block of columns hold
    the whole tensor, or after all conversions.
    """
    stored, loaded = vector_type_of(config, DRAM), vector_type_of(config, scope)
    if lanes.conversions is not None:
        return lanes.conversions == conversions_needed(config)
    one_row = lanes.rows is not None and shape[lanes.rows] == 1
    one_block = lanes.cols is not None and shape[lanes.cols] <= min(stored.cols, loaded.cols)
    plain = stored.rows == 1 or stored.cols == loaded.cols or lanes == VectorLayout(None, None)
    return plain or (one_row and one_block)
