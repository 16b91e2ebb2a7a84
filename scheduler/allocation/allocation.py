"""Live ranges of buffers, and first-fit addresses for them in a scratchpad, with two slots for a buffer where they fit.

A live range is the interval between ``Alloc`` and ``Free`` in the order of the loop nest. A buffer inside a loop is
allocated again in each iteration; with two slots, iterations alternate between them (double buffering), so that the
next tile can be loaded while this one is computed. Dependence tokens follow from the addresses that are accessed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from lathe.configs import HardwareConfig
from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.frontend.arith.linear import Linear, bound_range
from lathe.isa import Unit
from lathe.scheduler.errors import BuildError, CapacityError
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, Free, Guard, Loop, Node, StatementBlock, SyncNode
from lathe.scheduler.loop_ir.sliding_windows import Ring
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.dataflow_graph import producers_of
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, PARAMETERS, SCRATCHPADS, TABLES, UNIT_OF_SCOPE
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, user_buffers_of

GRAINS = {PARAMETERS: 2, TABLES: TABLE_ELEMENTS}
"""Granularity of buffer sizes in vectors: parameters come in pairs (for two operands), and tables are numbered."""


LOOKED_AT = 16
"""The number of preceding buffers whose addresses are considered for reuse, oldest use first."""


@dataclass
class Buffer:
    """One scratchpad buffer: ``slots`` slots of ``size`` vectors each, from ``base`` on, for each virtual thread.

    In a reuse buffer (``reuse_at``), slots after the first hold only what is new in an iteration. ``temporary``: a
    scratch buffer of the stage. ``first``..``last`` is the live range, ``loop_range`` that of the outermost loop.

    ``live_ranges`` creates buffers, ``allocate`` sets their slots and bases; nothing else changes one.
    """

    stage: StageView
    scope: str
    size: int
    first: int
    last: int
    in_loop: bool
    loaded: bool
    base: int = 0
    slots: int = 1
    temporary: bool = False
    requested: int | None = None  # slots that the schedule asks for
    useful_slots: int = 2  # the most slots that help, if it asks for none
    threads: int = 1
    ring: Ring | None = None
    loop_range: tuple[int, int] | None = None

    @property
    def total(self) -> int:
        return self.size_per_thread * self.threads

    def live_range(self, *, apart: bool) -> tuple[int, int]:
        """The live range; with ``apart``, that of the outermost loop around the buffer."""
        return self.loop_range if apart and self.loop_range is not None else (self.first, self.last)

    @property
    def size_per_thread(self) -> int:
        """The size per virtual thread, in vectors."""
        if self.ring is None:
            return self.size * self.slots
        return self.size * self.ring.cells(self.slots) // self.ring.cells(1)


def largest_size(placement: StageRegion, physical: PhysicalLayout) -> int:
    """The size in vectors of the largest box of a stage, for any alignment of its blocks."""
    if placement.state.storage is not None:
        return physical.count
    total, physical = 1, physical.in_buffers
    ring = ring_of(placement, physical)
    held = placement if placement.window is None else placement.window
    for dim, (low, extent) in enumerate(zip(held.low, held.extent, strict=True)):
        if ring is not None and dim == ring.dimension:
            total *= ring.cells(1) // ring.block
            continue
        size = bound_range(extent, placement.box)[1]
        block = physical.block(dim)
        aligned = isinstance(low, Linear) and all(value % block == 0 for value in (low.constant, *low.terms.values()))
        start = 0 if aligned else block - 1
        most = -(-physical.view[dim] // block)
        total *= min((start + size - 1) // block + 1, most)
    return total * physical.inseparable


def ring_of(placement: StageRegion, physical: PhysicalLayout) -> Ring | None:
    """The ring of a reuse buffer (``reuse_at``); None for other buffers, and for those that shift their contents."""
    window = placement.window
    if window is None or placement.state.reuse == "shift":
        return None
    d = window.dimension
    return Ring(d, window.shape[d], window.advance, physical.block(d))


def live_ranges(
    nodes: Sequence[Node],
    aliases: dict[StageView, StageView],
    physical: dict[StageView, PhysicalLayout],
    temporaries: Mapping[StageView, int],
) -> list[Buffer]:
    """The buffers of a symbolic nest in order, with live ranges; an aliasing stage extends that of the aliased buffer.

    ``temporaries``: the vectors that a stage needs from its first statement block to its last.
    """
    buffers: dict[StageView, Buffer] = {}
    working: dict[StageView, Buffer] = {}
    clock = 0

    def owner(stage: StageView) -> StageView:
        while stage in aliases:
            stage = aliases[stage]
        return stage

    def visit(inside: Sequence[Node], depth: int, threads: int) -> None:
        nonlocal clock
        for node in inside:
            clock += 1
            if isinstance(node, Loop):
                begin, outside = clock, set(buffers)
                visit(node.body, depth + 1, threads * node.threads)
                for stage in buffers.keys() - outside if depth == 0 else ():
                    buffers[stage].loop_range = begin, clock
            elif isinstance(node, Guard):
                visit(node.body, depth, threads)
            elif isinstance(node, AdvanceWindow | SyncNode):
                continue
            elif isinstance(node, Alloc):
                if node.stored is not None and node.stored.scope == DRAM:
                    continue
                stage = node.placement.stage
                grain = GRAINS.get(stage.state.scope, 1)
                size = -(-largest_size(node.placement, physical[stage]) // grain) * grain
                if owner(stage) is stage:
                    if node.stored is not None:
                        check_alike(node.stored, physical)
                    loaded = stage.state.scope != ACC or not stage.state.computation.reduce_axes
                    ring = None if node.stored else ring_of(node.placement, physical[stage])
                    in_loop = depth > 0 or ring is not None
                    buffers[stage] = Buffer(stage, stage.state.scope, size, clock, clock, in_loop, loaded, ring=ring)
                buffer = buffers[owner(stage)]
                buffer.threads = threads
                buffer.requested = stage.state.buffer_count if buffer.requested is None else buffer.requested
            elif isinstance(node, Free):
                if node.stored is not None and node.stored.scope == DRAM:
                    continue
                buffer = buffers[owner(node.placement.stage)]
                buffer.last = max(buffer.last, clock)
            else:
                assert isinstance(node, StatementBlock)
                stage = node.placement.stage
                size = temporaries.get(stage, 0)
                if size:
                    buffer = working.setdefault(
                        stage, Buffer(stage, ACC, size, clock, clock, False, False, temporary=True)
                    )
                    buffer.last = clock

    visit(nodes, 0, 1)
    return [*buffers.values(), *working.values()]


def check_alike(stored: UserBuffer, physical: Mapping[StageView, PhysicalLayout]) -> None:
    """Raises BuildError unless all stages that are stored in a buffer have the same physical layout there."""
    first, *others = stored.users
    for stage in others:
        if physical[stage] != physical[first]:
            raise BuildError(
                f"Cannot store {first.name} and {stage.name} in one buffer {stored.buffer.name}: the lanes of their "
                f"vectors are along different dimensions of the buffer, {_lanes(physical[first])} and "
                f"{_lanes(physical[stage])}. Store them in separate buffers.",
                kind="limit",
            )


def _lanes(physical: PhysicalLayout) -> str:
    dims = [str(dim) for dim in physical.lanes.dims]
    return f"{' and '.join(dims)}" if dims else "none"


def allocate(buffers: list[Buffer], config: HardwareConfig) -> None:
    """Set the base of every buffer, and its slots: as many as requested, or else two in loops, and then more if useful,
    as far as they fit.

    Loaded buffers of one outermost loop get disjoint addresses if possible, even with disjoint live ranges, so that
    each can be loaded while the one before is still read.

    Raises CapacityError if buffers with overlapping live ranges do not fit.
    """
    for scope in SCRATCHPADS:
        own = [buffer for buffer in buffers if buffer.scope == scope]
        depth = depth_of(config, scope)
        for buffer in own:
            buffer.slots = buffer.requested or 1
        fitting = _FirstFit(own, depth)
        if not fitting.place():
            _refuse(own, scope, depth)
        doubled = (buffer for buffer in own if buffer.in_loop and buffer.requested is None)
        for buffer in sorted(doubled, key=lambda each: (not each.loaded, each.size)):
            _give(fitting, buffer, 2)
        for buffer in own:
            if buffer.requested is None and 1 < buffer.slots < buffer.useful_slots:
                _give(fitting, buffer, buffer.useful_slots)
        apart = UNIT_OF_SCOPE[scope] is Unit.LOAD and _FirstFit(own, depth, apart=True).place()
        if UNIT_OF_SCOPE[scope] is Unit.LOAD and not apart:
            assert fitting.place(), f"{scope} buffers must fit, as before"
        _spread(own, depth, apart=apart)


def _give(fitting: "_FirstFit", buffer: Buffer, slots: int) -> None:
    """Give a buffer more slots, if all buffers still fit."""
    before = buffer.slots
    fitting.set_slots(buffer, slots)
    if not fitting.place():
        fitting.set_slots(buffer, before)
        assert fitting.place(), f"{buffer.scope} buffers must fit, as before"


_ORDERS: tuple[Callable[[Buffer], tuple[int, int]], ...] = (
    lambda b: (-b.total, b.first),
    lambda b: (b.first - b.last, -b.total),
    lambda b: (b.first, -b.last),
)
"""Orders to try: the largest buffers first, the longest live ranges first, the earliest first."""


class _FirstFit:
    """First-fit allocation of buffers, in the first of several orders in which all fit.

    Connected components of the interference graph (families) are allocated independently, and again only where slots
    have changed. ``apart``: buffers in the same outermost loop do not share addresses.
    """

    def __init__(self, buffers: list[Buffer], depth: int, *, apart: bool = False) -> None:
        self.depth = depth
        self.families: list[list[Buffer]] = []
        self.interfering: dict[int, list[Buffer]] = {id(each): [] for each in buffers}
        """By identity, the buffers whose live ranges overlap a buffer's."""
        living: list[Buffer] = []
        for buffer in sorted(buffers, key=lambda each: each.live_range(apart=apart)[0]):
            first, _ = buffer.live_range(apart=apart)
            living = [each for each in living if each.live_range(apart=apart)[1] >= first]
            if not living:
                self.families.append([])
            self.families[-1].append(buffer)
            for each in living:
                self.interfering[id(each)].append(buffer)
            self.interfering[id(buffer)] += living
            living.append(buffer)
        position = {id(each): number for number, each in enumerate(buffers)}
        for family in self.families:  # ties of an order are broken by the order of the buffers
            family.sort(key=lambda each: position[id(each)])
        self.family_of = {id(each): number for number, family in enumerate(self.families) for each in family}
        self.bases_by_order: dict[tuple[int, int], dict[int, int] | None] = {}

    def set_slots(self, buffer: Buffer, slots: int) -> None:
        """Set the slots of a buffer."""
        buffer.slots = slots
        for order in range(len(_ORDERS)):
            self.bases_by_order.pop((self.family_of[id(buffer)], order), None)

    def place(self) -> bool:
        """Set ``base`` of each buffer; False if they do not fit."""
        for order in range(len(_ORDERS)):
            bases = [self._bases(number, order) for number in range(len(self.families))]
            if None in bases:
                continue
            for family, fitted in zip(self.families, bases, strict=True):
                assert fitted is not None, "all families must fit"
                for buffer in family:
                    buffer.base = fitted[id(buffer)]
            return True
        return False

    def _bases(self, number: int, order: int) -> dict[int, int] | None:
        if (number, order) not in self.bases_by_order:
            family = sorted(self.families[number], key=_ORDERS[order])
            self.bases_by_order[number, order] = _first_fit(family, self.depth, self.interfering)
        return self.bases_by_order[number, order]


def _first_fit(buffers: list[Buffer], depth: int, interfering: Mapping[int, list[Buffer]]) -> dict[int, int] | None:
    """By identity, each buffer's base, as low as those before it in the list allow; None if one does not fit."""
    bases: dict[int, int] = {}
    for buffer in buffers:
        others = [(bases[id(each)], each.total) for each in interfering[id(buffer)] if id(each) in bases]
        base, size = 0, buffer.total
        for start, taken in sorted(others):
            if start - base >= size:
                break
            base = max(base, start + taken)
        if base + size > depth:
            return None
        bases[id(buffer)] = base
    return bases


class _DependsOn:
    """Whether a stage depends, transitively, on another: ``depends_on(producer, consumer)``, cached.

    Producers are followed back only as far as the other stage in program order, unless there are recurrences.
    """

    def __init__(self) -> None:
        self.known: dict[StageView, tuple[set[StageView], list[tuple[int, StageId]]]] = {}

    def __call__(self, stage: StageView, consumer: StageView) -> bool:
        schedule = consumer.schedule
        order = schedule.state.def_use.order
        if consumer not in self.known:
            self.known[consumer] = {consumer}, [(-order[consumer.id], consumer.id)]
        reached, waiting = self.known[consumer]
        while waiting and (schedule.has_recurrences or -waiting[0][0] > order[stage.id]):
            for producer in producers_of(schedule, schedule.by_id(heappop(waiting)[1])):
                if producer not in reached:
                    reached.add(producer)
                    heappush(waiting, (-order[producer.id], producer.id))
        return stage in reached


def _spread(buffers: list[Buffer], depth: int, *, apart: bool) -> None:
    """Move each buffer to the least recently used addresses, so that it seldom waits for their last user; in place.

    If they do not fit that way, all keep their bases.
    """
    placed: list[Buffer] = []
    bases: list[int] = []
    alive: list[tuple[int, Buffer, int]] = []
    depends_on = _DependsOn()
    for buffer in sorted(buffers, key=lambda each: (each.live_range(apart=apart), -each.total)):
        first, _ = buffer.live_range(apart=apart)
        recent = list(zip(placed[-LOOKED_AT:], bases[-LOOKED_AT:], strict=True))
        alive = [each for each in alive if each[0] >= first]  # buffers are sorted by the start of their live ranges
        living = [(base, base + other.total) for _, other, base in alive]
        best: tuple[int, int] | None = None
        for base in sorted({0, *(base + other.total for other, base in recent), *(end for _, end in living)}):
            end = base + buffer.total
            if end > depth or any(start < end and base < stop for start, stop in living):
                continue
            others = (other for other, at in recent if at < end and base < at + other.total)
            used = (other.live_range(apart=apart)[1] for other in others if not depends_on(other.stage, buffer.stage))
            best = min(best or (first, base), (max(used, default=-1), base))
        if best is None:
            return
        placed.append(buffer)
        bases.append(best[1])
        alive.append((buffer.live_range(apart=apart)[1], buffer, best[1]))
    for buffer, base in zip(placed, bases, strict=True):
        buffer.base = base


def _refuse(buffers: list[Buffer], scope: str, depth: int) -> None:
    worst: list[Buffer] = []
    for moment in {buffer.first for buffer in buffers}:
        living = [buffer for buffer in buffers if buffer.first <= moment <= buffer.last]
        if sum(b.total for b in living) > sum(b.total for b in worst):
            worst = living
    need = sum(buffer.total for buffer in worst)
    tiles = [buffer for buffer in worst if not buffer.temporary]
    parts = ", ".join(
        f"{'temporaries of ' if buffer.temporary else ''}{buffer.stage.name} {_size_of(buffer)}" for buffer in worst
    )
    if need <= depth:  # they fit in total, but no first-fit order finds contiguous addresses
        raise CapacityError(
            f"Cannot allocate tiles in scratchpad {scope} ({depth} vectors): {parts} fit in total, but not "
            "contiguously for their whole live ranges. Compute one of them at another loop.",
            scope,
            1,
            kind="limit",
        )
    largest = [f"{buffer.stage.name} {buffer.size * depth // need}" for buffer in tiles]
    now = " and ".join(f"{buffer.stage.name} is {'×'.join(map(str, box_of(buffer)))} values" for buffer in tiles)
    raise CapacityError(
        f"tiles in scratchpad {scope} must take at most {depth} vectors, not {need} ({parts}), {need - depth} too "
        f"many: the largest that fit{' together, scaled alike,' if len(worst) > 1 else ''} take {', '.join(largest)}; "
        f"now {now}. Split loops of such a stage by smaller factors, or compute it further inside{_fewer(worst)}.",
        scope,
        need - depth,
        kind="machine",
    )


def _size_of(buffer: Buffer) -> str:
    """The size of a buffer in vectors, times its slots and threads if there are several: ``128 × 2``."""
    size, times = buffer.size, buffer.slots * buffer.threads
    if buffer.ring is not None:
        size, times = buffer.size_per_thread, buffer.threads
    return str(size) if times == 1 else f"{size} × {times}"


def _fewer(buffers: list[Buffer]) -> str:
    """Remedies for buffers with several slots or threads."""
    several = next((buffer.stage.name for buffer in buffers if buffer.slots > 1), None)
    fewer = f", or forbid a second buffer with s[{several}].double_buffer(1)" if several else ""
    return fewer + (", or give the loop fewer threads" if any(buffer.threads > 1 for buffer in buffers) else "")


def box_of(buffer: Buffer) -> list[int]:
    """The extents of the largest box of a tensor that its buffer holds, or those of its user buffer (``store_in``)."""
    storage = buffer.stage.state.storage
    if storage is not None:
        return list(user_buffers_of(buffer.stage.schedule.stages)[storage.buffer].shape)
    placement = place_stages(buffer.stage.schedule)[buffer.stage]
    if placement.window is not None:
        return list(placement.window.shape)
    return [bound_range(extent, placement.box)[1] for extent in placement.extent]
