"""What lanes held before new values took the place of checked ones, for as long as their reduction goes on.

Lanes are known by what they hold, and a sum under way may hold what another one is made to hold: a maximum over some
rows is that of the window next to it, as often as not, and a product that is not yet added to is all that there is of a
sum at a border. It gets new values then as if it were whole. So that the parts still to come are not added to those,
steps of a reduction find the old ones, and lanes that they leave as they are have the new ones back.
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
    """``places`` of lanes, all of a scratchpad's in a row, and columns (samples, lanes): ``old`` values and ``new``."""

    places: Ints
    old: Columns
    new: Columns

    def where(self, chosen: NDArray[np.bool_]) -> "_Lanes":
        return _Lanes(self.places[chosen], self.old[:, chosen], self.new[:, chosen])


@dataclass
class Replaced:
    """By tensor, the lanes in which new values stand for old ones."""

    lanes: dict[Tensor, list[_Lanes]] = field(default_factory=dict)

    def note(self, tensor: Tensor, places: Ints, old: Columns, new: Columns) -> None:
        """New values have been put into lanes."""
        self.lanes.setdefault(tensor, []).append(_Lanes(places, old, new))

    def forget(self, tensor: Tensor) -> None:
        """Nothing more is added to any element of a tensor that has been begun."""
        self.lanes.pop(tensor, None)

    @contextmanager
    def put_back(self, tensor: Tensor, cells: Columns) -> Iterator[None]:
        """Meanwhile lanes of a tensor that hold new values still have the old ones. Those that change stay changed."""
        flat = cells.reshape(len(cells), -1)
        found: list[_Lanes] = []
        for each in self.lanes.pop(tensor, ()):
            held = each.where((flat[:, each.places] == each.new).all(axis=0))
            flat[:, held.places] = held.old
            found.append(held)
        yield
        for each in found:
            unchanged = each.where((flat[:, each.places] == each.old).all(axis=0))
            flat[:, unchanged.places] = unchanged.new
            if len(unchanged.places):
                self.lanes.setdefault(tensor, []).append(unchanged)
