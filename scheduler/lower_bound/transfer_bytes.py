"""Lower bounds on the bytes of loading or storing a tensor once, in whole vectors of the memory in question."""

from collections.abc import Iterable
from math import prod

import numpy as np

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.scheduler.layout.store_forms import PLANES
from lathe.scheduler.layout.vector_type import VectorType, loaded_bytes, vector_type_of
from lathe.scheduler.lower_bound.domain_points import Masks
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP, PARAMETERS, TABLES, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout


def bytes_loaded(
    tensor: Tensor, masks: Masks, scope: str, lanes: Iterable[VectorLayout], config: HardwareConfig
) -> int:
    """The fewest bytes that load the elements in ``masks`` of a tensor to a memory, in the best of these layouts."""
    element = vector_type_of(config, scope)
    return min(_vectors(element, masks, each) for each in lanes) * loaded_bytes(config, scope, tensor.dtype)


def loaded_anywhere(tensor: Tensor, masks: Masks, config: HardwareConfig) -> int:
    """The same for the best memory and layout, of the memories that instructions read data from."""
    scopes = (INP, WGT, ACC) if tensor.dtype == "int8" else (ACC,)
    return min(bytes_loaded(tensor, masks, scope, any_lanes(scope, len(masks), config), config) for scope in scopes)


def any_lanes(scope: str, rank: int, config: HardwareConfig) -> list[VectorLayout]:
    """All layouts of a tensor in a memory. Words of parameters are columns; rows of tables are contiguous."""
    if scope == PARAMETERS:
        return [VectorLayout(dim, rank - 1) for dim in (None, *range(rank - 1))]
    if scope == TABLES:
        return [VectorLayout(None, dim) for dim in (None, *range(1, rank))]
    return [*vector_type_of(config, scope).possible_lanes(range(rank))]


def bytes_stored(tensor: Tensor, masks: Masks, config: HardwareConfig) -> int:
    """The fewest bytes that a store of a tensor takes: a byte for each value, or one for each byte plane."""
    element = vector_type_of(config, DRAM)
    count = min(_vectors(element, masks, each) for each in element.possible_lanes(range(len(masks))))
    planes = -(-DTYPES[tensor.dtype].bits // 8) if tensor.dtype in PLANES else 1
    return count * config.out_element_bytes * planes


def beats(size: int, config: HardwareConfig) -> int:
    """Beats of the bus for the bytes of one tensor."""
    return -(-size // config.bus_bytes)


def _vectors(element: VectorType, masks: Masks, lanes: VectorLayout) -> int:
    return prod(-(-int(np.count_nonzero(mask)) // element.block(lanes, dim)) for dim, mask in enumerate(masks))
