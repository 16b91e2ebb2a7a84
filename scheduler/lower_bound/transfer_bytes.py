"""Bytes of tensors that are moved once, in whole elements of the memory that loads or stores them."""

from collections.abc import Iterable
from math import prod

import numpy as np

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.scheduler.layout.store_forms import PLANES
from lathe.scheduler.layout.vector_type import VectorType, element_of, loaded_bytes
from lathe.scheduler.lower_bound.domain_points import Masks
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP, PARAMETERS, TABLES, WGT
from lathe.scheduler.schedule_ir.stage import VectorLayout


def bytes_loaded(
    tensor: Tensor, masks: Masks, scope: str, lanes: Iterable[VectorLayout], config: HardwareConfig
) -> int:
    """The fewest bytes that bring what ``masks`` say of a tensor to a memory, in the best of these lanes."""
    element = element_of(config, scope)
    return min(_elements(element, masks, each) for each in lanes) * loaded_bytes(config, scope, tensor.dtype)


def loaded_anywhere(tensor: Tensor, masks: Masks, config: HardwareConfig) -> int:
    """The same for the memory and the lanes that take the fewest, of those that any instruction reads data from."""
    scopes = (INP, WGT, ACC) if tensor.dtype == "int8" else (ACC,)
    return min(bytes_loaded(tensor, masks, scope, any_lanes(scope, len(masks), config), config) for scope in scopes)


def any_lanes(scope: str, rank: int, config: HardwareConfig) -> list[VectorLayout]:
    """All lanes that a tensor can have in a memory. Words of parameters are columns; rows of tables adjoin."""
    if scope == PARAMETERS:
        return [VectorLayout(dim, rank - 1) for dim in (None, *range(rank - 1))]
    if scope == TABLES:
        return [VectorLayout(None, dim) for dim in (None, *range(1, rank))]
    return [*element_of(config, scope).possible_lanes(range(rank))]


def bytes_stored(tensor: Tensor, masks: Masks, config: HardwareConfig) -> int:
    """The fewest bytes that a store of a tensor takes: a byte for each value, or as many planes of them as it has."""
    element = element_of(config, DRAM)
    count = min(_elements(element, masks, each) for each in element.possible_lanes(range(len(masks))))
    planes = -(-DTYPES[tensor.dtype].bits // 8) if tensor.dtype in PLANES else 1
    return count * config.out_element_bytes * planes


def beats(size: int, config: HardwareConfig) -> int:
    """Beats of the bus for the bytes of one tensor."""
    return -(-size // config.bus_bytes)


def _elements(element: VectorType, masks: Masks, lanes: VectorLayout) -> int:
    return prod(-(-int(np.count_nonzero(mask)) // element.block(lanes, dim)) for dim, mask in enumerate(masks))
