"""What the parts of a walk may ask of it: where tensors are now, and in which form."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.indices.linear import Linear
from lathe.scheduler.emission.micro_op_pool import MicroOpPool
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.target.chunk import Place, Places
from lathe.scheduler.target.elements import Physical


class Walk(Places, Protocol):
    """A walk over the nest, as what prepares its chunks sees it."""

    config: HardwareConfig
    pool: MicroOpPool
    physical: Mapping[StageView, Physical]
    aliases: Mapping[StageView, StageView]

    def place(self, tensor: Tensor, stage: StageView) -> Place | None:
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
