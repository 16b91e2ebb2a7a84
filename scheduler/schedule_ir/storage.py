"""Storage maps: the cell of a buffer that holds each value of a stage, possibly folded.

Without a map, each value that the stage has at a time has its own cell. With a map, one cell may hold several values,
one after the other; ``legality/storage_folding.py`` decides whether each is dead before it is overwritten. The data
layer and ``store_in`` are Tiramisu's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Axis, evaluate
from lathe.frontend.arith.linear import Linear
from lathe.frontend.arith.loop_bounds import linear_index
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.text import format_expr
from lathe.scheduler.errors import EmitError

Ints = NDArray[np.int64]


class StorageBuffer:
    """A user-declared buffer; a property that is None is inferred from the stages that are stored in it.

    ``shape`` counts cells of one ``dtype`` value each; ``scope`` is the memory. Compared by identity; ``name`` is for
    display.
    """

    __slots__ = ("dtype", "name", "scope", "shape")

    def __init__(self, name: str, shape: tuple[int, ...] | None, dtype: str | None, scope: str | None) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.scope = scope

    def __repr__(self) -> str:
        return f"StorageBuffer({self.name})"


@dataclass(frozen=True, eq=False)
class Storage:
    """A storage map: the value at an index over ``axes`` is in cell ``indices`` of ``buffer``."""

    buffer: StorageBuffer
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    _known: dict[tuple[int, ...], Ints] = field(default_factory=dict)

    @property
    def values(self) -> int:
        """The number of values in the domain of the map."""
        return prod(axis.extent for axis in self.axes)

    def coordinates(self) -> list[Ints]:
        """The cell index of each value along each dimension, broadcastable to the shape of the values."""
        rank = len(self.axes)
        grids = {
            axis: np.arange(axis.extent, dtype=np.int64).reshape([-1 if n == d else 1 for n in range(rank)])
            for d, axis in enumerate(self.axes)
        }
        return [np.asarray(evaluate(index, grids), np.int64) for index in self.indices]

    def cells(self, shape: Sequence[int]) -> Ints:
        """The row-major cell number of each value in a buffer of this shape; values are in row-major order."""
        key = tuple(shape)
        found = self._known.get(key)
        if found is None:
            flat: Ints = np.zeros((), np.int64)
            for extent, each in zip(key, self.coordinates(), strict=True):
                flat = flat * extent + each
            whole = np.broadcast_to(flat, [axis.extent for axis in self.axes])
            found = self._known[key] = np.ascontiguousarray(whole).reshape(-1)
        return found

    @cached_property
    def box(self) -> tuple[int, ...]:
        """The smallest shape that contains all cells."""
        return tuple(int(each.max()) + 1 for each in self.coordinates())

    def folds(self, shape: Sequence[int]) -> bool:
        """Whether two values share a cell."""
        key = (-1, *shape)
        found = self._known.get(key)
        if found is None:
            most = np.bincount(self.cells(shape)).max()
            found = self._known[key] = np.asarray(most > 1)
        return bool(found)

    def at(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The cell of the value at an index."""
        values = dict(zip(self.axes, indices, strict=True))
        return tuple(substitute(index, values) for index in self.indices)

    def in_loops(self, indices: Sequence[Linear]) -> list[Linear]:
        """The cell of the value at an index, in terms of loops. Raises EmitError if it is not quasi-affine."""
        values = dict(zip(self.axes, indices, strict=True))
        found: list[Linear] = []
        for index in self.indices:
            linear = linear_index(index, values)
            if linear is None:
                raise EmitError(
                    f"cell of a value in buffer {self.buffer.name} must be quasi-affine in the loops, not "
                    f"{format_expr(index)} as in {self}: no instruction can address it.",
                    kind="machine",
                )
            found.append(linear)
        return found

    def __str__(self) -> str:
        """``buffer[cell]``, in terms of the axes."""
        return f"{self.buffer.name}[{', '.join(format_expr(index) for index in self.indices)}]"
