"""Orders the statements of a machine's function."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush

from lathe.rtl.engines.compiled.sources import Path, excludes


@dataclass(eq=False)
class Statement:
    """`text` is executed where the conditions of `block` hold. Variables are given by name.

    `text` reads the variables `reads`, and its conditions read `tests`; it writes the variable or memory `writes`. It
    must come after all writes to the memory `follows`.
    """

    block: Path
    text: str
    reads: set[str]
    writes: str | None = None
    tests: set[str] = field(default_factory=set)
    follows: str | None = None
    position: int = 0
    left: int = 0  # predecessors that have not been taken
    after: list["Statement"] = field(default_factory=list, repr=False)


def ordered(statements: list[Statement], registers: set[str], memories: set[str]) -> list[Statement]:
    """The statements such that variables are written before they are read, and registers read before they are written.

    A register for which that is impossible gets its new value through a second variable, at the end. Statements with
    the same conditions are adjacent as far as possible.
    """
    writers: dict[str, list[Statement]] = defaultdict(list)
    readers: dict[str, list[Statement]] = defaultdict(list)
    for position, statement in enumerate(statements):
        statement.position = position
        if statement.writes is not None:
            writers[statement.writes].append(statement)
        for name in statement.reads | statement.tests:
            readers[name].append(statement)
    held: dict[str, list[tuple[Statement, Statement]]] = {}
    for name, writing in writers.items():
        for at, statement in enumerate(writing):
            for earlier in writing[:at]:
                if not _exclusive(earlier, statement):
                    _before(earlier, statement)
        if name in registers or name in memories:
            held[name] = [
                (reader, writer)
                for reader in readers[name]
                for writer in writing
                if reader is not writer and (name in reader.tests or not _exclusive(reader, writer))
                # A write port that changes part of a word reads the word as the previous ports have left it.
                if name in registers or reader.writes != name
            ]
            for reader, writer in held[name]:
                _before(reader, writer)
        else:
            for reader in readers[name]:
                for writer in writing:
                    _before(writer, reader)
    for statement in statements:
        if statement.follows is not None:
            for writer in writers[statement.follows]:
                _before(writer, statement)
    return _Run(statements, registers, held).result


class _Run:
    """A list scheduler: takes ready statements one by one."""

    def __init__(
        self, statements: list[Statement], registers: set[str], held: dict[str, list[tuple[Statement, Statement]]]
    ) -> None:
        self.registers, self.held = registers, held
        self.result: list[Statement] = []
        self.ready: dict[Path, list[tuple[int, Statement]]] = defaultdict(list)  # heaps by position
        self.done: set[Statement] = set()
        self.doubled: list[str] = []
        self.open: Path = ()
        for statement in statements:
            if not statement.left:
                self._free(statement)
        left = len(statements)
        while left:
            if not self.ready:
                self._double(statements)
            self._take(self._next())
            left -= 1
        self.result += [Statement((), f"{name} = next_{name}", set()) for name in self.doubled]

    def _next(self) -> Statement:
        """A ready statement of the open block, or else one that others wait for, with the fewest conditions."""
        block = self.open if self.open in self.ready else min(self.ready, key=self._cost)
        waiting = self.ready[block]
        _, statement = heappop(waiting)
        if not waiting:
            del self.ready[block]
        self.open = block
        return statement

    def _cost(self, block: Path) -> tuple[bool, int, int, int]:
        common = 0
        for mine, theirs in zip(self.open, block, strict=False):
            if mine != theirs:
                break
            common += 1
        waiting = self.ready[block]
        return not any(statement.after for _, statement in waiting), len(block), -common, -len(waiting)

    def _take(self, statement: Statement) -> None:
        self.result.append(statement)
        self.done.add(statement)
        for later in statement.after:
            later.left -= 1
            if not later.left:
                self._free(later)

    def _free(self, statement: Statement) -> None:
        heappush(self.ready[statement.block], (statement.position, statement))

    def _double(self, statements: list[Statement]) -> None:
        """Keep a register's new value in a second variable, so that readers of the old one need not come first."""
        best: tuple[int, str] | None = None
        for name, pairs in self.held.items():
            if name not in self.registers:
                continue
            blocking = Counter(writer for reader, writer in pairs if reader not in self.done)
            freed = any(writer.left == count for writer, count in blocking.items())
            if freed and (best is None or (blocking.total(), name) < best):
                best = (blocking.total(), name)
        assert best is not None, "statements depend on each other"
        name = best[1]
        writing = [each for each in statements if each.writes == name and each not in self.done]
        # Writers that have been taken and readers that have not are mutually exclusive.
        if not any(writer.block == () for writer in writing):
            self.result.append(Statement((), f"next_{name} = {name}", {name}))
        for writer in writing:
            writer.text = f"next_{writer.text}"
        for reader, writer in self.held.pop(name):
            if reader not in self.done:
                reader.after.remove(writer)
                writer.left -= 1
                if not writer.left:
                    self._free(writer)
        self.doubled.append(name)


def _before(first: Statement, second: Statement) -> None:
    first.after.append(second)
    second.left += 1


def _exclusive(one: Statement, other: Statement) -> bool:
    """Whether two statements are never both executed."""
    return any(excludes(mine, theirs) for mine in one.block for theirs in other.block)
