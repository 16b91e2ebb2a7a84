"""The cost model of tilings: estimated cycles from the loads of the operands, the work of a tile, and its store.

For a group of fused stages with a GEMM, it models the prologue (loads of the first tile) and epilogue (store of the
last), overlap of transfers with computation where buffers are doubled, memory latency of short rows, loads by the
compute unit itself, and stores of byte planes. Transfers that overlap completely still have a small cost.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.isa import Unit
from lathe.scheduler.layout.dma_footprint import parts_of_box
from lathe.scheduler.layout.physical_layout import PhysicalLayout

REDUCTION_TILE_OVERHEAD = 12
"""Average overhead in cycles of one more reduction tile in every output tile: token waits, and loads of micro-ops."""
PREFETCHED_REDUCTION_TILE_OVERHEAD = 3
"""The same if weights are multi-buffered, so that loads run several tiles ahead (``weight_buffer_depth.py``)."""
LOOKAHEAD = 1.7
"""Reduction tiles that are computed while a load waits to be the next of the load unit."""
TILE_OVERHEAD = 20
"""Average overhead in cycles of an output tile, besides its reduction tiles."""
TILE_LATENCIES = 1
"""Memory latencies that an output tile costs besides."""
SHARPNESS = 6
"""Exponent of the norm that combines computation and transfers: equal ones take slightly longer together than alone."""
TRAFFIC = 1 / 32
"""Cost in cycles of a beat that overlaps with computation, since it may delay other transfers."""
ROUNDING = 1e-9
"""The relative error by which a lower bound may exceed the estimate that it bounds, due to rounding."""
LAST_INSTRUCTION = 4
"""A tile's last ALU instruction takes 1 / LAST_INSTRUCTION of its cycles on the ALU."""
STORE_OVERHEAD = 10
"""Cycles of a short STORE besides the memory's latency."""
EXPOSED_LATENCY = 3 / 4
"""The fraction of the memory's latency that a load into a single slot waits; some start before all is read."""
TRANSFER_OVERHEAD = 20
"""Cycles of a transfer besides the memory's latency and its beats."""


@dataclass(frozen=True)
class OperandLoads:
    """The loads of one operand: the unit, the cycles of each load, their number, and whether it is double-buffered.

    ``parts``: the reduction tiles that share one load, of which the first can start after its fraction of the load;
    ``instructions``: LOADs per load; ``begins``: whether it comes first in every output tile.
    """

    unit: Unit
    cycles: float
    times: float
    double_buffered: bool
    parts: float = 1
    instructions: int = 1
    begins: bool = False


@dataclass(frozen=True)
class TileWork:
    """The work of a group of fused stages: ``tiles`` output tiles of ``parts`` reduction tiles each.

    Per output tile: ``steps`` cycles of the compute unit, and ``stored`` vectors in each of ``planes`` byte planes, by
    ``stores`` STOREs. ``single_buffered``: the result has a single slot in acc; ``ends``: the last tile is computed and
    stored in several pieces; ``multi_buffered``: weights are multi-buffered.
    """

    tiles: int
    parts: int
    steps: int
    stored: int
    planes: int
    single_buffered: bool
    ends: bool = False
    multi_buffered: bool = False
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
    """Cycles of a load of ``count`` vectors: bus-bound, or latency-bound if its rows are short.

    ``steps``: dimensions of which only every n-th index is loaded; ``bordered``: dimensions with padding at their ends,
    ``padding`` vectors in all, which take a cycle each.
    """
    memory = config.memory
    row = 1  # vectors that are contiguous in DRAM
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
    """A lower bound on the estimate for a group with or without a GEMM: ``steps`` cycles per tile, and overhead."""
    return tiles * (steps + (_tile_overhead(config) if product else TRANSFER_OVERHEAD))


def _tile_overhead(config: HardwareConfig) -> float:
    """The overhead of an output tile with a GEMM, besides its steps and reduction tiles."""
    return TILE_OVERHEAD + TILE_LATENCIES * config.memory.latency


def least_cycles_of_transfers(least: float, transfers: float) -> float:
    """A lower bound on the estimate for a group with a GEMM, from bounds on its computation and its transfers."""
    return (max(least, transfers) + transfers * TRAFFIC) * (1 - ROUNDING)


def cycles_with_gemm(config: HardwareConfig, loads: Sequence[OperandLoads], work: TileWork) -> float:
    """The estimated cycles of a group with a GEMM."""
    latency = config.memory.latency + TRANSFER_OVERHEAD
    first = rest = 0.0  # cycles of the loads in the prologue, before the first tile, and of all others
    exposed = 0.0  # of loads that wait until the values they overwrite have been read
    later = 0.0  # of what the first output tile needs after its first reduction tile
    loading = 0.0  # of loads by the compute unit itself, which drain its pipeline
    ahead = LOOKAHEAD * work.steps / work.parts
    often = max((each.times for each in loads), default=0)
    each_part = sum(each.cycles for each in loads if each.times == often and each.unit != Unit.COMPUTE)
    for each in loads:
        if each.unit == Unit.COMPUTE:
            loading += each.times * (each.cycles + each.instructions * latency)
            if (
                each.begins and each.double_buffered
            ):  # its latency overlaps with the ALU's last instruction of the tile before
                loading -= each.times * min(config.memory.latency, work.steps / LAST_INSTRUCTION)
            continue
        again = (each.times - 1) * (each.cycles + latency / 4)
        first += each.cycles / each.parts
        rest += again + each.cycles * (1 - 1 / each.parts)
        later += each.cycles * (1 - 1 / each.parts)
        others = each_part if each.times < often else 0  # the loads of the next reduction tile
        waited = (
            max(each.cycles + others - ahead, 0) if each.double_buffered else each.cycles + latency * EXPOSED_LATENCY
        )
        exposed += waited * (each.times - 1)
    part = PREFETCHED_REDUCTION_TILE_OVERHEAD if work.multi_buffered else REDUCTION_TILE_OVERHEAD
    compute = loading + work.tiles * (work.steps + work.parts * part + _tile_overhead(config))
    waits = max(later - work.steps, 0)  # loads that the computation of the first tile does not hide
    first, rest = first + waits, rest - waits
    last = _store_cycles(config, work) * work.planes
    store = work.tiles * last
    if work.planes > 1:  # each plane is shifted while half of the one before it is stored
        shifts = work.tiles * work.stored * (work.planes - 1)
        compute += shifts
        exposed += max(store * (work.planes - 1) / work.planes - shifts, 0) + work.tiles * work.planes * latency
    if work.single_buffered:  # the next tile waits for the store of this one
        exposed += (store - last) / work.planes + work.tiles * 2 * latency
    busy: float = (compute + exposed) ** SHARPNESS + (rest + store) ** SHARPNESS
    together: float = busy ** (1 / SHARPNESS)
    end = _end_in_parts(last, latency) if work.ends else last
    return first + together + end + (first + rest + loading + store) * TRAFFIC


def _store_cycles(config: HardwareConfig, work: TileWork) -> float:
    """Cycles to store one plane of a tile: bus-bound, or bound by the latency of STOREs, a few of which overlap."""
    beats = work.stored * config.out_element_bytes / config.bus_bytes
    return max(beats, work.stores * (config.memory.latency + STORE_OVERHEAD) / config.timing.dma_pending)


def _end_in_parts(stored: float, handling: float) -> float:
    """Exposed cycles of the last tile's store if the tile is computed and stored in n pieces, for the best n.

    The last piece is packed and then written, 2 · ``stored`` / n; each of the others costs ``handling``.
    """
    if 2 * stored <= handling:
        return stored
    return min(stored, 2 * sqrt(2 * stored * handling) - handling)


def cycles_without_gemm(config: HardwareConfig, loads: Sequence[OperandLoads], work: TileWork) -> float:
    """The estimated cycles of a group that only the ALU computes; the compute unit loads its operands in sequence.

    The latency of the first LOAD of a tile overlaps with the last ALU instruction of the tile before, if its buffer is
    doubled.
    """
    latency = config.memory.latency + TRANSFER_OVERHEAD
    once = sum(each.cycles + each.instructions * latency for each in loads if each.times <= 1)
    often = sum(each.times * (each.cycles + each.instructions * latency) for each in loads if each.times > 1)
    steps, store = work.tiles * work.steps, work.tiles * _store_cycles(config, work)
    if work.single_buffered or not all(each.double_buffered for each in loads):
        return once + often + steps + store + work.tiles * 2 * latency
    begun = min(max((each.times for each in loads), default=0), work.tiles)  # tiles that begin with a LOAD
    hidden = min(often, begun * min(latency, work.steps / LAST_INSTRUCTION))
    waiting = min(often, store) / 2 if config.memory.shared_bandwidth else 0  # for the bus, during stores
    return once + max(steps + often - hidden + waiting, store) + store / work.tiles + work.tiles * TRANSFER_OVERHEAD
