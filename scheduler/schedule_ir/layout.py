"""Layouts of tensors (``transform_layout``): the index maps from the program's indices to those of the stored tensor.

After TVM's RFC 0039. Without a map a tensor is row-major. The axes between two separators are flattened to one
dimension of the physical buffer: one dimension is flat memory, two are the rows of a two-dimensional transfer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.html_repr import repr_html
from lathe.configs.integers import integer
from lathe.frontend import Axis, Tensor, evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Const
from lathe.isa.layout_steps import LayoutStep, shape_after
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.rewriting.index_maps import IndexMap, index_map
from lathe.scheduler.rewriting.padding import AddedCells, layout_steps
from lathe.scheduler.schedule_ir.memories import MOST_DIMENSIONS


@dataclass(frozen=True, eq=False)
class TensorLayout:
    """The layout of ``tensor``, as the program names it: ``maps`` are applied in order. No map: row-major.

    ``predecessors``: the tensors that have stood for it in the schedule, the program's first. ``pads``: for each map,
    what its padding cells hold; None if it adds none. ``host_steps``: steps that passes append for the host CPU to
    carry out last, such as interleaving weights with zeros.
    """

    tensor: Tensor
    maps: tuple[IndexMap, ...] = ()
    predecessors: tuple[Tensor, ...] = ()
    pads: tuple[AddedCells | None, ...] = ()
    host_steps: tuple[LayoutStep, ...] = ()

    _repr_html_ = repr_html

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes of the layout."""
        if self.host_steps:
            return shape_after(self.host_steps[-1])
        return self.maps[-1].shape if self.maps else self.tensor.shape

    @property
    def separators(self) -> tuple[int, ...]:
        """The axes at which a new dimension of the physical buffer begins: those of the last map."""
        return self.maps[-1].separators if self.maps else ()

    def live_extent(self, dim: int) -> int:
        """The end of the live indices along an axis: from there on, only zero padding; its extent if there is none."""
        pad = self.pads[-1] if self.pads else None
        return self.maps[-1].last_live(dim) if pad is not None and pad.constant == 0 else self.shape[dim]

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The axes that each dimension of the physical buffer consists of."""
        ends = (0, *self.separators, len(self.shape))
        return tuple(tuple(range(first, last)) for first, last in pairwise(ends))

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The dimensions of the physical buffer, in scalar elements."""
        return tuple(prod(self.shape[axis] for axis in group) for group in self.groups)

    def index(self, *logical: int) -> tuple[int, ...]:
        """The index, over the axes of the layout, of the element at the program's index ``logical``.

        Raises ScheduleError for an index outside the tensor.
        """
        values = tuple(n for each in logical if (n := integer(each)) is not None)
        inside = len(values) == len(logical) == self.tensor.ndim and all(
            0 <= value < extent for value, extent in zip(values, self.tensor.shape, strict=True)
        )
        if not inside:
            raise ScheduleError(
                f"index of the layout of {self.tensor.name} must be within shape {self.tensor.shape}, not {logical}.",
                kind="argument",
            )
        for each in self.maps:
            bound: Mapping[Any, Any] = dict(zip(each.axes, values, strict=True))
            values = tuple(int(evaluate(index, bound)) for index in each.indices)
        return values

    def physical_index(self, *logical: int) -> tuple[int, ...]:
        """The index, in the physical buffer, of the element at the program's index ``logical``.

        Raises ScheduleError for an index outside the tensor.
        """
        index = self.index(*logical)
        found: list[int] = []
        for group in self.groups:
            flat = 0
            for axis in group:
                flat = flat * self.shape[axis] + index[axis]
            found.append(flat)
        return tuple(found)

    def flattened(self) -> "TensorLayout":
        """The same layout with one axis per dimension of the physical buffer; itself if it has that form."""
        if all(len(group) == 1 for group in self.groups):
            return self
        axes = tuple(Axis(f"i{n}", extent) for n, extent in enumerate(self.shape))
        indices = tuple(_flat([axes[axis] for axis in group]) for group in self.groups)
        last = index_map(axes, indices, range(1, len(indices)), self.tensor.name)
        return TensorLayout(self.tensor, (*self.maps, last), self.predecessors, (*self.pads, None))

    @property
    def padding(self) -> tuple[tuple[int, ...], ...]:
        """The padding cells, in row-major order."""
        live = self.pack(np.ones(self.tensor.shape, np.int8), 0, live=True)
        return tuple(tuple(int(n) for n in cell) for cell in np.argwhere(live == 0))

    @property
    def padding_count(self) -> int:
        """The number of padding cells."""
        return prod(self.shape) - prod(self.tensor.shape)

    @property
    def array_steps(self) -> tuple[LayoutStep, ...]:
        """The layout as steps on arrays."""
        return self.steps()

    def steps(self, poison: int = 0, *, live: bool = False) -> tuple[LayoutStep, ...]:
        """The layout as steps on arrays; ``poison`` fills undefined padding (with ``live``, all padding)."""
        found: list[LayoutStep] = []
        tensors = (*self.predecessors, *(self.tensor,) * len(self.maps))
        for (each, pad), tensor in zip(self.padded_maps, tensors, strict=False):
            found += each.steps(poison) if live else layout_steps(tensor, each, pad, poison)
        return (*found, *self.host_steps)

    @property
    def padded_maps(self) -> list[tuple[IndexMap, AddedCells | None]]:
        """Each map, with what its padding cells hold."""
        return list(zip(self.maps, self.pads, strict=True))

    def pack(self, array: NDArray[Any], poison: int = 0, *, live: bool = False) -> NDArray[Any]:
        """An array of the program's shape in this layout; ``poison`` fills undefined padding."""
        for step in self.steps(poison, live=live):
            array = step.apply(array)
        return array

    def unpack(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array in this layout, back in the program's shape."""
        for step in reversed(self.array_steps):
            array = step.undo(array)
        return array.reshape(self.tensor.shape)

    def __str__(self) -> str:
        maps = "; ".join(map(str, self.maps)) or "row-major"
        return f"{self.tensor.name}: {maps}, shape {self.shape}, physical {self.physical_shape}"


def check_dimensions(layout: TensorLayout, scope: str) -> None:
    """Raises ScheduleError if a physical buffer has more dimensions than its memory allows."""
    most = MOST_DIMENSIONS[scope]
    if len(layout.groups) > most:
        raise ScheduleError(
            f"physical buffer of {layout.tensor.name} in {scope} must have at most {most} "
            f"dimension{'s' if most > 1 else ''}, not {len(layout.groups)} as {layout.physical_shape} has. Leave out "
            "an AXIS_SEPARATOR of its layout.",
            kind="machine",
        )


def _flat(axes: Sequence[Axis]) -> Expr:
    """The row-major linear index of a point."""
    total: Expr = AxisRef(axes[0])
    for axis in axes[1:]:
        total = Binary("add", Binary("mul", total, Const(axis.extent, "index")), AxisRef(axis))
    return total
