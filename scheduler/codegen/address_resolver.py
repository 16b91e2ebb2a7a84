"""The protocol by which code generation asks the emitter where tensors are stored at a point of the nest."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.arith.linear import Linear
from lathe.scheduler.isel.chunk import BufferView, EmitterContext
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.stream.micro_op_pool import MicroOpPool


class AddressResolver(EmitterContext, Protocol):
    """The emitter, as the code that prepares its chunks uses it."""

    config: HardwareConfig
    pool: MicroOpPool
    physical: Mapping[StageView, PhysicalLayout]
    aliases: Mapping[StageView, StageView]

    def place(self, tensor: Tensor, stage: StageView) -> BufferView | None:
        """The buffer in which a stage finds a tensor at this point; None if it is in none."""
        ...

    def folded(self, tensor: Tensor, index: list[Linear]) -> list[Linear]:
        """An index of a tensor as an index of its buffer: modulo a ring, or by the map of a user buffer."""
        ...

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether accumulators hold zeros that have not been overwritten; None: some of them do."""
        ...

    def shape_of(self, stage: StageView) -> tuple[int, ...]:
        """The shape of the user buffer that a stage is stored in."""
        ...
