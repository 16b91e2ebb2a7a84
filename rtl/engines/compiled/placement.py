"""Which values become variables, and under which conditions they are computed.

A value that several look at is computed once, under the conditions that all who look at it have in common: what only a
unit at work needs is not computed while it rests. A value that one looks at is written where it is looked at. The idea
is that of global code motion (Click, 1995), on the conditions of the design instead of a program's blocks.
"""

from lathe.rtl.engines.compiled.bits import Bits, Source
from lathe.rtl.engines.compiled.netlist import Netlist
from lathe.rtl.engines.compiled.sources import Cell, Choice, Path, extended

# Expressions within expressions; Python's parser allows for some more.
DEEPEST = 20


class Placement:
    """`blocks` has the conditions of every source that is used; `variables` are those that have a name of their own."""

    def __init__(self, netlist: Netlist) -> None:
        self.blocks: dict[Source, Path] = {}
        self.uses: dict[Source, int] = {}
        self._users(netlist)
        for source in reversed(netlist.order):
            if source in self.blocks:
                self._operands(source)
        self.variables: set[Source] = set()
        self._variables(netlist.order)

    def cases(self, choice: Choice) -> list[tuple[Path, Bits]]:
        """The cases of a choice that can happen where it is computed, with all their conditions."""
        found = []
        for path, value in choice.cases:
            whole = extended(self.blocks[choice], path)
            if whole is not None:
                found.append((whole, value))
        return found

    def _users(self, netlist: Netlist) -> None:
        for output in netlist.outputs:
            self._use(output, ())
        for register in netlist.registers:
            if register.default is not None:
                self._use(register.default, ())
            for path, value in register.cases:
                self._use_path(path, 0)
                self._use(value, path)
        for word in netlist.words:
            if word.path is not None:
                self._use_path(word.path, 0)
                self._use(word.address, word.path)
        for memory in netlist.memories:
            for write in memory.writes:
                for _, _, path in write.parts:
                    self._use_path(path, 0)
                    self._use(write.address, path)
                    self._use(write.data, path)

    def _operands(self, source: Source) -> None:
        """What a source looks at, once its own block is known."""
        block = self.blocks[source]
        if isinstance(source, Cell):
            for operand in source.operands:
                self._use(operand, block)
        elif isinstance(source, Choice):
            self._use(source.default, block)
            for path, value in self.cases(source):
                self._use_path(path, len(block))
                self._use(value, path)

    def _use(self, bits: Bits, path: Path) -> None:
        before = None
        for piece in bits:
            source = piece[0]
            if source is None or piece == before:  # copies of a bit are one use
                continue
            before = piece
            self.uses[source] = self.uses.get(source, 0) + 1
            block = self.blocks.get(source)
            self.blocks[source] = path if block is None else _common(block, path)

    def _use_path(self, path: Path, begin: int) -> None:
        """Conditions are looked at where those before them hold."""
        for place in range(begin, len(path)):
            self._use(path[place][0], path[:place])

    def _variables(self, order: list[Source]) -> None:
        depths: dict[Source, int] = {}
        for source in order:
            if source not in self.blocks:
                continue
            if isinstance(source, Choice):
                operands = [source.default, *(value for _, value in source.cases)]
                operands += [bit for path, _ in source.cases for bit, _ in path]
            else:
                assert isinstance(source, Cell), "only cells and choices are in order"
                operands = list(source.operands)
            depth = 1 + max((depths.get(piece[0], 0) for bits in operands for piece in bits if piece[0]), default=0)
            alone = self.uses[source] == 1 or self._slight(source)
            if isinstance(source, Choice):
                alone = alone and len(self.cases(source)) == 1 == len(source.cases)
            if alone and depth < DEEPEST:
                depths[source] = depth
            else:
                self.variables.add(source)

    def _slight(self, source: Source) -> bool:
        """Whether computing a source takes no longer than remembering it."""
        if not isinstance(source, Cell) or source.kind != "not":
            return False
        operand = source.operands[0][0][0]
        return operand is not None and (operand in self.variables or not isinstance(operand, Cell | Choice))


def _common(one: Path, other: Path) -> Path:
    """The conditions at the beginning of two paths that are the same."""
    if one == other:
        return one
    found = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        found += 1
    return one[:found]
