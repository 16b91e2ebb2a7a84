"""Original values of lanes whose checked values were replaced by fresh ones, while their reduction continues.

The validator identifies lanes by their values, and a partial reduction may equal another, complete one: a maximum over
some rows often is that of the next window, and a partial sum may be the complete sum at a border. Such a lane then gets
fresh values too early. So that its later updates do not accumulate onto these, each update is run on the original
values, and lanes that it does not change get the fresh ones back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.validation.sampling import Ints

Columns = NDArray[np.generic]


@dataclass(frozen=True)
class _Lanes:
    """Lanes of a scratchpad by number (vector * lanes + lane), and columns (samples, lanes): ``old`` and ``new``."""

    lanes: Ints
    old: Columns
    new: Columns

    def where(self, chosen: NDArray[np.bool_]) -> "_Lanes":
        return _Lanes(self.lanes[chosen], self.old[:, chosen], self.new[:, chosen])


@dataclass
class ReplacedLanes:
    """By tensor, the lanes whose values were replaced by fresh ones."""

    lanes: dict[Tensor, list[_Lanes]] = field(default_factory=dict)

    def record(self, tensor: Tensor, lanes: Ints, old: Columns, new: Columns) -> None:
        """Record that values of lanes were replaced."""
        self.lanes.setdefault(tensor, []).append(_Lanes(lanes, old, new))

    def forget(self, tensor: Tensor) -> None:
        """Forget a tensor whose reductions are all complete."""
        self.lanes.pop(tensor, None)

    @contextmanager
    def original_values(self, tensor: Tensor, cells: Columns) -> Iterator[None]:
        """Context in which the replaced lanes of a tensor have their original values; changes to them persist."""
        flat = cells.reshape(len(cells), -1)
        restored: list[_Lanes] = []
        for each in self.lanes.pop(tensor, ()):
            fresh = each.where((flat[:, each.lanes] == each.new).all(axis=0))
            flat[:, fresh.lanes] = fresh.old
            restored.append(fresh)
        yield
        for each in restored:
            unchanged = each.where((flat[:, each.lanes] == each.old).all(axis=0))
            flat[:, unchanged.lanes] = unchanged.new
            if len(unchanged.lanes):
                self.lanes.setdefault(tensor, []).append(unchanged)
