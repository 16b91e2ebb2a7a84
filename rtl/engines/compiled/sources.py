"""The sources of values in a netlist: inputs, registers, memories, cells, and choices among values."""

from dataclasses import dataclass, field

from lathe.rtl.engines.compiled.bits import Bits, Source, number_of

# A bit of a source, and the value it must have.
Literal = tuple[Bits, bool]
# Literals that must all hold, the outermost condition first.
Path = tuple[Literal, ...]
# A path, and the value under it; later cases override earlier ones.
Case = tuple[Path, Bits]


class Input(Source):
    """An input port; `init` is its value until it is driven."""

    def __init__(self, width: int, init: int) -> None:
        super().__init__(width)
        self.init = init


class Cell(Source):
    """An operator; lathe.rtl.engines.compiled.expressions defines its kinds and their operands."""

    def __init__(self, kind: str, operands: tuple[Bits, ...], width: int, stride: int = 0) -> None:
        super().__init__(width)
        self.kind, self.operands, self.stride = kind, operands, stride


class Choice(Source):
    """A default value that cases override: a combinational signal assigned under If, Elif, Else and Switch."""

    def __init__(self, default: Bits, cases: list[Case], width: int) -> None:
        super().__init__(width)
        self.default, self.cases = default, cases


class Register(Source):
    """Bits that are updated at the clock edge, by `cases`, or else to `default`; without one, they keep their value."""

    def __init__(self, cell: int, low: int, width: int, init: int) -> None:
        super().__init__(width)
        self.cell, self.low, self.init = cell, low, init
        self.default: Bits | None = None
        self.cases: list[Case] = []


@dataclass(eq=False)
class Write:
    """A write port: `parts` are (low, width, path), bits of the word and the condition under which they are written."""

    address: Bits
    data: Bits
    parts: list[tuple[int, int, Path]]


@dataclass(eq=False)
class Memory:
    """`rows` has a word for each address that can be formed; those from `depth` on stay zero."""

    cell: int
    width: int
    depth: int
    rows: list[int]
    writes: list[Write] = field(default_factory=list)

    def reach(self, address_bits: int) -> None:
        """Extend `rows` to all addresses of so many bits."""
        self.rows += [0] * ((1 << address_bits) - len(self.rows))


class Word(Source):
    """The data of a clocked read port; with `after`, it sees writes of the same cycle."""

    def __init__(self, cell: int, memory: Memory, width: int) -> None:
        super().__init__(width)
        self.cell, self.memory = cell, memory
        self.address: Bits = ()
        self.path: Path | None = ()
        self.after = False


def excludes(one: Literal, other: Literal) -> bool:
    """Whether two literals are known to exclude each other."""
    if one[0] == other[0]:
        return one[1] != other[1]
    if not (one[1] and other[1]):
        return False
    first, second = one[0][0][0], other[0][0][0]
    if not (isinstance(first, Cell) and isinstance(second, Cell) and first.kind == second.kind == "eq"):
        return False
    if first.operands[0] != second.operands[0]:
        return False
    mine, theirs = number_of(first.operands[1]), number_of(second.operands[1])
    return mine is not None and theirs is not None and mine != theirs


def extended(path: Path, literals: Path) -> Path | None:
    """A path with further literals, except redundant ones; None when they exclude each other."""
    found = list(path)
    for literal in literals:
        if any(excludes(each, literal) for each in found):
            return None
        if literal not in found:
            found.append(literal)
    return tuple(found)
