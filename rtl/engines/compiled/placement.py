"""Decides which values become variables, and under which conditions they are computed.

A value with several uses is computed once, under the conditions that all its uses have in common: what only an active
unit needs is not computed while the unit is idle. A value with one use is inlined there. This is global code motion
(Click, 1995), on the conditions of the design instead of a program's basic blocks.
"""

from lathe.rtl.engines.compiled.bits import Bits, Source
from lathe.rtl.engines.compiled.netlist import Netlist
from lathe.rtl.engines.compiled.sources import Cell, Choice, Path, extended

# The maximum nesting of expressions; Python's parser allows some more.
DEEPEST = 20


class Placement:
    """`blocks` has the conditions under which each used source is computed; `variables` are those not inlined."""

    def __init__(self, netlist: Netlist) -> None:
        self.blocks: dict[Source, Path] = {}
        self.uses: dict[Source, int] = {}
        self._uses_of(netlist)
        for source in reversed(netlist.order):
            if source in self.blocks:
                self._operands(source)
        self.variables: set[Source] = set()
        self._variables(netlist.order)

    def cases(self, choice: Choice) -> list[tuple[Path, Bits]]:
        """The cases of a choice that are possible where it is computed, with all their conditions."""
        found = []
        for path, value in choice.cases:
            whole = extended(self.blocks[choice], path)
            if whole is not None:
                found.append((whole, value))
        return found

    def _uses_of(self, netlist: Netlist) -> None:
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
        """Record the uses in the operands of a source, once its own block is known."""
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
        """Record the uses in conditions: each is evaluated where those before it hold."""
        for level in range(begin, len(path)):
            self._use(path[level][0], path[:level])

    def _variables(self, order: list[Source]) -> None:
        depths: dict[Source, int] = {}
        for source in order:
            if source not in self.blocks:
                continue
            if isinstance(source, Choice):
                operands = [source.default, *(value for _, value in source.cases)]
                operands += [bit for path, _ in source.cases for bit, _ in path]
            else:
                assert isinstance(source, Cell), "the order must have only cells and choices"
                operands = list(source.operands)
            depth = 1 + max((depths.get(piece[0], 0) for bits in operands for piece in bits if piece[0]), default=0)
            inlined = self.uses[source] == 1 or self._is_cheap(source)
            if isinstance(source, Choice):
                inlined = inlined and len(self.cases(source)) == 1 == len(source.cases)
            if inlined and depth < DEEPEST:
                depths[source] = depth
            else:
                self.variables.add(source)

    def _is_cheap(self, source: Source) -> bool:
        """Whether computing a source is no slower than storing it in a variable."""
        if not isinstance(source, Cell) or source.kind != "not":
            return False
        operand = source.operands[0][0][0]
        return operand is not None and (operand in self.variables or not isinstance(operand, Cell | Choice))


def _common(one: Path, other: Path) -> Path:
    """The longest common prefix of two paths."""
    if one == other:
        return one
    found = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        found += 1
    return one[:found]
