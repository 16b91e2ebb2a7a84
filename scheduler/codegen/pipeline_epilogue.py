"""Pipelines the epilogue of a nest: the size of its slices (``loop_ir/split_epilogue.py``), and their order.

The compute unit computes slice after slice; each is stored while the next ones are computed. The slices of a chunk are
emitted one after the other; then the stream is reordered so that all instructions of a slice precede the next slice's.
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
from lathe.scheduler.isel.rules import is_user_rule
from lathe.scheduler.layout.dma_footprint import loads_of_box
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.loop_ir.split_epilogue import Along, Chain
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.memory_effects import EffectsTracker, MemoryEffects, overlap

HANDLING = 6
"""Cycles of an additional STORE; several are in flight at once, so that only the last one waits for the memory."""
BEGIN = 9
"""Cycles of an additional instruction of the compute unit."""
MOST_PARTS = 16
"""The most slices: with more, the last one is stored hardly any sooner."""

Entries = list[tuple[Entry, Origin]]
PartOf = Mapping[int, tuple[int, int]]
"""By chunk number: the epilogue that the chunk belongs to, and its slice there."""
NO_PART = -1, 0


def is_stored(chunk: ChunkNode) -> bool:
    """Whether a chunk stores the contents of a scratchpad to DRAM."""
    state = chunk.placement.state
    return state.scope == DRAM and state.rule == "dma" and state.storage is None


@dataclass(frozen=True)
class _Prefix:
    """The first ``length`` chunks of a chain: their cycles (``steps``) and instructions on the compute unit, the least
    block that all slices must be a multiple of, and the greatest common divisor of their first indices."""

    length: int
    steps: float
    instructions: int
    block: int
    begins: int


class PartSizes:
    """Chooses the size of slices by the time that computing and storing them takes, in whole vectors of all chunks."""

    def __init__(self, physical: Mapping[StageView, PhysicalLayout], config: HardwareConfig) -> None:
        self.physical = physical
        self.config = config

    def __call__(self, chains: Sequence[Chain]) -> tuple[Chain, int] | None:
        """The chain and the size with which the last slice is stored soonest; chunks of user rules are not cut."""
        if any(DTYPES[chain[0][0].placement.state.tensor.dtype].bits > 8 for chain in chains):
            return None  # the bytes of a value are stored one after the other, which keeps the bus busy already
        chains = [list(takewhile(_by_builtin_rule, chain)) for chain in chains]
        ends = [list(self._prefixes(chain)) for chain in chains]
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

    def _prefixes(self, chain: Chain) -> Iterator["_Prefix"]:
        """The prefixes of a chain, whose first chunk is the store."""
        steps, instructions, block, begins = 0.0, 0, 1, 0
        for number, (chunk, dim, _, first) in enumerate(chain):
            if number:
                steps += self._steps(chunk)
                instructions += _instructions_of(chunk)
            block = lcm(block, self.physical[chunk.placement.stage].step(dim))
            begins = gcd(begins, first.constant, *first.terms.values())
            yield _Prefix(number + 1, steps, instructions, block, begins)

    def _stored(self, chunk: ChunkNode) -> float:
        """Cycles that the bus takes to store the result of a chunk."""
        config = self.config
        size = prod(self._elements(chunk)) * config.out_element_bytes
        return size / config.bus_bytes * config.memory.cycles_per_beat

    def _elements(self, chunk: ChunkNode) -> list[int]:
        """Vectors of the result of a chunk, along each dimension."""
        layout = self.physical[chunk.placement.stage]
        return [layout.blocks(dim, 0, extent) for dim, extent in enumerate(_extents(chunk))]

    def _steps(self, chunk: ChunkNode) -> float:
        """An estimate of a chunk's cycles on the compute unit."""
        axes = chunk.placement.state.computation.reduce_axes
        own = {each for axis in axes for each in chunk.roots[axis].variables()}
        depth = prod(extent for each, extent in chunk.loops if each in own)
        each = depth / self.config.block_in if axes else _instructions_of(chunk)
        return prod(self._elements(chunk)) * max(each, 1)

    def _costs(self, chain: Chain, end: "_Prefix") -> Iterator[tuple[float, int]]:
        """For each number of slices, an estimate of the cycles from the start of the chain, and the size of a slice."""
        store, along, loop, _ = chain[0]
        layout, step, steps = self.physical[store.placement.stage], end.block, end.steps
        if end.begins % step:
            return
        stored = self._stored(store)
        elements = self._elements(store)
        outside = [elements[dim] for dim in layout.order[: layout.order.index(along)]]
        if sum(count > 1 for count in outside) > 1:
            return  # slices would be contiguous neither in DRAM nor in acc
        box = _extents(store)
        unsplit = loads_of_box(layout, box)
        blocks = ceil(dict(store.loops)[loop] / step)
        for count in range(2, min(blocks, MOST_PARTS) + 1):
            size = ceil(blocks / count)
            parts = ceil(blocks / size)
            part = [size * step if dim == along else extent for dim, extent in enumerate(box)]
            stores = parts * max(loads_of_box(layout, part), prod(outside))  # a STORE takes contiguous vectors
            overhead = HANDLING * max(stores - unsplit, 0)
            computed = steps + (parts - 1) * BEGIN * end.instructions
            part_of_all, last = size / blocks, (blocks - size * (parts - 1)) / blocks
            ends = (  # the bus is busy from the first store on, from the last but one on, or from the last on
                computed * part_of_all + stored,
                computed * (1 - last) + stored * (part_of_all + last),
                computed + stored * last,
            )
            yield max(ends) + overhead, size * step


def _extents(chunk: ChunkNode) -> list[int]:
    """The extents of the box that a chunk computes."""
    own = dict(chunk.loops)
    roots = (chunk.roots[axis] for axis in chunk.placement.state.computation.axes)
    return [1 + sum(abs(root.terms.get(each, 0)) * (own[each] - 1) for each in own) for root in roots]


def _instructions_of(chunk: ChunkNode) -> int:
    """Instructions of the compute unit for a chunk, usually: one for each ALU operation, or one in all."""
    state = chunk.placement.state
    if state.rule != "alu" or state.computation.reduce_axes:
        return 1
    return max(sum(isinstance(each, Binary) for each in walk(*state.computation.bodies)), 1)


def _by_builtin_rule(along: Along) -> bool:
    rule = along[0].placement.state.rule
    return rule is not None and not is_user_rule(rule)


def interleave_epilogue(entries: Entries, part_of: PartOf, new_footprints: Callable[[], EffectsTracker]) -> Entries:
    """The stream with the instructions of each epilogue ordered by slice, where dependences allow it."""
    if not part_of:
        return entries
    footprints = new_footprints()
    stream: Entries = []
    for end, stretch in groupby(entries, key=lambda entry: part_of.get(entry[1].chunk, NO_PART)[0]):
        group = list(stretch)
        effects = [MemoryEffects() if isinstance(each, Marker) else footprints.of(each) for each, _ in group]
        order = sorted(range(len(group)), key=lambda n: part_of.get(group[n][1].chunk, NO_PART)[1])
        if end != NO_PART[0] and _is_legal(order, group, effects):
            group = [group[n] for n in order]
        stream += group
    return stream


def _is_legal(order: Sequence[int], group: Entries, touched: Sequence[MemoryEffects]) -> bool:
    """Whether an order does not reverse any two instructions of which one depends on the other."""
    if any(isinstance(each, Marker | Load) for each, _ in group):  # a LOAD of micro-ops may be for any instruction
        return False
    swapped = ((one, other) for n, one in enumerate(order) for other in order[n + 1 :] if other < one)
    return not any(_depend(touched[one], touched[other]) for one, other in swapped)


def _depend(one: MemoryEffects, other: MemoryEffects) -> bool:
    for x, y in ((one, other), (other, one)):
        for memory, cells in x.writes:
            if any(memory == accessed and overlap(cells, others) for accessed, others in (*y.reads, *y.writes)):
                return True
    return False
