"""Reads the netlist from which Amaranth writes Verilog as registers, memories, cells and choices."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from amaranth import Signal

from lathe.rtl.amaranth_netlist import (
    AssignmentList,
    FlipFlop,
    Matches,
    Operator,
    Part,
    PriorityMatch,
    SyncReadPort,
    SyncWritePort,
    netlist_of,
)
from lathe.rtl.engines.compiled.bits import Bits, Source, constant, joined, sliced
from lathe.rtl.engines.compiled.cells import CellBuilder
from lathe.rtl.engines.compiled.sources import Case, Choice, Input, Memory, Path, Register, Word, Write, extended

# A group of output bits of a cell that are handled together: the cell, and the lowest bit.
Key = tuple[int, int]


class Netlist:
    """Everything that `outputs` of a prepared design depend on.

    `order` has cells and choices such that operands come before their users.
    """

    def __init__(self, design: Any, outputs: Iterable[Signal]) -> None:
        self.netlist = netlist_of(design)
        reader = _Reader(self.netlist)
        self.inputs = [
            reader.input(start, width, signal)
            for name, signal, _ in design.ports
            for start, width in [self.netlist.top.ports_i.get(name, (0, 0))]
            if width
        ]
        self.outputs = [reader.settled(self.netlist.signals[signal]) for signal in outputs]
        reader.follow()
        self.order: list[Source] = reader.order
        self.registers = reader.registers
        self.words = reader.words
        self.memories = list(reader.memories.values())
        self.reader = reader

    def registered(self, signal: Signal) -> Bits | None:
        """A signal as bits of registers and words; None when it depends on anything else."""
        chunks = list(self.reader.chunks(self.netlist.signals[signal]))
        if not all(key in self.reader.found for key, _, _ in chunks):
            return None
        bits = joined(sliced(self.reader.found[key], low, width) for key, low, width in chunks if key is not None)
        return bits if all(isinstance(source, Register | Word) for source, _, _ in bits) else None


class _Reader:
    def __init__(self, netlist: Any) -> None:
        self.cells = netlist.cells
        self.builder = CellBuilder()
        self.order: list[Source] = self.builder.order  # type: ignore[assignment]
        self.clock: Any = None
        self.found: dict[Key, Bits] = {}
        self.paths: dict[Key, Path | None] = {}
        self.bounds: dict[int, list[int]] = {}
        self.registers: list[Register] = []
        self.words: list[Word] = []
        self.memories: dict[int, Memory] = {}
        self.writers: dict[int, list[Any]] = defaultdict(list)
        for cell in self.cells:
            if isinstance(cell, SyncWritePort):
                self.writers[cell.memory].append(cell)
        self.bounds[0] = sorted(start for start, width in netlist.top.ports_i.values() if width)

    def input(self, start: int, width: int, signal: Signal) -> tuple[Signal, Input]:
        """An input, which is an output of the netlist's first cell."""
        source = Input(width, signal.init & (1 << width) - 1)
        self.found[0, start] = source.bits
        return signal, source

    def settled(self, value: Any) -> Bits:
        """A value of the netlist, after reading all that it depends on."""
        self.settle(self.keys(value))
        return self.bits(value)

    def settle(self, keys: Iterable[Key]) -> None:
        """Read keys, after reading all that they depend on."""
        stack = list(keys)
        opened: set[Key] = set()
        while stack:
            key = stack[-1]
            if key in self.found or key in self.paths:
                stack.pop()
                continue
            missing = [each for each in self.needs(key) if each not in self.found and each not in self.paths]
            if missing:
                assert key not in opened, f"cell {self.cells[key[0]]!r} depends on itself"
                opened.add(key)
                stack += missing
            else:
                stack.pop()
                self.read(key)

    def follow(self) -> None:
        """Read what the registers and memories found so far depend on, transitively."""
        registers = words = memories = 0
        while registers < len(self.registers) or words < len(self.words) or memories < len(self.memories):
            while registers < len(self.registers):
                self._register(self.registers[registers])
                registers += 1
            while words < len(self.words):
                self._word(self.words[words])
                words += 1
            for memory in list(self.memories.values())[memories:]:
                memory.writes = [self._write(memory, cell) for cell in self.writers[memory.cell]]
                memories += 1

    def runs(self, value: Any) -> Iterator[tuple[int, int, int]]:
        """A value as (cell, low, width); constants have cell −1 and their value as low."""
        at, size = 0, len(value)
        while at < size:
            net = int(value[at])
            end = at + 1
            if net < 2:
                number = net
                while end < size and int(value[end]) < 2:
                    number |= int(value[end]) << end - at
                    end += 1
                yield -1, number, end - at
            else:
                while end < size and int(value[end]) == net + end - at:
                    end += 1
                yield net >> 16, net & 0xFFFF, end - at
            at = end

    def chunks(self, value: Any) -> Iterator[tuple[Key | None, int, int]]:
        """A value as (key, low within the key's bits, width); constants have no key and their value as low."""
        for cell, low, width in self.runs(value):
            if cell < 0:
                yield None, low, width
                continue
            bounds = self.bounds_of(cell)
            end = low + width
            while low < end:
                at = bisect_right(bounds, low)
                stop = min(end, bounds[at]) if at < len(bounds) else end
                yield (cell, bounds[at - 1]), low - bounds[at - 1], stop - low
                low = stop

    def keys(self, value: Any) -> Iterator[Key]:
        """The keys of a value."""
        return (key for key, _, _ in self.chunks(value) if key is not None)

    def bits(self, value: Any) -> Bits:
        """A value whose keys have been read."""
        return joined(
            constant(low, width) if key is None else sliced(self.found[key], low, width)
            for key, low, width in self.chunks(value)
        )

    def bounds_of(self, index: int) -> list[int]:
        """The bits at which the outputs of a cell are split into groups; bits assigned together stay together."""
        bounds = self.bounds.get(index)
        if bounds is None:
            cell = self.cells[index]
            cuts = {0}
            if isinstance(cell, AssignmentList):
                cuts |= {len(cell.default)}
                for each in cell.assignments:
                    cuts |= {each.start, min(each.start + len(each.value), len(cell.default))}
            elif isinstance(cell, PriorityMatch):
                cuts = set(range(len(cell.inputs)))
            elif isinstance(cell, FlipFlop):
                position = 0
                for source, low, width in self.runs(cell.data):
                    if source > 0 and isinstance(self.cells[source], AssignmentList):
                        inner = self.bounds_of(source)
                        cuts |= {position + cut - low for cut in inner if low <= cut < low + width} | {position}
                    position += width
            bounds = self.bounds[index] = sorted(cuts)
        return bounds

    def width_at(self, key: Key, whole: int) -> int:
        """The width of the group at a key, of the `whole` bits of its cell."""
        bounds = self.bounds_of(key[0])
        at = bisect_right(bounds, key[1])
        return (bounds[at] if at < len(bounds) else whole) - key[1]

    def needs(self, key: Key) -> Iterator[Key]:
        """The keys that must be read before this one."""
        cell = self.cells[key[0]]
        if isinstance(cell, Operator):
            for value in cell.inputs:
                yield from self.keys(value)
        elif isinstance(cell, AssignmentList):
            low, width = key[1], self.width_at(key, len(cell.default))
            yield from self.keys(cell.default[low : low + width])
            for each in cell.assignments:
                if each.start <= low < each.start + len(each.value):
                    yield from self.keys((each.cond,))
                    yield from self.keys(each.value[low - each.start : low - each.start + width])
        elif isinstance(cell, PriorityMatch):
            yield from self.keys((cell.en,))
            yield from self.keys(cell.inputs[: key[1] + 1])
        elif isinstance(cell, Matches):
            yield from self.keys(cell.value)
        elif isinstance(cell, Part):
            yield from self.keys(cell.value)
            yield from self.keys(cell.offset)

    def read(self, key: Key) -> None:
        """Read one key, whose needs have been read."""
        cell = self.cells[key[0]]
        if isinstance(cell, Operator):
            self.found[key] = self.builder.operator(cell.operator, tuple(self.bits(value) for value in cell.inputs))
        elif isinstance(cell, AssignmentList):
            self.found[key] = self._choice(cell, key)
        elif isinstance(cell, PriorityMatch):
            self.paths[key] = self._branch(cell, key[1])
        elif isinstance(cell, Matches):
            self.found[key] = self.builder.matches(self.bits(cell.value), cell.patterns)
        elif isinstance(cell, Part):
            value, offset = self.bits(cell.value), self.bits(cell.offset)
            self.found[key] = self.builder.part(value, cell.value_signed, offset, cell.width, cell.stride)
        elif isinstance(cell, FlipFlop):
            width = self.width_at(key, len(cell.data))
            assert cell.arst == 0, "registers must not have an asynchronous reset"
            self._clocked(cell)
            register = Register(*key, width, cell.init >> key[1] & (1 << width) - 1)
            self.registers.append(register)
            self.found[key] = register.bits
        else:
            assert isinstance(cell, SyncReadPort), f"a cell {cell!r} is not supported"
            self._clocked(cell)
            word = Word(key[0], self._memory(cell.memory), cell.width)
            self.words.append(word)
            self.found[key] = word.bits

    def _clocked(self, cell: Any) -> None:
        self.clock = cell.clk if self.clock is None else self.clock
        assert (cell.clk, cell.clk_edge) == (self.clock, "pos"), "a module must have one clock, and use its rising edge"

    def path(self, net: Any) -> Path | None:
        """A net as a condition; None when it is never true."""
        if net < 2:
            return () if net else None
        key = (net >> 16, net & 0xFFFF)
        if key in self.paths:
            return self.paths[key]
        return self._and((), self.bits((net,)), True)

    def _and(self, path: Path, bit: Bits, value: bool) -> Path | None:
        literal = self.builder.literal(bit)
        if isinstance(literal, bool):
            return path if literal == value else None
        return extended(path, ((literal[0], literal[1] == value),))

    def _branch(self, cell: Any, bit: int) -> Path | None:
        """The condition under which an input of a priority match is the first one set."""
        path = self.path(cell.en)
        own = self.builder.literal(self.bits((cell.inputs[bit],)))
        for net in cell.inputs[:bit]:
            if path is None:
                return None
            before = self.bits((net,))
            literal = self.builder.literal(before)
            # Inputs that this one excludes anyway need not be negated.
            if isinstance(own, bool) or isinstance(literal, bool) or extended((own,), (literal,)) is not None:
                path = self._and(path, before, False)
        return path if path is None else self._and(path, self.bits((cell.inputs[bit],)), True)

    def _cases(self, cell: Any, low: int, width: int) -> tuple[Bits, list[Case]]:
        """Default and cases of some bits of an assignment list; an unconditional assignment becomes the default."""
        default = self.bits(cell.default[low : low + width])
        cases: list[Case] = []
        for each in cell.assignments:
            if each.start <= low < each.start + len(each.value):
                path = self.path(each.cond)
                value = self.bits(each.value[low - each.start : low - each.start + width])
                if path == ():
                    default, cases = value, []
                elif path is not None:
                    cases.append((path, value))
        return default, cases

    def _choice(self, cell: Any, key: Key) -> Bits:
        width = self.width_at(key, len(cell.default))
        default, cases = self._cases(cell, key[1], width)
        if not cases or all(value == default for _, value in cases):
            return default
        if len(cases) == 1 and width == 1:
            ((path, value),) = cases
            return self.builder.mux(self.builder.holds(path), value, default)
        choice = Choice(default, cases, width)
        self.order.append(choice)
        return choice.bits

    def _register(self, register: Register) -> None:
        cell = self.cells[register.cell]
        data = cell.data[register.low : register.low + register.width]
        ((source, low, width), *rest) = self.runs(data)
        if source > 0 and not rest and isinstance(self.cells[source], AssignmentList):
            self.settle(self.needs((source, low)))
            default, register.cases = self._cases(self.cells[source], low, width)
        else:
            default = self.settled(data)
        if default != register.bits:
            register.default = default

    def _word(self, word: Word) -> None:
        cell = self.cells[word.cell]
        word.address = self.settled(cell.addr)
        word.memory.reach(len(cell.addr))
        word.path = self.settled_path(cell.en)
        word.after = bool(cell.transparent_for)

    def settled_path(self, net: Any) -> Path | None:
        """A net as a condition, after reading all that it depends on."""
        self.settle(self.keys((net,)))
        return self.path(net)

    def _write(self, memory: Memory, cell: Any) -> Write:
        """A write port; adjacent bits with the same enable are one part."""
        self._clocked(cell)
        parts = []
        low = 0
        for net, group in groupby(cell.en):
            width = len(list(group))
            path = self.settled_path(net)
            if path is not None:
                parts.append((low, width, path))
            low += width
        memory.reach(len(cell.addr))
        return Write(self.settled(cell.addr), self.settled(cell.data), parts)

    def _memory(self, index: int) -> Memory:
        memory = self.memories.get(index)
        if memory is None:
            cell = self.cells[index]
            memory = self.memories[index] = Memory(index, cell.width, cell.depth, list(cell.init))
        return memory
