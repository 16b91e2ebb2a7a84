"""Scratchpad allocation: every buffer gets a place for as long as it lives, twice over where there is room.

Lifetimes are the stretches between ``Alloc`` and ``Free`` in the order of the loop nest. A buffer inside a loop is
acquired again in each iteration; with two slots, iterations take turns, so that the next tile can be loaded while this
one is being computed. Nothing else makes double buffering here: tokens follow from the cells that instructions touch.
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
from lathe.scheduler.loop_ir.nodes import AdvanceWindow, Alloc, Free, Guard, Loop, Node, SignalNode, StatementBlock
from lathe.scheduler.loop_ir.sliding_windows import Ring
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.dataflow_graph import makers_of
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, PARAMETERS, SCRATCHPADS, TABLES, UNIT_OF_SCOPE
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, storages_of

GRAINS = {PARAMETERS: 2, TABLES: TABLE_ELEMENTS}
"""What buffers are whole numbers of: rows of two operands lie side by side, and instructions number tables."""


LOOKED_AT = 16
"""Buffers before one, of which it takes the cells that were used first."""


@dataclass
class Buffer:
    """One scratchpad buffer: ``size`` elements in each of ``slots`` slots from ``base`` on, for each of its threads.

    In a reuse buffer, each slot but the first has room for what is new in an iteration. ``temporary``: what the stage
    needs while it computes, not what it makes. ``around`` is when the outermost loop begins and ends that it is in.

    ``lifetimes`` makes buffers, ``allocate`` gives them slots and bases; both are here, and nobody else changes one.
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
    wanted: int | None = None  # slots that the schedule asks for
    most: int = 2  # slots that are of use, where it asks for none
    threads: int = 1
    ring: Ring | None = None
    around: tuple[int, int] | None = None

    @property
    def total(self) -> int:
        return self.of_thread * self.threads

    def life(self, *, apart: bool) -> tuple[int, int]:
        """From when to when it has its cells; with ``apart``, as long as the loop around it goes."""
        return self.around if apart and self.around is not None else (self.first, self.last)

    @property
    def of_thread(self) -> int:
        """Elements that each of its threads has."""
        if self.ring is None:
            return self.size * self.slots
        return self.size * self.ring.cells(self.slots) // self.ring.cells(1)


def largest_size(placement: StageRegion, physical: PhysicalLayout) -> int:
    """Elements that the largest box of a stage takes, wherever its blocks begin."""
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
    """How a reuse buffer is counted around."""
    window = placement.window
    if window is None or placement.state.reuse == "shift":
        return None
    d = window.dimension
    return Ring(d, window.shape[d], window.advance, physical.block(d))


def lifetimes(
    nodes: Sequence[Node],
    aliases: dict[StageView, StageView],
    physical: dict[StageView, PhysicalLayout],
    temporaries: Mapping[StageView, int],
) -> list[Buffer]:
    """The buffers of a symbolic nest in order; a stage that takes over another's cells prolongs that buffer's life.

    ``temporaries`` gives the elements that a stage needs from its first block to its last.
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
                    buffers[stage].around = begin, clock
            elif isinstance(node, Guard):
                visit(node.body, depth, threads)
            elif isinstance(node, AdvanceWindow | SignalNode):
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
                buffer.wanted = stage.state.slots if buffer.wanted is None else buffer.wanted
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
    """Raises BuildError unless the cells of a buffer are the same elements for all stages that are stored in it."""
    first, *others = stored.users
    for stage in others:
        if physical[stage] != physical[first]:
            raise BuildError(
                f"stages stored in buffer {stored.buffer.name} must fill lanes of elements along the same of its "
                f"dimensions, not {first.name} along {_lanes(physical[first])} and {stage.name} along "
                f"{_lanes(physical[stage])}. Store them in buffers of their own.",
                kind="limit",
            )


def _lanes(physical: PhysicalLayout) -> str:
    dims = [str(dim) for dim in physical.lanes.dims]
    return f"{' and '.join(dims)}" if dims else "none"


def allocate(buffers: list[Buffer], config: HardwareConfig) -> None:
    """Give every buffer its base, and the slots asked for, or else two to those in loops as far as there is room; and
    then as many as are of use.

    What is loaded in the same loops has cells of its own where there is room, also one buffer after the other: the next
    one is loaded while the one before is still read.

    Raises CapacityError when the buffers that live at the same time do not fit.
    """
    for scope in SCRATCHPADS:
        own = [buffer for buffer in buffers if buffer.scope == scope]
        room = depth_of(config, scope)
        for buffer in own:
            buffer.slots = buffer.wanted or 1
        fitting = _Fitting(own, room)
        if not fitting.place():
            _refuse(own, scope, room)
        for buffer in sorted((b for b in own if b.in_loop and b.wanted is None), key=lambda b: (not b.loaded, b.size)):
            _give(fitting, buffer, 2)
        for buffer in own:
            if buffer.wanted is None and 1 < buffer.slots < buffer.most:
                _give(fitting, buffer, buffer.most)
        apart = UNIT_OF_SCOPE[scope] is Unit.LOAD and _Fitting(own, room, apart=True).place()
        if UNIT_OF_SCOPE[scope] is Unit.LOAD and not apart:
            assert fitting.place(), f"{scope} buffers fitted before"
        _spread(own, room, apart=apart)


def _give(fitting: "_Fitting", buffer: Buffer, slots: int) -> None:
    """So many slots for a buffer, if all fit with them."""
    before = buffer.slots
    fitting.set_slots(buffer, slots)
    if not fitting.place():
        fitting.set_slots(buffer, before)
        assert fitting.place(), f"{buffer.scope} buffers fitted before"


_ORDERS: tuple[Callable[[Buffer], tuple[int, int]], ...] = (
    lambda b: (-b.total, b.first),
    lambda b: (b.first - b.last, -b.total),
    lambda b: (b.first, -b.last),
)
"""The largest first, else the longest-lived or the earliest first."""


class _Fitting:
    """First fit of buffers, in an order in which all fit.

    Buffers that no chain of others connects in time know nothing of each other: places are found for one such family
    at a time, and again only where slots have changed. ``apart``: buffers take no cells in turn that are in the same
    outermost loop.
    """

    def __init__(self, buffers: list[Buffer], room: int, *, apart: bool = False) -> None:
        self.room = room
        self.families: list[list[Buffer]] = []
        self.beside: dict[int, list[Buffer]] = {id(each): [] for each in buffers}
        """By identity, the others that live at some time when a buffer does."""
        living: list[Buffer] = []
        for buffer in sorted(buffers, key=lambda each: each.life(apart=apart)[0]):
            first, _ = buffer.life(apart=apart)
            living = [each for each in living if each.life(apart=apart)[1] >= first]
            if not living:
                self.families.append([])
            self.families[-1].append(buffer)
            for each in living:
                self.beside[id(each)].append(buffer)
            self.beside[id(buffer)] += living
            living.append(buffer)
        place = {id(each): number for number, each in enumerate(buffers)}
        for family in self.families:  # where an order says nothing, the buffers' own counts
            family.sort(key=lambda each: place[id(each)])
        self.family_of = {id(each): number for number, family in enumerate(self.families) for each in family}
        self.found: dict[tuple[int, int], dict[int, int] | None] = {}

    def set_slots(self, buffer: Buffer, slots: int) -> None:
        """Give a buffer so many slots."""
        buffer.slots = slots
        for order in range(len(_ORDERS)):
            self.found.pop((self.family_of[id(buffer)], order), None)

    def place(self) -> bool:
        """Set ``base`` of each buffer. False if they do not fit."""
        for order in range(len(_ORDERS)):
            bases = [self._bases(number, order) for number in range(len(self.families))]
            if None in bases:
                continue
            for family, found in zip(self.families, bases, strict=True):
                assert found is not None, "all families fit"
                for buffer in family:
                    buffer.base = found[id(buffer)]
            return True
        return False

    def _bases(self, number: int, order: int) -> dict[int, int] | None:
        if (number, order) not in self.found:
            family = sorted(self.families[number], key=_ORDERS[order])
            self.found[number, order] = _first_fit(family, self.room, self.beside)
        return self.found[number, order]


def _first_fit(buffers: list[Buffer], room: int, beside: Mapping[int, list[Buffer]]) -> dict[int, int] | None:
    """By identity, each buffer's base, as low as those before it in the list allow; None if one does not fit."""
    bases: dict[int, int] = {}
    for buffer in buffers:
        others = [(bases[id(each)], each.total) for each in beside[id(buffer)] if id(each) in bases]
        base, size = 0, buffer.total
        for start, taken in sorted(others):
            if start - base >= size:
                break
            base = max(base, start + taken)
        if base + size > room:
            return None
        bases[id(buffer)] = base
    return bases


class _Before:
    """Whether a stage reads what another makes, or what is made of that.

    What leads to a stage is followed back only as far as the other one stands, but in circles.
    """

    def __init__(self) -> None:
        self.known: dict[StageView, tuple[set[StageView], list[tuple[int, StageId]]]] = {}

    def __call__(self, stage: StageView, reader: StageView) -> bool:
        schedule = reader.schedule
        order = schedule.state.tables.order
        if reader not in self.known:
            self.known[reader] = {reader}, [(-order[reader.id], reader.id)]
        found, waiting = self.known[reader]
        while waiting and (schedule.has_recurrences or -waiting[0][0] > order[stage.id]):
            for maker in makers_of(schedule, schedule.by_id(heappop(waiting)[1])):
                if maker not in found:
                    found.add(maker)
                    heappush(waiting, (-order[maker.id], maker.id))
        return stage in found


def _spread(buffers: list[Buffer], room: int, *, apart: bool) -> None:
    """Let each buffer have the cells that nobody has used for longest, so that it need not wait for who has; in place.

    Where buffers do not fit so, all stay where they are.
    """
    placed: list[Buffer] = []
    bases: list[int] = []
    alive: list[tuple[int, Buffer, int]] = []
    before = _Before()
    for buffer in sorted(buffers, key=lambda each: (each.life(apart=apart), -each.total)):
        first, _ = buffer.life(apart=apart)
        recent = list(zip(placed[-LOOKED_AT:], bases[-LOOKED_AT:], strict=True))
        alive = [each for each in alive if each[0] >= first]  # buffers come in the order in which they begin
        living = [(base, base + other.total) for _, other, base in alive]
        best: tuple[int, int] | None = None
        for base in sorted({0, *(base + other.total for other, base in recent), *(end for _, end in living)}):
            end = base + buffer.total
            if end > room or any(start < end and base < stop for start, stop in living):
                continue
            others = (other for other, at in recent if at < end and base < at + other.total)
            used = (other.life(apart=apart)[1] for other in others if not before(other.stage, buffer.stage))
            best = min(best or (first, base), (max(used, default=-1), base))
        if best is None:
            return
        placed.append(buffer)
        bases.append(best[1])
        alive.append((buffer.life(apart=apart)[1], buffer, best[1]))
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
    if need <= depth:  # enough in sum, but not side by side for as long as they live
        raise CapacityError(
            f"tiles in scratchpad {scope} must lie side by side in {depth} elements, which {parts} and those that live "
            "before and after them do not. Compute one of them at another loop.",
            scope,
            1,
            kind="limit",
        )
    largest = [f"{buffer.stage.name} {buffer.size * depth // need}" for buffer in tiles]
    now = " and ".join(f"{buffer.stage.name} is {'×'.join(map(str, box_of(buffer)))} values" for buffer in tiles)
    raise CapacityError(
        f"tiles in scratchpad {scope} must take at most {depth} elements, not {need} ({parts}), {need - depth} too "
        f"many: the largest that fit{' together, shrunk alike,' if len(worst) > 1 else ''} take {', '.join(largest)}; "
        f"now {now}. Split its loops with a smaller factor, or compute it at an inner loop{_fewer(worst)}.",
        scope,
        need - depth,
        kind="machine",
    )


def _size_of(buffer: Buffer) -> str:
    """Elements of a buffer, and how many times where that is more than once."""
    size, times = buffer.size, buffer.slots * buffer.threads
    if buffer.ring is not None:
        size, times = buffer.of_thread, buffer.threads
    return str(size) if times == 1 else f"{size} × {times}"


def _fewer(buffers: list[Buffer]) -> str:
    """What else helps where more than one buffer is asked for."""
    several = next((buffer.stage.name for buffer in buffers if buffer.slots > 1), None)
    fewer = f", or forbid a second buffer with s[{several}].double_buffer(1)" if several else ""
    return fewer + (", or give the loop fewer threads" if any(buffer.threads > 1 for buffer in buffers) else "")


def box_of(buffer: Buffer) -> list[int]:
    """The extents of the largest box of the stage's tensor that is in a buffer; of a buffer of the user's, its own."""
    storage = buffer.stage.state.storage
    if storage is not None:
        return list(storages_of(buffer.stage.schedule.stages)[storage.buffer].shape)
    placement = place_stages(buffer.stage.schedule)[buffer.stage]
    if placement.window is not None:
        return list(placement.window.shape)
    return [bound_range(extent, placement.box)[1] for extent in placement.extent]
