"""LOADs of the compute unit, fetched while something long is computed.

Compute takes its instructions in their order. A LOAD of micro-ops or parameters fetches while the one before it runs,
and waits where that is over before the memory has answered; each also waits until the pipeline is drained. So LOADs of
micro-ops that adjoin are made one, and a LOAD behind a short instruction goes where a longer one hides it: before, if
its cells are free by then, or later, if it is read later, in parts if need be. Tables stay, since which of their rows
an instruction reads is a matter of data.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lathe.isa import Instruction, Load, MemoryType, Unit, unit_of
from lathe.isa.instructions import MicroOpInstruction, loads_micro_ops, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.memory_effects import Cells, Footprints, beats_of, meet

Entries = list[tuple[Entry, Origin]]
WINDOW = 16
"""Instructions of compute that a LOAD may pass."""


@dataclass(frozen=True, eq=False)
class _Step:
    """An instruction of compute in its place of the stream, and the cells that it touches; micro-ops are cells, too."""

    place: int
    instruction: Instruction | MicroOpInstruction
    origin: Origin
    touches: tuple[tuple[str, Cells], ...]
    cycles: int
    moves: bool = False

    @property
    def brings(self) -> tuple[str, slice]:
        """The cells that a LOAD writes."""
        ((memory, cells),) = self.touches
        assert isinstance(cells, slice), "a LOAD writes cells that adjoin"
        return memory, cells

    def meets(self, load: "_Step") -> bool:
        """Whether it touches what a LOAD brings."""
        memory, wanted = load.brings
        return any(memory == other and meet(cells, wanted) for other, cells in self.touches)


def fetched_early(entries: Entries, footprints: Footprints) -> Entries:
    """The stream with LOADs of compute that bring constants joined and moved towards its beginning.

    A stream with tokens by hand stays as it is.
    """
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    burst = footprints.config.memory.burst_beats * footprints.config.memory.cycles_per_beat
    joined: list[_Step] = []
    moving: set[int] = set()
    for step in _steps(entries, footprints):
        if step.moves:
            moving.add(step.place)
        if not step.moves or not _joined(joined, step, burst):
            joined.append(step)
    order = _hidden(joined, burst)
    behind: dict[int, Entries] = defaultdict(list)
    last = -1
    for step in order:
        if step.place in moving:
            assert isinstance(step.instruction, Load), f"{step.instruction} is no LOAD"
            behind[last].append((step.instruction, step.origin))
        else:
            last = step.place
    stream = behind[-1]
    for place, entry in enumerate(entries):
        if place not in moving:
            stream.append(entry)
            stream += behind.get(place, [])
    return stream


def _steps(entries: Entries, footprints: Footprints) -> Iterator[_Step]:
    config = footprints.config
    for place, (each, origin) in enumerate(entries):
        assert not isinstance(each, Marker), f"signal {each} in a stream without any"
        footprint = footprints.of(each)
        if unit_of(each) is not Unit.COMPUTE:
            continue
        touches = (*footprint.reads, *footprint.writes)
        if runs_micro_ops(each):
            own = slice(each.uop_bgn, each.uop_end)
            cycles = each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) * usage_of(each).steps
            yield _Step(place, each, origin, (*touches, ("uop", own)), cycles)
        elif loads_micro_ops(each) and each.y_size == 1:
            own = slice(each.sram_base, each.sram_base + each.x_size)
            yield _Step(place, each, origin, (("uop", own),), beats_of(each, config), moves=True)
        elif isinstance(each, Load):
            moves = len(touches) == 1 and each.memory_type is MemoryType.PAR
            yield _Step(place, each, origin, touches, beats_of(each, config), moves)
        else:
            yield _Step(place, each, origin, touches, 0)


def _joined(order: list[_Step], step: _Step, most: int) -> bool:
    """Make a LOAD of micro-ops part of one shortly before that it continues, if there is such a one."""
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
    """The steps with LOADs behind such as take longer than they, where there are some nearby.

    One that nothing hides alone comes in parts, each behind an instruction, before the first that reads any of it.
    """
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
        parts = list(_in_parts(step, ahead, latency))
        if not parts:
            order.append(step)
            continue
        for each, part in parts:
            hiding.add(each)
            later[each] = part
    return order


def _longest(load: _Step, steps: Iterable[_Step], enough: int) -> _Step | None:
    """The first step that is long enough, or else the longest, of those behind which a LOAD may come."""
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
    """The next instructions before the first that needs what a LOAD brings."""
    for step in steps[:WINDOW]:
        if step.meets(load):
            return
        if not isinstance(step.instruction, Load):
            yield step


def _in_parts(step: _Step, ahead: Sequence[_Step], latency: int) -> Iterator[tuple[_Step, _Step]]:
    """Parts of a LOAD, with the instruction that hides each; none where they do not hide the whole."""
    load = step.instruction
    assert isinstance(load, Load), f"{load} is no LOAD"
    if load.y_size != 1 or not step.cycles:
        return
    each = step.cycles / load.x_size
    room = [(other, int((other.cycles - latency) / each)) for other in ahead if other.cycles - latency >= each]
    if sum(count for _, count in room) < load.x_size:
        return
    memory, cells = step.brings
    first = 0
    for other, most in room:
        count = min(most, load.x_size - first)
        if not count:
            return
        part = replace(
            load, sram_base=load.sram_base + first, dram_base=load.dram_base + first, x_size=count, x_stride=count
        )
        own = slice(cells.start + first, cells.start + first + count)
        yield other, replace(step, instruction=part, touches=((memory, own),), cycles=round(count * each))
        first += count
