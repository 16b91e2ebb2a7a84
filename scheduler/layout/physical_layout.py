"""Physical layouts: the address of each vector of a tensor in DRAM, and in the scratchpad buffer of a box of it.

The machine moves and computes whole vectors: ``batch`` × ``block`` values in inp, acc and out, ``block_out`` ×
``block_in`` in wgt. So at most one dimension of a tensor becomes the rows of a vector and one its columns; the block
numbers of these are the outermost digits of the vector's address, followed by the other dimensions in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.isa import Layout, PhysicalAxis
from lathe.isa.layout import BROADCAST, PADDING
from lathe.isa.layout_steps import Diagonal, LayoutStep
from lathe.scheduler.layout.dilation_compaction import Gaps, dilation_of
from lathe.scheduler.layout.storage_layout import stored_shape_and_layout
from lathe.scheduler.layout.vector_relayout import conversions_needed, digits, positions, vectors_with_rows
from lathe.scheduler.layout.vector_type import VectorType, vector_type_of
from lathe.scheduler.schedule_ir.memories import ACC, DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout


@dataclass(frozen=True)
class PhysicalLayout:
    """How a tensor of shape ``view`` is tiled into vectors of type ``element``, and their address order (``order``).

    ``group``: as many vectors of neighbouring columns are contiguous in DRAM, where they form one vector of a wider
    memory; ``stack``: the same for neighbouring rows that form one weight vector. In a permuted layout
    (``conversions``) a group holds one block of columns, in scratchpads too. In a scratchpad, ``contiguous``: groups
    are contiguous as in DRAM; ``joined``: a group is moved as one block of columns. ``outside``: dimensions ordered
    directly after those in the lanes (other parts of an axis that was split). ``gaps`` (in ``inp``): dilation of each
    dimension, of which only indices with data are stored. ``held``: how many vectors of a group a scratchpad stores of
    a permuted layout, from the first on; 0: all. ``positions``: of permuted groups, the offset that each bit of a
    vector's number in the group adds, the lowest bit first; () if they are in order.
    """

    view: tuple[int, ...]
    lanes: VectorLayout
    element: VectorType
    group: int = 1
    stack: int = 1
    outside: tuple[int, ...] = ()
    gaps: Gaps = ()
    contiguous: bool = False
    joined: bool = False
    positions: tuple[int, ...] = ()
    held: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        first = (*self.lanes.dims, *self.outside)
        last = [dim for dim in (self.element.innermost,) if dim is not None and dim not in first]
        return (*first, *(dim for dim in range(len(self.view)) if dim not in (*first, *last)), *last)

    def block(self, dim: int) -> int:
        """How many indices of a dimension one vector covers."""
        gap = self.gaps[dim] if self.gaps else None
        if gap is not None:
            return gap.step
        grouped = self.group if self.joined and dim == self.lanes.cols else 1
        return self.element.block(self.lanes, dim) * grouped

    def step(self, dim: int) -> int:
        """How many indices of a dimension one stride of ``strides`` covers: those of a group of contiguous vectors."""
        adjoining = self.group if dim == self.lanes.cols else self.stack if dim == self.lanes.rows else 1
        return self.block(dim) * (1 if self.is_together else adjoining)

    @property
    def is_together(self) -> bool:
        """Whether the vectors of a group together hold the values of one block."""
        return self.lanes.conversions is not None or self.joined

    @property
    def inseparable(self) -> int:
        """How many vectors hold the values of one block, so that they are moved together."""
        return self.held or self.group if self.is_together else 1

    def position(self, number: int) -> int:
        """The offset in a group of the vector with this number."""
        if not self.positions:
            return number
        return sum(moved for bit, moved in enumerate(self.positions) if number >> bit & 1)

    @property
    def in_buffers(self) -> "PhysicalLayout":
        """The layout as buffers are sized by it: contiguous groups count as one block, since they are stored whole."""
        return replace(self, contiguous=False, joined=True) if self.contiguous else self

    def blocks(self, dim: int, first: int, extent: int) -> int:
        """How many vectors of a buffer a range of a dimension touches."""
        form = self.in_buffers
        size = form.block(dim)
        touched = (first + extent - 1) // size - first // size + 1
        return touched * form.inseparable if dim == self.lanes.cols else touched

    def strides(self, low: tuple[int, ...], extent: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """The stride of each dimension, in vectors for every ``step(dim)`` indices, in a dense box, and its size."""
        strides = [0] * len(self.view)
        count = (self.held or self.group) * self.stack
        for dim in reversed(self.order):
            strides[dim] = count
            size = self.step(dim)
            count *= (low[dim] + extent[dim] - 1) // size - low[dim] // size + 1
        return tuple(strides), count

    def whole(self) -> tuple[tuple[int, ...], int]:
        """Strides and number of vectors of the whole tensor."""
        return self.strides((0,) * len(self.view), self.view)

    def layout(self, tensor: Tensor, storage: str, reorderings: tuple[LayoutStep, ...] = ()) -> Layout:
        """The layout that the host CPU packs inputs and unpacks outputs by, after the user's ``reorderings``."""
        if self.lanes.is_diagonal:
            return self._layout_of_diagonals(tensor, storage, reorderings)
        axes = [PhysicalAxis(dim, self.step(dim), -(-self.view[dim] // self.step(dim))) for dim in self.order]
        if self.lanes.conversions is not None:
            axes += digits(self.element, self.lanes)
            return Layout(tensor.shape, tensor.dtype, tuple(axes), view=self.view, storage=storage)
        if self.positions and self.lanes.cols is not None:
            bits = sorted(range(len(self.positions)), key=lambda bit: -self.positions[bit])
            axes += [PhysicalAxis(self.lanes.cols, self.block(self.lanes.cols) << bit, 2) for bit in bits]
        elif self.group > 1:
            cols = self.lanes.cols
            axes.append(
                PhysicalAxis(BROADCAST if cols is None else cols, 1 if cols is None else self.block(cols), self.group)
            )
        if self.stack > 1:
            assert self.lanes.rows is not None, f"{self} cannot form weight vectors"
            assert self.group == 1, f"{self} cannot form weight vectors"
            axes.append(PhysicalAxis(self.lanes.rows, self.block(self.lanes.rows), self.stack))
        for dim, size, spread in (
            (self.lanes.rows, self.element.rows, self.element.spread_rows),
            (self.lanes.cols, self.element.cols, self.element.spread_cols),
        ):
            axes.append(PhysicalAxis((BROADCAST if spread else PADDING) if dim is None else dim, 1, size))
        return Layout(tensor.shape, tensor.dtype, tuple(axes), view=self.view, storage=storage, reorderings=reorderings)

    def _layout_of_diagonals(self, tensor: Tensor, storage: str, reorderings: tuple[LayoutStep, ...]) -> Layout:
        """The host layout where a dimension is on the diagonal of weight vectors, and the host fills in zeros."""
        assert self.lanes.cols is not None, f"no dimension is in the lanes of {self}"
        assert self.group == self.stack == 1, f"{self} cannot form vectors of other memories"
        spread = Diagonal(self.view, self.lanes.cols, self.element.rows, self.element.cols)
        order = (*self.order, len(self.view), len(self.view) + 1)
        axes = tuple(PhysicalAxis(dim, 1, spread.shape[dim]) for dim in order)
        return Layout(tensor.shape, tensor.dtype, axes, storage=storage, reorderings=(*reorderings, spread))

    @property
    def count(self) -> int:
        return self.whole()[1]

    def values(self) -> int:
        return prod(self.view)


def physical_of(stage: StageView, lanes: Mapping[Tensor, VectorLayout], config: HardwareConfig) -> PhysicalLayout:
    """The physical layout of the tensor of a stage in its memory."""
    element = vector_type_of(config, stage.state.scope)
    view, along = stored_shape_and_layout(stage.schedule, stage, stage.tensor, lanes[stage.tensor], element)
    form = scratchpad_layout(
        view, along, element, split_dims_of(stage.schedule, view, along), dilation_of(stage, along), config
    )
    return contiguous_layout(form, stage, lanes, config) if stage.state.contiguous else form


def contiguous_layout(
    form: PhysicalLayout, stage: StageView, lanes: Mapping[Tensor, VectorLayout], config: HardwareConfig
) -> PhysicalLayout:
    """The scratchpad layout with the vectors that form one stored vector contiguous, as they are in DRAM."""
    assert form.lanes.conversions is None, f"blocks of {form} are permuted"
    sources = [lanes.get(read.tensor) for read in stage.state.computation.reads]
    permuted = any(each is not None and each.conversions is not None for each in sources)
    group = vector_type_of(config, DRAM).cols // form.element.cols
    return replace(form, group=group, contiguous=True, positions=positions(config) if permuted else ())


def scratchpad_layout(
    view: tuple[int, ...],
    lanes: VectorLayout,
    element: VectorType,
    outside: tuple[int, ...] = (),
    gaps: Gaps = (),
    config: HardwareConfig | None = None,
) -> PhysicalLayout:
    """The physical layout of a scratchpad buffer."""
    group = 1 if lanes.conversions is None else element.span // element.cols
    held = 0 if config is None or group == 1 else _held(view, lanes, element, config)
    return PhysicalLayout(view, lanes, element, group, outside=outside, gaps=gaps, held=held)


def _held(view: tuple[int, ...], lanes: VectorLayout, element: VectorType, config: HardwareConfig) -> int:
    """How many vectors of a group hold rows of the tensor (0: all); the others are not computed, stored or loaded.

    Loads transfer all of them if that is no slower: leaving some out makes each DRAM row a burst of its own, which
    waits for the memory's latency.
    """
    assert lanes.conversions is not None, f"{lanes} is not permuted"
    if lanes.rows is None:
        return 0
    rows = min(view[lanes.rows], element.rows)
    if element == vector_type_of(config, ACC):
        return vectors_with_rows(config, lanes.conversions, rows) if lanes.conversions else 0
    if lanes.conversions == conversions_needed(config):
        return 0
    held, memory = vectors_with_rows(config, lanes.conversions + 1, rows), config.memory
    beats = [
        ceil(count * config.inp_element_bytes / config.bus_bytes) for count in (held, element.span // element.cols)
    ]
    waiting = (memory.latency + 4) / memory.outstanding_reads
    return held if max(beats[0] * memory.cycles_per_beat, waiting) < beats[1] * memory.cycles_per_beat else 0


def split_dims_of(schedule: ScheduleView, view: tuple[int, ...], lanes: VectorLayout) -> tuple[int, ...]:
    """The other dimensions that the axis in the columns was split into (``delinearize-axes``), for ``outside``.

    They become outer dimensions, so that the pixels of one group of channels, which a GEMM reads, are contiguous. This
    depends on shape and lanes alone, so that stages that alias each other's buffers have the same order
    (``in_place_aliasing.py``).
    """
    if lanes.cols is None or lanes.is_diagonal:
        return ()
    for finer, whole in schedule.state.views.items():
        parts = _parts_of(lanes.cols, finer.shape, whole.shape) if len(finer.shape) == len(view) else []
        # Other dimensions may be longer (padding) or shorter (only a slice is read).
        if parts and all(finer.shape[dim] == view[dim] for dim in parts):
            return tuple(dim for dim in parts if dim not in lanes.dims)
    return ()


def _parts_of(dim: int, finer: tuple[int, ...], whole: tuple[int, ...]) -> list[int]:
    """The dimensions of the finer shape, ``dim`` among them, that one dimension of the whole shape was split into."""
    rest = list(range(len(finer)))
    for extent in reversed(whole):
        parts: list[int] = []
        while rest and (not parts or prod(finer[part] for part in parts) < extent):
            parts.append(rest.pop())
        if dim in parts:
            return parts[::-1]
    return []
