"""Latency hiding for LOADs of the compute unit: each is moved after an instruction long enough to hide its fetch.

The compute unit executes in order. A LOAD of micro-ops or parameters is prefetched while the previous instruction
runs; if that is shorter than the memory's latency, the unit stalls, and it always drains its pipeline first. So LOADs
of adjacent micro-ops are merged, and a LOAD after a short instruction moves after a longer one: an earlier one, if its
addresses are free by then, or a later one, if its data are read after that, split over several if one is too short.
LOADs of tables don't move, since which rows an instruction reads depends on data.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lathe.isa import Instruction, Load, MemoryType, Unit, unit_of
from lathe.isa.instructions import MicroOpInstruction, loads_micro_ops, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.memory_effects import Cells, EffectsTracker, beats_of, overlap

Entries = list[tuple[Entry, Origin]]
WINDOW = 16
"""How many instructions of the compute unit a LOAD may move across."""


@dataclass(frozen=True, eq=False)
class _Step:
    """An instruction of the compute unit at a position of the stream; ``touches``: accesses, also of micro-ops."""

    position: int
    instruction: Instruction | MicroOpInstruction
    origin: Origin
    touches: tuple[tuple[str, Cells], ...]
    cycles: int
    moves: bool = False

    @property
    def written(self) -> tuple[str, slice]:
        """The memory and the addresses that a LOAD writes."""
        ((memory, cells),) = self.touches
        assert isinstance(cells, slice), "a LOAD must write contiguous addresses"
        return memory, cells

    def meets(self, load: "_Step") -> bool:
        """Whether it accesses an address that a LOAD writes."""
        memory, written = load.written
        return any(memory == other and overlap(cells, written) for other, cells in self.touches)


def hide_compute_loads(entries: Entries, footprints: EffectsTracker) -> Entries:
    """The stream with LOADs of micro-ops and parameters merged and moved; unchanged with manual synchronisation."""
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    burst = footprints.config.memory.burst_beats * footprints.config.memory.cycles_per_beat
    merged: list[_Step] = []
    moving: set[int] = set()
    for step in _steps(entries, footprints):
        if step.moves:
            moving.add(step.position)
        if not step.moves or not _merged(merged, step, burst):
            merged.append(step)
    order = _hidden(merged, burst)
    after: dict[int, Entries] = defaultdict(list)
    last = -1
    for step in order:
        if step.position in moving:
            assert isinstance(step.instruction, Load), f"{step.instruction} is no LOAD"
            after[last].append((step.instruction, step.origin))
        else:
            last = step.position
    stream = after[-1]
    for position, entry in enumerate(entries):
        if position not in moving:
            stream.append(entry)
            stream += after.get(position, [])
    return stream


def _steps(entries: Entries, footprints: EffectsTracker) -> Iterator[_Step]:
    config = footprints.config
    for position, (each, origin) in enumerate(entries):
        assert not isinstance(each, Marker), f"marker {each} in a stream without manual synchronisation"
        footprint = footprints.of(each)
        if unit_of(each) is not Unit.COMPUTE:
            continue
        touches = (*footprint.reads, *footprint.writes)
        if runs_micro_ops(each):
            own = slice(each.uop_bgn, each.uop_end)
            cycles = each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) * usage_of(each).issue_cycles
            yield _Step(position, each, origin, (*touches, ("uop", own)), cycles)
        elif loads_micro_ops(each) and each.y_size == 1:
            own = slice(each.sram_base, each.sram_base + each.x_size)
            yield _Step(position, each, origin, (("uop", own),), beats_of(each, config), moves=True)
        elif isinstance(each, Load):
            moves = len(touches) == 1 and each.memory_type is MemoryType.PAR
            yield _Step(position, each, origin, touches, beats_of(each, config), moves)
        else:
            yield _Step(position, each, origin, touches, 0)


def _merged(order: list[_Step], step: _Step, most: int) -> bool:
    """Merge a LOAD of micro-ops into one within ``WINDOW`` that it continues, of ``most`` cycles at most, if any."""
    load = step.instruction
    for number in range(len(order) - 1, max(len(order) - 1 - WINDOW, -1), -1):
        other = order[number]
        if other.meets(step):
            return False
        before = other.instruction
        if not (isinstance(before, Load) and isinstance(load, Load) and before.memory_type is load.memory_type):
            continue
        follows = load.sram_base - before.sram_base == load.dram_base - before.dram_base == before.x_size
        if not (other.moves and load.memory_type is MemoryType.UOP and follows and other.cycles + step.cycles <= most):
            continue
        size = before.x_size + load.x_size
        cells = slice(before.sram_base, before.sram_base + size)
        order[number] = replace(
            other,
            instruction=replace(before, x_size=size, x_stride=size),
            touches=(("uop", cells),),
            cycles=other.cycles + step.cycles,
        )
        return True
    return False


def _hidden(steps: Sequence[_Step], latency: int) -> list[_Step]:
    """The instructions with each LOAD moved after one within ``WINDOW`` that hides it, or split over several."""
    order: list[_Step] = []
    later: dict[_Step, _Step] = {}
    hiding: set[_Step] = set()
    for number, step in enumerate(steps):
        if not step.moves:
            order.append(step)
            if step in later:
                order.append(later.pop(step))
            continue
        enough = step.cycles + latency
        before = _longest(step, (each for each in reversed(order[-WINDOW:]) if each not in hiding), enough)
        if before is not None and before.cycles >= enough:
            hiding.add(before)
            order.insert(len(order) - order[: -WINDOW - 1 : -1].index(before), step)
            continue
        ahead = [each for each in _until_read(step, steps[number + 1 :]) if each not in hiding]
        slices = list(_split(step, ahead, latency))
        if not slices:
            order.append(step)
            continue
        for each, part in slices:
            hiding.add(each)
            later[each] = part
    return order


def _longest(load: _Step, steps: Iterable[_Step], enough: int) -> _Step | None:
    """Of the instructions that a LOAD may follow, the first that takes ``enough`` cycles, or else the longest."""
    best: _Step | None = None
    for step in steps:
        if isinstance(step.instruction, Load):
            break
        if best is None or step.cycles > best.cycles:
            best = step
        if step.meets(load) or step.cycles >= enough:
            break
    return best


def _until_read(load: _Step, steps: Sequence[_Step]) -> Iterator[_Step]:
    """The next instructions within ``WINDOW`` before the first that accesses data of a LOAD, without other LOADs."""
    for step in steps[:WINDOW]:
        if step.meets(load):
            return
        if not isinstance(step.instruction, Load):
            yield step


def _split(step: _Step, ahead: Sequence[_Step], latency: int) -> Iterator[tuple[_Step, _Step]]:
    """Slices of a LOAD, each with the instruction that hides it; none if these cannot hide all of it."""
    load = step.instruction
    assert isinstance(load, Load), f"{load} is no LOAD"
    if load.y_size != 1 or not step.cycles:
        return
    each = step.cycles / load.x_size
    hides = [(other, int((other.cycles - latency) / each)) for other in ahead if other.cycles - latency >= each]
    if sum(count for _, count in hides) < load.x_size:
        return
    memory, cells = step.written
    first = 0
    for other, most in hides:
        count = min(most, load.x_size - first)
        if not count:
            return
        part = replace(
            load, sram_base=load.sram_base + first, dram_base=load.dram_base + first, x_size=count, x_stride=count
        )
        own = slice(cells.start + first, cells.start + first + count)
        yield other, replace(step, instruction=part, touches=((memory, own),), cycles=round(count * each))
        first += count
