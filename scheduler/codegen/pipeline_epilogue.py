"""How the end of a nest is cut in parts (``loop_ir/split_epilogue.py``), and the parts' place in the stream.

The compute unit makes part after part; each is stored while the next ones are made. A chunk's parts are emitted one
after the other, as chunks are; then all that belongs to the first part comes before what belongs to the second.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from math import ceil, gcd, lcm, prod

from lathe.configs import HardwareConfig
from lathe.frontend import walk
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.nodes import Binary
from lathe.isa import Load
from lathe.scheduler.isel.rules import is_own
from lathe.scheduler.layout.dma_footprint import instructions_of
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.loop_ir.split_epilogue import Along, Chain
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.memory_effects import Footprints, MemoryEffects, meet

HANDLING = 6
"""Cycles that one more STORE takes; several are under way at once, so that none but the last waits for the memory."""
BEGIN = 9
"""Cycles that one more instruction of the compute unit costs."""
MOST_PARTS = 16
"""More of them are stored hardly sooner."""

Entries = list[tuple[Entry, Origin]]
PartOf = Mapping[int, tuple[int, int]]
"""By chunk number, the end of a nest that it belongs to, and its part there."""
NO_PART = -1, 0


def is_stored(chunk: ChunkNode) -> bool:
    """Whether a chunk is a store of what a scratchpad holds."""
    state = chunk.placement.state
    return state.scope == DRAM and state.rule == "dma" and state.storage is None


@dataclass(frozen=True)
class _End:
    """Where a chain of so many chunks ends: steps and instructions of the compute unit behind its store, the least
    block of which all their parts can be made, and what divides all places where they begin."""

    length: int
    steps: float
    instructions: int
    block: int
    begins: int


class PartSizes:
    """Sizes of parts by what it takes to store them, in whole elements of all that they are made of."""

    def __init__(self, physical: Mapping[StageView, PhysicalLayout], config: HardwareConfig) -> None:
        self.physical = physical
        self.config = config

    def __call__(self, chains: Sequence[Chain]) -> tuple[Chain, int] | None:
        """The chain and the size with which the last part is stored soonest; rules of the user's get whole chunks."""
        if any(DTYPES[chain[0][0].placement.state.tensor.dtype].bits > 8 for chain in chains):
            return None  # bytes are shifted down and stored one after the other: the bus has no rest
        chains = [list(takewhile(_by_rule_of_lathe, chain)) for chain in chains]
        ends = [list(self._ends(chain)) for chain in chains]
        whole = max((each[-1].steps for each in ends if each), default=0)
        found = [
            (cost + whole - end.steps, end.length, n, size)
            for n, chain in enumerate(chains)
            for end in ends[n]
            if end.length > 1
            for cost, size in self._costs(chain, end)
        ]
        best = min(found, default=None)
        if best is None or best[0] >= whole + self._stored(chains[0][0][0]):
            return None
        _, length, n, size = best
        return chains[n][:length], size

    def _ends(self, chain: Chain) -> Iterator["_End"]:
        """Where a chain may end: behind each of its chunks, of which the first is the store."""
        steps, instructions, block, begins = 0.0, 0, 1, 0
        for number, (chunk, dim, _, first) in enumerate(chain):
            if number:
                steps += self._steps(chunk)
                instructions += _instructions_of(chunk)
            block = lcm(block, self.physical[chunk.placement.stage].step(dim))
            begins = gcd(begins, first.constant, *first.terms.values())
            yield _End(number + 1, steps, instructions, block, begins)

    def _stored(self, chunk: ChunkNode) -> float:
        """Cycles that the bus takes to store what a chunk makes."""
        config = self.config
        size = prod(self._elements(chunk)) * config.out_element_bytes
        return size / config.bus_bytes * config.memory.cycles_per_beat

    def _elements(self, chunk: ChunkNode) -> list[int]:
        """Elements that a chunk makes, along each dimension."""
        form = self.physical[chunk.placement.stage]
        return [form.blocks(dim, 0, extent) for dim, extent in enumerate(_extents(chunk))]

    def _steps(self, chunk: ChunkNode) -> float:
        """Steps of the compute unit for a chunk, roughly."""
        axes = chunk.placement.state.computation.reduce_axes
        own = {each for axis in axes for each in chunk.roots[axis].variables()}
        depth = prod(extent for each, extent in chunk.loops if each in own)
        each = depth / self.config.block_in if axes else _instructions_of(chunk)
        return prod(self._elements(chunk)) * max(each, 1)

    def _costs(self, chain: Chain, end: "_End") -> Iterator[tuple[float, int]]:
        """Cycles from when the chain begins, roughly, with each number of parts, and the size of a part."""
        store, along, loop, _ = chain[0]
        form, step, steps = self.physical[store.placement.stage], end.block, end.steps
        if end.begins % step:
            return
        stored = self._stored(store)
        elements = self._elements(store)
        outside = [elements[dim] for dim in form.order[: form.order.index(along)]]
        if sum(count > 1 for count in outside) > 1:
            return  # neither a row of DRAM nor what accumulators hold goes on
        box = _extents(store)
        together = instructions_of(form, box)
        blocks = ceil(dict(store.loops)[loop] / step)
        for wanted in range(2, min(blocks, MOST_PARTS) + 1):
            size = ceil(blocks / wanted)
            parts = ceil(blocks / size)
            part = [size * step if dim == along else extent for dim, extent in enumerate(box)]
            stores = parts * max(instructions_of(form, part), prod(outside))  # a STORE takes what lies together
            each = HANDLING * max(stores - together, 0)
            computed = steps + (parts - 1) * BEGIN * end.instructions
            part_of_all, last = size / blocks, (blocks - size * (parts - 1)) / blocks
            ends = (  # the bus is busy from the first store on, from the last but one, or begins with the last
                computed * part_of_all + stored,
                computed * (1 - last) + stored * (part_of_all + last),
                computed + stored * last,
            )
            yield max(ends) + each, size * step


def _extents(chunk: ChunkNode) -> list[int]:
    """The box that a chunk makes."""
    own = dict(chunk.loops)
    roots = (chunk.roots[axis] for axis in chunk.placement.state.computation.axes)
    return [1 + sum(abs(root.terms.get(each, 0)) * (own[each] - 1) for each in own) for root in roots]


def _instructions_of(chunk: ChunkNode) -> int:
    """Instructions of the compute unit for a chunk, mostly: one for each operation of the ALU, or one for all."""
    state = chunk.placement.state
    if state.rule != "alu" or state.computation.reduce_axes:
        return 1
    return max(sum(isinstance(each, Binary) for each in walk(*state.computation.bodies)), 1)


def _by_rule_of_lathe(along: Along) -> bool:
    rule = along[0].placement.state.rule
    return rule is not None and not is_own(rule)


def interleave_epilogue(entries: Entries, part_of: PartOf, new_footprints: Callable[[], Footprints]) -> Entries:
    """The stream with the ends of nests in the order of their parts, where no instruction needs it otherwise."""
    if not part_of:
        return entries
    footprints = new_footprints()
    stream: Entries = []
    for end, stretch in groupby(entries, key=lambda entry: part_of.get(entry[1].chunk, NO_PART)[0]):
        group = list(stretch)
        touched = [MemoryEffects() if isinstance(each, Marker) else footprints.of(each) for each, _ in group]
        order = sorted(range(len(group)), key=lambda n: part_of.get(group[n][1].chunk, NO_PART)[1])
        if end != NO_PART[0] and _may_be(order, group, touched):
            group = [group[n] for n in order]
        stream += group
    return stream


def _may_be(order: Sequence[int], group: Entries, touched: Sequence[MemoryEffects]) -> bool:
    """Whether no instruction comes before an earlier one that it depends on, or that depends on it."""
    if any(isinstance(each, Marker | Load) for each, _ in group):  # of micro-ops, which others may need
        return False
    passed = ((one, other) for n, one in enumerate(order) for other in order[n + 1 :] if other < one)
    return not any(_depend(touched[one], touched[other]) for one, other in passed)


def _depend(one: MemoryEffects, other: MemoryEffects) -> bool:
    for x, y in ((one, other), (other, one)):
        for memory, cells in x.writes:
            if any(memory == beside and meet(cells, others) for beside, others in (*y.reads, *y.writes)):
                return True
    return False
