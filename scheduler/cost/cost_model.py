"""How many cycles a tiling takes, roughly: from the loads of its operands, the work of a tile, and its store.

Of a group with a matrix product the estimate knows when the first tile can begin and what the last one stores, what
hides behind computation where there is room for two slots, the memory's latency for rows that are short, the loads that
the compute unit does itself, and the turns of storing planes. A byte that hides costs a little, too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.isa import Unit
from lathe.scheduler.layout.dma_footprint import parts_of_box
from lathe.scheduler.layout.physical_layout import PhysicalLayout

PART = 12
"""Cycles that one more part of a reduction costs in every tile, on average: tokens to wait for, micro-ops to load."""
PART_AHEAD = 3
"""The same where loads of weights run ahead by more than one part (``allocation/weight_buffer_depth.py``)."""
AHEAD = 1.7
"""Parts of a reduction that are computed while a load is the next that the load unit does."""
TILE = 20
"""Cycles that a tile costs, on average, beside its parts."""
WAITING = 1
"""Latencies of the memory that it costs besides."""
SHARPNESS = 6
"""How well transfers hide behind computation: two that take equally long take a little longer together."""
TRAFFIC = 1 / 32
"""What a beat counts for, in cycles, when it is hidden behind computation: others wait for the bus meanwhile."""
ROUNDING = 1e-9
"""By how much of it a lower bound may be above what it bounds, because both are rounded."""
LAST = 4
"""The part of a tile's steps on the ALU, as a divisor, that its last instruction takes."""
STORING = 10
"""Cycles that a short STORE takes beside the memory's latency."""
ASKED = 3 / 4
"""The part of the memory's latency that each load waits where it has one place: some ask before all is read."""
HANDLING = 20
"""Cycles that a transfer takes beside the memory's latency and its beats."""


@dataclass(frozen=True)
class OperandLoads:
    """The loads of one operand: by which unit, cycles of each, how many, and whether there are two slots.

    ``parts``: how many times what the first part of a reduction takes, where parts take a load one after the other;
    ``instructions``: LOADs of which each load is made; ``begins``: whether it comes first in every tile.
    """

    unit: Unit
    cycles: float
    times: float
    doubled: bool
    parts: float = 1
    instructions: int = 1
    begins: bool = False


@dataclass(frozen=True)
class TileWork:
    """What is done for every tile of a group.

    ``tiles`` of them, each in so many ``parts`` of a reduction; ``steps`` of the compute unit for one, ``stored``
    elements, by so many ``stores``, in so many ``planes`` of bytes; ``alone``: whether the result has no second slot in
    acc; ``ends``: whether the last tile is made and stored in parts; ``ahead``: whether loads of weights run ahead.
    """

    tiles: int
    parts: int
    steps: int
    stored: int
    planes: int
    alone: bool
    ends: bool = False
    ahead: bool = False
    stores: int = 1


def load_cycles(
    config: HardwareConfig,
    physical: PhysicalLayout,
    element_bytes: int,
    box: Sequence[int],
    count: int,
    steps: Mapping[int, int] = MappingProxyType({}),
    bordered: Collection[int] = (),
    padding: int = 0,
) -> float:
    """Cycles that a load of ``count`` elements takes the bus, or, where its rows are short, waits for memory.

    ``steps``: dimensions of which only every n-th element is loaded; ``bordered`` ones have padding at their ends,
    so many elements in all, which take a cycle each while no memory is waited for.
    """
    memory = config.memory
    row = 1  # elements that adjoin in DRAM
    for part, whole in reversed(parts_of_box(physical, box, steps, bordered)):
        row *= part
        if part < whole:
            break
    beats = ceil(row * element_bytes / config.bus_bytes)
    burst = min(beats, memory.burst_beats)
    rows = count / row
    waiting = rows * ceil(beats / burst) * (memory.latency + 4 + burst * memory.cycles_per_beat)
    return max(rows * beats * memory.cycles_per_beat + padding, waiting / memory.outstanding_reads)


def least_cycles(config: HardwareConfig, tiles: int, steps: int, *, product: bool) -> float:
    """A lower bound on the cycles of a group, with a matrix product or not: tiles with so many steps each."""
    return tiles * (steps + (_begun(config) if product else HANDLING))


def _begun(config: HardwareConfig) -> float:
    """Cycles that a tile with a matrix product costs beside its steps and parts."""
    return TILE + WAITING * config.memory.latency


def least_cycles_of_transfers(least: float, transfers: float) -> float:
    """A lower bound on the cycles of a group with a matrix product, of one on its computation and one on transfers."""
    return (max(least, transfers) + transfers * TRAFFIC) * (1 - ROUNDING)


def cycles_with_product(config: HardwareConfig, loads: Sequence[OperandLoads], work: TileWork) -> float:
    """Cycles of a group with a matrix product."""
    latency = config.memory.latency + HANDLING
    first = rest = 0.0  # cycles of the loads that the first tile waits for, and of all others
    exposed = 0.0  # of those that wait for the reader of what they replace
    later = 0.0  # of what the first tile needs behind the first part of a reduction
    loading = 0.0  # of those that the compute unit does itself, and writes when it is drained
    ahead = AHEAD * work.steps / work.parts
    often = max((each.times for each in loads), default=0)
    each_part = sum(each.cycles for each in loads if each.times == often and each.unit != Unit.COMPUTE)
    for each in loads:
        if each.unit == Unit.COMPUTE:
            loading += each.times * (each.cycles + each.instructions * latency)
            if each.begins and each.doubled:  # asks memory while the ALU's last instruction for the tile before runs
                loading -= each.times * min(config.memory.latency, work.steps / LAST)
            continue
        again = (each.times - 1) * (each.cycles + latency / 4)
        first += each.cycles / each.parts
        rest += again + each.cycles * (1 - 1 / each.parts)
        later += each.cycles * (1 - 1 / each.parts)
        beside = each_part if each.times < often else 0  # what the next part wants, too
        waited = max(each.cycles + beside - ahead, 0) if each.doubled else each.cycles + latency * ASKED
        exposed += waited * (each.times - 1)
    part = PART_AHEAD if work.ahead else PART
    compute = loading + work.tiles * (work.steps + work.parts * part + _begun(config))
    waits = max(later - work.steps, 0)  # the first tile has work for less
    first, rest = first + waits, rest - waits
    last = _store_cycles(config, work) * work.planes
    store = work.tiles * last
    if work.planes > 1:  # each plane is shifted down while half of the one before it is stored
        shifts = work.tiles * work.stored * (work.planes - 1)
        compute += shifts
        exposed += max(store * (work.planes - 1) / work.planes - shifts, 0) + work.tiles * work.planes * latency
    if work.alone:  # the next tile waits for the store of this one
        exposed += (store - last) / work.planes + work.tiles * 2 * latency
    busy: float = (compute + exposed) ** SHARPNESS + (rest + store) ** SHARPNESS
    together: float = busy ** (1 / SHARPNESS)
    end = _end_in_parts(last, latency) if work.ends else last
    return first + together + end + (first + rest + loading + store) * TRAFFIC


def _store_cycles(config: HardwareConfig, work: TileWork) -> float:
    """Cycles in which a plane of a tile is stored: of its beats, or of its STOREs, a few of which wait at one time."""
    beats = work.stored * config.out_element_bytes / config.bus_bytes
    return max(beats, work.stores * (config.memory.latency + STORING) / config.timing.dma_pending)


def _end_in_parts(stored: float, handling: float) -> float:
    """Cycles that the last tile is stored behind what has been computed, with parts stored as they are made.

    The last of n parts is packed and then written, 2 · ``stored`` / n, and each of the others takes ``handling``: so
    with the best n.
    """
    if 2 * stored <= handling:
        return stored
    return min(stored, 2 * sqrt(2 * stored * handling) - handling)


def cycles_without_product(config: HardwareConfig, loads: Sequence[OperandLoads], work: TileWork) -> float:
    """Cycles of a group that only the ALU computes, and whose operands the compute unit loads, one after the other.

    The first LOAD of a tile asks memory while the ALU's last instruction for the tile before runs, if it has a slot.
    """
    latency = config.memory.latency + HANDLING
    once = sum(each.cycles + each.instructions * latency for each in loads if each.times <= 1)
    often = sum(each.times * (each.cycles + each.instructions * latency) for each in loads if each.times > 1)
    steps, store = work.tiles * work.steps, work.tiles * _store_cycles(config, work)
    if work.alone or not all(each.doubled for each in loads):
        return once + often + steps + store + work.tiles * 2 * latency
    begun = min(max((each.times for each in loads), default=0), work.tiles)  # tiles that begin with a LOAD
    hidden = min(often, begun * min(latency, work.steps / LAST))
    waiting = min(often, store) / 2 if config.memory.shared_bandwidth else 0  # for the bus, while a tile is stored
    return once + max(steps + often - hidden + waiting, store) + store / work.tiles + work.tiles * HANDLING
