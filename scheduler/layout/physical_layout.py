"""Where an element of a tensor lies: blocks and lanes in DRAM, and the same blocks, cut out, in a scratchpad.

The machine moves and computes whole elements: ``batch`` × ``block`` values of inp, acc and out, ``block_out`` ×
``block_in`` of wgt. So at most one dimension of a tensor becomes the rows of an element and one its columns; the block
numbers of these come first in the element's address, then the other dimensions in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.isa import Layout, PhysicalAxis
from lathe.isa.layout import BROADCAST, PADDING
from lathe.isa.layout_steps import Diagonal, LayoutStep
from lathe.scheduler.layout.dilation_compaction import Gaps, gaps_of
from lathe.scheduler.layout.storage_layout import shape_and_lanes
from lathe.scheduler.layout.vector_relayout import conversions_needed, digits, elements_with_rows, positions
from lathe.scheduler.layout.vector_type import VectorType, element_of
from lathe.scheduler.schedule_ir.memories import ACC, DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout


@dataclass(frozen=True)
class PhysicalLayout:
    """How a tensor of shape ``view`` is cut into elements. ``order``: its dimensions from the outermost stride on.

    ``group`` elements of neighbouring columns adjoin in DRAM, where several of them make one element of another memory;
    ``stack`` elements of neighbouring rows do, where several of them make one element of weights. Of turned lanes, a
    group is a block of columns, in scratchpads too. In a scratchpad, where one ``adjoins``, its elements lie side by
    side as in DRAM; ``joined``: it is moved as one, as a block of columns. ``outside`` are dimensions that come before
    all others but the lanes: what else of the axis that these run along has been split off. ``gaps`` (of ``inp``):
    dimensions of which an element holds one index of so many. ``held``: of turned lanes in a scratchpad, how many
    elements of a group there are, from the first one on; 0: all. ``positions``: where elements of a group do not lie in
    order, by how many each bit of an element's number in the group moves it, the lowest bit first.
    """

    view: tuple[int, ...]
    lanes: VectorLayout
    element: VectorType
    group: int = 1
    stack: int = 1
    outside: tuple[int, ...] = ()
    gaps: Gaps = ()
    adjoins: bool = False
    joined: bool = False
    positions: tuple[int, ...] = ()
    held: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        first = (*self.lanes.dims, *self.outside)
        last = [dim for dim in (self.element.innermost,) if dim is not None and dim not in first]
        return (*first, *(dim for dim in range(len(self.view)) if dim not in (*first, *last)), *last)

    def block(self, dim: int) -> int:
        """How many values of a dimension one element holds, or stands for."""
        gap = self.gaps[dim] if self.gaps else None
        if gap is not None:
            return gap.step
        together = self.group if self.joined and dim == self.lanes.cols else 1
        return self.element.block(self.lanes, dim) * together

    def step(self, dim: int) -> int:
        """How many values of a dimension lie in elements that adjoin; a stride leads from group to group."""
        adjoining = self.group if dim == self.lanes.cols else self.stack if dim == self.lanes.rows else 1
        return self.block(dim) * (1 if self.is_together else adjoining)

    @property
    def is_together(self) -> bool:
        """Whether elements that adjoin hold the values of one block."""
        return self.lanes.turns is not None or self.joined

    @property
    def inseparable(self) -> int:
        """How many elements that adjoin hold the values of one block."""
        return self.held or self.group if self.is_together else 1

    def position(self, number: int) -> int:
        """Where an element of a group lies in it."""
        if not self.positions:
            return number
        return sum(moved for bit, moved in enumerate(self.positions) if number >> bit & 1)

    @property
    def in_buffers(self) -> "PhysicalLayout":
        """The same, with what buffers hold all or nothing of as a block."""
        return replace(self, adjoins=False, joined=True) if self.adjoins else self

    def blocks(self, dim: int, first: int, extent: int) -> int:
        """How many elements of a buffer a range of a dimension touches."""
        form = self.in_buffers
        size = form.block(dim)
        found = (first + extent - 1) // size - first // size + 1
        return found * form.inseparable if dim == self.lanes.cols else found

    def strides(self, low: tuple[int, ...], extent: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Elements from one step of each dimension to the next in a dense box, and the number of its elements."""
        strides = [0] * len(self.view)
        count = (self.held or self.group) * self.stack
        for dim in reversed(self.order):
            strides[dim] = count
            size = self.step(dim)
            count *= (low[dim] + extent[dim] - 1) // size - low[dim] // size + 1
        return tuple(strides), count

    def whole(self) -> tuple[tuple[int, ...], int]:
        """Strides and number of elements of the whole tensor."""
        return self.strides((0,) * len(self.view), self.view)

    def layout(self, tensor: Tensor, storage: str, reorderings: tuple[LayoutStep, ...] = ()) -> Layout:
        """The same for the host, which packs inputs and unpacks outputs, after reorderings of the user's."""
        if self.lanes.is_diagonal:
            return self._layout_of_diagonals(tensor, storage, reorderings)
        axes = [PhysicalAxis(dim, self.step(dim), -(-self.view[dim] // self.step(dim))) for dim in self.order]
        if self.lanes.turns is not None:
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
            assert self.lanes.rows is not None, f"no elements of weights are made of {self}"
            assert self.group == 1, f"no elements of weights are made of {self}"
            axes.append(PhysicalAxis(self.lanes.rows, self.block(self.lanes.rows), self.stack))
        for dim, size, spread in (
            (self.lanes.rows, self.element.rows, self.element.spread_rows),
            (self.lanes.cols, self.element.cols, self.element.spread_cols),
        ):
            axes.append(PhysicalAxis((BROADCAST if spread else PADDING) if dim is None else dim, 1, size))
        return Layout(tensor.shape, tensor.dtype, tuple(axes), view=self.view, storage=storage, reorderings=reorderings)

    def _layout_of_diagonals(self, tensor: Tensor, storage: str, reorderings: tuple[LayoutStep, ...]) -> Layout:
        """The same where a dimension runs along the diagonals of elements, which the host fills."""
        assert self.lanes.cols is not None, f"no dimension runs along the lanes of {self}"
        assert self.group == self.stack == 1, f"no elements of other memories are made of {self}"
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
    """How the tensor of a stage lies in its memory."""
    element = element_of(config, stage.state.scope)
    view, along = shape_and_lanes(stage.schedule, stage, stage.tensor, lanes[stage.tensor], element)
    form = form_in(view, along, element, outside_of(stage.schedule, view, along), gaps_of(stage, along), config)
    return adjoining(form, stage, lanes, config) if stage.state.contiguous else form


def adjoining(
    form: PhysicalLayout, stage: StageView, lanes: Mapping[Tensor, VectorLayout], config: HardwareConfig
) -> PhysicalLayout:
    """How cells of a stage lie in a scratchpad where what one stored element holds adjoins, as it does in DRAM."""
    assert form.lanes.turns is None, f"blocks of {form} lie in an order of their own"
    sources = [lanes.get(read.tensor) for read in stage.state.computation.reads]
    turned = any(each is not None and each.turns is not None for each in sources)
    group = element_of(config, DRAM).cols // form.element.cols
    return replace(form, group=group, adjoins=True, positions=positions(config) if turned else ())


def form_in(
    view: tuple[int, ...],
    lanes: VectorLayout,
    element: VectorType,
    outside: tuple[int, ...] = (),
    gaps: Gaps = (),
    config: HardwareConfig | None = None,
) -> PhysicalLayout:
    """How cells lie in a scratchpad of a machine."""
    group = 1 if lanes.turns is None else element.span // element.cols
    held = 0 if config is None or group == 1 else _held(view, lanes, element, config)
    return PhysicalLayout(view, lanes, element, group, outside=outside, gaps=gaps, held=held)


def _held(view: tuple[int, ...], lanes: VectorLayout, element: VectorType, config: HardwareConfig) -> int:
    """How many elements of a group have rows that the tensor has: the others are neither made nor stored nor loaded.

    Of those that are loaded all are where it is no gain: each row of DRAM is a burst of its own then, and waits for the
    memory.
    """
    assert lanes.turns is not None, f"elements with {lanes} are not turned"
    if lanes.rows is None:
        return 0
    rows = min(view[lanes.rows], element.rows)
    if element == element_of(config, ACC):
        return elements_with_rows(config, lanes.turns, rows) if lanes.turns else 0
    if lanes.turns == conversions_needed(config):
        return 0
    held, memory = elements_with_rows(config, lanes.turns + 1, rows), config.memory
    beats = [
        ceil(count * config.inp_element_bytes / config.bus_bytes) for count in (held, element.span // element.cols)
    ]
    waiting = (memory.latency + 4) / memory.outstanding_reads
    return held if max(beats[0] * memory.cycles_per_beat, waiting) < beats[1] * memory.cycles_per_beat else 0


def outside_of(schedule: ScheduleView, view: tuple[int, ...], lanes: VectorLayout) -> tuple[int, ...]:
    """The dimensions into which the axis along the columns of tensors of some shape has been split, besides these.

    Groups of channels lie apart, then, and not the channels of one pixel: a product reads those of one group. This
    depends on nothing but shape and lanes, by which stages that take over each other's cells are known to have them in
    one order (``in_place_aliasing.py``).
    """
    if lanes.cols is None or lanes.is_diagonal:
        return ()
    for finer, whole in schedule.state.views.items():
        parts = _parts_of(lanes.cols, finer.shape, whole.shape) if len(finer.shape) == len(view) else []
        # Along other dimensions stages may have more, as padding, or less, where not all is read.
        if parts and all(finer.shape[dim] == view[dim] for dim in parts):
            return tuple(dim for dim in parts if dim not in lanes.dims)
    return ()


def _parts_of(dim: int, finer: tuple[int, ...], whole: tuple[int, ...]) -> list[int]:
    """The dimensions of the finer shape, ``dim`` among them, that one of the whole has been split into."""
    left = list(range(len(finer)))
    for extent in reversed(whole):
        parts: list[int] = []
        while left and (not parts or prod(finer[part] for part in parts) < extent):
            parts.append(left.pop())
        if dim in parts:
            return parts[::-1]
    return []
