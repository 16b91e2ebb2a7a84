"""What the parts of a walk may ask of it: where tensors are now, and in which form."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.arith.linear import Linear
from lathe.scheduler.isel.chunk import BufferView, EmitterContext
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.stream.micro_op_pool import MicroOpPool


class AddressResolver(EmitterContext, Protocol):
    """A walk over the nest, as what prepares its chunks sees it."""

    config: HardwareConfig
    pool: MicroOpPool
    physical: Mapping[StageView, PhysicalLayout]
    aliases: Mapping[StageView, StageView]

    def place(self, tensor: Tensor, stage: StageView) -> BufferView | None:
        """Where a stage finds the cells of a tensor now."""
        ...

    def folded(self, tensor: Tensor, index: list[Linear]) -> list[Linear]:
        """An index of a tensor as its place has it."""
        ...

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether accumulators hold zeros that nobody has written over; None: some of them."""
        ...

    def shape_of(self, stage: StageView) -> tuple[int, ...]:
        """The cells of the buffer of the user's that a stage is stored in."""
        ...
